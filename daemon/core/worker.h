/* A worker: one thread of one listener, with its own event loop, pool, connections and counters.
 *
 * The owner (server/listener.c, or a test) runs on another thread and talks to it only through the
 * functions of worker_owner.h, through worker_call(), and by reading stats. */
#pragma once
#include <assert.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "bufq.h"
#include "counters.h"
#include "deadline.h"
#include "engine.h"
#include "engine_features.h"
#include "mailbox.h"
#include "op.h"
#include "parse.h"
#include "service.h"
#include "spin.h"
#include "stats.h"
#include "util.h"
#include "worker_options.h"

enum {
	WORKER_TURN_MAX = 256, /* events one turn handles */
	/* Bytes that one turn moves, divided among its connections. */
	WORKER_TURN_BYTES = 1024 * 1024,
	/* Least bytes of a turn for one connection, however many there are. */
	WORKER_SHARE_MIN = 16 * 1024,
	WORKER_QUEUED_MAX = 4096, /* connections a drain accepts before it stops listening */
	WORKER_BACKLOG = 4096,    /* length of the kernel's queue, for listen(2) */
	WORKER_DEVICES_MAX = 16,  /* ports of devices that a worker lists */
	/* Clients of a connectionless engine, whatever the configuration allows. */
	WORKER_PEERS_MAX = 1000 * 1000,
	/* Drain: a connection that was silent for that long is closed. */
	WORKER_QUIET_NS = NS_PER_S,
	/* Pause after a failed wait, and of accepting after EMFILE; the latter ends earlier when a
	 * descriptor is closed. */
	WORKER_RETRY_NS = 100 * NS_PER_MS,
};

/* Silence after which a connectionless engine forgets a client, if `idle-timeout` is 0. */
#define WORKER_FORGET_NS ((uint64_t)60 * NS_PER_S)

/* While connections wait for chunks, every WORKER_CHECK_NS the worker checks those that hold
 * chunks, and has them give back what they can.  It closes a connection whose peer took no output
 * during WORKER_PATIENCE checks.  WORKER_PATIENCE_STUCK checks are enough under two conditions: no
 * connection that waits for chunks alone was served meanwhile, and the one to be closed was
 * inactive for WORKER_STALL_NS.  doc/internals/engines.md, "Waiting for memory". */
#define WORKER_CHECK_NS ((uint64_t)100 * NS_PER_MS)
enum { WORKER_PATIENCE = 50, WORKER_PATIENCE_STUCK = 3 };
#define WORKER_STALL_NS ((uint64_t)NS_PER_S)

/* Callbacks to the worker's owner; all run on the worker's thread. */
struct worker_owner {
	/* Is a connection from peer (NULL: the peer of socket fd) admitted?  0: yes; 1: yes, and
	 * peer was given and `allow` names it; -EUSERS: a limit is reached; -EACCES: not allowed.
	 * An admitted connection has ended when release() is called. */
	int (*admit)(struct worker *w, int fd, const struct sockaddr_storage *peer);
	void (*release)(struct worker *w);
	/* error > 0 (errno): accepting stopped because descriptors or memory ran
	 * out.  0: it has resumed. */
	void (*paused)(struct worker *w, int error);
	/* The worker drains and has closed its listening sockets: no new connection can arrive at
	 * it any more, and the kernel now wakes other workers for connections in a shared queue.
	 * A connectionless worker reads no socket any more that was handed to another worker.  It
	 * calls this once for each REQUEST_DRAIN, as more sockets may be handed over meanwhile. */
	void (*accept_ended)(struct worker *w);
	/* After accept_ended(), when no connection is left. */
	void (*drained)(struct worker *w);
};

/* A function that runs at the end of every turn, before the worker may sleep; it may make
 * connections ready.  run() returns true if it has to run again soon: the worker then does not
 * sleep.  Embedded in its owner, which must live until the worker ends or drops the hook. */
struct worker_hook {
	struct worker_hook *next;
	bool (*run)(struct worker_hook *hook);
};

enum worker_due {
	WORKER_DUE_CALLS = 1 << 0,  /* the mailbox has calls */
	WORKER_DUE_SLICES = 1 << 1, /* w->slices.first is not NULL */
};

/* A listening socket that is handed to a worker. */
struct worker_socket {
	int fd;
	bool shared;      /* other workers accept from the same socket: they take turns */
	bool taken;       /* another worker or process had it: the kernel has counted for it */
	unsigned address; /* index of the socket's address in the owner's list */
	/* NULL, or the address that the owner binds it to before REQUEST_SERVE: a UDP socket
	 * receives as soon as it is bound.  Valid as long as the worker. */
	const struct sockaddr_storage *late;
};

/* A connection that waits for memory needs chunks for its service, or one to receive into.
 * BEHIND: it waits for its own peer to take output as well. */
enum wait_kind { WAIT_SERVICE, WAIT_SERVICE_BEHIND, WAIT_INPUT, WAIT_INPUT_BEHIND, WAIT_KINDS };

/* The delay by which requests gather: see batch.h. */
struct batching {
	bool on;           /* requests of this worker may gather */
	uint32_t turns;    /* turns until the next check for waiting input */
	uint32_t patience; /* turns between checks while there is no delay */
	uint32_t most;     /* most requests of one connection in a turn since the last check */
	/* Requests since the last turn that could wait for others; large
	 * ones count more (BATCH_WORK) */
	uint64_t arrived;
	uint64_t delay_ns, max_ns; /* the delay in force, and its maximum */
};

/* How busy bulk receivers share a turn: see bulk_share(). */
struct bulk_queue {
	uint64_t turn;  /* the last turn in which a busy bulk receiver had input */
	unsigned count; /* how many receivers had input in that turn */
	size_t left;    /* bytes that they may still receive in it */
	/* A receiver must have waited at least this many turns to receive in it. */
	uint32_t first;
	uint32_t first_next; /* the same for the next turn */
};

struct acceptor {
	struct op op;
	struct worker *worker;
	int fd;             /* owned; -1 when closed */
	bool shared, taken; /* see struct worker_socket */
	unsigned address;
	const struct sockaddr_storage *late;
	uint16_t port;      /* local port of its connections; 0: it has none */
	bool paused;        /* not accepting: out of descriptors, or draining */
	bool listen_failed; /* paused as listen(2) has failed, which is tried again */
	/* Set by the owner before or while the worker drains: another worker or process accepts
	 * from the same queue. */
	_Atomic bool given;
	/* The engine's requests in flight that may still bring connections, even while paused. */
	unsigned armed;
};

/* A new connection's addresses, as far as they are known without a system call. */
struct arrival {
	const struct sockaddr_storage *peer; /* NULL: not known */
	uint16_t port;                       /* the local one; 0: not known */
};

/* A request of another thread to a worker.  Requests are a part of the worker, as an owner without
 * memory must be able to make them, too.  A request that has not run yet takes the value of the
 * next one of its kind. */
enum worker_requested {
	REQUEST_STOP,
	REQUEST_SERVE, /* begin to accept */
	/* Accept the connections that wait in the queue, even if the kernel woke another worker for
	 * them: see owner->accept_ended(). */
	REQUEST_ACCEPT_WAITING,
	/* Close the listening sockets.  Connections may finish until `value`
	 * (CLOCK_MONOTONIC, ns); those that are silent for WORKER_QUIET_NS are closed.
	 * owner->accept_ended() and ->drained() follow. */
	REQUEST_DRAIN,
	REQUEST_IDLE_TIMEOUT, /* value: options.idle_timeout_ns */
	REQUEST_PEERS_MAX,    /* value: options.peers_max */
	REQUEST_FLUSH_COUNTERS,
	REQUEST_COUNT
};
struct worker_request {
	struct call call;
	struct worker *worker;
	_Atomic uint64_t value;
	_Atomic bool posted;
};

/* Messages of a worker to its owner, each sent once. */
enum worker_notice { NOTICE_ACCEPT_ENDED, NOTICE_DRAINED, NOTICE_COUNT };

/* The parts of a worker.  Each comment names the file that writes the
 * part; other files only read. */

/* worker_turn.c; conn_ready() appends to `ready`. */
struct worker_turn {
	struct conn *ready, **ready_tail; /* the ready list, in order of arrival */
	/* CLOCK_MONOTONIC after wait() of this turn: exact if the turn is sampled or timers are
	 * armed, else of the coarse clock. */
	uint64_t now_ns;
	/* The time before wait() of this turn: all input that had arrived by then was received.
	 * Idle timeouts compare with it instead of now_ns.  Otherwise a process that was stopped
	 * (SIGSTOP) would close a client whose request waited in the socket. */
	uint64_t seen_ns;
	int sample_wait; /* turns until the next one is sampled */
	uint32_t sample_random;
	unsigned ran;  /* connections that ran in the last turn */
	bool sampling; /* the operations that begin in this turn are timed */
	bool spanning; /* the next turn is sampled, too, and ends the span that began here */
	/* Timed operations end in this turn: engines take the time of sends. */
	bool timing;
	bool stop;
	/* Bits of enum worker_due: work to do after this turn's completions. */
	uint8_t due;
	struct worker_hook *hooks;
};

/* pressure.c: how much a connection may hold now; the views of an area: uring_zcrx.c. */
struct worker_limits {
	size_t held_max;  /* bytes, by how full the pool is */
	size_t views_max; /* views, as each may pin a chunk */
	/* A connection with fewer views holds less than both limits, apart from zero-copy sends. */
	size_t views_few;
	size_t held_limit;    /* the upper bound of held_max */
	uint32_t held_chunks; /* worker_chunks() for which these were computed */
};

/* slices.c: connections that have I/O in slices, and the time that slices
 * took in the turn `turn`. */
struct worker_slices {
	struct conn *first, *last;
	uint64_t turn, ns;
};

/* conn_io_begin() and conn_io_end() count; store/file.c has the times. */
struct worker_io {
	unsigned count; /* I/O in flight of all connections */
	/* When the last call that was timed in the turn `timed_turn` ended. */
	uint64_t timed_turn, timed_ns;
};

/* pressure.c and pressure_check.c: connections that wait for the pool. */
struct worker_pressure {
	unsigned waiting; /* how many; the queues are each in order of conn.wait.ticket */
	struct wait_queue {
		struct conn *first, *last;
	} queues[WAIT_KINDS];
	uint64_t tickets;     /* the last value given to conn.wait.ticket */
	uint32_t free_lacked; /* free chunks when a service last failed to allocate */
	uint32_t granted;     /* chunks reserved for connections with CONN_GRANTED */
	/* Lowest ticket of a connection that waits for the pool alone; 0: none. */
	uint64_t first;
	uint64_t next_check_ns; /* time of the next check of connections that hold chunks */
	/* A connection that waited for the pool alone was served since the last check. */
	bool moves;
	unsigned stuck;        /* successive checks in which no such connection was served */
	struct chunk *reserve; /* the chunk of which conn_reserve() gives parts; NULL: none */
	struct timer timer;    /* for the next check; armed while connections wait */
};

/* The engine: pages of its own that it receives into instead of the pool.  All 0: it has none. */
struct worker_area {
	uint32_t pages;
	uint32_t free;        /* that the kernel may have, as far as the engine knows */
	struct chunk *chunks; /* one for each page; they live as long as the pool's */
};

/* bulk.c */
struct worker_bulk {
	struct conn *busy;   /* the bulk receiver that was busy last; NULL: none */
	uint64_t mark_bytes; /* the mark is raised when its bytes_in reaches this */
	struct bulk_queue queue;
	struct timer timer; /* to notice that `busy` is silent; armed while it has a mark */
};

/* worker_turn.c: a drain. */
struct worker_drain_state {
	bool on;
	bool done; /* owner->drained() was called */
	uint64_t deadline_ns;
	struct timer timer; /* armed while the worker drains */
};

/* worker_accept.c */
struct worker_accept {
	struct acceptor *acceptors;
	unsigned count;
	/* Addresses of the connection that is being opened; NULL: none is. */
	const struct arrival *arrival;
	bool paused; /* owner->paused() was called with an error */
	/* owner->accept_ended() was called by a connectionless worker, which may go on reading
	 * sockets that it has not handed to another one. */
	bool left;
	bool ended;         /* no new connection can arrive any more */
	struct timer timer; /* the end of the pause; armed while accepting is paused */
	/* For an engine that binds addresses itself (port 0 is replaced by the actual port); owned
	 * by the owner.  The count is 0 for other engines. */
	struct sockaddr_storage *endpoints;
	unsigned endpoint_count;
};

/* The listener's workers, among which an engine that binds addresses distributes connections.
 * Owned by the owner; the count is 0 for other engines. */
struct worker_team {
	struct worker *workers;
	unsigned count;
};

/* Devices that the engine uses: appended by the worker, read by any thread. */
struct worker_devices {
	struct engine_device list[WORKER_DEVICES_MAX];
	_Atomic unsigned count;
};

/* worker_thread.c; for the owner's thread only unless atomic. */
struct worker_thread {
	pthread_t id;
	bool begun; /* worker_await_started() has seen it start: its other fields may be read */
	bool lives; /* the thread exists and has not been joined */
	uint64_t created_ns;
	sem_t started; /* posted by the thread when it has started or failed to (start_reason) */
	sem_t ended;   /* posted by the thread as its last action */
	sem_t flushed; /* posted by the thread for each REQUEST_FLUSH_COUNTERS */
	int start_result;
	struct reason start_reason;
	/* The export that it is opening while it starts; NULL: none. */
	const char *_Atomic attaching;
	_Atomic bool registers; /* the engine registers memory with a device, which pins it */
	_Atomic int tid;
	_Atomic int kernel_tid; /* ring_kernel_tid(); 0: it has no ring */
};

struct worker {
	/* Hot: used for every request. */
	const struct service *service;
	const struct engine *engine;
	void *engine_state;
	struct worker_turn turn;
	struct worker_limits limits;
	struct worker_slices slices;
	struct pool pool;
	uint32_t pool_posted; /* by the engine: chunks posted to the kernel to receive into */
	struct batching batch;
	struct spin spin;
	struct worker_io io;

	/* Warm: used while connections wait, and by timers. */
	struct worker_pressure pressure;
	struct worker_area area;
	struct conn *conns;
	uint64_t next_conn_id;
	struct worker_bulk bulk;
	/* All timers, of connections as well.  wake_ns: when wait() must return at the latest. */
	struct deadlines deadlines;
	struct worker_drain_state drain;
	struct worker_accept accept;
	struct worker_options options;
	struct chunk *constant; /* see conn_constant(); NULL: none yet */
	/* The listener's state of its service, owned by the listener: see service->shared_new(). */
	void *shared;
	struct chunk *scratch; /* the chunk that conn_write() fills; NULL: none yet */
	struct worker_team team;
	struct ring *ring; /* owned by the engine; stores may share it; NULL: it has none */
	/* This worker's mounts of the listener's exports; owned by the owner. */
	struct mount *mounts;
	unsigned mount_count;
	struct worker_devices devices;

	/* Read or written by several threads. */
	struct mailbox mailbox;
	struct op mailbox_op;
	struct worker_request requests[REQUEST_COUNT];
	struct call notices[NOTICE_COUNT]; /* messages to the owner's mailbox */
	uint64_t watched_turns;            /* used by the watchdog on the main thread only */
	/* A mask of enum engine_feature; bits may be added while it serves. */
	_Atomic uint64_t features;
	/* The worker may sleep with sends whose results it has not reaped: its
	 * counters then lag behind. */
	_Atomic bool counters_lag;
	bool flush_asked; /* owner's thread: worker_flush_await() has to wait */
	/* the worker sleeps, or is about to: the watchdog expects no turns */
	_Atomic bool idle;
	struct stats stats __attribute__((aligned(CACHE_LINE)));
	struct worker_thread thread;
	struct counters counters; /* its mode is set by the owner; read by the main thread only */

	/* Set before worker_start_and_wait() returns; constant after that. */
	const struct worker_owner *owner;
	void *owner_context;
	const char *listener; /* the listener's name, for the log */
	unsigned index;       /* index among the listener's workers */
	char name[16];        /* of the thread */
};

static inline void worker_feature(struct worker *w, enum engine_feature feature)
{
	atomic_fetch_or_explicit(&w->features, FEATURE_MASK(feature), memory_order_relaxed);
}

static inline bool worker_wants(const struct worker *w, enum engine_feature feature)
{
	return !(w->options.features_off & FEATURE_MASK(feature));
}

/* Runs call->fn on the worker's thread, soon.  Any thread. */
void worker_call(struct worker *w, struct call *call);

/* ---- For engines, stores and the worker's own thread ---- */

void worker_add_hook(struct worker *w, struct worker_hook *hook);
/* Called by a store's detach(), after the worker's last turn.  Removing a hook that was not added
 * is no error. */
void worker_drop_hook(struct worker *w, struct worker_hook *hook);

/* Called by engines: a connection was accepted (fd, which the worker now owns), or accepting failed
 * (fd is -errno).  peer NULL: not known. */
void worker_accept_done(struct acceptor *a, int fd, const struct sockaddr_storage *peer);
/* Accepts nothing for WORKER_RETRY_NS, or until a descriptor is free. */
void worker_pause_accept(struct acceptor *a, int error);
/* deadline_arm(); 0: at the end of this turn. */
static inline void worker_arm(struct worker *w, struct timer *t, uint64_t ns)
{
	deadline_arm(&w->deadlines, t, ns, w->turn.now_ns);
}

/* A descriptor was closed: acceptors that are paused for lack of one resume at the end of this
 * turn, when more may have been freed. */
static inline void worker_fd_freed(struct worker *w)
{
	if (unlikely(deadline_is_armed(&w->accept.timer)))
		worker_arm(w, &w->accept.timer, 0);
}

/* An engine's wait() calls it once, after sleeping and before it runs any done().  From here on the
 * watchdog regards a worker that makes no progress as hung, not as asleep. */
static inline void worker_awake(struct worker *w)
{
	stat_always_add(w->stats.turns, 1); /* before idle ends: the watchdog reads both */
	atomic_store_explicit(&w->idle, false, memory_order_release);
}

/* An engine's wait() calls both if w->spin.max_ns is set: before it would sleep, and when that wait
 * is over.  Returns for how long the engine is to spin, from w->spin.begun_ns on; 0: not at all. */
static inline uint64_t worker_begin_spin(struct worker *w)
{
	return spin_begin(&w->spin, clock_ns());
}

static inline void worker_end_spin(struct worker *w)
{
	bool in_vain = spin_end(&w->spin, clock_ns());

	stat_add(w->stats.spins, w->spin.ns > 0);
	stat_add(w->stats.spins_in_vain, in_vain);
}

/* An engine's wait() calls it before worker_awake() if its system call has failed.  Sleeps for
 * WORKER_RETRY_NS, unless a signal was all, so that a call that fails every time uses no CPU. */
void worker_wait_failed(struct worker *w, const char *call, int error);

/* Bytes that one connection may receive, and send, in a turn: WORKER_TURN_BYTES divided by the
 * number of connections that ran in the last one. */
static inline size_t worker_share(const struct worker *w)
{
	return MAX(WORKER_TURN_BYTES / MAX(w->turn.ran, 1U), (unsigned)WORKER_SHARE_MIN);
}

/* worker_share() in chunks, at least one. */
static inline unsigned worker_share_chunks(const struct worker *w)
{
	return (unsigned)MAX(worker_share(w) / w->pool.chunk_size, 1);
}

/* Chunks that are free or posted to the kernel. */
static inline uint32_t worker_chunks(const struct worker *w)
{
	return w->pool.free_count + w->pool_posted;
}

static inline void worker_count_chunks(struct worker *w)
{
	atomic_store_explicit(&w->stats.chunks_free, worker_chunks(w), memory_order_relaxed);
}

/* Tells the engine to stop accepting, which has happened once acceptor.armed of all is 0. */
void worker_stop_accepting(struct worker *w);
void worker_close_acceptors(struct worker *w);
/* While draining: closes the listening sockets once no request of the engine uses them.  Until then
 * connections may still arrive, by such a request or in the kernel's queue; the queued ones are
 * accepted, so that closing resets none. */
void worker_end_accept(struct worker *w);
/* Accepts the connections that wait in the kernel's queue. */
void worker_accept_queued(struct acceptor *a);

/* worker_turn.c: one turn; its parts of w are set by worker_turn_init(). */
void worker_turn(struct worker *w);
void worker_turn_init(struct worker *w);
