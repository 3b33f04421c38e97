/* The subsystems of this process, their controllers, and which connections are queues of the same
 * controller.
 *
 * A subsystem is known by its NQN and outlives the listeners that serve it one after the other, as
 * at a reload: a host that comes back may meet what its last controller has left in the stores.  A
 * controller begins with the Connect of its admin queue and is gone when the last of its queues is.
 * Its queues may be on different workers.  What is looked up or changes hands is under one mutex,
 * which is taken when a queue begins or ends and a controller starts or stops; while commands flow
 * only atomics are read. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "mailbox.h"
#include "nvme_identify.h"
#include "nvme_proto.h"
#include "reason.h"

enum {
	NVME_CONTROLLERS_MAX = 1024, /* of a subsystem */
	NVME_QUEUES_MAX = 128,       /* for I/O, of a controller */
};

struct conn;
struct worker;
struct worker_options;

/* In this order; `disabled` may follow `stopping`. */
enum nvme_state {
	NVME_DISABLED, /* I/O queues may not connect */
	NVME_ENABLED,
	NVME_STOPPING, /* the host has disabled it, or shuts down: its I/O queues end */
	NVME_DYING,    /* its admin queue is gone: its I/O queues end */
};

/* One connection as a queue.  Allocated by the service, which gives it up with nvme_leave(). */
struct nvme_member {
	struct call call;
	bool called;       /* call is on its way */
	struct conn *conn; /* NULL: it has left */
	struct worker *worker;
	struct nvme_controller *controller; /* NULL: none yet */
	uint16_t qid;                       /* 0: the admin queue */
	bool waits;                         /* it is on subsystem->waiting */
	struct nvme_member *next_waiting;
};

struct nvme_controller {
	struct nvme_controller *next; /* of its subsystem */
	struct nvme_subsystem *subsystem;
	unsigned references;   /* members */
	_Atomic uint8_t state; /* enum nvme_state */
	_Atomic bool seen;     /* a command came since the admin queue looked: its host is alive */
	uint16_t cntlid;
	bool discovery;
	uint8_t hostid[NVME_HOSTID];
	char hostnqn[NVME_NQN_MAX];
	unsigned granted; /* I/O queues; the admin queue's to set while there are none */
	unsigned queue_count;
	struct nvme_member *queues[NVME_QUEUES_MAX + 1]; /* by qid */
};

/* The subsystem of a listener (w->shared).  Constant. */
struct nvme_target {
	struct nvme_subsystem *subsystem;
	char nqn[NVME_NQN_MAX];
	char serial[NVME_SERIAL + 1];
	uint64_t generation; /* another for each listener that there was */
	uint32_t block_size; /* bytes, at least */
	uint32_t in_capsule; /* bytes */
	uint32_t transfer_max;
};

/* NULL, with the reason, when there is no memory or no name. */
void *nvme_target_new(const struct worker_options *options, const char *listener,
		      struct reason *reason);
void nvme_target_free(void *target);
/* The NQN of the subsystem; lives as long as the target. */
const char *nvme_target_name(const void *target);

/* The member is to be the admin queue of a new controller, or a queue of the one that it names.
 * NVME_SUCCESS, and member->controller is set, or a status, with its *ret_result.
 *
 * NVME_WAIT: a controller of this host still has writes under way.  Were the host to repeat one of
 * them now, and then write something newer, the old one could land last.  The member runs when that
 * may have changed, and tries again. */
enum { NVME_WAIT = 0xffff };
uint16_t nvme_enter(struct nvme_target *target, struct nvme_member *member,
		    const struct nvme_connect *connect, uint64_t *ret_result);

/* Sets the controller's state.  When the controller stops, its I/O queues are run, and see
 * it. */
void nvme_set_state(struct nvme_controller *controller, enum nvme_state state);
static inline enum nvme_state nvme_state(const struct nvme_controller *controller)
{
	return (enum nvme_state)atomic_load_explicit(&controller->state, memory_order_acquire);
}

/* Sets how many I/O queues may connect; none is connected yet. */
void nvme_grant(struct nvme_controller *controller, unsigned queues);

/* I/O queues that are connected; each may have requests in the stores. */
unsigned nvme_queue_count(const struct nvme_controller *controller);

/* The connection ends: frees member, now or when a call on its way has arrived. */
void nvme_leave(struct nvme_member *member);
