/* A listener at run time: its sockets, its workers, its state.  Main thread only, except for the
 * admission that its workers ask for. */
#pragma once
#include "config.h"
#include "proc.h"
#include "worker.h"

enum listener_state {
	LISTENER_SERVING,
	LISTENER_DRAINING,
	LISTENER_DRAINED,
	LISTENER_UNAVAILABLE, /* `optional = yes`, and this host cannot: see reason */
};
extern const char *const listener_state_names[];

struct admission; /* limits and allow list, shared by the workers */

struct listener {
	const struct listener_config *config; /* owned by the server's struct config */
	enum listener_state state;
	struct reason reason;        /* of LISTENER_UNAVAILABLE */
	const struct engine *engine; /* what `auto` became; NULL when unavailable */
	struct worker *workers;      /* worker_count of them; 0 when unavailable */
	unsigned worker_count;
	unsigned drained_count;
	char (*addresses)[ADDRESS_TEXT_MAX]; /* as bound: port 0 resolved, ranges expanded */
	unsigned address_count;
	struct admission *admission;
	struct proc_cost retired; /* cost of kernel threads that have ended */
	struct proc_threads threads;
	struct server *server;
};

/* Binds, starts the workers, does not accept yet.  0, or -errno with the reason; an `optional`
 * listener that this host cannot serve returns 0 and is LISTENER_UNAVAILABLE. */
int listener_prepare(struct server *server, const struct listener_config *config,
		     struct listener **ret_listener, struct reason *reason);

void listener_serve(struct listener *l);                      /* start accepting */
void listener_drain(struct listener *l, uint64_t deadline_ns); /* returns at once */
void listener_free(struct listener *l);                       /* stops its workers */

/* CPU time and context switches since the start, of its workers and of the kernel's threads that
 * work for them (SQPOLL, io-wq). */
void listener_cost(struct listener *l, struct proc_cost *ret_cost);
