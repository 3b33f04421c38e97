/* A listener at run time: its sockets, its workers, its state.  Main thread only, except for the
 * admission that its workers ask for. */
#pragma once
#include <semaphore.h>

#include "admission.h"
#include "config.h"
#include "exports.h"
#include "proc.h"
#include "socket.h"
#include "worker.h"

struct listeners;

enum listener_state {
	LISTENER_SERVING,
	LISTENER_DRAINING,
	LISTENER_DRAINED,
	LISTENER_UNAVAILABLE, /* `optional = yes`, and this host cannot: see reason */
	LISTENER_STATES
};
extern const char *const listener_state_names[];

struct listener {
	char name[CONFIG_NAME_MAX]; /* constant, as workers use it; config is the main thread's */
	/* A copy: a listener may outlive its configuration, and then the names of files in it. */
	struct listener_config *config;
	struct listeners *all;
	struct listener *next; /* in server->leaving */
	uint64_t started_ns;   /* CLOCK_MONOTONIC: when its counters were 0 */
	enum listener_state state;
	bool starting;                      /* see listener_begin() */
	int error;                          /* -errno: it cannot start */
	struct reason reason;               /* of that, and of LISTENER_UNAVAILABLE */
	const struct engine *engine;        /* the one that `auto` became; NULL when unavailable */
	struct worker *workers;             /* worker_count of them; 0 when unavailable */
	struct proc_cost *costs;            /* of each worker, when last read */
	unsigned worker_count, begun_count; /* of these threads were made */
	sem_t accept_ended; /* posted by each worker that has stopped accepting; accept_ended_count
			       were taken */
	unsigned accept_ended_count;
	unsigned drained_count;
	struct bound *addresses; /* ranges expanded */
	unsigned address_count;
	unsigned kept;  /* how many of its sockets the service manager keeps */
	bool inherited; /* some of its sockets were another listener's, which may still accept */
	struct sockaddr_storage *endpoints; /* of an engine that binds them itself; NULL: sockets */
	struct admission *admission;
	struct server_export **exports; /* references to config->exports; NULL: not served */
	void *shared;                   /* the service's: see service->shared_new() */
	struct proc_cost retired;       /* cost of kernel threads that have ended */
};

/* The engine of config, or the one that `auto` means on this host. */
const struct engine *listener_pick_engine(const struct listener_config *config);

/* Binds, begins to start the workers, does not accept yet.  going: listeners that it may take
 * sockets over from, see listening_open(); NULL: none.  0, or -ENOMEM with the reason; all else
 * that is wrong is found by: */
int listener_begin(struct listeners *all, const struct listener_config *config,
		   struct listener *const *going, struct listener **ret_listener,
		   struct reason *reason);
/* Waits for the workers of those of the list that were begun, side by side, at most WORKER_START_NS
 * and then LISTENERS_END_NS.  In the place of one that cannot start there is then one without
 * workers, LISTENER_UNAVAILABLE with the reason, and with an error unless it is `optional`. */
void listeners_await_start(struct listener **list, unsigned count, struct listener *const *going);

/* The store by which a listener that serves reaches config->exports[index]. */
const struct store *listener_store(const struct listener *l, unsigned index);

void listener_serve(struct listener *l); /* start accepting */
/* Another listener's worker has stopped accepting: the kernel may have woken it, and nobody else,
 * for connections that came while both listened to the same sockets. */
void listener_accept_waiting(struct listener *l);
void listener_log(const struct listener *l); /* a line about a listener that serves */
/* Logs the listeners that do not serve, a line for each reason. */
void listeners_log_unavailable(struct listener *const *list, unsigned count);
/* Puts the live keys of config in force; the others are as they were. */
void listener_change(struct listener *l, const struct listener_config *config);
/* Stops accepting; returns at once.  Connections may finish until deadline_ns, CLOCK_MONOTONIC;
 * then, and when all have ended, the listener is drained. */
void listener_drain(struct listener *l, uint64_t deadline_ns);
/* Waits until all workers of a draining listener have stopped accepting, or until end_ns. */
void listener_await_accept_ended(struct listener *l, uint64_t end_ns);
/* Tells the listener's workers to end; returns at once. */
void listener_request_stop(struct listener *l);
/* Waits for workers that were told to end: until they have, calls of theirs may be on the way.
 * False: some have not by end_ns, which is logged, and the listener must stay. */
bool listener_await_end(struct listener *l, uint64_t end_ns);
void listener_free(struct listener *l); /* waits for its workers to end */

/* CPU time and context switches since the start: of its workers with the threads that work for
 * them, a store's and the kernel's (SQPOLL, io-wq); and of those of the kernel alone, with how many
 * live now. */
void listener_cost(struct listener *l, struct proc_cost *ret_cost, struct proc_cost *ret_kernel,
		   unsigned *ret_kernel_threads);

/* Is the worker with this TID one of l's? */
bool listener_owns(const struct listener *l, pid_t tid);

/* A client's command to try it with; false: it is not served, or its service has none. */
enum { LISTENER_EXAMPLE_MAX = 512 };
bool listener_example(const struct listener *l, char *text, size_t size);
