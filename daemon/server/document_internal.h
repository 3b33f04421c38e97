/* What the files of documents share; for nobody else. */
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "document.h"
#include "histogram.h"

struct server;

/* Varlink's integers are signed: a counter stops at their end. */
static inline json_t *count(uint64_t n)
{
	return json_integer(n > INT64_MAX ? INT64_MAX : (json_int_t)n);
}

/* JSON is UTF-8; what came from elsewhere may not be. */
static inline json_t *text(const char *string)
{
	json_t *json = json_string(string);

	return json ? json : json_string("(not UTF-8)");
}

/* {"count","errors","latency_ns"} */
json_t *document_operation(uint64_t done, uint64_t errors, const struct histogram_sum *latency);

/* Is name one of names?  Without any, it is. */
bool document_is_wanted(const json_t *names, const char *name);

/* The exports: all of them for GetStatus, or for GetStats those that the listeners in names serve,
 * with what they did. */
json_t *document_exports_status(const struct server *s);
json_t *document_exports_stats(const struct server *s, const json_t *names);
