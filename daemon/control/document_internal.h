/* Private to the files that build documents. */
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "document.h"
#include "histogram.h"
#include "json.h"
#include "statistics.h"

struct server;

/* Sets the fields of a table, or of an object from its first row on, in the order of the rows;
 * their values are in `numbers`, the struct that the rows are of.  Takes the references that a MAP
 * has in it.  Returns the object. */
json_t *document_fields(json_t *object, const struct statistic *row, const void *numbers);

/* Is name one of names?  Without any, it is. */
bool document_is_wanted(const json_t *names, const char *name);

/* The exports: all of them for GetStatus, or for GetStats those that the listeners in names serve,
 * with what they did. */
json_t *document_exports_status(const struct server *s);
json_t *document_exports_stats(const struct server *s, const json_t *names);
