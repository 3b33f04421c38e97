/* The ports of this process's subsystems: the addresses at which listeners serve them, over TCP or
 * RDMA.  Listeners with the same NQN serve one subsystem, and its Discovery log lists the ports of
 * all of them.
 *
 * The main thread changes the list when a listener begins or ceases to serve; workers read it.  It
 * has a mutex of its own, under which no other is taken. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "wire/identify.h"

struct service;
struct service_place;

/* service->listens() */
void nvme_ports_listen(void *target, const struct service *service,
		       const struct service_place *place);

/* Is the subsystem served at more than one port? */
bool nvme_ports_many(const char *nqn);

/* Fills a Discovery log page with the subsystem's ports; returns its bytes.  local: the address at
 * which the host that asks has reached us, which stands for a wildcard's. */
size_t nvme_ports_log(const char *nqn, const struct sockaddr_storage *local,
		      uint8_t page[static NVME_DISCOVERY_PAGE]);
