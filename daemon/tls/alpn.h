/* A client's list of protocols in TLS' ALPN (RFC 7301).  Pure. */
#pragma once
#include <stddef.h>
#include <stdint.h>

/* Where `name` is in a list as a client sends it, a byte with its length before each name; NULL: it
 * is not in there.  A list that ends within a name ends before it. */
const uint8_t *alpn_find(const uint8_t *list, size_t bytes, const char *name);
