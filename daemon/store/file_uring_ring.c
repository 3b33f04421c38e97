/* The rings of the store `io_uring`.
 *
 * If the engine has a ring, file operations share its submissions with the network's: one system
 * call per turn.  If it has none (epoll), the store makes one: a turn's operations are submitted at
 * its end, and those that complete at once, such as reads from the page cache, are reaped
 * immediately; later completions are signalled by an eventfd that the engine watches.  (The ring's
 * own descriptor would not do: with DEFER_TASKRUN, Linux 6.18 wakes no thread that polls it when
 * work becomes ready.) */
#include "file_uring.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* ---- A ring of its own ---- */

/* Submits queued operations and reaps completions, which may queue more.  The kernel sets the flag
 * of deferred work after it has added the work, so the flag may be stale: enter at most once for it
 * until something has completed. */
static void file_ring_run(struct file_ring *f)
{
	struct ring *r = &f->ring;
	bool looked = false;

	for (;;) {
		if (ring_ready(r)) {
			ring_reap(r);
			looked = false;
		} else if (io_uring_sq_ready(&r->io)) {
			ring_submit(r);
		} else if (ring_has_work(r) && !looked) {
			ring_enter(r, false, 0); /* runs the work that the kernel deferred */
			looked = true;
		} else {
			return;
		}
	}
}

/* The eventfd is readable: completions arrived while the worker slept. */
static void file_ring_readable(struct op *op, int res, uint32_t flags)
{
	struct file_ring *f = container_of(op, struct file_ring, op);

	(void)res, (void)flags;
	stat_add(f->ring.worker->stats.sys_other, 1);
	(void)!read(f->eventfd, &(uint64_t){ 0 }, sizeof(uint64_t));
	file_ring_run(f);
}

/* Runs the ring at the end of a turn, with the eventfd off: what completes
 * meanwhile is reaped here. */
static bool file_ring_turn(struct worker_hook *hook)
{
	struct file_ring *f = container_of(hook, struct file_ring, hook);

	io_uring_cq_eventfd_toggle(&f->ring.io, false);
	file_ring_run(f);
	/* The fence orders the flag's store before the look at the queue: the kernel tests the flag
	 * after it has added a completion, so one of the two sides sees the other. */
	io_uring_cq_eventfd_toggle(&f->ring.io, true);
	atomic_thread_fence(memory_order_seq_cst);
	file_ring_run(f); /* completions that arrived before the eventfd was armed */
	return false;
}

/* Runs every turn while polled operations are in flight: they signal no completion. */
static bool file_ring_poll(struct worker_hook *hook)
{
	struct file_ring *f = container_of(hook, struct file_ring, hook);

	if (f->polled == 0)
		return false;
	ring_enter(&f->ring, false, 0);
	ring_reap(&f->ring);
	return f->polled > 0;
}

/* Registers the eventfd and has the engine watch it. */
static int file_ring_watch(struct worker *w, struct file_ring *f)
{
	int rc;

	f->eventfd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (f->eventfd < 0)
		return -errno;
	f->op.done = file_ring_readable;
	rc = io_uring_register_eventfd(&f->ring.io, f->eventfd);
	if (rc == 0)
		rc = w->engine->watch(w, f->eventfd, &f->op);
	if (rc < 0)
		close(f->eventfd);
	return rc;
}

/* Drops a mount's reference; the last one ends the ring. */
static void file_ring_put(struct file_ring *f)
{
	struct worker *w = f->ring.worker;

	if (--f->users > 0)
		return;
	worker_drop_hook(w, &f->hook);
	if (w->ring == &f->ring)
		w->ring = NULL;
	ring_fini(&f->ring);
	if (f->eventfd >= 0)
		close(f->eventfd);
	free(f);
}

/* flags: IORING_SETUP_IOPOLL, or 0. */
static struct file_ring *file_ring_new(struct worker *w, unsigned flags, struct reason *reason)
{
	struct file_ring *f = calloc(1, sizeof(*f));
	/* saved: the worker's features are the engine's ring's, not this one's. */
	uint64_t features = w->features;
	int rc;

	if (!f) {
		reason_set(reason, -ENOMEM, "no memory");
		return NULL;
	}
	f->eventfd = -1;
	f->hook.run = flags ? file_ring_poll : file_ring_turn;
	rc = ring_init(&f->ring, w, flags, RING_STORES, reason);
	w->features = features;
	if (rc < 0) {
		free(f);
		return NULL;
	}
	if (!flags) {
		rc = file_ring_watch(w, f);
		if (rc < 0) {
			reason_set(reason, rc, "cannot watch the ring: %s", strerror(-rc));
			ring_fini(&f->ring);
			free(f);
			return NULL;
		}
		w->ring = &f->ring;
	}
	worker_add_hook(w, &f->hook);
	return f;
}

/* ---- Rings of a mount ---- */

/* Reuses rings that other mounts of this worker have made. */
static void file_rings_of_others(const struct mount *m, struct file_mount *f)
{
	const struct worker *w = m->worker;

	for (unsigned i = 0; i < w->mount_count; i++) {
		const struct file_mount *other = w->mounts[i].store_state;

		if (w->mounts[i].store != m->store || !other)
			continue;
		f->own = other->own ? other->own : f->own;
		f->poll = other->poll ? other->poll : f->poll;
	}
}

/* Registers the file and, for direct I/O, the pool: that spares the kernel the pinning of pages for
 * each request.  What cannot be registered is used as it is. */
static void file_register(struct mount *m, struct file_path *path)
{
	int slot;

	slot = ring_register_file(path->ring, path->fd, &m->reason);
	if (slot >= 0) {
		path->fd = slot;
		path->sqe_flags = IOSQE_FIXED_FILE;
		m->features |= 1U << MOUNT_registered_file;
	}
	if (m->export->options->direct && ring_register_buffers(path->ring, &m->reason) == 0) {
		path->read_opcode = IORING_OP_READ_FIXED;
		/* Received data may be in an area, which is not registered for this. */
		if (m->worker->area.pages == 0)
			path->write_opcode = IORING_OP_WRITE_FIXED;
		m->features |= 1U << MOUNT_registered_buffers;
	}
}

static struct file_path file_path(const struct mount *m, struct ring *ring)
{
	return (struct file_path){ .ring = ring,
				   .fd = m->export->fd,
				   .read_opcode = IORING_OP_READ,
				   .write_opcode = IORING_OP_WRITE };
}

struct file_probe {
	struct op op;
	int res;
};

static void file_probe_done(struct op *op, int res, uint32_t flags)
{
	(void)flags;
	container_of(op, struct file_probe, op)->res = res;
}

/* Does a polled read succeed?  Reads of a hole always do: see file_polled_done().  Only a local
 * device's driver polls, and the block layer ends each of its requests (queue/io_timeout, 30 s);
 * the main thread waits for the worker's start no longer than WORKER_START_NS. */
static bool file_probe_poll(struct mount *m, const struct file_mount *f)
{
	struct worker *w = m->worker;
	struct chunk *k = chunk_get(&w->pool);
	struct file_probe probe = { .op.done = file_probe_done, .res = -EINPROGRESS };
	struct io_uring_sqe *sqe;

	sqe = ring_sqe(&f->poll->ring);
	io_uring_prep_rw(f->poll_path.read_opcode, sqe, f->poll_path.fd, k->base,
			 (unsigned)MIN(w->pool.chunk_size, m->export->align), 0);
	sqe->flags |= f->poll_path.sqe_flags;
	ring_op(sqe, &probe.op);
	while (probe.res == -EINPROGRESS) {
		ring_enter(&f->poll->ring, false, 0);
		ring_reap(&f->poll->ring);
	}
	chunk_put(&w->pool, k);
	if (probe.res < 0)
		reason_set(&m->reason, probe.res, IO_POLL_REFUSED, strerror(-probe.res));
	return probe.res > 0;
}

/* Sets up polling if a polled read succeeds; else sets m->reason and continues without. */
static void file_attach_poll(struct mount *m, struct file_mount *f)
{
	if (m->export->options->direct != EXPORT_POLLED)
		return;
	if (!f->poll)
		f->poll = file_ring_new(m->worker, IORING_SETUP_IOPOLL, &m->reason);
	if (!f->poll)
		return;
	f->poll->users++;
	f->poll_path = file_path(m, &f->poll->ring);
	file_register(m, &f->poll_path);
	f->polls = file_probe_poll(m, f);
	if (f->polls)
		m->features |= 1U << MOUNT_iopoll;
}

/* A mount has one or two rings: `own` or the engine's for all requests, and `poll` for reads and
 * writes that are polled for. */
int file_uring_attach(struct mount *m, struct reason *reason)
{
	struct file_mount *f = calloc(1, sizeof(*f));
	int rc;

	if (!f)
		return reason_set(reason, -ENOMEM, "no memory");
	rc = file_attach(m, reason);
	if (rc < 0) {
		free(f);
		return rc;
	}
	file_rings_of_others(m, f);
	if (!f->own && !m->worker->ring) {
		f->own = file_ring_new(m->worker, 0, reason);
		if (!f->own) {
			file_detach(m);
			free(f);
			return -ENOSYS;
		}
	}
	if (f->own)
		f->own->users++;
	else
		m->features |= 1U << MOUNT_unified_ring;
	f->path = file_path(m, m->worker->ring);
	file_register(m, &f->path);
	m->store_state = f;
	file_attach_poll(m, f);
	return 0;
}

/* The worker has had its last turn: this runs the rings itself until no request is in flight. */
void file_uring_detach(struct mount *m)
{
	struct file_mount *f = m->store_state;

	while (stat_load(m->in_flight) > 0) {
		if (f->poll)
			file_ring_poll(&f->poll->hook);
		ring_enter(f->path.ring, !f->poll && !ring_ready(f->path.ring), 0);
		ring_reap_any(f->path.ring);
	}
	if (f->path.sqe_flags)
		ring_unregister_file(f->path.ring, (unsigned)f->path.fd);
	if (f->poll)
		file_ring_put(f->poll);
	if (f->own)
		file_ring_put(f->own);
	file_detach(m);
	free(f);
	m->store_state = NULL;
}
