/* Sockets for datagrams.  Main thread only. */
#pragma once
#include <stdbool.h>

struct sockaddr_storage;

/* Bound, and with a group's address a member of the group.  first: nobody else may have the
 * address; else it joins those of ours that have it.  -errno. */
int udp_socket_open(const struct sockaddr_storage *sa, bool first);

/* What to do about -errno of that; "" if nothing is known. */
const char *udp_socket_advice(int error);
