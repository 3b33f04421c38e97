/* Listeners that this host cannot serve, and why. */
#pragma once
#include <jansson.h>

#include "render.h"

/* Of an array of listeners those with a reason: each reason once, with all who have it. */
void reasons_render(struct output *out, const json_t *listeners);

/* Their names alone, in one line, for tables that are looked at again and again. */
void reasons_render_names(struct output *out, const json_t *listeners);
