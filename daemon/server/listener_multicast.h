/* Multicast groups of a listener: finds their interfaces.  Main thread only.
 *
 * Each group has a socket of its own on each port of the listener, which is one more of the
 * listener's addresses and belongs to the first worker.  The kernel gives a copy of each datagram
 * to every socket in the group, so of a socket for each worker all would answer.  And since an
 * address is what a reload hands over, groups come and go while the other sockets stay. */
#pragma once
#include <sys/socket.h>

#include "multicast.h"

struct listener_config;
struct reason;

/* The group's address with its interface.  One that is not named is the only one of this host that
 * takes part in multicast.  0, or -errno with the reason. */
int listener_multicast_resolve(const struct multicast_group *group, struct sockaddr_storage *ret_sa,
			       struct reason *reason);

/* 0, or the error of the first group of config whose interface is not there, with the reason. */
int listener_multicast_probe(const struct listener_config *config, struct reason *reason);

/* Is sa, whatever its port, a group of config on this host? */
bool listener_multicast_has(const struct listener_config *config,
			    const struct sockaddr_storage *sa);
