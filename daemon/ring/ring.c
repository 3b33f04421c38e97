/* Ring set-up, entering and reaping.  See ring.h. */
#include "ring.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "batch.h"

#ifdef __SANITIZE_THREAD__
char ring_mappings;
#endif

/* ---- Set-up ---- */

/* From the best to the least; each needs a newer kernel than the next one (6.1, 5.19, 5.6). */
static const unsigned ring_setups[] = {
	IORING_SETUP_CQSIZE | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_SINGLE_ISSUER |
		IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
	IORING_SETUP_CQSIZE | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_COOP_TASKRUN |
		IORING_SETUP_TASKRUN_FLAG,
	IORING_SETUP_CQSIZE,
};

static const unsigned ring_setups_sqpoll[] = {
	IORING_SETUP_CQSIZE | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_SINGLE_ISSUER,
	IORING_SETUP_CQSIZE,
};

/* Drops the flags that key `features` switches off.  Without deferred task work COOP_TASKRUN at
 * least avoids interrupts. */
static unsigned ring_allowed(const struct worker_options *o, unsigned flags)
{
	bool alone = !(o->features_off & FEATURE_BIT(single_issuer));
	bool defers = alone && !(o->features_off & FEATURE_BIT(defer_taskrun));

	if (!alone)
		flags &= ~IORING_SETUP_SINGLE_ISSUER;
	if (!defers && (flags & IORING_SETUP_DEFER_TASKRUN))
		flags ^= IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_COOP_TASKRUN;
	return flags;
}

static int ring_setup(struct ring *r, const struct worker_options *o, unsigned flags)
{
	struct io_uring_params params = { .flags = ring_allowed(o, flags) | IORING_SETUP_R_DISABLED,
					  .cq_entries = RING_CQ_ENTRIES };
	int rc;

	if (r->sqpoll) {
		params.flags |= IORING_SETUP_SQPOLL;
		params.sq_thread_idle = (unsigned)MAX(o->sqpoll_idle_ns / NS_PER_MS, 1);
		if (o->sqpoll_cpu != UINT64_MAX) {
			params.flags |= IORING_SETUP_SQ_AFF;
			params.sq_thread_cpu = (unsigned)o->sqpoll_cpu;
		}
	}
	rc = io_uring_queue_init_params(RING_SQ_ENTRIES, &r->io, &params);
	ring_mapped();
	if (rc == 0) {
		r->features = params.features;
		r->deferred = params.flags & IORING_SETUP_DEFER_TASKRUN;
		if (params.flags & IORING_SETUP_SINGLE_ISSUER)
			worker_feature(r->worker, FEATURE_single_issuer);
	}
	return rc;
}

static int ring_unavailable(struct reason *reason, int error)
{
	switch (-error) {
	case ENOSYS:
		return reason_set(
			reason, error,
			"this kernel has no io_uring; use engine = epoll and store = threads, or a "
			"kernel from Linux 5.19 on with CONFIG_IO_URING");
	case EPERM:
	case EACCES:
		return reason_set(reason, error,
				  "io_uring is not permitted here; allow it with `sysctl "
				  "kernel.io_uring_disabled=0`, or in the sandbox or container "
				  "(seccomp: io_uring_setup, io_uring_enter, io_uring_register)");
	case ENOMEM:
		return reason_set(reason, error,
				  "no locked memory for a ring; raise it with LimitMEMLOCK= of the "
				  "unit or `ulimit -l`");
	case EMFILE:
		return reason_set(reason, error,
				  "no descriptor left for a ring; raise LimitNOFILE= of the unit "
				  "or `ulimit -n`");
	default:
		return reason_set(reason, error, "io_uring_setup: %s", strerror(-error));
	}
}

/* liburing 2.3 fills the index array at each submission; with the identity stored there once, a
 * submission only needs to move the tail.  From 2.6 on it makes rings without one, on Linux 6.6. */
static void ring_fill_array(struct ring *r)
{
	for (unsigned i = 0; r->io.sq.array && i < r->io.sq.ring_entries; i++)
		r->io.sq.array[i] = i;
}

/* How long the worker looks for completions before it sleeps.  With SQPOLL it does so as long as
 * the kernel's thread looks for submissions, so that neither needs a system call under load.  On
 * one CPU the two threads would only delay each other. */
static uint64_t ring_spin_ns(const struct worker *w)
{
	const struct worker_options *o = &w->options;
	cpu_set_t cpus;

	if (!o->sqpoll || sched_getaffinity(0, sizeof(cpus), &cpus) < 0)
		return o->busy_poll_ns;
	if (o->sqpoll_cpu < CPU_SETSIZE)
		CPU_SET((size_t)o->sqpoll_cpu, &cpus);
	return CPU_COUNT(&cpus) > 1 ? MAX(o->busy_poll_ns, o->sqpoll_idle_ns) : o->busy_poll_ns;
}

/* The kernel's threads for blocking work (io-wq) inherit the worker's CPUs since Linux 6.2; before,
 * they run wherever the process may, unless these are registered (Linux 5.14). */
static void ring_pin_threads(struct ring *r)
{
	cpu_set_t cpus;

	if (sched_getaffinity(0, sizeof(cpus), &cpus) == 0)
		(void)ring_register(r, IORING_REGISTER_IOWQ_AFF, &cpus, sizeof(cpus));
}

/* Registrations that must precede the first operation; the restrictions come last, as they may
 * forbid the others. */
static int ring_enable(struct ring *r, unsigned uses)
{
	const struct worker_options *o = &r->worker->options;

	if (worker_wants(r->worker, FEATURE_registered_ring) &&
	    io_uring_register_ring_fd(&r->io) == 1) {
		r->enter_flags = IORING_ENTER_REGISTERED_RING;
		worker_feature(r->worker, FEATURE_registered_ring);
	}
	if (o->busy_poll_ns) {
		struct nb_io_uring_napi napi = {
			.busy_poll_to = (uint32_t)(o->busy_poll_ns / NS_PER_US),
		};

		worker_feature(r->worker, FEATURE_busy_poll);
		if (ring_register(r, NB_REGISTER_NAPI, &napi, 1) == 0)
			worker_feature(r->worker, FEATURE_napi_busy_poll);
	}
	ring_pin_threads(r);
	if (worker_wants(r->worker, FEATURE_restricted) && ring_restrict(r, uses) == 0)
		worker_feature(r->worker, FEATURE_restricted);
	return ring_register(r, IORING_REGISTER_ENABLE_RINGS, NULL, 0);
}

int ring_init(struct ring *r, struct worker *w, unsigned flags, unsigned uses,
	      struct reason *reason)
{
	const unsigned *setups = w->options.sqpoll ? ring_setups_sqpoll : ring_setups;
	unsigned count =
		w->options.sqpoll ? ARRAY_SIZE(ring_setups_sqpoll) : ARRAY_SIZE(ring_setups);
	int rc = -EINVAL;

	*r = (struct ring){ .worker = w, .sqpoll = w->options.sqpoll };
	for (unsigned i = 0; i < count && rc == -EINVAL; i++)
		rc = ring_setup(r, &w->options, setups[i] | flags);
	if (rc < 0)
		return ring_unavailable(reason, rc);
	if (!(r->features & IORING_FEAT_EXT_ARG) || !(r->features & IORING_FEAT_NODROP)) {
		ring_unmapping();
		io_uring_queue_exit(&r->io);
		return reason_set(reason, -ENOSYS,
				  "this kernel's io_uring is too old; use engine = "
				  "epoll, or Linux 5.19 or newer");
	}
	r->sq_flags = r->io.sq.kflags;
	ring_fill_array(r);
	rc = ring_enable(r, uses);
	if (rc < 0) {
		ring_unmapping();
		io_uring_queue_exit(&r->io);
		return ring_unavailable(reason, rc);
	}
	if (r->deferred)
		worker_feature(w, FEATURE_defer_taskrun);
	if (r->sqpoll)
		worker_feature(w, FEATURE_sqpoll);
	r->spin_ns = ring_spin_ns(w);
	r->unbatched = w->options.ring_batch == RING_BATCH_NO && !r->sqpoll;
	if (r->unbatched)
		worker_feature(w, FEATURE_unbatched_for_comparison);
	r->waits = r->sqpoll || r->spin_ns || w->batch.on || r->unbatched;
	return 0;
}

int ring_probe(struct reason *reason)
{
	struct io_uring io;
	int rc = io_uring_queue_init(1, &io, 0);

	if (rc < 0)
		return ring_unavailable(reason, rc);
	io_uring_queue_exit(&io);
	return 0;
}

void ring_fini(struct ring *r)
{
	ring_unmapping();
	io_uring_queue_exit(&r->io);
}

/* ---- What stores register ---- */

int ring_register_file(struct ring *r, int fd, struct reason *reason)
{
	int rc = 0;

	if (r->files == 0)
		rc = io_uring_register_files_sparse(&r->io, RING_FILES_MAX);
	if (rc == 0 && r->files == RING_FILES_MAX)
		rc = -ENOSPC;
	if (rc == 0)
		rc = io_uring_register_files_update(&r->io, r->files, &fd, 1);
	if (rc < 0)
		return reason_set(reason, rc, "its file is not registered: %s", strerror(-rc));
	return (int)r->files++;
}

void ring_unregister_file(struct ring *r, unsigned slot)
{
	int none = -1;

	io_uring_register_files_update(&r->io, slot, &none, 1);
}

int ring_register_buffers(struct ring *r, struct reason *reason)
{
	const struct pool *p = &r->worker->pool;
	struct iovec slab = { p->slab, (size_t)p->chunk_count * p->stride };
	int rc = r->buffers ? 0 : io_uring_register_buffers(&r->io, &slab, 1);

	r->buffers = rc == 0;
	if (rc == -ENOMEM || rc == -EPERM)
		return reason_set(
			reason, rc,
			"its buffers are not registered: %zu KiB of locked memory are more "
			"than allowed; raise LimitMEMLOCK= of the unit or `ulimit -l`, or "
			"lower `buffers`",
			slab.iov_len / 1024);
	if (rc < 0)
		return reason_set(
			reason, rc, "its buffers are not registered: %s%s", strerror(-rc),
			slab.iov_len > 1U << 30 ? "; at most 1 GiB can be, lower `buffers`" : "");
	return 0;
}

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
	for (; r->unbatched && submit > 1; submit--)
		if (!ring_call(r, 1, 0, 0, NULL))
			return;
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

bool ring_wait(struct ring *r, bool block)
{
	struct worker *w = r->worker;

	if (unlikely(r->unbatched))
		ring_submit(r);
	if (block && r->spin_ns && ring_spin(r))
		return false;
	if (ring_ready(r)) {
		if (r->sqpoll)
			ring_submit(r);
		return false;
	}
	if (block && w->batch.on) {
		unsigned submit, quiet = r->quiet, want = MAX(quiet, 1U);

		if (batch_must_look(w)) {
			/* Answers are sent first: only input that arrives after them shows a client
			 * that does not wait for answers. */
			ring_submit(r);
			batch_look(w, ring_ready(r) > quiet || ring_has_deferred(r));
		}
		r->batch_ns = batch_delay(w);
		submit = ring_publish(r);
		r->quiet = 0;
		return ring_enter_special(r, submit, want, w->deadlines.wake_ns);
	}
	return ring_enter(r, block, w->deadlines.wake_ns);
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
	/* Without a total timeout the wait would end with the minimum wait for several
	 * completions. */
	if (batch_ns) {
		want = MAX(want, (unsigned)BATCH_COMPLETIONS);
		arg.min_wait_usec = (uint32_t)(batch_ns / NS_PER_US);
		deadline_ns = deadline_ns ? deadline_ns : now + RING_BATCH_END_NS;
	}
	ts.tv_sec = now < deadline_ns ? (long long)((deadline_ns - now) / NS_PER_S) : 0;
	ts.tv_nsec = now < deadline_ns ? (long long)((deadline_ns - now) % NS_PER_S) : 0;
	return ring_call(r, submit, want, flags, &arg);
}

/* Looks at the completion queue; true: there are completions other than of quiet operations.  Makes
 * a system call only to submit, and to run deferred work. */
bool ring_spin(struct ring *r)
{
	unsigned want = r->sqpoll ? 1 : r->quiet + 1;
	uint64_t end_ns;

	ring_enter(r, false, 0); /* queued entries are submitted before we wait */
	end_ns = clock_ns() + r->spin_ns;
	if (r->worker->deadlines.wake_ns)
		end_ns = MIN(end_ns, r->worker->deadlines.wake_ns);
	do {
		if (ring_ready(r) >= want)
			return true;
		if (ring_sq_flags(r) & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW))
			ring_enter(r, false, 0);
		cpu_relax();
	} while (clock_ns() < end_ns);
	return ring_ready(r) >= want;
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
		ring_reap(r);
	}
}
