/* The way from this host to a listener. */
#pragma once

/* Connects to a numeric address by TCP, for three seconds at most, and closes the connection.  0
 * and the address of this host by which it came there, or -errno: -EINVAL, it is no such address.
 */
enum { ROUTE_SOURCE_BYTES = 64 };
int route_try(const char *address, const char *port, char source[ROUTE_SOURCE_BYTES]);
