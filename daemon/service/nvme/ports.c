/* The ports of subsystems.  See nvme/subsystem.h. */
#include "subsystem.h"

#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "service.h"
#include "sockaddr.h"
#include "transport.h"
#include "util.h"
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

/* The address at which a host that has reached us at local reaches p.  False: p is a wildcard of
 * the other family, and no address of it is known to be one of the host's network. */
static bool find_address(const struct port *p, const struct sockaddr_storage *local,
			 struct sockaddr_storage *ret_sa)
{
	bool any = sockaddr_is_wildcard(&p->sa);

	if (any && local->ss_family != p->sa.ss_family)
		return false;
	*ret_sa = any ? *local : p->sa;
	sockaddr_set_port(ret_sa, sockaddr_port(&p->sa));
	if (ret_sa->ss_family == AF_INET6)
		/* An interface of ours: the host has to name one of its own (RFC 4007, 6). */
		((struct sockaddr_in6 *)ret_sa)->sin6_scope_id = 0;
	return true;
}

/* Copies the bytes of the record at `offset` of the log that belong to the piece. */
static void put_record(const struct nvme_log_piece *piece, uint64_t offset,
		       const uint8_t record[static NVME_DISCOVERY_ENTRY])
{
	uint64_t from = MAX(offset, piece->offset);
	uint64_t to = MIN(offset + NVME_DISCOVERY_ENTRY, piece->offset + piece->bytes);

	if (from < to)
		memcpy(piece->to + (from - piece->offset), record + (from - offset), to - from);
}

static void put_port(const struct nvme_log_piece *piece, const struct port *p, unsigned number,
		     const struct sockaddr_storage *sa)
{
	uint64_t offset = (uint64_t)NVME_DISCOVERY_ENTRY * number;
	uint8_t entry[NVME_DISCOVERY_ENTRY] = { 0 };
	char host[64] = "", service[8] = "";
	struct nvme_discovery d = { .id = (uint16_t)number,
				    .subnqn = p->target->nqn,
				    .address = host,
				    .port = service,
				    .ipv6 = sa->ss_family == AF_INET6,
				    .rdma = p->rdma };

	if (offset + NVME_DISCOVERY_ENTRY <= piece->offset ||
	    offset >= piece->offset + piece->bytes)
		return;
	getnameinfo((const struct sockaddr *)sa, sizeof(*sa), host, sizeof(host), service,
		    sizeof(service), NI_NUMERICHOST | NI_NUMERICSERV);
	nvme_discovery_entry(entry, &d);
	put_record(piece, offset, entry);
}

uint64_t nvme_ports_log(const char *nqn, const struct sockaddr_storage *local,
			const struct nvme_log_piece *piece)
{
	uint8_t header[NVME_DISCOVERY_ENTRY] = { 0 };
	unsigned count = 0;

	pthread_mutex_lock(&ports.lock);
	for (const struct port *p = ports.first; p; p = p->next) {
		struct sockaddr_storage sa;

		if (!strcmp(p->target->nqn, nqn) && !is_for_discovery_locked(p) &&
		    find_address(p, local, &sa))
			put_port(piece, p, ++count, &sa);
	}
	nvme_discovery_header(header, ports.generation, count);
	pthread_mutex_unlock(&ports.lock);
	put_record(piece, 0, header);
	return (uint64_t)NVME_DISCOVERY_ENTRY * (1 + count);
}
