/* Listeners that this host cannot serve, and why. */
#pragma once
#include <jansson.h>

#include "render.h"

/* Of an array of listeners, those with a reason: each reason once, with the names of all listeners
 * that have it. */
void reasons_render(struct output *out, const json_t *listeners);
