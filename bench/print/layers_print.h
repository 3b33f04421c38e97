/* In which layers rows spend their CPU time: a table, and JSON.  See layers_group.h. */
#pragma once
#include "layers_group.h"
#include "render.h"

/* Prints a table for each group that was sampled. */
void layers_render(struct output *out, const struct result *r);
/* Adds "layers" to the document of result_to_json(), if a row was sampled. */
void layers_add_json(json_t *document, const struct result *r);
