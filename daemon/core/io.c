/* Shared code of all stores: accounting, flushes that are shared, and exports that have failed.
 * Worker's thread.  See io.h.
 *
 * A write: io_submit() calls the mount's try_nowait() (store/file.c: pwritev2()), and unless that
 * was enough submit() of its store: store/file_uring.c, file_threads.c, memory.c, null.c. */
#include "io.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "store.h"
#include "worker.h"

#define NAME(name)  #name,
#define ERROR(name) "E" #name,
const char *const io_kind_names[] = { IO_KINDS(NAME) NULL };
const char *const io_error_names[] = { IO_ERRORS(ERROR) "other" };
const char *const mount_feature_names[] = { MOUNT_FEATURES(NAME) };

static enum io_error io_error(int error)
{
	switch (error) {
	case EIO:
		return IO_ERROR_IO;
	case ENOSPC:
	case EDQUOT:
	case EFBIG:
		return IO_ERROR_NOSPC;
	case EINVAL:
		return IO_ERROR_INVAL;
	case EPERM:
	case EROFS:
		return IO_ERROR_PERM;
	case ENOMEM:
		return IO_ERROR_NOMEM;
	case EOPNOTSUPP:
		return IO_ERROR_OPNOTSUPP;
	default:
		return IO_ERROR_other;
	}
}

/* Has a read found zeros, which most likely means a hole?  Only looks at the beginning, as random
 * data differs from zeros there. */
static bool io_found_zeros(const struct io *io)
{
	static const uint8_t zeros[512];

	return io->mount->export->holes && io->iov_count > 0 &&
	       memcmp(io->iov[0].iov_base, zeros, MIN(io->iov[0].iov_len, sizeof(zeros))) == 0;
}

/* Times a request of a sampled turn. */
static void io_sample(const struct io *io, int result)
{
	struct mount *m = io->mount;

	histogram_add(&m->operations[io->kind].latency, clock_ns() - io->start_ns, 1);
	if (io->kind == IO_read && result >= 0 && io_found_zeros(io))
		stat_add(m->zero_reads, 1);
}

static void io_account(const struct io *io, int result)
{
	struct mount *m = io->mount;
	struct operation_stats *operation = &m->operations[io->kind];

	stat_always_add(m->in_flight, UINT64_C(-1));
	if (unlikely(io->start_ns))
		io_sample(io, result);
	if (unlikely(result < 0)) {
		/* The request was abandoned because its client has gone or its worker ends: no
		 * error of the store. */
		bool given_up = result == -ESHUTDOWN;

		stat_add(operation->errors, !given_up);
		stat_add(m->errors[io_error(-result)], !given_up);
	} else if (io->kind == IO_read) {
		stat_add(m->bytes_read, io->length);
	} else if (io->kind == IO_write) {
		stat_add(m->bytes_written, io->length);
	}
}

static void io_end(struct io *io, int result)
{
	io_account(io, result);
	io->done(io, result);
}

/* ---- Making it stable ---- */

enum { SYNC_RETRIES_MAX = 8 };

static void export_fail(struct export *e, int error)
{
	int none = 0;

	if (atomic_compare_exchange_strong(&e->failed, &none, error) && e->on_failed)
		e->on_failed(e);
}

static void sync_end(struct io *covered, int result)
{
	for (struct io *next; covered; covered = next) {
		next = covered->next;
		io_end(covered, result);
	}
}

/* Starts a flush for all requests that wait.  Never after a failed flush: another one would succeed
 * although data was lost. */
static void sync_start(struct mount *m)
{
	struct io *covers = m->sync_waiting;

	m->sync_waiting = NULL;
	if (unlikely(atomic_load(&m->export->failed))) {
		sync_end(covers, -EIO);
		return;
	}
	m->syncing = true;
	m->sync_covers = covers;
	m->sync.mount = m;
	m->sync.kind = IO_flush;
	m->sync.calls = 0;
	m->sync.retries = 0;
	m->store->submit(&m->sync);
}

/* Was the flush not carried out, so that nothing was lost?  io_uring answers -ECANCELED when the
 * kernel cannot make a thread for it (TasksMax=), FUSE and NFS -EINTR. */
static bool sync_is_undone(int result)
{
	return result == -ECANCELED || result == -EINTR;
}

/* Takes the result of a flush.  A failed flush may have lost acknowledged writes, so the
 * export is marked as failed.  A flush that was not carried out is repeated; in the end it
 * fails only its requests. */
static void sync_ended(struct mount *m, int result)
{
	struct io *covered = m->sync_covers;

	if (unlikely(sync_is_undone(result)) && m->sync.retries++ < SYNC_RETRIES_MAX) {
		m->store->submit(&m->sync);
		return;
	}
	if (result < 0 && !sync_is_undone(result))
		export_fail(m->export, -result);
	m->syncing = false;
	if (m->sync_waiting)
		sync_start(m);
	sync_end(covered, result);
}

/* A flush in flight may not cover all writes that ended before io was submitted,
 * so io waits for the next. */
static void sync_add(struct io *io)
{
	struct mount *m = io->mount;

	io->next = m->sync_waiting;
	m->sync_waiting = io;
	if (!m->syncing)
		sync_start(m);
}

/* A read with FUA returns no data that a power loss could take back, so the flush follows it: it
 * covers all that the read can have seen. */
static bool io_is_synced(const struct io *io)
{
	return (io->flags & IO_FUA) && !io_is_dsync(io) &&
	       (io->kind <= IO_write || io->kind == IO_trim || io->kind == IO_write_zeroes);
}

/* ---- Requests ---- */

void io_submit(struct io *io)
{
	struct mount *m = io->mount;
	const struct worker *w = m->worker;

	io->progress = 0;
	io->calls = 0;
	io->retries = 0;
	io->start_ns = unlikely(w->turn.sampling) ? clock_ns() : 0;
	stat_add(m->operations[io->kind].count, 1);
	stat_always_add(m->in_flight, 1);
	if (io->kind == IO_flush)
		sync_add(io);
	else if (unlikely(atomic_load_explicit(&m->export->failed, memory_order_relaxed)))
		io_end(io, -EIO);
	else if (io->kind > IO_write || !m->try_nowait || !m->try_nowait(io))
		m->store->submit(io);
}

void io_advance(struct io *io, size_t bytes)
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

void io_finish(struct io *io, int result)
{
	if (unlikely(io == &io->mount->sync))
		sync_ended(io->mount, result);
	else if (unlikely(result == 0 && io_is_synced(io)))
		sync_add(io);
	else
		io_end(io, result);
}
