/* Store `io_uring`: files through the worker's ring.  Worker's thread.  An io is the
 * owner of its operation: while one is in flight, io->op is the kernel's.
 *
 * A write: io_submit() of core/io.c, file_uring_submit(), file_uring_read_or_write(). */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "conn.h"
#include "file.h"
#include "ring.h"
#include "slices.h"
#include "worker.h"

/* A ring that the store makes itself and that its mounts in a worker share: if the engine has none,
 * and for polled reads and writes (IORING_SETUP_IOPOLL), which need a separate ring. */
struct file_ring {
	struct ring ring;
	int eventfd;
	struct op op; /* runs when eventfd is readable */
	struct worker_hook hook;
	unsigned users;
	unsigned polled; /* polled operations in flight */
};

/* The ring, file and opcodes of a mount's reads and writes. */
struct file_path {
	struct ring *ring;
	int fd;                            /* the file, or its registered slot */
	uint8_t sqe_flags;                 /* IOSQE_FIXED_FILE: a slot */
	uint8_t read_opcode, write_opcode; /* for a request with one struct iovec within the pool */
};

struct file_mount {
	struct file_ring *own, *poll; /* NULL: uses the engine's ring; no polling */
	bool polls;                   /* polls; cleared when a polled request is refused */
	struct file_path path, poll_path;
};

/* ---- A ring of its own ---- */

/* Submits queued operations and reaps completions, which may queue more.  The kernel sets the flag
 * of deferred work after it has added the work, so the flag may be stale: enter at most once for it
 * until something has completed. */
static void file_ring_run(struct file_ring *f)
{
	struct ring *r = &f->ring;
	bool entered = false;

	for (;;) {
		if (ring_ready(r)) {
			ring_reap(r);
			entered = false;
		} else if (io_uring_sq_ready(&r->io)) {
			ring_submit(r);
		} else if (ring_has_work(r) && !entered) {
			ring_enter(r, false, 0); /* runs the work that the kernel deferred */
			entered = true;
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
	/* The fence orders the store of the flag before the load of the queue's tail: the kernel
	 * tests the flag after it has added a completion, so one of the two sides sees the other.
	 */
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

/* Does a polled read succeed?  Reads of a hole always do: see file_uring_polled_done().  Only a
 * local device's driver polls, and the block layer ends each of its requests (queue/io_timeout, 30
 * s); the main thread waits for the worker's start no longer than WORKER_START_NS. */
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
static int file_uring_attach(struct mount *m, struct reason *reason)
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
static void file_uring_detach(struct mount *m)
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

enum { FILE_RETRIES_MAX = 8 }; /* in a row without progress */

/* Zeros to write where the file system cannot zero a range. */
static uint8_t file_zeros[IO_ZEROES_MAX] __attribute__((aligned(4096))); /* for direct I/O */

/* ---- Requests ---- */

/* Retries an operation a limited number of times after EAGAIN, EINTR, and ECANCELED (the kernel
 * could not make a thread).  From the second retry on it is submitted with IOSQE_ASYNC: the kernel
 * may then block on one of its threads. */
static bool file_retries(struct io *io, int res)
{
	return (res == -EINTR || res == -EAGAIN || res == -ECANCELED) &&
	       io->retries++ < FILE_RETRIES_MAX;
}

static uint8_t file_retry_flags(const struct io *io)
{
	return io->retries > 0 ? IOSQE_ASYNC : 0;
}

/* Prepares an operation for the part that is left.  A request of one struct iovec uses the opcodes
 * for registered memory, where that is set up. */
static void file_uring_prep_rw(struct io *io, const struct file_path *path)
{
	struct io_uring_sqe *sqe = ring_sqe(path->ring);
	uint64_t offset = io->offset + io->progress;
	const struct iovec *iov = io->iov;
	bool read = io->kind == IO_read;

	if (io->iov_count > 1)
		io_uring_prep_rw(read ? IORING_OP_READV : IORING_OP_WRITEV, sqe, path->fd, iov,
				 io->iov_count, offset);
	else
		io_uring_prep_rw(read ? path->read_opcode : path->write_opcode, sqe, path->fd,
				 iov->iov_base, (unsigned)iov->iov_len, offset);
	sqe->flags |= path->sqe_flags | file_retry_flags(io);
	if (io_is_dsync(io))
		sqe->rw_flags = RWF_DSYNC;
	ring_op(sqe, &io->op);
}

static void file_uring_rw_done(struct op *op, int res, uint32_t flags);
static void file_uring_polled_done(struct op *op, int res, uint32_t flags);

/* Starts a read or write.  Requests with FUA are not polled for, as more than the device's
 * completion is needed; nor are retried ones. */
static void file_uring_read_or_write(struct io *io)
{
	struct file_mount *f = io->mount->store_state;

	if (unlikely(f->polls) && !io_is_dsync(io) && io->retries == 0) {
		io->op.done = file_uring_polled_done;
		f->poll->polled++;
		file_uring_prep_rw(io, &f->poll_path);
	} else {
		io->op.done = file_uring_rw_done;
		file_uring_prep_rw(io, &f->path);
	}
}

/* A short transfer is continued behind its end; progress resets the count of retries. */
static void file_uring_rw_done(struct op *op, int res, uint32_t flags)
{
	struct io *io = container_of(op, struct io, op);

	(void)flags;
	if (likely(res > 0)) {
		if (likely(io->progress + (uint64_t)res == io->length)) {
			io_finish(io, 0);
			return;
		}
		io_advance(io, (size_t)res);
		io->retries = 0;
	} else if (res == 0) {
		/* The file was truncated, or is full. */
		io_finish(io, io->kind == IO_read ? -EIO : -ENOSPC);
		return;
	} else if (!file_retries(io, res)) {
		io_finish(io, res);
		return;
	}
	file_uring_read_or_write(io);
}

/* The device or file system may refuse polling only now, as reads of holes succeed without it. */
static void file_uring_polled_done(struct op *op, int res, uint32_t flags)
{
	struct io *io = container_of(op, struct io, op);
	struct mount *m = io->mount;
	struct file_mount *f = m->store_state;

	f->poll->polled--;
	if (res != -EOPNOTSUPP) {
		file_uring_rw_done(op, res, flags);
		return;
	}
	f->polls = false;
	atomic_fetch_and(&m->features, ~(1U << MOUNT_iopoll));
	file_uring_read_or_write(io);
}

/* ---- Zeroing by writing, where the file system can do it in no other way ---- */

static void file_uring_write_zeros(struct io *io)
{
	struct io_uring_sqe *sqe = ring_sqe(io->mount->worker->ring);
	unsigned bytes = (unsigned)MIN(io->length - io->progress, sizeof(file_zeros));

	io_uring_prep_write(sqe, io->mount->export->fd, file_zeros, bytes,
			    io->offset + io->progress);
	sqe->flags |= file_retry_flags(io);
	ring_op(sqe, &io->op);
}

static void file_uring_write_zeros_done(struct op *op, int res, uint32_t flags)
{
	struct io *io = container_of(op, struct io, op);

	(void)flags;
	if (res > 0) {
		io->progress += (uint64_t)res;
		io->retries = 0;
	}
	if (res == 0 || (res < 0 && !file_retries(io, res)))
		io_finish(io, res ? res : -ENOSPC);
	else if (io->progress == io->length)
		io_finish(io, 0);
	else if (io->mount->worker->turn.stop || (io->conn->flags & CONN_CLOSING))
		io_finish(io, -ESHUTDOWN); /* the remaining pieces may take hours */
	else
		file_uring_write_zeros(io);
}

/* ---- Requests of a single operation ---- */

static void file_uring_flush_done(struct op *op, int res, uint32_t flags)
{
	(void)flags;
	io_finish(container_of(op, struct io, op), MIN(res, 0));
}

/* Flushes by the mount's own descriptor, so that the mount sees each failed write-back. */
static void file_uring_flush(struct io *io)
{
	struct io_uring_sqe *sqe = ring_sqe(io->mount->worker->ring);

	io_uring_prep_fsync(sqe, io->mount->sync_fd, IORING_FSYNC_DATASYNC);
	io->op.done = file_uring_flush_done;
	ring_op(sqe, &io->op);
}

static void file_uring_trim_or_zero(struct io *io);

static void file_uring_trim_or_zero_done(struct op *op, int res, uint32_t flags)
{
	struct io *io = container_of(op, struct io, op);

	(void)flags;
	if (file_retries(io, res)) {
		file_uring_trim_or_zero(io);
	} else if (res == 0 || !file_cannot_allocate(io, -res)) {
		io_finish(io, res);
	} else if (io->kind == IO_trim) {
		io_finish(io, 0); /* a hint */
	} else {
		io->op.done = file_uring_write_zeros_done;
		file_uring_write_zeros(io);
	}
}

/* Punches a hole, or zeroes the range in place if it must stay allocated (IO_NO_HOLE).  KEEP_SIZE:
 * fallocate() must not make the file longer. */
static void file_uring_trim_or_zero(struct io *io)
{
	struct io_uring_sqe *sqe = ring_sqe(io->mount->worker->ring);
	int mode = FALLOC_FL_KEEP_SIZE;

	mode |= io->flags & IO_NO_HOLE ? FALLOC_FL_ZERO_RANGE : FALLOC_FL_PUNCH_HOLE;
	io_uring_prep_fallocate(sqe, io->mount->export->fd, mode, (off_t)io->offset,
				(off_t)io->length);
	io->op.done = file_uring_trim_or_zero_done;
	ring_op(sqe, &io->op);
}

/* io_uring has no operation for this: the worker calls lseek() and may block until the file
 * system's maps, mostly in memory, are read. */
static int file_uring_status_slice(struct io *io)
{
	return file_extents(io, io->mount->export->fd);
}

static void file_uring_submit(struct io *io)
{
	switch ((enum io_kind)io->kind) {
	case IO_read:
	case IO_write:
		file_uring_read_or_write(io);
		break;
	case IO_flush:
		file_uring_flush(io);
		break;
	case IO_trim:
	case IO_write_zeroes:
		file_uring_trim_or_zero(io);
		break;
	case IO_block_status:
		slices_submit(io);
		break;
	case IO_KIND_COUNT:
		break;
	}
}

const struct store store_file_uring = {
	.name = "io_uring",
	FILE_STORE,
	.batches = true,
	.probe = ring_probe,
	.attach = file_uring_attach,
	.detach = file_uring_detach,
	.submit = file_uring_submit,
	.slice = file_uring_status_slice,
};
