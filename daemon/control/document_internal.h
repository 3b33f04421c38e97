/* Private to the files that build documents. */
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "document.h"
#include "histogram.h"
#include "json.h"
#include "statistics.h"

struct server;

/* Sets the fields of a table, or of an object from its first row on, in the order of the rows; the
 * values are in `numbers`, the struct to which the rows refer.  Takes ownership of the json_t of a
 * MAP in it.  Returns the object. */
json_t *document_fields(json_t *object, const struct statistic *row, const void *numbers);

/* Is name one of names?  True if names is NULL or empty. */
bool document_is_wanted(const json_t *names, const char *name);

/* The exports: for GetStatus all of them; for GetStats those that the listeners in names serve,
 * with their statistics. */
json_t *document_exports_status(const struct server *s);
json_t *document_exports_stats(const struct server *s, const json_t *names);
