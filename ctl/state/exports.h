/* Exports as `nbctl status` shows them: state, store, size; nothing when there are none. */
#pragma once
#include <jansson.h>

#include "render.h"

void exports_render(struct output *out, const json_t *exports);
