/* Rows beside saved ones. */
#pragma once
#include "render.h"
#include "result.h"

/* The table, what changed, and the summary. */
void then_render(struct output *out, const struct result *r);
