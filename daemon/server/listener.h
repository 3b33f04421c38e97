/* A listener at run time: its sockets, its workers, its state.  Main thread only, except for
 * `admission`, which its workers use. */
#pragma once
#include <limits.h>
#include <semaphore.h>

#include "admission.h"
#include "config.h"
#include "exports.h"
#include "proc.h"
#include "socket.h"
#include "worker_owner.h"

struct listeners;

enum listener_state {
	LISTENER_SERVING,
	LISTENER_DRAINING,
	LISTENER_DRAINED,
	LISTENER_UNAVAILABLE, /* `optional = yes`, and this host cannot serve it: see reason */
	LISTENER_STATES
};
extern const char *const listener_state_names[];

/* The cost of one worker.  own: of its thread, at the last reading; retired: of threads of the
 * kernel and of stores that worked for it and have ended. */
struct worker_cost {
	struct proc_cost own, retired;
};

struct listener {
	/* constant, as workers read it; config is for the main thread. */
	char name[CONFIG_NAME_MAX];
	/* A copy: a listener may outlive its configuration, and the texts of its origins. */
	struct listener_config *config;
	struct listeners *all;
	struct listener *next; /* in listeners->leaving */
	uint64_t started_ns;   /* CLOCK_MONOTONIC: the begin of its counters */
	enum listener_state state;
	bool starting;        /* from listener_start() to listeners_listen() */
	int error;            /* -errno: it cannot start */
	struct reason reason; /* for error, and for LISTENER_UNAVAILABLE */
	/* The engine in use (chosen if `auto`); NULL when unavailable. */
	const struct engine *engine;
	struct worker *workers;    /* worker_count of them; 0 when unavailable */
	struct worker_cost *costs; /* of each worker */
	unsigned worker_count,
		started_count; /* started_count: workers whose threads were created */
	/* Posted once by each worker that has stopped accepting;
	 * waited for accept_ended_count times. */
	sem_t accept_ended;
	unsigned accept_ended_count;
	unsigned drained_count;
	struct bound *addresses; /* ranges expanded */
	unsigned address_count;
	unsigned stored_count; /* number of its sockets that the service manager stores */
	/* Own descriptors of the sockets over which a listener of datagrams serves its clients
	 * while it drains: a listener that is begun meanwhile takes them over. */
	struct kept_socket {
		int fd;
		unsigned address;
	} * kept;
	unsigned kept_count;
	/* Some of its sockets come from another listener, which may still accept from them. */
	bool inherited;
	/* Addresses for an engine that binds them itself; NULL: the listener has sockets. */
	struct sockaddr_storage *endpoints;
	struct admission *admission;
	struct tls_stage *tls;          /* around its service; NULL: none */
	struct server_export **exports; /* references to config->exports; NULL: not served */
	void *shared;                   /* state of the service: see service->shared_new() */
};

/* The engine of config, or the one that `auto` selects on this host. */
const struct engine *listener_pick_engine(const struct listener_config *config);

/* Maximum of clients of each worker of l over a connectionless engine; 0: no limit. */
uint64_t listener_peers_max(const struct listener *l, const struct listener_config *config);

/* Takes references to the exports that config names, binds the addresses and begins to
 * start the workers; does not accept yet.  going: listeners whose sockets it may take
 * over, see binding_open(); NULL: none.  0, or -ENOMEM with the reason; any other error
 * is reported by listeners_await_started(). */
int listener_start(struct listeners *all, const struct exports *exports,
		   const struct listener_config *config, struct listener *const *going,
		   struct listener **ret_listener, struct reason *reason);
/* Makes a listener in state LISTENER_DRAINED, without workers.  0, or -ENOMEM with the reason. */
int listener_make_drained(struct listeners *all, const struct listener_config *config,
			  struct listener **ret_listener, struct reason *reason);
/* Waits until the workers of all listeners of the list that were begun have started, at most
 * WORKER_START_NS in all, and LISTENERS_END_NS for failed ones to end.  At the daemon's start
 * (going is NULL) workers that make progress get more time.  A listener that cannot
 * start is replaced in the list by one without workers, in state LISTENER_UNAVAILABLE with the
 * reason, and with `error` set unless it is `optional`. */
void listeners_await_started(struct listener **list, unsigned count, struct listener *const *going);

/* Lets clients connect to the listeners that have started.  It is the last thing that may refuse a
 * start or a reload: a client that has connected to a socket which is then closed is reset.  Hence
 * it ends with the first listener that fails and is not `optional`.  Those that fail are replaced
 * as above. */
void listeners_listen(struct listener **list, unsigned count, struct listener *const *going);

/* The store by which a listener that serves reaches config->exports[index]. */
const struct store *listener_store(const struct listener *l, unsigned index);

/* Its first worker's mount of x, as all workers do the same; NULL: it does not serve x. */
const struct mount *listener_mount_of(const struct listener *l, const struct server_export *x);

void listener_serve(struct listener *l); /* start accepting */
/* To be called when a worker of another listener has stopped accepting from sockets that l shares.
 * The kernel may have woken only that worker for connections that are still in the queue. */
void listener_accept_waiting(struct listener *l);
void listener_log(const struct listener *l); /* logs what a listener serves, and how */
/* Logs the listeners that do not serve, a line for each reason. */
void listeners_log_unavailable(struct listener *const *list, unsigned count);
/* Reads the files of config that a reload reads again on a running listener: 0, or -errno with the
 * reason.  They come into use with listener_change(), or are forgotten by listener_undo(). */
int listener_prepare(struct listener *l, const struct listener_config *config,
		     struct reason *reason);
void listener_undo(struct listener *l);
/* Applies the keys of config that a reload changes on a running listener; the others are equal. */
void listener_change(struct listener *l, const struct listener_config *config);
/* Stops accepting; returns at once.  Connections may finish until deadline_ns (CLOCK_MONOTONIC) and
 * are closed then; when all have ended, the listener is drained. */
void listener_drain(struct listener *l, uint64_t deadline_ns);
/* To be called when more UDP sockets of a draining listener have been handed over.  Requests its
 * workers to read these no more, for which listener_await_accept_ended() then waits.  Waits itself,
 * until end_ns at most, for their answers to the earlier request. */
void listener_leave_given(struct listener *l, uint64_t end_ns);
/* Waits until all workers of a draining listener have stopped accepting, or until end_ns. */
void listener_await_accept_ended(struct listener *l, uint64_t end_ns);
/* Requests the listener's workers to end; returns at once. */
void listener_stop(struct listener *l);
/* Waits for workers that were requested to end; until then they may post calls.  False: some have
 * not ended by end_ns, which is logged, and the listener must not be freed. */
bool listener_await_stopped(struct listener *l, uint64_t end_ns);
void listener_free(struct listener *l); /* waits for its workers to end */

/* CPU time and context switches since the start: of workers and the threads that work for them, of
 * stores and of the kernel (SQPOLL, io-wq). */
struct listener_cost {
	struct proc_cost all, kernel; /* kernel: of the kernel's threads alone */
	unsigned kernel_threads;      /* how many exist now */
};
/* Of `count` workers from `first` on. */
void listener_cost(struct listener *l, unsigned first, unsigned count,
		   struct listener_cost *ret_cost);

/* The index of l's worker whose thread id is tid. */
enum { LISTENER_NO_WORKER = UINT_MAX };
unsigned listener_worker_of(const struct listener *l, pid_t tid);

/* A client's command to try the listener with, to be freed; NULL: it does not serve, or its service
 * has no example. */
char *listener_example(const struct listener *l);
