/* Store `io_uring`: files through the worker's ring.
 *
 * Where the engine has a ring, file operations travel in the same submissions as the network's: one
 * system call per turn.  Where it has none (epoll), the store brings its own: what a turn has
 * queued is submitted at its end, and what completes at once, as reads from the page cache do, is
 * taken there and then; what completes later is told by an eventfd in the engine's set.  (The
 * ring's own descriptor would not do: with DEFER_TASKRUN, Linux 6.18 wakes nobody who polls it when
 * work becomes ready.) */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "extents.h"
#include "file.h"
#include "ring.h"
#include "worker.h"

/* A ring of the store's own, shared by its mounts in a worker: where the engine has none, and for
 * reads and writes that are polled for (IORING_SETUP_IOPOLL), which need one for themselves. */
struct file_ring {
	struct ring ring;
	int eventfd;
	struct op op; /* eventfd is readable */
	struct worker_hook hook;
	unsigned users;
	unsigned polled; /* operations in flight; the ring polls for them */
};

/* How a mount's reads and writes travel. */
struct file_path {
	struct ring *ring;
	int fd;                            /* the file, or its slot */
	uint8_t sqe_flags;                 /* IOSQE_FIXED_FILE: a slot */
	uint8_t read_opcode, write_opcode; /* with one piece of the pool's memory */
};

struct file_mount {
	struct file_ring *own, *poll; /* NULL: the engine's ring is used, nothing is polled for */
	bool polls;                   /* with `poll`, as long as nothing was refused */
	struct file_path path, poll_path;
};

/* Where the file system cannot zero: written again and again. */
static uint8_t file_zeros[IO_ZEROES_MAX] __attribute__((aligned(4096))); /* for direct I/O */

static struct ring *file_ring(const struct mount *m)
{
	return m->worker->ring;
}

/* ---- Requests ---- */

static int file_sync_flags(const struct io *io)
{
	return (io->flags & IO_FUA) || io->mount->export->options->sync_writes ? RWF_DSYNC : 0;
}

static void file_rw_on(struct io *io, const struct file_path *path)
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
	sqe->flags |= path->sqe_flags;
	if (!read)
		sqe->rw_flags = file_sync_flags(io);
	ring_op(sqe, &io->op);
}

static void file_rw_done(struct op *op, int res, uint32_t flags);
static void file_polled_done(struct op *op, int res, uint32_t flags);

/* What has to be on stable storage is not polled for: its completion is more than the device's. */
static void file_rw(struct io *io)
{
	struct file_mount *f = io->mount->store_state;

	if (unlikely(f->polls) && (io->kind == IO_read || !file_sync_flags(io))) {
		io->op.done = file_polled_done;
		f->poll->polled++;
		file_rw_on(io, &f->poll_path);
	} else {
		io->op.done = file_rw_done;
		file_rw_on(io, &f->path);
	}
}

/* `bytes` of the memory are done with. */
static void file_advance(struct io *io, size_t bytes)
{
	unsigned done = 0;

	io->progress += bytes;
	while (done < io->iov_count && bytes >= io->iov[done].iov_len)
		bytes -= io->iov[done++].iov_len;
	io->iov_count -= done;
	memmove(io->iov, io->iov + done, io->iov_count * sizeof(*io->iov));
	if (io->iov_count > 0) {
		io->iov->iov_base = (uint8_t *)io->iov->iov_base + bytes;
		io->iov->iov_len -= bytes;
	}
}

static void file_rw_done(struct op *op, int res, uint32_t flags)
{
	struct io *io = container_of(op, struct io, op);

	(void)flags;
	if (likely(res > 0)) {
		if (likely(io->progress + (uint64_t)res == io->length)) {
			io_finish(io, 0);
			return;
		}
		file_advance(io, (size_t)res);
	} else if (res == 0) {
		/* The file ends here: somebody has cut it.  Or it takes no more. */
		io_finish(io, io->kind == IO_read ? -EIO : -ENOSPC);
		return;
	} else if (res != -EINTR && res != -EAGAIN) {
		io_finish(io, res);
		return;
	}
	file_rw(io);
}

/* The device or file system may refuse to be polled for only now: a hole is read without it. */
static void file_polled_done(struct op *op, int res, uint32_t flags)
{
	struct io *io = container_of(op, struct io, op);
	struct mount *m = io->mount;
	struct file_mount *f = m->store_state;

	f->poll->polled--;
	if (res != -EOPNOTSUPP) {
		file_rw_done(op, res, flags);
		return;
	}
	f->polls = false;
	atomic_fetch_and(&m->features, ~(1U << MOUNT_iopoll));
	file_rw(io);
}

/* ---- Where nothing else zeroes ---- */

static void file_zero(struct io *io)
{
	struct io_uring_sqe *sqe = ring_sqe(file_ring(io->mount));
	unsigned bytes = (unsigned)MIN(io->length - io->progress, sizeof(file_zeros));

	io_uring_prep_write(sqe, io->mount->export->fd, file_zeros, bytes,
			    io->offset + io->progress);
	sqe->rw_flags = file_sync_flags(io);
	ring_op(sqe, &io->op);
}

static void file_zero_done(struct op *op, int res, uint32_t flags)
{
	struct io *io = container_of(op, struct io, op);

	(void)flags;
	if (res > 0)
		io->progress += (uint64_t)res;
	if (res == 0 || (res < 0 && res != -EINTR && res != -EAGAIN))
		io_finish(io, res ? res : -ENOSPC);
	else if (io->progress == io->length)
		io_finish(io, 0);
	else
		file_zero(io);
}

/* ---- What takes a single operation ---- */

static void file_last_done(struct op *op, int res, uint32_t flags)
{
	(void)flags;
	io_finish(container_of(op, struct io, op), MIN(res, 0));
}

static void file_sync(struct io *io)
{
	struct io_uring_sqe *sqe = ring_sqe(file_ring(io->mount));
	const struct export *e = io->mount->export;

	/* A flush reports what the kernel failed to write; what FUA asks for must not swallow that
	 * report: see struct export. */
	io_uring_prep_fsync(sqe, io->kind == IO_flush ? e->sync_fd : e->fd, IORING_FSYNC_DATASYNC);
	io->op.done = file_last_done;
	ring_op(sqe, &io->op);
}

static void file_allocate_done(struct op *op, int res, uint32_t flags)
{
	struct io *io = container_of(op, struct io, op);

	(void)flags;
	if (res == -EINTR) {
		io->mount->store->submit(io);
	} else if (res == -EOPNOTSUPP && io->kind == IO_trim) {
		io_finish(io, 0); /* a hint */
	} else if (res == -EOPNOTSUPP && !(io->flags & IO_FAST)) {
		io->op.done = file_zero_done;
		file_zero(io);
	} else if (res == 0 && file_sync_flags(io)) {
		file_sync(io);
	} else {
		io_finish(io, res);
	}
}

static void file_allocate(struct io *io)
{
	struct io_uring_sqe *sqe = ring_sqe(file_ring(io->mount));
	int mode = FALLOC_FL_KEEP_SIZE;

	mode |= io->flags & IO_NO_HOLE ? FALLOC_FL_ZERO_RANGE : FALLOC_FL_PUNCH_HOLE;
	io_uring_prep_fallocate(sqe, io->mount->export->fd, mode, (off_t)io->offset,
				(off_t)io->length);
	io->op.done = file_allocate_done;
	ring_op(sqe, &io->op);
}

/* A hint: whatever comes of it is fine. */
static void file_cache_done(struct op *op, int res, uint32_t flags)
{
	(void)res, (void)flags;
	io_finish(container_of(op, struct io, op), 0);
}

static void file_cache(struct io *io)
{
	struct io_uring_sqe *sqe = ring_sqe(file_ring(io->mount));

	io_uring_prep_fadvise(sqe, io->mount->export->fd, io->offset,
			      (off_t)MIN(io->length, UINT32_MAX), POSIX_FADV_WILLNEED);
	io->op.done = file_cache_done;
	ring_op(sqe, &io->op);
}

/* There is no operation for that: the worker waits for the file system's maps, which mostly are in
 * memory. */
static void file_block_status(struct io *io)
{
	int result = extents_of_file(io, io->mount->export->fd);

	stat_add(io->mount->worker->stats.sys_other, io->calls);
	io_finish(io, result);
}

static void file_uring_submit(struct io *io)
{
	switch ((enum io_kind)io->kind) {
	case IO_read:
	case IO_write:
		file_rw(io);
		break;
	case IO_flush:
		file_sync(io);
		break;
	case IO_trim:
	case IO_write_zeroes:
		file_allocate(io);
		break;
	case IO_cache:
		file_cache(io);
		break;
	case IO_block_status:
		file_block_status(io);
		break;
	case IO_KIND_COUNT:
		break;
	}
}

/* ---- A ring of its own ---- */

/* Submits what is queued and takes what is done, which may queue more. */
static void file_ring_run(struct file_ring *f)
{
	struct ring *r = &f->ring;

	while (io_uring_sq_ready(&r->io) || ring_has_work(r)) {
		if (ring_ready(r))
			ring_reap(r);
		else if (io_uring_sq_ready(&r->io))
			ring_submit(r);
		else
			ring_enter(r, false, 0); /* runs the work that the kernel deferred */
	}
}

static void file_ring_readable(struct op *op, int res, uint32_t flags)
{
	struct file_ring *f = container_of(op, struct file_ring, op);

	(void)res, (void)flags;
	stat_add(f->ring.worker->stats.sys_other, 1);
	(void)!read(f->eventfd, &(uint64_t){ 0 }, sizeof(uint64_t));
	file_ring_run(f);
}

/* Nobody needs to be told of what completes in here. */
static bool file_ring_turn(struct worker_hook *hook)
{
	struct file_ring *f = container_of(hook, struct file_ring, hook);

	io_uring_cq_eventfd_toggle(&f->ring.io, false);
	file_ring_run(f);
	io_uring_cq_eventfd_toggle(&f->ring.io, true);
	atomic_thread_fence(memory_order_seq_cst);
	file_ring_run(f); /* what came before anybody would have been told */
	return false;
}

/* Nobody tells of polled completions: the worker looks for them turn after turn. */
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

static void file_ring_put(struct file_ring *f)
{
	struct worker *w = f->ring.worker;

	if (--f->users > 0)
		return;
	w->hooks = NULL; /* it will make no more turns */
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
	uint32_t features = w->features; /* the engine's: this ring's are not */
	int rc;

	if (!f) {
		reason_set(reason, -ENOMEM, "no memory");
		return NULL;
	}
	f->eventfd = -1;
	f->hook.run = flags ? file_ring_poll : file_ring_turn;
	rc = ring_init(&f->ring, w, flags, reason);
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

/* The rings that other mounts of this worker have brought. */
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

/* What cannot be registered goes without. */
static void file_register(struct mount *m, struct file_path *path)
{
	int slot;

	if (!m->export->options->registered)
		return;
	slot = ring_register_file(path->ring, path->fd, &m->reason);
	if (slot >= 0) {
		path->fd = slot;
		path->sqe_flags = IOSQE_FIXED_FILE;
		m->features |= 1U << MOUNT_registered_file;
	}
	if (ring_register_buffers(path->ring, &m->reason) == 0) {
		path->read_opcode = IORING_OP_READ_FIXED;
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

/* Does a read that is polled for succeed?  One that reads a hole succeeds anywhere: see
 * file_polled_done(). */
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

/* Polling, if the device takes a read that is polled for; without it goes on. */
static void file_attach_poll(struct mount *m, struct file_mount *f)
{
	if (!m->export->options->iopoll)
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

static int file_uring_attach(struct mount *m, struct reason *reason)
{
	struct file_mount *f = calloc(1, sizeof(*f));

	if (!f)
		return reason_set(reason, -ENOMEM, "no memory");
	file_rings_of_others(m, f);
	if (!f->own && !m->worker->ring) {
		f->own = file_ring_new(m->worker, 0, reason);
		if (!f->own) {
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

static void file_uring_detach(struct mount *m)
{
	struct file_mount *f = m->store_state;

	while (stat_load(m->in_flight) > 0) {
		if (f->poll)
			file_ring_poll(&f->poll->hook);
		ring_enter(f->path.ring, !f->poll && !ring_ready(f->path.ring), 0);
		ring_reap(f->path.ring);
	}
	if (f->path.sqe_flags)
		ring_unregister_file(f->path.ring, (unsigned)f->path.fd);
	if (f->poll)
		file_ring_put(f->poll);
	if (f->own)
		file_ring_put(f->own);
	free(f);
	m->store_state = NULL;
}

const struct store store_file_uring = {
	.name = "io_uring",
	.file = true,
	.probe = ring_probe,
	.open = file_open,
	.close = file_close,
	.attach = file_uring_attach,
	.detach = file_uring_detach,
	.submit = file_uring_submit,
};
