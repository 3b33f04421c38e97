/* The owner's side of a worker: its start, requests to it, its end, lists of its connections.
 * Called on the owner's thread; the worker calls its owner through struct worker_owner. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "parse.h"
#include "worker.h"

/* Time enough for an engine, and for the files of its stores to be opened. */
#define WORKER_START_NS ((uint64_t)10 * NS_PER_S)

/* Starts the thread: 0, or -errno with the reason.  The caller has zeroed w and set service,
 * engine, options, owner, owner_context, listener, index and name.  Takes ownership of the sockets
 * even on failure; accepting begins with REQUEST_SERVE. */
int worker_start(struct worker *w, const struct worker_socket *sockets, unsigned count,
		 struct reason *reason);
/* After worker_start(): waits until the worker's engine is ready (0) or has failed (-errno with the
 * reason).  -ETIMEDOUT: neither happened until end_ns (CLOCK_MONOTONIC); the thread still runs, so
 * call this again, or stop the worker like one that has started. */
int worker_await_started(struct worker *w, uint64_t end_ns, struct reason *reason);
/* CPU time of the thread, by which the owner distinguishes work from a wait; 0: it has ended. */
uint64_t worker_cpu_ns(const struct worker *w);
/* worker_start() and worker_await_started(), within WORKER_START_NS. */
int worker_start_and_wait(struct worker *w, const struct worker_socket *sockets, unsigned count,
			  struct reason *reason);

/* Makes a request and returns at once; the worker carries it out in a later turn.  value: see enum
 * worker_requested; 0 if the request has none. */
void worker_request(struct worker *w, enum worker_requested which, uint64_t value);

/* Has a sleeping worker with unreaped completions (`counters_lag`) count them, so that its counters
 * are exact.  worker_flush_begin() returns at once; worker_flush_await() waits for the worker until
 * end_ns (CLOCK_MONOTONIC).  A worker that has not carried out an earlier request hangs: it is
 * neither asked nor waited for. */
void worker_flush_begin(struct worker *w);
void worker_flush_await(struct worker *w, uint64_t end_ns);

/* Finds out which features the engine gets on this host with these options, by
 * starting and stopping a worker without sockets.  0 and a mask of enum
 * engine_feature, or -errno with the reason. */
int worker_probe(const struct engine *engine, const struct worker_options *options,
		 uint64_t *ret_features, struct reason *reason);

/* End the thread, closing its connections.  worker_stop() returns at once.
 * worker_await_stopped() waits until the thread has ended, joins it and frees all that
 * worker_start_and_wait() allocated.  False: it has not ended by end_ns (CLOCK_MONOTONIC), for
 * instance because a store waits for a device, and nothing was freed.  Both do nothing if no thread
 * runs. */
void worker_stop(struct worker *w);
bool worker_await_stopped(struct worker *w, uint64_t end_ns);

/* One connection as ListConnections shows it. */
enum { CONN_ABOUT_MAX = 288 };
struct conn_info {
	uint64_t id, age_ns, idle_ns, bytes_in, bytes_out;
	uint64_t held_bytes; /* received and not answered yet, or not yet taken by the kernel */
	const char *state;   /* "open", "eof", "throttled", "starved", "closing" */
	/* TCP only; 0 on a Unix socket. */
	uint32_t rtt_us, retransmits;       /* TCP_INFO */
	uint32_t unsent_bytes;              /* in the socket, not yet acknowledged (SIOCOUTQ) */
	char peer[ADDRESS_TEXT_MAX];        /* see conn_peer() */
	const struct engine_device *device; /* one of the worker's; NULL: a socket */
	char about[CONN_ABOUT_MAX];         /* see service->describe() */
};

/* A request for a list of them; the caller keeps it valid until done() is called, on the worker's
 * thread.  The worker handles WORKER_TURN_MAX connections per turn, so that a long list does not
 * stall its traffic. */
struct worker_list {
	struct call call;
	struct worker *worker;
	struct conn_info *infos; /* room for max */
	unsigned max, count;
	uint64_t after_id; /* used by the worker: its position */
	void (*done)(struct worker_list *list);
};
void worker_list_connections(struct worker *w, struct worker_list *list);
