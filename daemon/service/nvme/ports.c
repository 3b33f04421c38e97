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

struct nvme_port {
	struct nvme_port *next;
	const struct nvme_target *target; /* NULL: it has ceased to serve */
	struct sockaddr_storage sa;
	bool rdma, tls;
	bool listed; /* in the Discovery log */
};

static pthread_mutex_t ports_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- The list: functions with _locked expect ports_lock to be held ---- */

static void drop_locked(const struct nvme_target *target)
{
	for (struct nvme_port *p = target->ports->first; p; p = p->next)
		if (p->target == target)
			p->target = NULL;
}

/* Each worker of a listener has a socket at its address, which is one port; a listener that
 * replaces another one takes its port. */
static void add_locked(const struct nvme_target *target, const struct service_endpoint *endpoint)
{
	struct nvme_port **at = &target->ports->first;
	bool rdma = endpoint->transport->verbs;

	while (*at && ((*at)->rdma != rdma || !sockaddr_is_same(&(*at)->sa, &endpoint->sa)))
		at = &(*at)->next;
	if (!*at) {
		*at = calloc(1, sizeof(**at));
		if (!*at)
			return; /* it serves, but no log lists it */
		(*at)->sa = endpoint->sa;
		(*at)->rdma = rdma;
	}
	(*at)->target = target;
	(*at)->listed &= (*at)->tls == endpoint->tls; /* its entry in the log changes */
	(*at)->tls = endpoint->tls;
}

void nvme_ports_listen(void *target, const struct service *service,
		       const struct service_endpoint *endpoint)
{
	(void)service;
	pthread_mutex_lock(&ports_lock);
	if (!endpoint)
		drop_locked(target);
	else if (endpoint->sa.ss_family != AF_UNIX)
		add_locked(target, endpoint);
	pthread_mutex_unlock(&ports_lock);
}

/* Does p only serve the Discovery log?  It does if its listener has another
 * port for the namespaces. */
static bool is_for_discovery_locked(const struct nvme_ports *ports, const struct nvme_port *p)
{
	if (p->rdma || sockaddr_port(&p->sa) != NVME_TCP_DISCOVERY_PORT)
		return false;
	for (const struct nvme_port *o = ports->first; o; o = o->next)
		if (o->target == p->target && sockaddr_port(&o->sa) != NVME_TCP_DISCOVERY_PORT)
			return true;
	return false;
}

/* Frees the ports that have ceased to serve; to_end: all. */
static void free_locked(struct nvme_ports *ports, bool to_end)
{
	struct nvme_port **at = &ports->first, *p;

	while ((p = *at))
		if (to_end || !p->target) {
			*at = p->next;
			free(p);
		} else {
			at = &p->next;
		}
}

bool nvme_ports_settle(struct nvme_ports *ports)
{
	bool changed = false;

	pthread_mutex_lock(&ports_lock);
	for (struct nvme_port *p = ports->first; p; p = p->next) {
		bool listed = p->target && !is_for_discovery_locked(ports, p);

		changed |= listed != p->listed;
		p->listed = listed;
	}
	free_locked(ports, false);
	ports->generation += changed;
	pthread_mutex_unlock(&ports_lock);
	return changed;
}

uint64_t nvme_ports_generation(const struct nvme_ports *ports)
{
	uint64_t generation;

	pthread_mutex_lock(&ports_lock);
	generation = ports->generation;
	pthread_mutex_unlock(&ports_lock);
	return generation;
}

void nvme_ports_free(struct nvme_ports *ports)
{
	pthread_mutex_lock(&ports_lock);
	free_locked(ports, true);
	pthread_mutex_unlock(&ports_lock);
}

bool nvme_ports_many(const struct nvme_ports *ports)
{
	unsigned count = 0;

	pthread_mutex_lock(&ports_lock);
	for (const struct nvme_port *p = ports->first; p; p = p->next)
		count += p->target != NULL;
	pthread_mutex_unlock(&ports_lock);
	return count > 1;
}

/* ---- The Discovery log ---- */

/* The zone of an address is an interface of ours: the host has to name one of its own (RFC 4007,
 * 6). */
static void drop_zone(struct sockaddr_storage *sa)
{
	if (sa->ss_family == AF_INET6)
		((struct sockaddr_in6 *)sa)->sin6_scope_id = 0;
}

/* The address at which a host that has reached us at local reaches p.  False: p is a wildcard of
 * the other family, and no address of it is known to be one of the host's network. */
static bool find_address(const struct nvme_port *p, const struct sockaddr_storage *local,
			 struct sockaddr_storage *ret_sa)
{
	bool any = sockaddr_is_wildcard(&p->sa);

	if (any && local->ss_family != p->sa.ss_family)
		return false;
	*ret_sa = any ? *local : p->sa;
	sockaddr_set_port(ret_sa, sockaddr_port(&p->sa));
	drop_zone(ret_sa);
	return true;
}

/* Copies what the piece has of the record at `offset` of the log. */
static void put_record(const struct nvme_discovery_log *log, uint64_t offset,
		       const uint8_t record[static NVME_DISCOVERY_ENTRY])
{
	uint64_t from = MAX(offset, log->offset);
	uint64_t to = MIN(offset + NVME_DISCOVERY_ENTRY, log->offset + log->piece_bytes);

	if (from < to)
		memcpy(log->piece + (from - log->offset), record + (from - offset), to - from);
}

/* Writes record number d->id with the address sa, if the piece has some of it. */
static void put_entry(const struct nvme_discovery_log *log, struct nvme_discovery d,
		      const struct sockaddr_storage *sa)
{
	uint64_t offset = (uint64_t)NVME_DISCOVERY_ENTRY * d.id;
	uint8_t entry[NVME_DISCOVERY_ENTRY] = { 0 };
	char host[64] = "", service[8] = "";

	if (offset + NVME_DISCOVERY_ENTRY <= log->offset ||
	    offset >= log->offset + log->piece_bytes)
		return;
	getnameinfo((const struct sockaddr *)sa, sizeof(*sa), host, sizeof(host), service,
		    sizeof(service), NI_NUMERICHOST | NI_NUMERICSERV);
	d.address = host;
	d.port = service;
	d.ipv6 = sa->ss_family == AF_INET6;
	nvme_discovery_entry(entry, &d);
	put_record(log, offset, entry);
}

/* Record `number`: the Discovery subsystem, at the address at which the host has reached it.
 * Returns the number of records: none if it did so by a Unix socket. */
static unsigned put_self(const struct nvme_discovery_log *log, const struct nvme_log_query *query,
			 unsigned number)
{
	struct sockaddr_storage sa = query->local;

	if (sa.ss_family != AF_INET && sa.ss_family != AF_INET6)
		return 0;
	drop_zone(&sa);
	put_entry(log,
		  (struct nvme_discovery){ .id = (uint16_t)number,
					   .subnqn = NVME_DISCOVERY_NQN,
					   .rdma = query->rdma,
					   .tls = query->tls,
					   .self = true },
		  &sa);
	return 1;
}

/* Writes what the piece has of the log; returns the number of records, also if that is nothing. */
static unsigned put_records_locked(const struct nvme_discovery_log *log,
				   const struct nvme_target *target,
				   const struct nvme_log_query *query)
{
	uint8_t header[NVME_DISCOVERY_ENTRY] = { 0 };
	unsigned count = 0;

	for (const struct nvme_port *p = target->ports->first; p; p = p->next) {
		struct sockaddr_storage sa;

		if (p->listed && find_address(p, &query->local, &sa))
			put_entry(log,
				  (struct nvme_discovery){ .id = (uint16_t)++count,
							   .subnqn = target->nqn,
							   .rdma = p->rdma,
							   .tls = p->tls },
				  &sa);
	}
	count += put_self(log, query, count + 1);
	nvme_discovery_header(header, log->generation, count);
	put_record(log, 0, header);
	return count;
}

struct nvme_discovery_log nvme_ports_log(const struct nvme_target *target,
					 const struct nvme_log_query *query)
{
	struct nvme_discovery_log log = { .offset = query->offset };
	unsigned count;

	pthread_mutex_lock(&ports_lock);
	log.generation = target->ports->generation;
	count = put_records_locked(&log, target, query);
	log.bytes = (uint64_t)NVME_DISCOVERY_ENTRY * (1 + count);
	if (log.offset < log.bytes)
		log.piece_bytes = (uint32_t)MIN(query->bytes, log.bytes - log.offset);
	log.piece = calloc(1, MAX(log.piece_bytes, 1U));
	if (log.piece)
		put_records_locked(&log, target, query);
	pthread_mutex_unlock(&ports_lock);
	return log;
}
