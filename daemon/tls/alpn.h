/* A client's list of protocols in TLS' ALPN (RFC 7301).  Pure. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Finds `name` in a list as a client sends it, with a byte for its length before each name; NULL:
 * it is not in the list.  A list that ends within a name ends before that name. */
static inline const uint8_t *alpn_find(const uint8_t *list, size_t bytes, const char *name)
{
	size_t length = strlen(name);

	for (size_t at = 0; at < bytes && list[at] < bytes - at; at += 1U + list[at])
		if (list[at] == length && !memcmp(list + at + 1, name, length))
			return list + at + 1;
	return NULL;
}
