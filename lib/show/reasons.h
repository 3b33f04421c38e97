/* Listeners that this host cannot serve, and why. */
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "render.h"

/* Of an array of listeners, those with a reason: each reason once, with the names of all listeners
 * that have it.  False: there are none. */
bool reasons_render(struct output *out, const json_t *listeners);
