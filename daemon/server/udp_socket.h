/* Binds UDP sockets.  Main thread only. */
#pragma once
#include <stdbool.h>

/* Bytes asked for a socket's queues; the kernel gives up to net.core.rmem_max and wmem_max. */
enum { UDP_SOCKET_BUFFER = 4 * 1024 * 1024 };

struct sockaddr_storage;

/* Makes a socket bound to sa, and for a multicast address joins the group.  first: fails if the
 * address is in use; else shares it with our other sockets.  Returns the descriptor or -errno. */
int udp_socket_open(const struct sockaddr_storage *sa, bool first);

/* Makes a socket that udp_socket_bind() will bind to sa, which other sockets of this process may
 * use already: from then on the kernel gives it some of their clients.  Conditions that would make
 * the bind fail are reported now.  Returns the descriptor or -errno. */
int udp_socket_prepare(const struct sockaddr_storage *sa);
int udp_socket_bind(int fd, const struct sockaddr_storage *sa); /* 0 or -errno */

/* Advice to append to an error of these that joining the group has brought; "": none. */
const char *udp_socket_group_advice(int error, const struct sockaddr_storage *sa);

/* Has the kernel give the socket only datagrams of groups that it has joined itself. */
void udp_socket_refuse_groups(int fd, int family);
