/* The ports of subsystems.  See nvme/subsystem.h. */
#include "subsystem.h"

#include <netdb.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "service.h"
#include "sockaddr.h"
#include "transport.h"
#include "wire/tcp_proto.h"

struct port {
	struct port *next; /* in the order in which they began to serve */
	const struct nvme_target *target;
	struct sockaddr_storage sa;
	bool rdma;
};

static struct {
	pthread_mutex_t lock;
	struct port *first;
	uint64_t generation; /* changes with the list: a host notices that a log has changed */
} ports = { .lock = PTHREAD_MUTEX_INITIALIZER, .generation = 1 };

/* ---- The list: functions with _locked expect ports.lock to be held ---- */

static void drop_locked(const struct nvme_target *target)
{
	struct port **at = &ports.first, *port;

	while ((port = *at))
		if (port->target == target) {
			*at = port->next;
			free(port);
			ports.generation++;
		} else {
			at = &port->next;
		}
}

/* Each worker of a listener has a socket at its address, which is one port. */
static void add_locked(const struct nvme_target *target, const struct service_place *place)
{
	struct port **at = &ports.first, *port;

	for (; *at; at = &(*at)->next)
		if ((*at)->target == target && sockaddr_is_same(&(*at)->sa, &place->sa))
			return;
	port = malloc(sizeof(*port));
	if (!port)
		return; /* it serves, but no log lists it */
	*port = (struct port){ NULL, target, place->sa, place->transport->verbs };
	*at = port;
	ports.generation++;
}

void nvme_ports_listen(void *target, const struct service *service,
		       const struct service_place *place)
{
	(void)service;
	pthread_mutex_lock(&ports.lock);
	if (!place)
		drop_locked(target);
	else if (place->sa.ss_family != AF_UNIX)
		add_locked(target, place);
	pthread_mutex_unlock(&ports.lock);
}

bool nvme_ports_many(const char *nqn)
{
	unsigned count = 0;

	pthread_mutex_lock(&ports.lock);
	for (const struct port *p = ports.first; p && count < 2; p = p->next)
		count += !strcmp(p->target->nqn, nqn);
	pthread_mutex_unlock(&ports.lock);
	return count > 1;
}

/* ---- The Discovery log ---- */

/* Does p only serve the Discovery log?  It does if its listener has another
 * port for the namespaces. */
static bool is_for_discovery_locked(const struct port *p)
{
	if (p->rdma || sockaddr_port(&p->sa) != NVME_TCP_DISCOVERY_PORT)
		return false;
	for (const struct port *o = ports.first; o; o = o->next)
		if (o->target == p->target && sockaddr_port(&o->sa) != NVME_TCP_DISCOVERY_PORT)
			return true;
	return false;
}

/* Describes p to a host that has reached us at local.  False: p is a wildcard of the other family,
 * and no address of it is known to be one of the host's network. */
static bool put_port(const struct port *p, uint16_t id, const struct sockaddr_storage *local,
		     uint8_t *entry)
{
	char host[64], service[8];
	struct nvme_discovery d = { .id = id,
				    .subnqn = p->target->nqn,
				    .address = host,
				    .port = service,
				    .ipv6 = p->sa.ss_family == AF_INET6,
				    .rdma = p->rdma };
	struct sockaddr_storage sa = p->sa;

	if (sockaddr_is_wildcard(&sa)) {
		if (local->ss_family != sa.ss_family)
			return false;
		sa = *local;
		sockaddr_set_port(&sa, sockaddr_port(&p->sa));
	}
	if (getnameinfo((struct sockaddr *)&sa, sizeof(sa), host, sizeof(host), service,
			sizeof(service), NI_NUMERICHOST | NI_NUMERICSERV) != 0)
		return false;
	nvme_discovery_entry(entry, &d);
	return true;
}

size_t nvme_ports_log(const char *nqn, const struct sockaddr_storage *local,
		      uint8_t page[static NVME_DISCOVERY_PAGE])
{
	unsigned count = 0;
	size_t bytes;

	pthread_mutex_lock(&ports.lock);
	for (const struct port *p = ports.first; p && count < NVME_DISCOVERY_PORTS; p = p->next) {
		uint8_t *entry = page + (size_t)NVME_DISCOVERY_ENTRY * (1 + count);

		if (!strcmp(p->target->nqn, nqn) && !is_for_discovery_locked(p))
			count += put_port(p, (uint16_t)(count + 1), local, entry);
	}
	bytes = nvme_log_discovery(page, ports.generation, count);
	pthread_mutex_unlock(&ports.lock);
	return bytes;
}
