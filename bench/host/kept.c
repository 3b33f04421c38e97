/* See kept.h. */
#include "kept.h"

#include <stdlib.h>
#include <string.h>

#include "child.h"
#include "must.h"
#include "util.h"

void kept_add(struct kept *k, const char *data, size_t bytes)
{
	bytes = MIN(bytes, CHILD_OUTPUT_MAX - k->bytes);
	if (k->bytes + bytes + 1 > k->room) {
		k->room = 2 * (k->bytes + bytes + 1);
		k->text = must(realloc(k->text, k->room));
	}
	memcpy(k->text + k->bytes, data, bytes);
	k->bytes += bytes;
	k->text[k->bytes] = '\0';
}

char *kept_take(struct kept *k)
{
	char *text = k->text ? k->text : must(calloc(1, 1));

	*k = (struct kept){ 0 };
	return text;
}
