/* A worker: one thread of one listener, with its own event loop, pool, connections and counters.
 *
 * The owner (listen/listener.c, or a test) runs on another thread and talks to it only through the
 * functions at the end of this file, through worker_call(), and by reading stats. */
#pragma once
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "buf.h"
#include "engine.h"
#include "mailbox.h"
#include "op.h"
#include "parse.h"
#include "service.h"
#include "stats.h"
#include "util.h"

enum {
	WORKER_TURN_MAX = 256,           /* events one turn handles */
	WORKER_TURN_BYTES = 1024 * 1024, /* that one turn moves, shared by who has some to move */
	WORKER_SHARE_MIN = 16 * 1024,    /* of that for one, however many they are */
	WORKER_QUEUED_MAX = 4096,        /* connections a drain accepts before it stops listening */
	WORKER_DEVICES_MAX = 16,         /* ports of devices that it remembers */
	NQN_MAX = 224,                   /* bytes of an NVMe Qualified Name with its NUL */
	WORKER_PEERS_MAX = 1000 * 1000,  /* clients of a connectionless engine, in any case */
	WORKER_QUIET_NS = NS_PER_S,      /* drain: a connection silent for that long is done */
	WORKER_RETRY_NS =
		100 * NS_PER_MS, /* accept again after EMFILE, if nothing woke us before */
};

/* Silence after which clients of a connectionless engine are forgotten, without `idle-timeout`. */
#define WORKER_FORGET_NS ((uint64_t)60 * NS_PER_S)

/* While somebody waits for chunks: how often the worker looks whether the others give back what
 * they can, and after how many looks one who takes nothing of its output is closed: soon, if none
 * who waits for chunks alone is served meanwhile, and it has shown no life for WORKER_STALL_NS: a
 * peer may stall that long, whoever waits.  See doc/engines.md, "Waiting for memory". */
#define WORKER_RELIEF_NS ((uint64_t)100 * NS_PER_MS)
enum { WORKER_PATIENCE = 50, WORKER_PATIENCE_STUCK = 3 };
#define WORKER_STALL_NS ((uint64_t)NS_PER_S)

/* Of transport rdma: reliable connections, datagrams, unreliable connections. */
enum qp_type { QP_RC, QP_UD, QP_UC };

/* The keys of a listener's section that its workers need; the key table writes into it. */
struct worker_options {
	uint64_t buffer_size, buffers; /* chunk size in bytes, chunks per worker */
	uint64_t idle_timeout_ns;      /* 0: never */
	uint64_t busy_poll_ns;         /* spin that long before sleeping; 0: sleep at once */
	uint64_t batch_delay_ns;       /* that requests may gather; 0: none; UINT64_MAX: auto */
	uint64_t zero_copy_min;        /* bytes; sends from this size use SEND_ZC; 0: never */
	uint32_t features_off;         /* bits of enum engine_feature, within FEATURES_OPTIONAL */
	bool datagrams;                /* of a transport that has those only */
	unsigned qp_type;              /* enum qp_type */
	uint64_t peers_max;            /* clients of a connectionless engine; 0: no limit */
	bool srq;                      /* connections share their receives */
	uint64_t region_size;          /* bytes that a service lends a connection, at the most */
	uint64_t cq_moderation_ns;     /* how long completions may wait for others; 0: not at all */
	char nqn[NQN_MAX];             /* of what service nvme serves; "": made from names */
	uint64_t block_size;           /* of its namespaces, bytes; 0: auto */
	uint64_t in_capsule;           /* bytes of data that may follow a command */
	bool sqpoll;
	uint64_t sqpoll_idle_ns;
	uint64_t sqpoll_cpu; /* UINT64_MAX: anywhere */
	cpu_set_t cpus;      /* empty: wherever the process may run */
};

/* The engine's table of functions for a worker with these options. */
static inline const struct engine *engine_of(const struct engine *engine,
					     const struct worker_options *options)
{
	bool datagrams = options->datagrams || options->qp_type == QP_UD;

	return datagrams && engine->datagrams ? engine->datagrams : engine;
}

/* Engine features that are really in use, as GetStats lists them: X(name). */
#define ENGINE_FEATURES(X)                                                                         \
	X(registered_ring)                                                                         \
	X(restricted)                                                                              \
	X(single_issuer)                                                                           \
	X(defer_taskrun)                                                                           \
	X(multishot_accept)                                                                        \
	X(multishot_recv)                                                                          \
	X(multishot_poll)                                                                          \
	X(buffer_ring)                                                                             \
	X(incremental_buffers)                                                                     \
	X(recv_bundle)                                                                             \
	X(silent_send)                                                                             \
	X(registered_files)                                                                        \
	X(send_zc)                                                                                 \
	X(sqpoll)                                                                                  \
	X(busy_poll)                                                                               \
	X(inline_send)                                                                             \
	X(selective_signalling)                                                                    \
	X(shared_receives)                                                                         \
	X(cq_moderation)                                                                           \
	X(datagrams)                                                                               \
	X(multishot_recvmsg)                                                                       \
	X(udp_gro)                                                                                 \
	X(udp_gso)                                                                                 \
	X(socket_busy_poll)                                                                        \
	X(napi_busy_poll)
enum engine_feature {
#define X(name) FEATURE_##name,
	ENGINE_FEATURES(X)
#undef X
		FEATURE_COUNT
};
extern const char *const engine_feature_names[FEATURE_COUNT];
#define FEATURE_BIT(name) (1U << FEATURE_##name)

/* Features that key `features` can switch off: those that an engine can do without and that have no
 * key of their own. */
#define FEATURES_OPTIONAL                                                                          \
	(FEATURE_BIT(registered_ring) | FEATURE_BIT(restricted) | FEATURE_BIT(single_issuer) |     \
	 FEATURE_BIT(defer_taskrun) | FEATURE_BIT(multishot_accept) |                              \
	 FEATURE_BIT(multishot_recv) | FEATURE_BIT(buffer_ring) |                                  \
	 FEATURE_BIT(incremental_buffers) | FEATURE_BIT(recv_bundle) | FEATURE_BIT(silent_send) |  \
	 FEATURE_BIT(registered_files) | FEATURE_BIT(udp_gro) | FEATURE_BIT(udp_gso))

/* Callbacks to the worker's owner; all run on the worker's thread. */
struct worker_owner {
	/* May this connection, from peer, or NULL: fd's, in?  0 (1: peer was given and `allow`
	 * names it), -EUSERS (a limit) or -EACCES (not allowed).  *ret_ticket goes back through
	 * release() when the connection ends. */
	int (*admit)(struct worker *w, int fd, const struct sockaddr_storage *peer,
		     void **ret_ticket);
	void (*release)(struct worker *w, void *ticket);
	/* Accepting stopped because descriptors or memory ran out (errno), or goes on (0). */
	void (*paused)(struct worker *w, int error);
	/* Draining, and its listening sockets are closed: no new connection can arrive any more,
	 * and the kernel wakes other workers for those that wait. */
	void (*accept_ended)(struct worker *w);
	/* After accept_ended(), when no connection is left. */
	void (*drained)(struct worker *w);
};

/* Runs at the end of every turn, before the worker may sleep; what it does may make connections
 * ready.  True: it has to run again soon, the worker must not sleep.  Embedded in its owner, until
 * the worker ends. */
struct worker_hook {
	struct worker_hook *next;
	bool (*run)(struct worker_hook *hook);
};

/* A listening socket, given to a worker. */
struct worker_socket {
	int fd;
	bool shared;      /* other workers accept from the same one: they take turns */
	unsigned address; /* the owner's: index of its address */
};

/* See gather.h. */
struct gather {
	bool on;           /* this worker's requests may gather */
	uint32_t turns;    /* until the next look */
	uint32_t patience; /* turns between looks without a delay */
	uint32_t arrived;  /* requests since the last turn that could wait for more */
	uint32_t most;     /* requests that one connection brought in a turn since the last look */
	uint64_t delay_ns, max_ns; /* in force; the longest */
};

struct acceptor {
	struct op op;
	struct worker *worker;
	int fd;      /* owned; -1 when closed */
	bool shared; /* see struct worker_socket */
	unsigned address;
	bool paused;    /* out of descriptors, or draining */
	bool given;     /* the owner's, before worker_drain(): its queue is another's now */
	unsigned armed; /* requests of the engine that may bring connections, even when paused */
};

struct worker {
	/* Hot. */
	const struct service *service;
	const struct engine *engine;
	void *engine_state;
	struct conn *ready, **ready_tail; /* in order of arrival */
	uint64_t now_ns; /* when this turn had received its input: exact if it is sampled or timers
			    run */
	int sample_wait; /* turns until the next one is sampled */
	uint32_t sample_random;
	unsigned ran;         /* connections, in the last turn */
	size_t held_limit;    /* the most that held_max may be */
	size_t held_max;      /* bytes a connection may hold, from how full the pool is */
	size_t views_max;     /* and views: each may pin a chunk */
	uint32_t held_chunks; /* both were made for so many chunks */
	bool sampling;        /* the operations that begin in this turn are timed */
	bool timing;          /* some end in this turn: engines take the time of its sends */
	bool draining, stop;
	bool called; /* the mailbox has something: run when this turn's completions were looked at
		      */
	struct pool pool;
	uint32_t pool_lent; /* chunks that the kernel holds to receive into */
	struct worker_hook *hooks;
	struct gather gather;
	unsigned io_count; /* of all connections: see conn_io_begin() */

	/* Warm. */
	struct conn *starved, *starved_last; /* wait for the pool; in the order of their places */
	uint64_t places;                     /* that were given so far */
	uint32_t starved_free; /* free chunks when a service last failed to allocate */
	uint32_t granted;      /* chunks that receives of those who have waited may take */
	uint64_t first;        /* place of the first of them who owes nothing; 0: none */
	uint64_t relief_ns;    /* when to look next at those who hold what others wait for */
	bool moves;            /* one who owes nothing was served since it looked last */
	unsigned stuck;        /* looks since one was */
	struct conn *conns;
	uint64_t deadline_ns; /* wait() must return by then; 0: none */
	uint64_t scan_ns;     /* next look at idle connections; 0: none */
	uint64_t drain_deadline_ns;
	uint64_t retry_ns; /* accept again; 0: not paused */
	bool paused;       /* owner->paused() was told an error */
	bool accept_ended; /* no new connection can arrive any more: its owner was told */
	bool drained;      /* owner->drained() was called */
	struct acceptor *acceptors;
	unsigned acceptor_count;
	uint64_t next_conn_id;
	struct worker_options options;
	struct chunk *constant; /* see conn_constant(); NULL: none yet */
	void *shared;           /* the service's, of the listener: see service->shared_new() */
	struct chunk *scratch;  /* what conn_write() fills; NULL: none yet */
	struct chunk *ration;   /* of which conn_ration() gives parts; NULL: none, or not short */
	/* Addresses that the engine itself binds (port 0 becomes the port), and the listener's
	 * workers, among which it spreads its connections; the owner's.  count 0: neither. */
	struct sockaddr_storage *endpoints;
	unsigned endpoint_count;
	struct worker *team;
	unsigned team_count;
	struct ring *ring;    /* the engine's, for stores to share; NULL: it has none */
	struct mount *mounts; /* the owner's: what this worker holds of the listener's exports */
	unsigned mount_count;

	/* Devices that the engine uses: appended by the worker, read by any thread. */
	struct engine_device devices[WORKER_DEVICES_MAX];
	_Atomic unsigned device_count;

	/* Shared. */
	struct mailbox mailbox;
	struct op mailbox_op;
	uint64_t watched_turns; /* the watchdog's, not the worker's */
	_Atomic uint32_t
		features;  /* bit mask of enum engine_feature: it may find more while it serves */
	_Atomic bool owes; /* may sleep with sends not looked at: counters lag */
	_Atomic bool idle; /* asleep, or about to be: the watchdog expects no turns */
	struct stats stats __attribute__((aligned(CACHE_LINE)));

	/* The thread, for its owner. */
	pthread_t thread;
	bool begun;    /* worker_await_start() has seen it start: what that made may be read */
	bool lives;    /* it was started, and has not been joined */
	sem_t started; /* posted by it when it has started, or could not: then there is a reason */
	sem_t ended;   /* ... and at its very end */
	int start_result;
	struct reason start_reason;
	const char *_Atomic attaching; /* the export that it opens while it starts; NULL: none */
	_Atomic int tid;

	/* Set before the thread starts or by it before worker_start() returns; constant then. */
	const struct worker_owner *owner;
	void *owner_context;
	const char *listener; /* its name, for the log */
	unsigned index;       /* of the listener's workers */
	char name[16];        /* the thread's */
};

static inline void worker_feature(struct worker *w, enum engine_feature feature)
{
	atomic_fetch_or_explicit(&w->features, 1U << feature, memory_order_relaxed);
}

static inline bool worker_wants(const struct worker *w, enum engine_feature feature)
{
	return !(w->options.features_off & (1U << feature));
}

/* ---- For the owner's thread ---- */

/* Time enough for an engine, and for the files of its stores to be opened. */
#define WORKER_START_NS ((uint64_t)10 * NS_PER_S)

/* Starts the thread: 0, or -errno with the reason.  The caller has zeroed w and set service,
 * engine, options, owner, owner_context, listener, index and name. Takes the listening sockets
 * over, in both cases; accepting begins with worker_listen(). */
int worker_spawn(struct worker *w, const struct worker_socket *sockets, unsigned count,
		 struct reason *reason);
/* Then: returns when its engine is ready (0) or has failed (-errno with the reason), to be called
 * until it has.  A thread that hangs, so that it returns -ETIMEDOUT at end_ns (CLOCK_MONOTONIC),
 * lives, and is to be stopped like one that has started. */
int worker_await_start(struct worker *w, uint64_t end_ns, struct reason *reason);
/* worker_spawn() and worker_await_start(), within WORKER_START_NS. */
int worker_start(struct worker *w, const struct worker_socket *sockets, unsigned count,
		 struct reason *reason);

/* Runs call->fn on the worker's thread, soon. */
void worker_call(struct worker *w, struct call *call);

/* Requests: all of these return at once, and the worker does it in a later turn. */
void worker_listen(struct worker *w);
/* Accept the connections that wait, even if the kernel woke another worker for them: see
 * owner->accept_ended(). */
void worker_accept_waiting(struct worker *w);
/* Close the listening sockets; connections may finish until deadline_ns (CLOCK_MONOTONIC), those
 * that are silent for WORKER_QUIET_NS are closed.  owner->accept_ended() and ->drained() follow. */
void worker_drain(struct worker *w, uint64_t deadline_ns);
void worker_set_idle_timeout(struct worker *w, uint64_t idle_timeout_ns);
void worker_set_peers_max(struct worker *w, uint64_t peers_max);

/* Has every worker that sleeps with completions it has not looked at count them, so that a reading
 * of an idle listener is exact.  Waits for them, some milliseconds at the most. */
struct settle;
struct settle *settle_new(void); /* NULL: no memory; the other two accept it */
void worker_settle(struct worker *w, struct settle *settle);
void settle_wait(struct settle *settle); /* and frees it, when the last worker has answered */

/* Tries which features this engine has on this host with these options: starts and stops a worker
 * of it without sockets.  0 and a mask of enum engine_feature, or -errno with the reason. */
int worker_probe(const struct engine *engine, const struct worker_options *options,
		 uint32_t *ret_features, struct reason *reason);

/* Ends the thread with whatever is open.  Asks for that, and returns at once; then waits until it
 * has ended, joins it and frees all that worker_start() made.  False: it has not ended by end_ns
 * (CLOCK_MONOTONIC), as when a store waits for a device, and everything stays as it is.  Neither
 * does anything when no thread lives. */
void worker_request_stop(struct worker *w);
bool worker_await_end(struct worker *w, uint64_t end_ns);

/* One connection as ListConnections shows it. */
enum { CONN_ABOUT_MAX = 288 };
struct conn_info {
	uint64_t id, age_ns, idle_ns, bytes_in, bytes_out;
	uint64_t held_bytes; /* received and not answered, or not yet taken by the kernel */
	const char *state;   /* "open", "eof", "throttled", "starved", "closing" */
	/* Of TCP only; 0 on a Unix socket. */
	uint32_t rtt_us, retransmits;       /* TCP_INFO */
	uint32_t unsent_bytes;              /* in the socket, not yet acknowledged (SIOCOUTQ) */
	char peer[ADDRESS_TEXT_MAX];        /* see conn_peer() */
	const struct engine_device *device; /* the worker's; NULL: a socket */
	char about[CONN_ABOUT_MAX];         /* see service->describe() */
};

/* A request for them; lives until done() was called (on the worker's thread).  The worker looks at
 * WORKER_TURN_MAX connections a turn, so that a long list does not stall its traffic. */
struct worker_list {
	struct call call;
	struct worker *worker;
	struct conn_info *infos; /* room for max */
	unsigned max, count;
	uint64_t after_id; /* the worker's: where it is */
	void (*done)(struct worker_list *list);
};
void worker_list_connections(struct worker *w, struct worker_list *list);

/* ---- For engines, stores and the worker's own thread ---- */

void worker_add_hook(struct worker *w, struct worker_hook *hook);
/* From a store's detach(): the worker has made its last turn.  One that was not added is no error.
 */
void worker_drop_hook(struct worker *w, struct worker_hook *hook);

/* A Unix socket?  Then there is no TCP to ask, and no device. */
bool socket_is_local(int fd);

/* A connection arrived (fd), or accepting failed (-errno). */
void worker_accepted(struct acceptor *a, int fd);
/* Look at all connections at `ns` (CLOCK_MONOTONIC), or earlier. */
void worker_scan_at(struct worker *w, uint64_t ns);
/* Looks at them: closes who is idle, tells services that their deadlines have passed by `now`. */
void worker_scan(struct worker *w, uint64_t now);
/* A connection was made: a timer may have to run. */
void worker_conn_opened(struct worker *w);
/* A descriptor was closed: paused acceptors may go on. */
void worker_fd_freed(struct worker *w);
/* An engine's wait() calls it once, when it sleeps no more and before it runs anything: what hangs
 * from here on is not asleep. */
static inline void worker_awake(struct worker *w)
{
	stat_add(w->stats.turns, 1); /* before idle ends: the watchdog looks at both */
	atomic_store_explicit(&w->idle, false, memory_order_relaxed);
}

/* Bytes that one connection may receive, and send, in a turn: the more had something to do in the
 * last one, the less. */
static inline size_t worker_share(const struct worker *w)
{
	return MAX(WORKER_TURN_BYTES / MAX(w->ran, 1U), (unsigned)WORKER_SHARE_MIN);
}

/* worker_share() in chunks, at least one. */
static inline unsigned worker_share_chunks(const struct worker *w)
{
	return (unsigned)MAX(worker_share(w) / w->pool.chunk_size, 1);
}

/* Chunks that can be had: free ones and those lent to the kernel. */
static inline uint32_t worker_chunks(const struct worker *w)
{
	return w->pool.free_count + w->pool_lent;
}

static inline void worker_count_chunks(struct worker *w)
{
	atomic_store_explicit(&w->stats.chunks_free, worker_chunks(w), memory_order_relaxed);
}

/* deadline_ns from what is armed. */
void worker_set_deadline(struct worker *w);
/* Accepts again where it was paused for want of descriptors. */
void worker_resume_accept(struct worker *w);
/* Tells the engine not to accept; it has obeyed when no acceptor is armed. */
void worker_stop_accepting(struct worker *w);
void worker_close_acceptors(struct worker *w);
/* Draining: closes the sockets when the engine has let go of them.  Until then a connection may
 * come, from a request or into the queue; who was in the queue is not reset. */
void worker_end_accept(struct worker *w);
/* Takes the connections that wait in the kernel's queue. */
void worker_accept_queued(struct acceptor *a);

/* worker_memory.c: what a connection may hold, and who waits for memory. */
void worker_set_held_max(struct worker *w);
void worker_feed_starved(struct worker *w);
void worker_look_at_holders(struct worker *w); /* while somebody is starved: each turn */
