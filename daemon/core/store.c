/* What all stores have in common: accounting, flushes that are shared, and exports that have
 * failed.  Worker's thread.  See store.h. */
#include "store.h"

#include <errno.h>
#include <stddef.h>

#include "worker.h"

const char *const io_kind_names[] = {
#define X(name) #name,
	IO_KINDS(X)
#undef X
		NULL,
};

const char *const io_error_names[] = {
#define X(name) [IO_ERROR_##name] = "E" #name,
	IO_ERRORS(X)
#undef X
		[IO_ERROR_other] = "other",
};

const char *const mount_feature_names[] = {
#define X(name) #name,
	MOUNT_FEATURES(X)
#undef X
};

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

/* ---- Flushes ---- */

/* True: io waits for the next flush, since one is under way that may not cover all of its writes.
 */
static bool flush_waits(struct io *io)
{
	struct mount *m = io->mount;

	if (!m->flushing) {
		m->flushing = io;
		return false;
	}
	io->next = m->flush_next;
	m->flush_next = io;
	return true;
}

static void export_fail(struct export *e, int error)
{
	int none = 0;

	if (atomic_compare_exchange_strong(&e->failed, &none, error) && e->on_failed)
		e->on_failed(e);
}

/* The flush of io, and of those that share it (io->next), is over: the next may start.  What it
 * could not write is lost, although it was acknowledged. */
static void flush_ended(struct io *io, int result)
{
	struct mount *m = io->mount;
	struct io *next = m->flush_next;

	if (result < 0)
		export_fail(m->export, -result);
	m->flushing = next;
	m->flush_next = NULL;
	if (!next)
		return;
	if (atomic_load(&m->export->failed))
		io_finish(next, -EIO);
	else
		m->store->submit(next);
}

/* ---- Requests ---- */

void io_submit(struct io *io)
{
	struct mount *m = io->mount;
	const struct worker *w = m->worker;

	io->next = NULL;
	io->progress = 0;
	io->calls = 0;
	io->start_ns = unlikely(w->sampling) ? clock_ns() : 0;
	stat_add(m->operations[io->kind].count, 1);
	stat_add(m->in_flight, 1);
	if (io->kind == IO_flush && flush_waits(io))
		return;
	if (unlikely(atomic_load_explicit(&m->export->failed, memory_order_relaxed)))
		io_finish(io, -EIO);
	else
		m->store->submit(io);
}

static void io_account(const struct io *io, int result)
{
	struct mount *m = io->mount;
	struct operation_stats *operation = &m->operations[io->kind];

	stat_add(m->in_flight, UINT64_C(-1));
	if (unlikely(io->start_ns))
		histogram_add(&operation->latency, clock_ns() - io->start_ns);
	if (unlikely(result < 0)) {
		stat_add(operation->errors, 1);
		stat_add(m->errors[io_error(-result)], 1);
	} else if (io->kind == IO_read) {
		stat_add(m->bytes_read, io->length);
	} else if (io->kind == IO_write) {
		stat_add(m->bytes_written, io->length);
	}
}

void io_finish(struct io *io, int result)
{
	struct io *next;

	if (io->kind == IO_flush)
		flush_ended(io, result);
	for (; io; io = next) { /* more than one: flushes that were shared */
		next = io->next;
		io_account(io, result);
		io->done(io, result);
	}
}

/* ---- Mounts ---- */

int mounts_attach(struct worker *w, struct reason *reason)
{
	for (unsigned i = 0; i < w->mount_count; i++) {
		struct mount *m = &w->mounts[i];
		int rc;

		m->worker = w;
		if (m->export->options->direct)
			m->features |= 1U << MOUNT_direct;
		rc = m->store->attach ? m->store->attach(m, reason) : 0;
		if (rc < 0) {
			w->mount_count = i;
			mounts_detach(w);
			return rc;
		}
	}
	return 0;
}

void mounts_detach(struct worker *w)
{
	for (unsigned i = w->mount_count; i-- > 0;)
		if (w->mounts[i].store->detach)
			w->mounts[i].store->detach(&w->mounts[i]);
	w->mount_count = 0;
}
