/* ListConnections' reply as a table.  Pure: no daemon. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "human.h"
#include "render.h"

/* Keys to sort connections by: numbers descend, texts ascend. */
struct connections_key {
	const char *name, *field; /* field NULL: bytes in both directions */
	bool text;
};
enum { CONNECTIONS_BY_BYTES, CONNECTIONS_KEYS = 8 };
extern const struct connections_key connections_keys[CONNECTIONS_KEYS];

/* Sorts the reply's list in place and cuts it to `limit`; key NULL: the daemon's order. */
void connections_sort(json_t *list, const struct connections_key *key, uint64_t limit);

/* `rxe0/1 RoCE`; NULL: empty. */
struct human connections_device(const json_t *device);

/* Prints the list; listener: with a column for the listener's name. */
void connections_render(struct output *out, const json_t *list, bool listener);
