/* Store `threads`: files by a pool of threads that call pread(2), pwrite(2) and the like, as
 * servers without io_uring do.  It is the baseline of comparisons, so it is made as efficient as
 * possible: requests are handed over once per turn, no more threads are woken than there are
 * requests, and the worker is woken once for all requests that have finished since it last took
 * results.
 *
 * Store `blocking`: the worker calls preadv(2) and pwritev2(2) itself, and blocks in them.  For
 * data in the page cache this is the cheapest way; for other data all of the worker's clients wait.
 * Requests that always wait for the device (flush, trim) go to the pool nevertheless.
 *
 * A worker has one pool for all its mounts.  The lock of its queue is the
 * only lock on the data path. */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "conn.h"
#include "file.h"
#include "worker.h"

enum { LOCK_FREE, LOCK_HELD, LOCK_CONTENDED /* somebody may sleep */ };

struct counted_lock {
	_Atomic uint32_t state;
};

static inline void futex_sleep(_Atomic uint32_t *word, uint32_t while_value)
{
	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, while_value, NULL, NULL, 0);
}

static inline void futex_wake(_Atomic uint32_t *word, unsigned threads)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, threads, NULL, NULL, 0);
}

/* Takes the lock, and returns the system calls made for that. */
static inline unsigned counted_lock(struct counted_lock *l)
{
	uint32_t state = LOCK_FREE;
	unsigned calls = 0;

	if (atomic_compare_exchange_strong(&l->state, &state, LOCK_HELD))
		return 0;
	for (; atomic_exchange(&l->state, LOCK_CONTENDED) != LOCK_FREE; calls++)
		futex_sleep(&l->state, LOCK_CONTENDED);
	return calls;
}

static inline unsigned counted_unlock(struct counted_lock *l)
{
	if (atomic_exchange(&l->state, LOCK_FREE) != LOCK_CONTENDED)
		return 0;
	futex_wake(&l->state, 1);
	return 1;
}

/* Where threads sleep until they are woken.  Changes only while the lock is held. */
struct counted_sleep {
	_Atomic uint32_t wakes;
	unsigned sleepers; /* protected by the lock */
};

/* Unlocks, sleeps until counted_wake() or a moment more, and locks again. */
static inline unsigned counted_sleep(struct counted_sleep *s, struct counted_lock *l)
{
	uint32_t wakes = atomic_load(&s->wakes);
	unsigned calls;

	s->sleepers++;
	calls = counted_unlock(l) + 1;
	futex_sleep(&s->wakes, wakes);
	calls += counted_lock(l);
	s->sleepers--;
	return calls;
}

/* Unlocks, and wakes at most so many threads by one system call.  Those that have not yet fallen
 * asleep find that `wakes` has changed. */
static inline unsigned counted_unlock_and_wake(struct counted_sleep *s, struct counted_lock *l,
					       unsigned threads)
{
	unsigned calls, wake = threads < s->sleepers ? threads : s->sleepers;

	if (wake > 0)
		atomic_fetch_add(&s->wakes, 1);
	calls = counted_unlock(l);
	if (wake == 0)
		return calls;
	futex_wake(&s->wakes, wake);
	return calls + 1;
}

STAILQ_HEAD(queue, io);

struct file_threads {
	struct worker *worker;
	struct worker_hook hook;
	struct queue batch; /* requests of this turn; worker's thread only */
	unsigned batch_count;
	unsigned users; /* mounts that use the pool; it ends with the last */

	struct counted_lock lock;
	struct counted_sleep idle;
	struct queue queue;
	bool stop;
	bool ending; /* the pool is ending: long requests are cut short; worker's thread only */

	/* System calls that the pool's threads made for the lock and to sleep and wake, which the
	 * worker has not taken yet. */
	_Atomic unsigned calls;
	unsigned thread_count;
	pthread_t threads[];
};

/* ---- On the pool's threads; with store `blocking`, reads and writes on the worker's thread
 * ---- */

static int thread_read_or_write(struct io *io)
{
	int fd = io->mount->export->fd, flags = io_is_dsync(io) ? RWF_DSYNC : 0;

	while (io->progress < io->length) {
		off_t offset = (off_t)(io->offset + io->progress);
		ssize_t n = io->kind == IO_read
				    ? preadv(fd, io->iov, (int)io->iov_count, offset)
				    : pwritev2(fd, io->iov, (int)io->iov_count, offset, flags);

		io->calls++;
		if (n > 0 && io->progress + (uint64_t)n == io->length)
			return 0; /* io_sample() looks at the first bytes */
		if (n > 0)
			io_advance(io, (size_t)n);
		else if (n == 0) /* the file was truncated, or is full */
			return io->kind == IO_read ? -EIO : -ENOSPC;
		else if (errno != EINTR)
			return -errno;
	}
	return 0;
}

/* Writes zeros where zeroing is not supported, IO_ZEROES_MAX at a time: then the pool serves other
 * requests before the next part. */
static int thread_write_zeros(struct io *io)
{
	static uint8_t zeros[64 * 1024] __attribute__((aligned(4096))); /* aligned for direct I/O */
	uint64_t end = MIN(io->progress + IO_ZEROES_MAX, io->length);

	while (io->progress < end) {
		struct iovec iov = { zeros, (size_t)MIN(end - io->progress, sizeof(zeros)) };
		ssize_t n = pwritev2(io->mount->export->fd, &iov, 1,
				     (off_t)(io->offset + io->progress), 0);

		io->calls++;
		if (n == 0 || (n < 0 && errno != EINTR))
			return n ? -errno : -ENOSPC;
		io->progress += n > 0 ? (uint64_t)n : 0;
	}
	return 0;
}

static int thread_trim_or_zero(struct io *io)
{
	const struct export *e = io->mount->export;
	int mode = io->flags & IO_NO_HOLE ? FALLOC_FL_ZERO_RANGE : FALLOC_FL_PUNCH_HOLE, rc;

	if (io->progress > 0)
		return thread_write_zeros(io);
	do {
		io->calls++;
		rc = fallocate(e->fd, mode | FALLOC_FL_KEEP_SIZE, (off_t)io->offset,
			       (off_t)io->length);
	} while (rc < 0 && errno == EINTR);
	if (rc == 0)
		return 0;
	if (!file_cannot_allocate(io, errno))
		return -errno;
	if (io->kind == IO_trim)
		return 0; /* a hint */
	return thread_write_zeros(io);
}

static int thread_run(struct io *io)
{
	const struct export *e = io->mount->export;

	switch ((enum io_kind)io->kind) {
	case IO_read:
	case IO_write:
		return thread_read_or_write(io);
	case IO_trim:
	case IO_write_zeroes:
		return thread_trim_or_zero(io);
	case IO_flush:
		io->calls++;
		return fdatasync(io->mount->sync_fd) < 0 ? -errno : 0;
	case IO_block_status:
		return file_extents(io, e->fd);
	case IO_KIND_COUNT:
		break;
	}
	return -EINVAL;
}

static void threads_called(struct file_threads *t, unsigned calls)
{
	if (calls)
		atomic_fetch_add_explicit(&t->calls, calls, memory_order_relaxed);
}

/* The next request; NULL: the pool ends. */
static struct io *thread_next(struct file_threads *t)
{
	unsigned calls = counted_lock(&t->lock);
	struct io *io;

	/* Publishes its counts before the thread sleeps, perhaps for long. */
	while (STAILQ_EMPTY(&t->queue) && !t->stop) {
		threads_called(t, calls);
		calls = counted_sleep(&t->idle, &t->lock);
	}
	io = STAILQ_FIRST(&t->queue);
	if (io)
		STAILQ_REMOVE_HEAD(&t->queue, link);
	threads_called(t, calls + counted_unlock(&t->lock));
	return io;
}

static void *thread_main(void *arg)
{
	struct file_threads *t = arg;
	struct io *io;
	char name[16];

	/* host/proc.h finds the worker's threads by this name. */
	snprintf(name, sizeof(name), "store-%d", t->worker->thread.tid);
	pthread_setname_np(pthread_self(), name);
	while ((io = thread_next(t)) != NULL) {
		io->result = thread_run(io);
		threads_called(t, mailbox_post(&t->worker->mailbox, &io->call));
	}
	return NULL;
}

/* ---- On the worker's thread ---- */

static void threads_submit(struct io *io);

/* True: zeros remain to be written. */
static bool threads_has_more(const struct io *io)
{
	return io->kind == IO_write_zeroes && io->result == 0 && io->progress > 0 &&
	       io->progress < io->length;
}

static void threads_finished(struct call *call)
{
	struct io *io = container_of(call, struct io, call);
	struct file_threads *t = io->mount->store_state;
	struct stats *stats = &t->worker->stats;

	if (io->kind == IO_read)
		stat_add(stats->sys_pread, io->calls);
	else if (io->kind == IO_write)
		stat_add(stats->sys_pwrite, io->calls);
	else
		stat_add(stats->sys_other, io->calls);
	if (atomic_load_explicit(&t->calls, memory_order_relaxed))
		stat_add(stats->sys_other,
			 atomic_exchange_explicit(&t->calls, 0, memory_order_relaxed));
	if (likely(!threads_has_more(io))) {
		io_finish(io, io->result);
	} else if (t->ending || (io->conn->flags & CONN_CLOSING)) {
		io_finish(io, -ESHUTDOWN);
	} else {
		io->calls = 0;
		threads_submit(io);
	}
}

static void threads_submit(struct io *io)
{
	struct file_threads *t = io->mount->store_state;

	io->call.fn = threads_finished;
	STAILQ_INSERT_TAIL(&t->batch, io, link);
	t->batch_count++;
}

static void blocking_submit(struct io *io)
{
	if (io->kind != IO_read && io->kind != IO_write) {
		threads_submit(io);
		return;
	}
	io->result = thread_read_or_write(io);
	threads_finished(&io->call);
}

/* Hands this turn's requests to the pool, and wakes no more threads than there are requests. */
static bool threads_turn(struct worker_hook *hook)
{
	struct file_threads *t = container_of(hook, struct file_threads, hook);
	unsigned calls;

	if (!t->batch_count)
		return false;
	calls = counted_lock(&t->lock);
	STAILQ_CONCAT(&t->queue, &t->batch);
	calls += counted_unlock_and_wake(&t->idle, &t->lock, t->batch_count);
	t->batch_count = 0;
	stat_add(t->worker->stats.sys_other, calls);
	return false;
}

/* Ends the threads once they have done the queued requests, and frees t. */
static void threads_free(struct file_threads *t)
{
	counted_lock(&t->lock);
	t->stop = true;
	counted_unlock_and_wake(&t->idle, &t->lock, t->thread_count);
	for (unsigned i = 0; i < t->thread_count; i++)
		pthread_join(t->threads[i], NULL);
	free(t);
}

/* The number of threads: the maximum of `threads` of the worker's mounts. */
static unsigned threads_wanted(const struct mount *m)
{
	const struct worker *w = m->worker;
	uint64_t most = 1;

	for (unsigned i = 0; i < w->mount_count; i++)
		if (w->mounts[i].store == m->store)
			most = MAX(most, w->mounts[i].export->options->threads);
	return (unsigned)most;
}

static struct file_threads *threads_new(const struct mount *m, struct reason *reason)
{
	unsigned count = threads_wanted(m);
	struct file_threads *t = calloc(1, sizeof(*t) + count * sizeof(t->threads[0]));

	if (!t) {
		reason_set(reason, -ENOMEM, "no memory");
		return NULL;
	}
	t->worker = m->worker;
	STAILQ_INIT(&t->batch);
	STAILQ_INIT(&t->queue);
	for (; t->thread_count < count; t->thread_count++) {
		int rc = pthread_create(&t->threads[t->thread_count], NULL, thread_main, t);

		if (rc == 0)
			continue;
		reason_set(reason, -rc,
			   "cannot start a thread: %s; lower `threads`, or raise "
			   "TasksMax= of the unit",
			   strerror(rc));
		threads_free(t);
		return NULL;
	}
	t->hook.run = threads_turn;
	worker_add_hook(t->worker, &t->hook);
	return t;
}

static int threads_attach(struct mount *m, struct reason *reason)
{
	struct worker *w = m->worker;
	struct file_threads *t = NULL;
	int rc;

	for (unsigned i = 0; i < w->mount_count && !t; i++)
		if (w->mounts[i].store == m->store)
			t = w->mounts[i].store_state;
	rc = file_attach(m, reason);
	if (rc < 0)
		return rc;
	if (!t)
		t = threads_new(m, reason);
	if (!t) {
		file_detach(m);
		return -EAGAIN;
	}
	m->store_state = t;
	t->users++;
	return 0;
}

static void threads_detach(struct mount *m)
{
	struct file_threads *t = m->store_state;

	t->ending = true;
	while (stat_load(m->in_flight) > 0) {
		struct pollfd p = { .fd = m->worker->mailbox.fd, .events = POLLIN };

		threads_turn(&t->hook);
		poll(&p, 1, -1);
		mailbox_run(&m->worker->mailbox);
	}
	file_detach(m);
	if (--t->users > 0)
		return;
	worker_drop_hook(m->worker, &t->hook);
	threads_free(t);
}

const struct store store_file_threads = {
	.name = "threads",
	FILE_STORE,
	.attach = threads_attach,
	.detach = threads_detach,
	.submit = threads_submit,
};

const struct store store_file_blocking = {
	.name = "blocking",
	FILE_STORE,
	.attach = threads_attach,
	.detach = threads_detach,
	.submit = blocking_submit,
};
