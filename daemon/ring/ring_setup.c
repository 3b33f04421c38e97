/* Ring set-up with the best options that the kernel has, and what stores register.  See ring.h. */
#include <errno.h>
#include <liburing.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "batch.h"
#include "cpus.h"
#include "process.h"
#include "ring.h"
#include "ring_keys.h"
#include "uring_compat.h"

/* ---- The number by which the kernel names threads that it makes for a thread of ours ---- */

/* The number that /proc shows as that of a new ring's thread is the maker's until the thread first
 * runs (Linux 6.7), and SqThreadCpu is -1 until then.  0: it has run, or this kernel shows another.
 */
static pid_t ring_maker(void)
{
	static const char key[] = "\nSqThread:", idle[] = "\nSqThreadCpu:\t-1\n";
	char path[64], text[1024];
	struct io_uring ring;
	const char *line;
	size_t n = 0;
	FILE *f;

	if (io_uring_queue_init(1, &ring, IORING_SETUP_SQPOLL) < 0)
		return 0;
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", ring.ring_fd);
	f = fopen(path, "re");
	if (f) {
		n = fread(text, 1, sizeof(text) - 1, f);
		fclose(f);
	}
	io_uring_queue_exit(&ring);
	text[n] = '\0';
	line = strstr(text, key);
	return line && strstr(text, idle) ? MAX(0, (pid_t)strtol(line + strlen(key), NULL, 10)) : 0;
}

pid_t ring_kernel_tid(void)
{
	enum { ATTEMPTS = 20 };
	cpu_set_t before, here;
	pid_t number = 0;

	if (process_has_kernel_tids())
		return (pid_t)syscall(SYS_gettid);
	/* A new thread inherits the CPUs of its maker: on one CPU it runs after this one. */
	CPU_ZERO(&here);
	CPU_SET((unsigned)sched_getcpu() % CPU_SETSIZE, &here);
	if (sched_getaffinity(0, sizeof(before), &before) < 0 ||
	    sched_setaffinity(0, sizeof(here), &here) < 0)
		return 0;
	for (unsigned i = 0; i < ATTEMPTS && !number; i++) {
		number = ring_maker();
		if (number && number != ring_maker())
			number = 0; /* one of the reads had the id of the ring's own thread */
	}
	sched_setaffinity(0, sizeof(before), &before);
	return number;
}

/* The operations that a ring allows.  The kernel refuses all others with EACCES, so that an
 * attacker in this process cannot evade its seccomp filter through io_uring, which can also open
 * files and send messages.  Worker's thread only. */

struct ring_allowed {
	uint8_t code;
	uint8_t uses; /* enum ring_use */
};

/* All operations that engines and stores prepare. */
static const struct ring_allowed ring_opcodes[] = {
	{ IORING_OP_ACCEPT, RING_LISTENS },         { IORING_OP_POLL_ADD, RING_LISTENS },
	{ IORING_OP_ASYNC_CANCEL, RING_LISTENS },   { IORING_OP_RECV, RING_TRANSFERS },
	{ IORING_OP_SEND, RING_TRANSFERS },         { IORING_OP_SENDMSG, RING_TRANSFERS },
	{ IORING_OP_RECVMSG, RING_TRANSFERS },      { IORING_OP_SENDMSG_ZC, RING_TRANSFERS },
	{ IORING_OP_FILES_UPDATE, RING_TRANSFERS }, { IORING_OP_READ, RING_STORES },
	{ IORING_OP_WRITE, RING_STORES },           { IORING_OP_READV, RING_STORES },
	{ IORING_OP_WRITEV, RING_STORES },          { IORING_OP_READ_FIXED, RING_STORES },
	{ IORING_OP_WRITE_FIXED, RING_STORES },     { IORING_OP_FSYNC, RING_STORES },
	{ IORING_OP_FALLOCATE, RING_STORES },       { IORING_OP_FADVISE, RING_STORES },
	{ NB_OP_RECV_ZC, RING_ZERO_COPY },
};

/* All calls of io_uring_register() after the set-up. */
static const struct ring_allowed ring_registrations[] = {
	{ IORING_REGISTER_PROBE, RING_TRANSFERS },
	{ IORING_REGISTER_PBUF_RING, RING_TRANSFERS },
	{ IORING_REGISTER_FILES2, RING_TRANSFERS | RING_STORES },
	{ IORING_REGISTER_FILES_UPDATE, RING_STORES },
	{ IORING_REGISTER_BUFFERS, RING_STORES },
	{ IORING_REGISTER_EVENTFD, RING_STORES },
	{ NB_REGISTER_PBUF_STATUS, RING_CHECKS ? RING_TRANSFERS : 0 },
	{ NB_REGISTER_ZCRX_CTRL, RING_ZERO_COPY },
	{ IORING_UNREGISTER_RING_FDS, RING_LISTENS | RING_TRANSFERS | RING_STORES },
};

enum {
	RING_SQE_FLAGS =
		IOSQE_FIXED_FILE | IOSQE_BUFFER_SELECT | IOSQE_CQE_SKIP_SUCCESS | IOSQE_ASYNC,
	RING_RESTRICTIONS_MAX = ARRAY_SIZE(ring_opcodes) + ARRAY_SIZE(ring_registrations) + 1,
};

/* Highest opcode of this kernel, which rejects a list with opcodes that it does not know. */
static uint8_t ring_last_opcode(struct ring *r)
{
	struct io_uring_probe *probe = io_uring_get_probe_ring(&r->io);
	uint8_t last = probe ? probe->last_op : 0;

	io_uring_free_probe(probe);
	return last;
}

bool ring_has_opcode(struct ring *r, uint8_t opcode)
{
	return ring_last_opcode(r) >= opcode;
}

int ring_restrict(struct ring *r, unsigned uses)
{
	struct io_uring_restriction list[RING_RESTRICTIONS_MAX];
	uint8_t last = ring_last_opcode(r);
	unsigned n = 0;

	memset(list, 0, sizeof(list));
	for (size_t i = 0; i < ARRAY_SIZE(ring_opcodes); i++) {
		if (!(ring_opcodes[i].uses & uses) || ring_opcodes[i].code > last)
			continue;
		list[n].opcode = IORING_RESTRICTION_SQE_OP;
		list[n++].sqe_op = ring_opcodes[i].code;
	}
	for (size_t i = 0; i < ARRAY_SIZE(ring_registrations); i++) {
		if (!(ring_registrations[i].uses & uses))
			continue;
		list[n].opcode = IORING_RESTRICTION_REGISTER_OP;
		list[n++].register_op = ring_registrations[i].code;
	}
	list[n].opcode = IORING_RESTRICTION_SQE_FLAGS_ALLOWED;
	list[n++].sqe_flags = RING_SQE_FLAGS;
	return ring_register(r, IORING_REGISTER_RESTRICTIONS, list, n);
}

#ifdef __SANITIZE_THREAD__
char ring_mappings;
#endif

/* The best first: for Linux 6.1, and for 5.19, the oldest that is supported. */
static const unsigned ring_setups[] = {
	IORING_SETUP_CQSIZE | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_SINGLE_ISSUER |
		IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
	IORING_SETUP_CQSIZE | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_COOP_TASKRUN |
		IORING_SETUP_TASKRUN_FLAG,
};

/* The kernel's thread, and the worker on another CPU, look for work so long before they sleep. */
enum { SQPOLL_IDLE_MS = 1000 };

/* For Linux 6.0, and for 5.19. */
static const unsigned ring_setups_sqpoll[] = {
	IORING_SETUP_CQSIZE | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_SINGLE_ISSUER,
	IORING_SETUP_CQSIZE | IORING_SETUP_SUBMIT_ALL,
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

static int ring_setup(struct ring *r, const struct worker_options *options, unsigned flags)
{
	const struct ring_options *o = ring_options(options);
	struct io_uring_params params = { .flags = ring_allowed(options, flags) |
						   IORING_SETUP_R_DISABLED,
					  .cq_entries = RING_CQ_ENTRIES };
	int rc;

	if (r->sqpoll) {
		params.flags |= IORING_SETUP_SQPOLL;
		params.sq_thread_idle = SQPOLL_IDLE_MS;
		if (o->sqpoll >= KEY_CPU_FIRST) {
			params.flags |= IORING_SETUP_SQ_AFF;
			params.sq_thread_cpu = (unsigned)(o->sqpoll - KEY_CPU_FIRST);
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
	case EINVAL:
		return reason_set(
			reason, error,
			"the kernel refuses the options of the ring: it is older than Linux "
			"5.19, or the CPU of `sqpoll` is not available; use engine = epoll, "
			"or another CPU");
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

/* With SQPOLL the worker spins as long as the kernel's thread looks for
 * submissions, so that neither needs a system call under load.  On one CPU the two
 * threads would only delay each other. */
static void ring_spin_beside(struct worker *w)
{
	const struct ring_options *o = ring_options(&w->options);
	uint64_t busy_ns = w->spin.adapts ? 0 : w->spin.max_ns;
	cpu_set_t cpus;
	int count = cpus_of(0, &cpus);

	if (count > 0 && o->sqpoll >= KEY_CPU_FIRST)
		count += !CPU_ISSET((size_t)(o->sqpoll - KEY_CPU_FIRST), &cpus);
	if (count > 1)
		spin_init(&w->spin, MAX(busy_ns, SQPOLL_IDLE_MS * (uint64_t)NS_PER_MS));
}

/* The kernel's threads for blocking work (io-wq) inherit the worker's CPUs since Linux 6.2; before,
 * they run wherever the process may, unless these are registered (Linux 5.14). */
static void ring_pin_threads(struct ring *r)
{
	cpu_set_t cpus;

	if (cpus_of(0, &cpus) > 0)
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
	if (o->busy_poll_ns)
		worker_feature(r->worker, FEATURE_busy_poll);
	if (options_kernel_polls_ns(o)) {
		struct nb_io_uring_napi napi = {
			.busy_poll_to = (uint32_t)(o->busy_poll_ns / NS_PER_US),
		};

		if (ring_register(r, NB_REGISTER_NAPI, &napi, 1) == 0)
			worker_feature(r->worker, FEATURE_napi_busy_poll);
	}
	ring_pin_threads(r);
	if (worker_wants(r->worker, FEATURE_restricted) && ring_restrict(r, uses) == 0)
		worker_feature(r->worker, FEATURE_restricted);
	return ring_register(r, IORING_REGISTER_ENABLE_RINGS, NULL, 0);
}

static int ring_prepare(struct ring *r, unsigned uses, struct reason *reason)
{
	int rc = 0;

	r->sq_flags = r->io.sq.kflags;
	ring_fill_array(r);
	if (uses & RING_ZERO_COPY)
		rc = ring_zcrx_open(r, reason);
	if (rc < 0)
		return rc;
	rc = ring_enable(r, uses);
	return rc < 0 ? ring_unavailable(reason, rc) : 0;
}

void ring_fini(struct ring *r)
{
	ring_unmapping();
	io_uring_queue_exit(&r->io);
	ring_zcrx_close(r);
}

int ring_init(struct ring *r, struct worker *w, unsigned flags, unsigned uses,
	      struct reason *reason)
{
	const struct ring_options *o = ring_options(&w->options);
	const unsigned *setups = o->sqpoll ? ring_setups_sqpoll : ring_setups;
	unsigned count = o->sqpoll ? ARRAY_SIZE(ring_setups_sqpoll) : ARRAY_SIZE(ring_setups);
	int rc = -EINVAL;

	*r = (struct ring){ .worker = w, .sqpoll = o->sqpoll };
	/* In a PID namespace ring_kernel_tid() makes rings with threads, which end late.  So it is
	 * called there only if SQPOLL needs it. */
	if (!w->thread.kernel_tid && (o->sqpoll || process_has_kernel_tids()))
		w->thread.kernel_tid = ring_kernel_tid();
	if (uses & RING_ZERO_COPY) {
		if (ring_zcrx_probe(w, reason) < 0)
			return -EOPNOTSUPP;
		flags |= NB_SETUP_CQE_MIXED;
	}
	for (unsigned i = 0; i < count && rc == -EINVAL; i++)
		rc = ring_setup(r, &w->options, setups[i] | flags);
	if (rc < 0)
		return ring_unavailable(reason, rc);
	rc = ring_prepare(r, uses, reason);
	if (rc < 0) {
		ring_fini(r);
		return rc;
	}
	if (r->deferred)
		worker_feature(w, FEATURE_defer_taskrun);
	if (r->sqpoll) {
		worker_feature(w, FEATURE_sqpoll);
		batch_off(w);
		if (uses & RING_LISTENS) /* it is the ring in which the worker waits */
			ring_spin_beside(w);
	}
	r->slow_wait = r->sqpoll || w->spin.max_ns || w->batch.on;
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

/* ---- Files and buffers of stores ---- */

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

/* May this process lock more than RLIMIT_MEMLOCK?  Tries to lock a page more than that
 * (MLOCK_ONFAULT: no page is allocated), since CAP_IPC_LOCK proves nothing outside of the initial
 * user namespace. */
bool ring_locks_freely(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes;
	struct rlimit limit;
	bool freely;
	void *memory;

	if (getrlimit(RLIMIT_MEMLOCK, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
		return true;
	bytes = (size_t)limit.rlim_cur + page;
	memory = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		return false;
	freely = mlock2(memory, bytes, MLOCK_ONFAULT) == 0;
	munmap(memory, bytes);
	return freely;
}

int ring_register_buffers(struct ring *r, struct reason *reason)
{
	const struct pool *p = &r->worker->pool;
	struct iovec slab = { p->slab, (size_t)p->chunk_count * p->stride };
	int rc = 0;

	if (r->buffers)
		return 0;
	if (!ring_locks_freely())
		return reason_set(
			reason, -EPERM,
			"its buffers are not registered: the locked memory that this user "
			"may have is left to rings; set LimitMEMLOCK=infinity in the "
			"unit, or `ulimit -l unlimited`");
	rc = io_uring_register_buffers(&r->io, &slab, 1);
	if (rc < 0)
		return reason_set(
			reason, rc, "its buffers are not registered: %s%s", strerror(-rc),
			slab.iov_len > 1U << 30 ? "; at most 1 GiB can be, lower `buffers`" : "");
	r->buffers = true;
	return 0;
}
