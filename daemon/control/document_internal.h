/* Private to the files that build documents. */
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "document.h"
#include "histogram.h"
#include "json.h"

struct server;

/* {"count","errors","latency_ns"} */
json_t *document_operation(uint64_t done, uint64_t errors, const struct histogram_sum *latency);

/* Is name one of names?  Without any, it is. */
bool document_is_wanted(const json_t *names, const char *name);

/* The exports: all of them for GetStatus, or for GetStats those that the listeners in names serve,
 * with what they did. */
json_t *document_exports_status(const struct server *s);
json_t *document_exports_stats(const struct server *s, const json_t *names);
