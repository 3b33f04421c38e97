/* See alpn.h. */
#include "alpn.h"

#include <string.h>

const uint8_t *alpn_find(const uint8_t *list, size_t bytes, const char *name)
{
	size_t length = strlen(name);

	for (size_t at = 0; at < bytes && list[at] < bytes - at; at += 1U + list[at])
		if (list[at] == length && !memcmp(list + at + 1, name, length))
			return list + at + 1;
	return NULL;
}
