/* A worker's io_uring: set up with the best options that the kernel has, entered once per turn.
 *
 * Calls io_uring_enter() itself instead of liburing's submit functions, so that each system call is
 * counted and one call submits, waits and runs the deferred task work.  Worker's thread only. */
#pragma once
#include <errno.h>
#include <liburing.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine.h"
#include "op.h"
#include "ring_zcrx.h"
#include "syscall.h"
#include "uring_compat.h"
#include "util.h"
#include "worker.h"

/* RING_CQ_ENTRIES: the completion queue must hold all completions of a
 * batch, as an overflow is slow. */
enum {
	RING_FEATURES = FEATURE_BIT(registered_ring) | FEATURE_BIT(restricted) |
			FEATURE_BIT(single_issuer) | FEATURE_BIT(defer_taskrun) |
			FEATURE_BIT(multishot_accept) | FEATURE_BIT(sqpoll) |
			FEATURE_BIT(busy_poll) | FEATURE_BIT(napi_busy_poll),
	RING_SQ_ENTRIES = 256,
	RING_CQ_ENTRIES = 4096,
	RING_WATCHED_MAX = 4,
	RING_FILES_MAX = 256, /* files of stores that are registered */
	RING_RETRY_NS = 1000 * 1000,
	RING_RETRIES_MAX = 100,
};
#define RING_BATCH_END_NS ((uint64_t)3600 * NS_PER_S)

/* One of the worker's own descriptors, polled until the ring ends. */
struct ring_watched {
	struct op op;
	struct ring *ring;
	struct op *target;
	int fd;
};

struct ring {
	struct io_uring io;
	struct worker *worker;
	unsigned *sq_flags;
	unsigned long long features; /* IORING_FEAT_* */
	unsigned enter_flags;        /* flags of each io_uring_enter() */
	/* Number of queued operations that complete at once and whose completions no code waits
	 * for. ring_enter() waits for this many, so that Linux runs the deferred work in large
	 * batches: it runs 20 items, or as many as are waited for. */
	unsigned quiet;
	bool slow_wait; /* ring_wait() does more than ring_enter_plain() */
	/* For this time the next wait waits for several completions, and after it for one. */
	uint64_t batch_ns;
	bool sqpoll, deferred;
	unsigned files; /* registered so far; RING_FILES_MAX at most */
	bool buffers;   /* the pool's slab is registered, as buffer 0 */
	unsigned watched_count;
	struct ring_watched watched[RING_WATCHED_MAX];
	struct ring_zcrx *zcrx; /* NULL: all completions have 16 bytes */
};

/* Sanitized builds make checks that cost system calls. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { RING_CHECKS = true };
#else
enum { RING_CHECKS = false };
#endif

/* The memory of a ring may be mapped at the address of another thread's ring that has ended.  The
 * kernel orders the two, which ThreadSanitizer cannot see: these functions report the order. */
#ifdef __SANITIZE_THREAD__
void __tsan_acquire(void *address);
void __tsan_release(void *address);
extern char ring_mappings;
static inline void ring_mapped(void)
{
	__tsan_acquire(&ring_mappings);
}
static inline void ring_unmapping(void)
{
	__tsan_release(&ring_mappings);
}
#else
static inline void ring_mapped(void)
{
}
static inline void ring_unmapping(void)
{
}
#endif

/* Purposes of a ring: the kernel allows only the operations that they need, see ring_setup.c. */
enum ring_use {
	RING_LISTENS = 1,   /* accepts connections, and watches descriptors */
	RING_TRANSFERS = 2, /* receives and sends */
	RING_STORES = 4,    /* reads and writes files */
	RING_ZERO_COPY = 8, /* receives into an area of its own */
};

/* Sets the ring up, registers it and sets the worker's features.  flags: additional IORING_SETUP_*;
 * uses: bits of enum ring_use.  0, or -errno with the reason: what is missing and how to fix it. */
int ring_init(struct ring *r, struct worker *w, unsigned flags, unsigned uses,
	      struct reason *reason);
/* io_uring_register(2), of which liburing 2.3 does not export all.  The
 * kernel's result, or -errno. */
static inline int ring_register(struct ring *r, unsigned code, void *argument, unsigned count)
{
	long rc = syscall(__NR_io_uring_register, r->io.ring_fd, code, argument, count);

	return rc < 0 ? -errno : (int)rc;
}

/* Sanitized builds: checks that of the buffers with a number below `tail` (modulo 2^16) the kernel
 * still has as many as the worker counts as posted.  It has while no receive is under way. */
void ring_check_posted(struct ring *r, unsigned group, uint16_t tail);

/* Called by ring_init(): restricts a ring that is not enabled yet.  0,
 * or -errno: not restricted. */
int ring_restrict(struct ring *r, unsigned uses);
void ring_fini(struct ring *r);

/* The number by which the kernel names the threads that it makes for rings of the calling thread:
 * its TID, but in a PID namespace that which it has outside of all namespaces.  There it is read
 * from a ring of Linux 6.7 or later; 0: it is unknown. */
pid_t ring_kernel_tid(void);

/* Does this host allow rings?  0, or -errno with the reason.  Any thread. */
int ring_probe(struct reason *reason);

/* Registers a store's file.  Its slot, or -errno with the reason: the store then
 * uses the plain descriptor. */
int ring_register_file(struct ring *r, int fd, struct reason *reason);
void ring_unregister_file(struct ring *r, unsigned slot);

/* May this process lock memory without a limit?  A limit counts what all processes of its user have
 * locked, 84 KiB for each ring among it (Linux 6.18).  So what is not needed to serve, but saves
 * CPU time, locks memory only if this is true: it could be missing for another ring, perhaps of
 * another daemon.  Any thread; a few system calls. */
bool ring_locks_freely(void);

/* Does this kernel have that opcode?  It then has what came with it, too: IORING_OP_SEND_ZC came
 * with multishot receives, in Linux 6.0.  For rings with RING_TRANSFERS. */
bool ring_has_opcode(struct ring *r, uint8_t opcode);
/* Registers the pool's slab as buffer 0, once, if ring_locks_freely().  0, or -errno with the
 * reason. */
int ring_register_buffers(struct ring *r, struct reason *reason);

/* Submits the queued operations without waiting. */
void ring_submit(struct ring *r);
/* For set-up: submits the queued operations.  -EAGAIN: the kernel has not taken them in
 * RING_RETRIES_MAX attempts, and they were withdrawn. */
int ring_try(struct ring *r);

/* Number of submissions that the kernel has not taken.  Without SQPOLL 0 after each call, unless
 * submission stopped early: see ring_stopped_short(). */
static inline unsigned ring_queued(const struct ring *r)
{
	const struct io_uring_sq *sq = &r->io.sq;

	return sq->sqe_tail - io_uring_smp_load_acquire(sq->khead);
}

/* Is sqe a submission that the kernel has not taken? */
static inline bool ring_holds(const struct ring *r, const struct io_uring_sqe *sqe)
{
	const struct io_uring_sq *sq = &r->io.sq;
	unsigned head = io_uring_smp_load_acquire(sq->khead);

	return (((unsigned)(sqe - sq->sqes) - head) & sq->ring_mask) < sq->sqe_tail - head;
}

/* Makes the queued submissions visible to the kernel; returns their number. */
static inline unsigned ring_publish(struct ring *r)
{
	struct io_uring_sq *sq = &r->io.sq;

	io_uring_smp_store_release(sq->ktail, sq->sqe_tail);
	return ring_queued(r);
}

/* Calls io_uring_enter(2); its result, or -errno. */
static inline long ring_syscall(struct ring *r, unsigned submit, unsigned want, unsigned flags,
				struct nb_getevents_arg *arg)
{
	stat_add(r->worker->stats.sys_io_uring_enter, 1);
	if (arg)
		flags |= IORING_ENTER_EXT_ARG;
	return syscall6(__NR_io_uring_enter, r->io.enter_ring_fd, submit, want,
			r->enter_flags | flags, (long)arg, arg ? sizeof(*arg) : 0);
}

/* To be called after a call that submitted fewer operations than asked for.  The call was
 * interrupted or timed out, or submission stopped early, as it does when the kernel has no memory
 * for a request.  In that case the rest stays queued for the next call, and the call has neither
 * waited nor run the deferred work, which would free requests.  This function then runs that work,
 * for up to RING_RETRY_NS if nothing was submitted at all. */
void ring_stopped_short(struct ring *r, long result);

/* False: ring_stopped_short() was called. */
static inline bool ring_call(struct ring *r, unsigned submit, unsigned want, unsigned flags,
			     struct nb_getevents_arg *arg)
{
	long result = ring_syscall(r, submit, want, flags, arg);

	if (likely(result >= (long)submit))
		return true;
	ring_stopped_short(r, result);
	return false;
}

bool ring_enter_special(struct ring *r, unsigned submit, unsigned want, uint64_t deadline_ns);

/* Submits, sleeps if `block` until there is a completion, and runs the deferred task work.  Only of
 * a ring without SQPOLL.  True: the kernel has taken all submissions; false: see ring_queued(). */
static inline bool ring_enter_plain(struct ring *r, bool block)
{
	unsigned submit = ring_publish(r), want = block ? MAX(r->quiet, 1U) : 0;

	r->quiet = 0;
	return ring_call(r, submit, want, IORING_ENTER_GETEVENTS, NULL);
}

/* ring_enter_plain() for any ring; it sleeps until deadline_ns at most (0: no limit). */
static inline bool ring_enter(struct ring *r, bool block, uint64_t deadline_ns)
{
	unsigned want = block ? MAX(r->quiet, 1U) : 0;

	if (likely(!r->sqpoll && !deadline_ns))
		return ring_enter_plain(r, block);
	r->quiet = 0;
	return ring_enter_special(r, ring_publish(r), want, deadline_ns);
}

static inline bool ring_full(const struct ring *r)
{
	return ring_queued(r) >= r->io.sq.ring_entries;
}

/* The next submission entry; the queue must not be full.  Clears the fields that prep calls of
 * newer liburing do not set (2.3's do, and then this costs nothing). */
static inline struct io_uring_sqe *ring_next_sqe(struct ring *r)
{
	struct io_uring_sq *sq = &r->io.sq;
	struct io_uring_sqe *sqe = &sq->sqes[sq->sqe_tail++ & sq->ring_mask];

	memset(sqe, 0,
	       offsetof(struct io_uring_sqe, off)); /* opcode, flags, ioprio, fd: one store */
	sqe->rw_flags = 0;
	sqe->buf_index = 0;
	sqe->personality = 0;
	sqe->file_index = 0;
	sqe->addr3 = 0;
	sqe->__pad2[0] = 0;
	return sqe;
}

/* Waits until a full queue has room: until the kernel has memory for a request or, with
 * SQPOLL, its thread has a CPU.  If that never happens the worker makes no turns, which
 * the main thread reports. */
void ring_make_room(struct ring *r);

/* A new submission; never NULL, as a full queue is submitted first.  The caller then calls a prep
 * function, and after it ring_op(), as prep clears user_data. */
static inline struct io_uring_sqe *ring_sqe(struct ring *r)
{
	if (unlikely(ring_full(r)))
		ring_make_room(r);
	return ring_next_sqe(r);
}

static inline void ring_op(struct io_uring_sqe *sqe, struct op *op)
{
	io_uring_sqe_set_data(sqe, op);
}

/* Cancels the operation of op, which completes as usual; this itself completes without a call. */
void ring_cancel(struct ring *r, struct op *op);

static inline unsigned ring_ready(const struct ring *r)
{
	return io_uring_cq_ready(&r->io);
}

/* Has the kernel deferred work that ring_enter() would run? */
static inline bool ring_has_deferred(const struct ring *r)
{
	return __atomic_load_n(r->sq_flags, __ATOMIC_RELAXED) & IORING_SQ_TASKRUN;
}

/* For turns that do not sleep.  Sends complete at once, so they and deferred work that is left over
 * could keep the worker busy for ever, while received data waits in further deferred work.  This
 * runs that work, for up to WORKER_TURN_MAX completions. */
void ring_catch_up(struct ring *r);

/* Is there a completion to reap, or deferred work that ring_enter() would run? */
static inline bool ring_has_work(const struct ring *r)
{
	return ring_ready(r) || (__atomic_load_n(r->sq_flags, __ATOMIC_RELAXED) &
				 (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW));
}

/* For an engine's wait(): ring_enter() with spinning before it sleeps, and with the delay of
 * core/batch.h; no system call while completions are there.  Returns as ring_enter(), and false
 * without a call. */
bool ring_wait(struct ring *r, bool block);

/* Runs op->done() for up to WORKER_TURN_MAX completions; completions without an op are skipped.
 * True: some are left. */
static inline bool ring_reap(struct ring *r)
{
	struct io_uring_cq *cq = &r->io.cq;
	unsigned head = *cq->khead, tail = io_uring_smp_load_acquire(cq->ktail);
	bool left = tail - head > WORKER_TURN_MAX;

	if (unlikely(left))
		tail = head + WORKER_TURN_MAX;
	for (; head != tail; head++) {
		const struct io_uring_cqe *cqe = &cq->cqes[head & cq->ring_mask];
		struct op *op = io_uring_cqe_get_data(cqe);

		if (likely(op != NULL))
			op->done(op, cqe->res, cqe->flags);
	}
	io_uring_smp_store_release(cq->khead, head);
	return left || (__atomic_load_n(r->sq_flags, __ATOMIC_RELAXED) & IORING_SQ_CQ_OVERFLOW);
}

/* Reaps any kind of ring: one with completions of 16 bytes, or of 16 and 32. */
static inline bool ring_reap_any(struct ring *r)
{
	return unlikely(r->zcrx != NULL) ? ring_reap_mixed(r) : ring_reap(r);
}

/* ring_reap_any() until no completion is left, not even in the kernel's overflow list. */
void ring_reap_all(struct ring *r);

/* The ring of a worker whose engine is one of io_uring's: the first member of its engine_state,
 * which the engines assert. */
static inline struct ring *ring_of(const struct worker *w)
{
	return w->engine_state;
}

/* engine->watch_listener and engine->watch of both io_uring engines: multishot accept, multishot
 * poll. */
void ring_watch_listener(struct worker *w, struct acceptor *a, bool on);
int ring_watch(struct worker *w, int fd, struct op *op);
