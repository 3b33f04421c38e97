/* Entering and reaping a ring.  See ring.h. */
#include "ring.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "batch.h"

/* ---- Entering the kernel ---- */

static unsigned ring_sq_flags(const struct ring *r)
{
	return __atomic_load_n(r->sq_flags, __ATOMIC_RELAXED);
}

/* SQPOLL: does the kernel's thread sleep, so that it must be woken for new submissions? */
static bool ring_needs_wakeup(const struct ring *r)
{
	atomic_thread_fence(memory_order_seq_cst);
	return ring_sq_flags(r) & IORING_SQ_NEED_WAKEUP;
}

void ring_stopped_short(struct ring *r, long result)
{
	struct __kernel_timespec ts = { .tv_nsec = RING_RETRY_NS };
	struct nb_getevents_arg arg = { .ts = (uint64_t)(uintptr_t)&ts };

	if (ring_queued(r))
		ring_syscall(r, 0, result < 0 ? ring_ready(r) + 1 : 0, IORING_ENTER_GETEVENTS,
			     &arg);
}

void ring_submit(struct ring *r)
{
	unsigned submit = ring_publish(r);

	r->quiet = 0; /* The completions of quiet operations are in the queue when this returns. */
	if (!submit)
		return;
	if (!r->sqpoll)
		ring_call(r, submit, 0, 0, NULL);
	else if (ring_needs_wakeup(r))
		ring_call(r, submit, 0, IORING_ENTER_SQ_WAKEUP, NULL);
}

void ring_make_room(struct ring *r)
{
	while (ring_full(r)) {
		/* Without SQPOLL the call sleeps if the kernel takes no submission. */
		ring_submit(r);
		if (r->sqpoll && ring_full(r))
			ring_call(r, 0, 0, IORING_ENTER_SQ_WAIT, NULL);
	}
}

void ring_cancel(struct ring *r, struct op *op)
{
	struct io_uring_sqe *sqe = ring_sqe(r);

	io_uring_prep_cancel(sqe, op, 0);
	sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
	ring_op(sqe, NULL);
}

int ring_try(struct ring *r)
{
	for (unsigned i = 0; i < RING_RETRIES_MAX; i++) {
		ring_submit(r);
		if (r->sqpoll || !ring_queued(r))
			return 0;
	}
	r->io.sq.sqe_tail -= ring_queued(r);
	ring_publish(r);
	return -EAGAIN;
}

/* Looks at the completion queue; true: there are completions other than of quiet operations.  Makes
 * a system call only to submit, and to run deferred work. */
static bool ring_spin(struct ring *r)
{
	struct worker *w = r->worker;
	unsigned want = r->sqpoll ? 1 : r->quiet + 1;
	uint64_t end_ns;

	ring_enter(r, false, 0); /* queued entries are submitted before the wait begins */
	w->spin.begun_ns = clock_ns();
	end_ns = w->spin.begun_ns + w->spin.ns;
	if (w->deadlines.wake_ns)
		end_ns = MIN(end_ns, w->deadlines.wake_ns);
	do {
		if (ring_ready(r) >= want)
			return true;
		if (ring_sq_flags(r) & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW))
			ring_enter(r, false, 0);
		cpu_relax();
	} while (clock_ns() < end_ns);
	return ring_ready(r) >= want;
}

/* ring_wait() without spinning; inline, as it is on the path of each request. */
__attribute__((always_inline)) static inline bool ring_sleep(struct ring *r, bool block)
{
	struct worker *w = r->worker;

	if (ring_ready(r)) {
		if (r->sqpoll)
			ring_submit(r);
		return false;
	}
	if (block && w->batch.on) {
		unsigned submit, quiet = r->quiet, want = MAX(quiet, 1U);

		if (batch_check_due(w)) {
			/* Answers are sent first: only input that arrives after them shows a client
			 * that does not wait for answers. */
			ring_submit(r);
			batch_input_checked(w, ring_ready(r) > quiet || ring_has_deferred(r));
		}
		r->batch_ns = batch_delay(w);
		submit = ring_publish(r);
		r->quiet = 0;
		return ring_enter_special(r, submit, want, w->deadlines.wake_ns);
	}
	return ring_enter(r, block, w->deadlines.wake_ns);
}

__attribute__((noinline)) static bool ring_spin_or_sleep(struct ring *r)
{
	bool found = worker_begin_spin(r->worker) && ring_spin(r);
	bool taken = !found && ring_sleep(r, true);

	worker_end_spin(r->worker);
	return taken;
}

bool ring_wait(struct ring *r, bool block)
{
	if (unlikely(block && r->worker->spin.max_ns))
		return ring_spin_or_sleep(r);
	return ring_sleep(r, block);
}

bool ring_enter_special(struct ring *r, unsigned submit, unsigned want, uint64_t deadline_ns)
{
	struct __kernel_timespec ts;
	struct nb_getevents_arg arg = { .ts = (uint64_t)(uintptr_t)&ts };
	unsigned flags = IORING_ENTER_GETEVENTS;
	uint64_t now, batch_ns = want ? r->batch_ns : 0;

	r->batch_ns = 0;

	if (r->sqpoll) {
		want = MIN(want, 1U); /* the kernel's thread completes them at a time of its own */
		if (submit && ring_needs_wakeup(r))
			flags |= IORING_ENTER_SQ_WAKEUP;
		else if (want == 0 && !(ring_sq_flags(r) & IORING_SQ_CQ_OVERFLOW))
			return true;
	}
	if (batch_ns && !(r->features & NB_FEAT_MIN_TIMEOUT)) {
		if (!ring_call(r, submit, 0, flags, NULL))
			return false;
		batch_sleep(r->worker, batch_ns);
		batch_ns = 0;
		submit = 0;
	}
	if (!want || !(deadline_ns || batch_ns))
		return ring_call(r, submit, want, flags, NULL);
	now = clock_ns();
	/* A minimum wait needs a total timeout as well: without one the kernel ends the whole
	 * wait when the minimum has passed, even if nothing has completed. */
	if (batch_ns) {
		want = MAX(want, (unsigned)BATCH_COMPLETIONS);
		arg.min_wait_usec = (uint32_t)(batch_ns / NS_PER_US);
		deadline_ns = deadline_ns ? deadline_ns : now + RING_BATCH_END_NS;
	}
	ts.tv_sec = now < deadline_ns ? (long long)((deadline_ns - now) / NS_PER_S) : 0;
	ts.tv_nsec = now < deadline_ns ? (long long)((deadline_ns - now) % NS_PER_S) : 0;
	return ring_call(r, submit, want, flags, &arg);
}

/* The kernel runs 20 items of work for a caller that does not wait.  IORING_SQ_TASKRUN is only a
 * hint: it is set after the work was queued, which may have run by then, and stays set until work
 * is run (Linux 6.18). */
void ring_catch_up(struct ring *r)
{
	unsigned before;

	/* With SQPOLL the kernel's thread runs all work, so none is deferred.  It has to see the
	 * queued submissions now, not only when a wait finds no completion. */
	if (r->sqpoll)
		ring_submit(r);
	if (!ring_has_deferred(r))
		return;
	do {
		before = ring_ready(r);
		ring_enter(r, false, 0);
	} while (ring_has_deferred(r) && ring_ready(r) > before && ring_ready(r) < WORKER_TURN_MAX);
}

void ring_reap_all(struct ring *r)
{
	for (;;) {
		if (!ring_ready(r) && (ring_sq_flags(r) & IORING_SQ_CQ_OVERFLOW))
			ring_enter(r, false, 0);
		if (!ring_ready(r))
			return;
		ring_reap_any(r);
	}
}

void ring_check_posted(struct ring *r, unsigned group, uint16_t tail)
{
	struct nb_buf_status status = { .buf_group = group };

	if (RING_CHECKS && ring_register(r, NB_REGISTER_PBUF_STATUS, &status, 1) == 0)
		assert((uint16_t)(tail - status.head) == r->worker->pool_posted);
}

/* ---- Accepts and polls of both io_uring engines ---- */

static void ring_watched_arm(struct ring_watched *watched)
{
	struct io_uring_sqe *sqe = ring_sqe(watched->ring);

	io_uring_prep_poll_multishot(sqe, watched->fd, POLLIN);
	ring_op(sqe, &watched->op);
}

static void ring_watched_done(struct op *op, int res, uint32_t flags)
{
	struct ring_watched *watched = container_of(op, struct ring_watched, op);

	if (res == -ECANCELED)
		return;
	watched->target->done(watched->target, 0, 0);
	if (!(flags & IORING_CQE_F_MORE))
		ring_watched_arm(watched);
}

int ring_watch(struct worker *w, int fd, struct op *op)
{
	struct ring *r = ring_of(w);
	struct ring_watched *watched = &r->watched[r->watched_count];

	if (r->watched_count == RING_WATCHED_MAX)
		return -ENOSPC;
	r->watched_count++;
	*watched = (struct ring_watched){
		.op.done = ring_watched_done,
		.ring = r,
		.target = op,
		.fd = fd,
	};
	ring_watched_arm(watched);
	return 0;
}

/* Of several workers that wait on one socket the kernel wakes the first.  A multishot accept would
 * always stay the first, so shared sockets use single ones. */
static void ring_accept_arm(struct acceptor *a)
{
	struct io_uring_sqe *sqe = ring_sqe(ring_of(a->worker));

	if (a->shared || !worker_wants(a->worker, FEATURE_multishot_accept))
		io_uring_prep_accept(sqe, a->fd, NULL, NULL, SOCK_CLOEXEC);
	else
		io_uring_prep_multishot_accept(sqe, a->fd, NULL, NULL, SOCK_CLOEXEC);
	ring_op(sqe, &a->op);
	a->armed++;
}

static void ring_accept_done(struct op *op, int res, uint32_t flags)
{
	struct acceptor *a = container_of(op, struct acceptor, op);

	if (!(flags & IORING_CQE_F_MORE))
		a->armed--;
	if (res != -ECANCELED)
		worker_accept_done(a, res, NULL);
	if (!(flags & IORING_CQE_F_MORE) && res != -ECANCELED && a->fd >= 0 && !a->paused)
		ring_accept_arm(a);
}

void ring_watch_listener(struct worker *w, struct acceptor *a, bool on)
{
	a->op.done = ring_accept_done;
	if (on) {
		ring_accept_arm(a);
		return;
	}
	ring_cancel(ring_of(w), &a->op);
}
