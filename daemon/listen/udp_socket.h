/* Binds UDP sockets.  Main thread only. */
#pragma once
#include <stdbool.h>

/* Bytes that a socket's queues are asked to hold; the kernel gives up to net.core.rmem_max and
 * wmem_max.
 */
enum { UDP_SOCKET_BUFFER = 4 * 1024 * 1024 };

struct sockaddr_storage;

/* Makes a socket bound to sa, and for a multicast address joins the group.  first: fails if the
 * address is in use; else shares it with our other sockets.  Returns the descriptor or -errno. */
int udp_socket_open(const struct sockaddr_storage *sa, bool first);

/* Advice to append to an error of udp_socket_open(); "": none. */
const char *udp_socket_advice(int error);
