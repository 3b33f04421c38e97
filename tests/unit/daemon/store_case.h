/* A real worker with one export, for tests of the stores.  The file calls of the store `threads`
 * are the program's own, which fail or wait when told to. */
#pragma once
#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "conn.h"
#include "file.h"
#include "here.h"
#include "registry.h"
#include "ring.h"
#include "slices.h"
#include "store.h"
#include "syscall.h"
#include "unit.h"
#include "util.h"
#include "worker_owner.h"
#include "worker_stop.h"

enum { SIZE = 1 << 20, MEMORY_SIZE = 64 << 20, PIECE = 100, IOS_MAX = 8 };

/* ---- The calls of `threads` ---- */
/* NOLINTBEGIN(readability-inconsistent-declaration-parameter-name) */

static struct {
	_Atomic bool shorten, wait;
	_Atomic int error;       /* of fdatasync: */
	_Atomic int error_count; /* so often; 0: always */
	_Atomic unsigned syncs, folders;
	sem_t entered, go;
} calls;

ssize_t preadv(int fd, const struct iovec *iov, int count, off_t offset)
{
	struct iovec first = { iov->iov_base, MIN(iov->iov_len, (size_t)PIECE) };

	return atomic_load(&calls.shorten) ? syscall(SYS_preadv, fd, &first, 1, offset, 0)
					   : syscall(SYS_preadv, fd, iov, count, offset, 0);
}

ssize_t pwritev2(int fd, const struct iovec *iov, int count, off_t offset, int flags)
{
	struct iovec first = { iov->iov_base, MIN(iov->iov_len, (size_t)PIECE) };

	return atomic_load(&calls.shorten)
		       ? syscall(SYS_pwritev2, fd, &first, 1, offset, 0, flags)
		       : syscall(SYS_pwritev2, fd, iov, count, offset, 0, flags);
}

int fdatasync(int fd)
{
	atomic_fetch_add(&calls.syncs, 1);
	if (atomic_load(&calls.wait)) {
		sem_post(&calls.entered);
		sem_wait(&calls.go);
	}
	errno = atomic_load(&calls.error);
	if (errno && atomic_load(&calls.error_count) &&
	    atomic_fetch_sub(&calls.error_count, 1) == 1)
		atomic_store(&calls.error, 0);
	return errno ? -1 : (int)syscall(SYS_fdatasync, fd);
}

int fsync(int fd)
{
	struct stat st;

	calls.folders += fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
	return (int)syscall(SYS_fsync, fd);
}
/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */

/* ---- A worker with one export ---- */

struct disk {
	struct worker *worker;
	struct export_options options;
	struct export export;
	struct mount mount;
	struct conn conn;
	/* Indices of the I/O in the order in which they ended, and their number. */
	unsigned order[IOS_MAX], ended;
	struct io ios[IOS_MAX];
	int results[IOS_MAX];
	uint8_t *memory; /* of all I/O: chunks of the pool, as they are registered */
	struct call call;
	unsigned first, count; /* to submit */
	sem_t submitted, done;
	_Atomic unsigned failures;
};

static struct disk *disk_of(struct io *io)
{
	return container_of(io->mount, struct disk, mount);
}

static void disk_done(struct io *io, int result)
{
	struct disk *d = disk_of(io);

	d->results[io - d->ios] = result;
	d->order[d->ended++ % IOS_MAX] = (unsigned)(io - d->ios);
	sem_post(&d->done);
}

static void disk_submit(struct call *call)
{
	struct disk *d = container_of(call, struct disk, call);

	for (unsigned i = d->first; i < d->first + d->count; i++)
		io_submit(&d->ios[i]);
	sem_post(&d->submitted);
}

static void disk_on_failed(struct export *e)
{
	container_of(e, struct disk, export)->failures++;
}

/* fd >= 0: instead of a file. */
static struct disk *disk_new(const char *store, const char *engine, int fd)
{
	static const char path[] = "/tmp/nbserved-test-store-XXXXXX";
	struct disk *d = calloc(1, sizeof(*d));
	struct reason reason = { "" };
	struct worker *w = aligned_alloc(CACHE_LINE, sizeof(*w));

	assert_non_null(d);
	assert_non_null(w);
	memset(w, 0, sizeof(*w));
	memset(&calls, 0, sizeof(calls));
	sem_init(&calls.entered, 0, 0);
	sem_init(&calls.go, 0, 0);
	sem_init(&d->submitted, 0, 0);
	sem_init(&d->done, 0, 0);
	d->worker = w;
	d->options = (struct export_options){ .size = SIZE, .create = true, .threads = 4 };
	if (!strcmp(store, "memory"))
		d->options.size = MEMORY_SIZE;
	d->export = (struct export){ .name = "disk",
				     .options = &d->options,
				     .store = registry_store(store),
				     .fd = fd,
				     .align = 1,
				     .on_failed = disk_on_failed };
	if (d->export.store->file && fd < 0) {
		strcpy(d->options.path, path);
		close(mkstemp(d->options.path));
	}
	if (fd < 0)
		assert_int_equal(d->export.store->open(&d->export, &reason), 0);
	if (fd < 0 && d->export.store->prepare)
		assert_int_equal(d->export.store->prepare(&d->export, &(bool){ 0 }, &reason), 0);
	d->mount = (struct mount){ .export = &d->export, .store = d->export.store };
	d->conn.worker = w;
	w->engine = registry_engine(engine);
	w->mounts = &d->mount;
	w->mount_count = 1;
	w->options.buffers = 64;
	w->options.buffer_size = 65536;
	w->listener = "test";
	strcpy(w->name, "test");
	if (worker_start_and_wait(w, NULL, 0, &reason) < 0)
		fail_msg("%s", reason.text);
	d->memory = w->pool.slab + (w->pool.chunk_count / 2) * (size_t)w->pool.stride;
	memset(d->memory, 0, (size_t)IOS_MAX * 65536);
	return d;
}

static void disk_free(struct disk *d)
{
	worker_stop_and_wait(d->worker);
	assert_int_equal(d->mount.in_flight, 0);
	if (d->options.path[0])
		unlink(d->options.path);
	d->export.store->close(&d->export);
	free(d->worker);
	free(d);
}

CLEANUP_OF(struct disk *, disk_free)

static struct io *disk_io(struct disk *d, unsigned i, enum io_kind kind, uint64_t offset,
			  uint64_t length)
{
	struct io *io = &d->ios[i];

	*io = (struct io){ .done = disk_done,
			   .mount = &d->mount,
			   .conn = &d->conn,
			   .kind = (uint8_t)kind,
			   .offset = offset,
			   .length = length };
	if (kind == IO_read || kind == IO_write) { /* in two pieces */
		uint8_t *memory = d->memory + i * 65536;
		size_t half = (size_t)length / 2;

		io->iov_count = 2;
		io->iov[0] = (struct iovec){ memory, half };
		io->iov[1] = (struct iovec){ memory + half, (size_t)length - half };
	}
	return io;
}

static void disk_start_with(struct disk *d, void (*submit)(struct call *call), unsigned first,
			    unsigned count)
{
	d->call.fn = submit;
	d->first = first;
	d->count = count;
	worker_call(d->worker, &d->call);
	while (sem_wait(&d->submitted) < 0)
		;
}

static void disk_start(struct disk *d, unsigned first, unsigned count)
{
	disk_start_with(d, disk_submit, first, count);
}

static void disk_wait(struct disk *d, unsigned count)
{
	while (count > 0)
		count -= sem_wait(&d->done) == 0;
}

static int disk_run(struct disk *d, unsigned i)
{
	disk_start(d, i, 1);
	disk_wait(d, 1);
	return d->results[i];
}
