/* Sockets for datagrams.  Main thread only. */
#pragma once
#include <stdbool.h>

struct sockaddr_storage;

/* Bound, and with a group's address a member of the group.  first: nobody else may have the
 * address; else it joins those of ours that have it.  -errno. */
int udp_socket_open(const struct sockaddr_storage *sa, bool first);

/* Advice for -errno of udp_socket_open(); "" if there is none. */
const char *udp_socket_advice(int error);
