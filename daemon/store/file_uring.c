/* Store `io_uring`: files through the worker's ring.  Worker's thread.  An io is the
 * owner of its operation: while one is in flight, io->op is the kernel's.  See
 * file_uring.h for the other files. */
#include "file_uring.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/uio.h>

#include "conn.h"
#include "slices.h"

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
	sqe->flags |= path->sqe_flags | file_retry_flags(io);
	if (io_is_dsync(io))
		sqe->rw_flags = RWF_DSYNC;
	ring_op(sqe, &io->op);
}

static void file_rw_done(struct op *op, int res, uint32_t flags);
static void file_polled_done(struct op *op, int res, uint32_t flags);

/* Starts a read or write.  Requests with FUA are not polled for, as more than the device's
 * completion is needed; nor are retried ones. */
static void file_rw(struct io *io)
{
	struct file_mount *f = io->mount->store_state;

	if (unlikely(f->polls) && !io_is_dsync(io) && io->retries == 0) {
		io->op.done = file_polled_done;
		f->poll->polled++;
		file_rw_on(io, &f->poll_path);
	} else {
		io->op.done = file_rw_done;
		file_rw_on(io, &f->path);
	}
}

/* A short transfer is continued behind its end; progress resets the count of retries. */
static void file_rw_done(struct op *op, int res, uint32_t flags)
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
	file_rw(io);
}

/* The device or file system may refuse polling only now, as reads of holes succeed without it. */
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

/* ---- Zeroing by writing, where the file system can do it in no other way ---- */

static void file_zero(struct io *io)
{
	struct io_uring_sqe *sqe = ring_sqe(io->mount->worker->ring);
	unsigned bytes = (unsigned)MIN(io->length - io->progress, sizeof(file_zeros));

	io_uring_prep_write(sqe, io->mount->export->fd, file_zeros, bytes,
			    io->offset + io->progress);
	sqe->flags |= file_retry_flags(io);
	ring_op(sqe, &io->op);
}

static void file_zero_done(struct op *op, int res, uint32_t flags)
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
		file_zero(io);
}

/* ---- Requests of a single operation ---- */

/* IO_cache is a hint: any result is success. */
static void file_last_done(struct op *op, int res, uint32_t flags)
{
	struct io *io = container_of(op, struct io, op);

	(void)flags;
	io_finish(io, io->kind == IO_cache ? 0 : MIN(res, 0));
}

/* Flushes by the mount's own descriptor, so that the mount sees each failed write-back. */
static void file_sync(struct io *io)
{
	struct io_uring_sqe *sqe = ring_sqe(io->mount->worker->ring);

	io_uring_prep_fsync(sqe, io->mount->sync_fd, IORING_FSYNC_DATASYNC);
	io->op.done = file_last_done;
	ring_op(sqe, &io->op);
}

static void file_allocate(struct io *io);

static void file_allocate_done(struct op *op, int res, uint32_t flags)
{
	struct io *io = container_of(op, struct io, op);

	(void)flags;
	if (file_retries(io, res)) {
		file_allocate(io);
	} else if (res == 0 || !file_cannot_allocate(io, -res)) {
		io_finish(io, res);
	} else if (io->kind == IO_trim) {
		io_finish(io, 0); /* a hint */
	} else if (io->flags & IO_FAST) {
		io_finish(io, -EOPNOTSUPP);
	} else {
		io->op.done = file_zero_done;
		file_zero(io);
	}
}

/* Punches a hole, or zeroes the range in place if it must stay allocated (IO_NO_HOLE).  KEEP_SIZE:
 * fallocate() must not make the file longer. */
static void file_allocate(struct io *io)
{
	struct io_uring_sqe *sqe = ring_sqe(io->mount->worker->ring);
	int mode = FALLOC_FL_KEEP_SIZE;

	mode |= io->flags & IO_NO_HOLE ? FALLOC_FL_ZERO_RANGE : FALLOC_FL_PUNCH_HOLE;
	io_uring_prep_fallocate(sqe, io->mount->export->fd, mode, (off_t)io->offset,
				(off_t)io->length);
	io->op.done = file_allocate_done;
	ring_op(sqe, &io->op);
}

static void file_cache(struct io *io)
{
	struct io_uring_sqe *sqe = ring_sqe(io->mount->worker->ring);

	io_uring_prep_fadvise(sqe, io->mount->export->fd, io->offset,
			      (uint32_t)MIN(io->length, UINT32_MAX), POSIX_FADV_WILLNEED);
	io->op.done = file_last_done;
	ring_op(sqe, &io->op);
}

/* io_uring has no operation for this: the worker calls lseek() and may block until the file
 * system's maps, mostly in memory, are read. */
static int file_slice(struct io *io)
{
	return file_extents(io, io->mount->export->fd);
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
		slices_submit(io);
		break;
	case IO_KIND_COUNT:
		break;
	}
}

const struct store store_file_uring = {
	.name = "io_uring",
	.file = true,
	.batches = true,
	.probe = ring_probe,
	.open = file_open,
	.prepare = file_prepare,
	.changed = file_has_changed,
	.close = file_close,
	.attach = file_uring_attach,
	.detach = file_uring_detach,
	.submit = file_uring_submit,
	.slice = file_slice,
};
