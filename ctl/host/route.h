/* The way from this host to a listener. */
#pragma once

/* Connects to a numeric address by TCP, within three seconds, and closes the connection.  0 and the
 * address of this host from which it connected, or -errno; -EINVAL: it is not a numeric address. */
enum { ROUTE_SOURCE_BYTES = 64 };
int route_try(const char *address, const char *port, char source[ROUTE_SOURCE_BYTES]);
