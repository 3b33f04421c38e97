/* The listeners of this process, and what they share.  Main thread only. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "exports.h"
#include "kept.h"
#include "listener.h"
#include "mailbox.h"
#include "proc.h"

/* Workers give up what is in flight after two seconds. */
#define LISTENERS_END_NS ((uint64_t)5 * NS_PER_S)

struct listeners {
	struct listener **list; /* in the order of the configuration; count of them */
	unsigned count;
	/* Listeners that a reload took out: freed when they have drained and all of their workers
	 * have ended. */
	struct listener *leaving;
	struct exports exports;
	struct mailbox mailbox; /* for the workers to reach the main thread */
	struct kept kept;       /* sockets that no listener has taken yet */
	struct proc_threads threads;
	uint64_t threads_ns;  /* when they were last looked at */
	uint64_t started_ns;  /* CLOCK_MONOTONIC */
	uint64_t bind_end_ns; /* of a start or reload: see SOCKET_WAIT_NS */
	bool stopping;        /* the process ends: sockets stay with the service manager */
	/* The owner's: one of `list` has drained (listed), or one that left has ended. */
	void (*changed)(struct listeners *all, bool listed);
};

/* NULL when there is none of that name. */
struct listener *listeners_find(const struct listeners *all, const char *name);

/* Does one of them serve, or still drain? */
bool listeners_are_busy(const struct listeners *all);

/* Has idle workers count what they have not looked at yet: see worker_settle(). */
void listeners_settle(struct listeners *all);

/* Has every worker made a turn since the last call, or does it sleep in its engine's wait()?  Logs
 * the workers that have not. */
bool listeners_are_alive(struct listeners *all);

/* Ends l, which is on no list, and frees it.  If one of its workers does not end by end_ns
 * (CLOCK_MONOTONIC) it stays among those that leave.  Of several, all are first to be requested to
 * stop. */
void listeners_end_one(struct listener *l, uint64_t end_ns);
/* Ends all listeners at once.  False: a worker has not ended, which is logged. */
bool listeners_end(struct listeners *all);
/* After listeners_end() returned true. */
void listeners_free(struct listeners *all);

/* Called by a listener: it has drained; ends it if it is one that leaves. */
void listeners_drained_one(struct listener *l);
/* Called by a listener: one of its workers has stopped accepting. */
void listeners_accept_ended(struct listeners *all);
/* The kernel's threads of this process, looked at now or within the last millisecond. */
struct proc_threads *listeners_scan_threads(struct listeners *all);
