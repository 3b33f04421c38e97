/* The syntax of a Host field's value: uri-host [ ":" port ] (RFC 9110, 7.2; RFC 3986, 3.2), with
 * white space around it.  An empty one is valid.  Pure. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HTTP_HOST_START = 1 }; /* the state before the first byte */

/* The state after more bytes. */
uint8_t http_host_scan(uint8_t state, const uint8_t *data, size_t bytes);

/* May the value end in that state? */
bool http_host_ends(uint8_t state);
