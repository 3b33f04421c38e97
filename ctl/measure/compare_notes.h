/* What `compare --notes` prints below the table. */
#pragma once
#include "compare_group.h"
#include "render.h"

/* Explains the columns, and names the features that each engine used. */
void compare_notes(struct output *out, const struct groups *all);
