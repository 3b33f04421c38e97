/* The subsystems of this process, their controllers, and the controllers' queues (connections).
 *
 * A subsystem is identified by its NQN and outlives a listener that is replaced by a reload,
 * because a host that reconnects may still have writes of its last controller in the stores.  A
 * controller begins with the Connect of its admin queue and ends with the last of its queues, which
 * may be on different workers.  One mutex protects shared data; it is taken when a queue begins or
 * ends and a controller starts or stops.  While commands flow only atomics are read. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "mailbox.h"
#include "reason.h"
#include "tally.h"
#include "wire/identify.h"
#include "wire/proto.h"

enum { NVME_CONTROLLERS_MAX = 1024 }; /* controllers of a subsystem */

struct conn;
struct key_table;
struct nvme_port;
struct service;
struct service_endpoint;
struct worker;
struct worker_options;

/* States of a controller, in this order, except that `disabled` may follow `stopping`. */
enum nvme_state {
	NVME_DISABLED, /* I/O queues may not connect */
	NVME_ENABLED,
	NVME_STOPPING, /* the host disables it or shuts down: its I/O queues end; then DISABLED */
	NVME_DYING,    /* its admin queue has ended: its I/O queues end */
};

/* One connection as a queue.  Allocated by the service; nvme_member_leave() frees it. */
struct nvme_member {
	struct call call;
	bool called;       /* call has been posted and has not run yet */
	struct conn *conn; /* NULL: the connection has ended */
	struct worker *worker;
	struct nvme_controller *controller; /* NULL: not connected yet */
	uint16_t qid;                       /* 0: the admin queue */
	bool queued;                        /* it is on subsystem->waiting */
	struct nvme_member *next_waiting;
};

/* The keys of service nvme. */
struct nvme_options {
	char nqn[NVME_NQN_MAX]; /* NQN of the subsystem; "": derived from host and listener */
	uint64_t block_size;    /* least block size of its namespaces, bytes; 0: auto */
};
extern const struct key_table nvme_key_table;

struct nvme_controller {
	struct nvme_controller *next; /* of its subsystem */
	struct nvme_subsystem *subsystem;
	struct tally_entry *client; /* counts the controllers of its client */
	unsigned references;        /* members */
	_Atomic uint8_t state;      /* enum nvme_state */
	/* Set by each command: the host is alive; cleared by the admin queue. */
	_Atomic bool seen;
	uint16_t cntlid;
	uint64_t generation; /* of the target on which it began; its queues join there only */
	bool discovery;
	uint8_t hostid[NVME_HOSTID];
	char hostnqn[NVME_NQN_MAX];
	/* Number of I/O queues allowed; set by the admin queue while there are none. */
	_Atomic unsigned granted;
	_Atomic unsigned queue_count;
	struct nvme_member *queues[NVME_QUEUES_MAX + 1]; /* by qid */
};

/* The addresses at which listeners serve a subsystem: nvme/ports.c. */
struct nvme_ports {
	struct nvme_port *first; /* in the order in which they began to serve */
	uint64_t generation; /* of the Discovery log; increases exactly when its contents change */
};

/* The subsystem as one listener serves it (w->shared).  Constant. */
struct nvme_target {
	struct nvme_subsystem *subsystem;
	struct nvme_ports *ports; /* of the subsystem */
	char nqn[NVME_NQN_MAX];
	char serial[NVME_SERIAL + 1];
	uint64_t generation; /* different for each listener of this process */
	uint32_t block_size; /* bytes, at least */
	uint32_t transfer_max;
};

/* service->shared_new().  NULL with the reason: no memory, or no NQN can be made. */
void *nvme_target_new(const struct worker_options *options, const char *listener,
		      struct reason *reason);
void nvme_target_free(void *target);
/* The NQN of the subsystem; lives as long as the target. */
const char *nvme_target_name(const void *target);

/* Makes the member the admin queue of a new controller, or a queue of the controller that connect
 * names.  NVME_SUCCESS, and member->controller is set, or a status, with its *ret_result.
 * client: see conn_client(); one client may have as many controllers as are free, so that others
 * always find some.
 *
 * NVME_WAIT: an earlier controller of this host still has writes in flight.  If the host repeated
 * one of them now and then wrote newer data, the old write could be carried out last.  The member's
 * connection runs when that may have changed, and tries again. */
enum { NVME_WAIT = 0xffff };
uint16_t nvme_member_connect(struct nvme_target *target, struct nvme_member *member,
			     const struct nvme_connect *connect, struct in6_addr client,
			     uint64_t *ret_result);

/* Sets the controller's state.  If it stops, its I/O queues run and see that; without any it is
 * disabled at once. */
void nvme_set_state(struct nvme_controller *controller, enum nvme_state state);
static inline enum nvme_state nvme_state(const struct nvme_controller *controller)
{
	return (enum nvme_state)atomic_load_explicit(&controller->state, memory_order_acquire);
}

/* I/O queues that are connected; each may have requests in the stores. */
static inline unsigned nvme_queue_count(const struct nvme_controller *controller)
{
	return atomic_load(&controller->queue_count);
}

/* The connection ends: frees member, now or when a posted call has run. */
void nvme_member_leave(struct nvme_member *member);

/* service->settle(): lists the ports as they are now.  The Discovery controllers of a subsystem
 * whose log has changed run, and send their hosts an event: see nvme_admin_events(). */
void nvme_settle(void);

/* ---- Ports: nvme/ports.c ----
 *
 * The addresses at which listeners serve the subsystems, over TCP or RDMA.  Listeners with the same
 * NQN serve one subsystem, and its Discovery log lists the ports of all of them.  The main thread
 * changes the list when a listener begins or ceases to serve; workers read it.  It has a mutex of
 * its own, under which no other is taken.
 *
 * A reload ends a listener before its replacement serves.  So logs list what was there at the last
 * nvme_ports_settle(): an address that only goes to another listener is never missing. */

/* service->listens() */
void nvme_ports_listen(void *target, const struct service *service,
		       const struct service_endpoint *endpoint);

/* Logs list the ports as they are now.  True: the Discovery log has changed. */
bool nvme_ports_settle(struct nvme_ports *ports);

uint64_t nvme_ports_generation(const struct nvme_ports *ports);

/* To be called when no target has them. */
void nvme_ports_free(struct nvme_ports *ports);

/* Is the subsystem served at more than one port? */
bool nvme_ports_many(const struct nvme_ports *ports);

/* What a host asks for of a Discovery log. */
struct nvme_log_query {
	/* The local address of its connection: the discovery log has it in place of a wildcard. */
	struct sockaddr_storage local;
	bool rdma, tls; /* its connection's */
	uint64_t offset;
	size_t bytes;
};

struct nvme_discovery_log {
	uint64_t bytes, generation; /* of the whole log */
	uint64_t offset;            /* of the piece */
	uint32_t piece_bytes;
	uint8_t *piece; /* malloc()ed for the caller; NULL: no memory */
};

/* The log of the target's subsystem.  Size and content are of one generation, so that NUMREC never
 * counts a record that the piece has no room for (Base Specification 2.1, 5.1.12.3). */
struct nvme_discovery_log nvme_ports_log(const struct nvme_target *target,
					 const struct nvme_log_query *query);
