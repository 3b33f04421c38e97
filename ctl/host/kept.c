/* See kept.h. */
#include "kept.h"

#include <stdlib.h>
#include <string.h>

#include "child.h"
#include "util.h"

void kept_add(struct kept *k, const char *data, size_t bytes)
{
	bytes = MIN(bytes, CHILD_OUTPUT_MAX - k->bytes);
	if (k->bytes + bytes + 1 > k->room) {
		size_t room = 2 * (k->bytes + bytes + 1);
		char *text = realloc(k->text, room);

		if (!text)
			abort();
		k->text = text;
		k->room = room;
	}
	memcpy(k->text + k->bytes, data, bytes);
	k->bytes += bytes;
	k->text[k->bytes] = '\0';
}

char *kept_take(struct kept *k)
{
	char *text = k->text ? k->text : calloc(1, 1);

	if (!text)
		abort();
	*k = (struct kept){ 0 };
	return text;
}
