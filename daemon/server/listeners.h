/* All listeners of this process, and their shared state.  Main thread only. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "exports.h"
#include "fdstore.h"
#include "listener.h"
#include "mailbox.h"
#include "proc.h"

/* Time for workers to end; they abandon operations in flight after two seconds. */
#define LISTENERS_END_NS ((uint64_t)5 * NS_PER_S)

struct listeners {
	struct listener **list; /* in the order of the configuration; count of them */
	unsigned count;
	/* Listeners that a reload removed; freed when they have drained and
	 * their workers have ended. */
	struct listener *leaving;
	struct exports exports;
	struct mailbox mailbox; /* workers' calls to the main thread */
	/* Sockets from the service manager that no listener has taken yet. */
	struct fdstore fdstore;
	struct proc_threads threads;
	uint64_t threads_ns;       /* when threads were last scanned */
	uint64_t started_ns;       /* CLOCK_MONOTONIC */
	const struct config *next; /* the configuration that is started, or reloaded to */
	/* Deadlines of that start or reload: SOCKET_WAIT_NS, TLS_READ_NS (CLOCK_MONOTONIC). */
	uint64_t bind_end_ns, tls_end_ns;
	/* The process ends: its sockets stay stored with the service manager. */
	bool stopping;
	/* Set by the owner; called when a listener of `list` has drained (listed), or one of
	 * `leaving` has ended. */
	void (*changed)(struct listeners *all, bool listed);
};

/* To be called before the listeners of `next` are started, or prepared for a reload. */
void listeners_begin(struct listeners *all, const struct config *next);

/* NULL: no listener has this name. */
struct listener *listeners_find(const struct listeners *all, const char *name);

/* To be called when a start, reload, drain or resume is complete: calls service->settle(). */
void listeners_settle(const struct listeners *all);

/* Does a listener serve or still drain? */
bool listeners_are_busy(const struct listeners *all);
/* While stopping: releases the locks on files to which no client can write any more, so that the
 * next process can take them. */
void listeners_unlock(struct listeners *all);

/* Makes the counters of idle workers exact: see worker_flush_begin(). */
void listeners_flush_counters(struct listeners *all);

/* Is every worker alive: has it made a turn since the last call, or does it sleep in its engine's
 * wait()?  Logs those that are not. */
bool listeners_are_alive(struct listeners *all);

/* Ends l, which is on no list, and frees it.  If one of its workers does not end by end_ns
 * (CLOCK_MONOTONIC), l is put on `leaving`.  To end several listeners, call listener_stop()
 * for all of them first. */
void listeners_stop_one(struct listener *l, uint64_t end_ns);
/* Ends all listeners at once.  False: a worker has not ended, which is logged. */
bool listeners_stop(struct listeners *all);
/* To be called after listeners_stop() has returned true. */
void listeners_free(struct listeners *all);

/* Called by a listener that has drained; ends it if it is on `leaving`. */
void listeners_drained_one(struct listener *l);
/* Called by a listener: one of its workers has stopped accepting. */
void listeners_accept_ended(struct listeners *all);
/* The threads that work for workers, scanned now or within the last millisecond. */
struct proc_threads *listeners_scan_threads(struct listeners *all);
