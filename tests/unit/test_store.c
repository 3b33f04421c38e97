/* The stores on real files, in a real worker: what a request hears when the kernel does less than
 * was asked, or fails.
 *
 * The file calls of the store `threads` are this program's own, which fail or wait when told to.
 * The kernel's io_uring cannot be told: what is here fails there by itself. */
#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cmocka.h>

#include "file.h"
#include "here.h"
#include "ring.h"
#include "store.h"
#include "syscall.h"
#include "util.h"
#include "worker.h"
#include "worker_stop.h"

enum { SIZE = 1 << 20, PIECE = 100, IOS_MAX = 8 };

/* ---- The calls of `threads` ---- */
/* NOLINTBEGIN(readability-inconsistent-declaration-parameter-name) */

static struct {
	_Atomic bool shorten, wait;
	_Atomic int error; /* of fdatasync */
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
	struct io ios[IOS_MAX];
	int results[IOS_MAX];
	uint8_t *memory; /* of all of them */
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
	d->export = (struct export){ .name = "disk",
				     .options = &d->options,
				     .store = store_find(store),
				     .fd = fd,
				     .align = 1,
				     .on_failed = disk_on_failed };
	if (d->export.store->file && fd < 0) {
		strcpy(d->options.path, path);
		close(mkstemp(d->options.path));
	}
	if (fd < 0)
		assert_int_equal(d->export.store->open(&d->export, &reason), 0);
	d->mount = (struct mount){ .export = &d->export, .store = d->export.store };
	w->engine = engine_find(engine);
	w->mounts = &d->mount;
	w->mount_count = 1;
	w->options.buffers = 64;
	w->options.buffer_size = 65536;
	w->listener = "test";
	strcpy(w->name, "test");
	if (worker_start(w, NULL, 0, &reason) < 0)
		fail_msg("%s", reason.text);
	d->memory = calloc(IOS_MAX, 65536);
	assert_non_null(d->memory);
	return d;
}

static void disk_free(struct disk *d)
{
	worker_stop(d->worker);
	assert_int_equal(d->mount.in_flight, 0);
	if (d->options.path[0])
		unlink(d->options.path);
	d->export.store->close(&d->export);
	free(d->worker);
	free(d->memory);
	free(d);
}

static struct io *disk_io(struct disk *d, unsigned i, enum io_kind kind, uint64_t offset,
			  uint64_t length)
{
	struct io *io = &d->ios[i];

	*io = (struct io){ .done = disk_done,
			   .mount = &d->mount,
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

/* ---- All stores on all engines ---- */

static const struct way {
	const char *store, *engine;
} ways[] = {
	{ "io_uring", "epoll" }, { "io_uring", "io_uring" }, { "io_uring", "io_uring-poll" },
	{ "threads", "epoll" },  { "threads", "io_uring" },  { "threads", "io_uring-poll" },
	{ "blocking", "epoll" }, { "memory", "epoll" },      { "memory", "io_uring" },
};

/* The first `count` of them, but for those that this kernel lacks. */
/* NOLINTBEGIN(bugprone-macro-parentheses): way is declared here */
#define for_each_way(way, count)                                                                   \
	for (const struct way *way = ways; way < ways + (count); way++)                            \
		if (is_here(way->store) && is_here(way->engine))
/* NOLINTEND(bugprone-macro-parentheses) */

static void what_is_written_is_read_and_zeroed_and_told_as_a_hole(void **state)
{
	struct io_extent extents[IO_EXTENTS_MAX];

	(void)state;
	for_each_way(way, ARRAY_SIZE(ways))
	{
		struct disk *d = disk_new(way->store, way->engine, -1);

		memset(d->memory, 'x', 65536);
		disk_io(d, 0, IO_write, 4096, 8192)->flags = IO_FUA;
		assert_int_equal(disk_run(d, 0), 0);
		disk_io(d, 1, IO_read, 4096, 8192);
		assert_int_equal(disk_run(d, 1), 0);
		assert_memory_equal(d->memory, d->memory + 65536, 8192);
		disk_io(d, 0, IO_write_zeroes, 4096, 4096)->flags = IO_FUA;
		assert_int_equal(disk_run(d, 0), 0);
		disk_io(d, 1, IO_block_status, 0, SIZE)->extents = extents;
		assert_int_equal(disk_run(d, 1), 0);
		assert_int_equal(d->ios[1].extent_count, 3);
		assert_true(extents[0].hole && !extents[1].hole && extents[2].hole);
		assert_int_equal(extents[0].length, 8192);
		assert_int_equal(extents[1].length, 4096);
		disk_io(d, 0, IO_flush, 0, 0);
		assert_int_equal(disk_run(d, 0), 0);
		disk_free(d);
	}
}

/* The kernel writes up to the limit, and then refuses. */
static void what_exceeds_a_limit_is_an_error_and_not_short(void **state)
{
	struct rlimit all, some;

	(void)state;
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &all);
	for_each_way(way, 6)
	{
		struct disk *d = disk_new(way->store, way->engine, -1);

		some = (struct rlimit){ SIZE / 2 + 1000, all.rlim_max };
		setrlimit(RLIMIT_FSIZE, &some);
		memset(d->memory, 'x', 8192);
		disk_io(d, 0, IO_write, SIZE / 2, 8192);
		assert_int_equal(disk_run(d, 0), -EFBIG);
		assert_int_equal(d->mount.errors[IO_ERROR_NOSPC], 1);
		disk_io(d, 1, IO_read, SIZE / 2, 2000);
		assert_int_equal(disk_run(d, 1), 0);
		assert_memory_equal(d->memory + 65536, d->memory, 1000); /* it was short */
		assert_int_equal(d->memory[65536 + 1000], 0);
		setrlimit(RLIMIT_FSIZE, &all);
		disk_free(d);
	}
}

static void a_file_that_was_cut_is_an_error(void **state)
{
	(void)state;
	for_each_way(way, 6)
	{
		struct disk *d = disk_new(way->store, way->engine, -1);

		assert_int_equal(truncate(d->options.path, 5000), 0);
		disk_io(d, 0, IO_read, 0, 8192); /* short, and then nothing */
		assert_int_equal(disk_run(d, 0), -EIO);
		disk_io(d, 0, IO_read, 0, 5000);
		assert_int_equal(disk_run(d, 0), 0);
		disk_free(d);
	}
}

/* An empty pipe that is O_NONBLOCK says EAGAIN as often as it is asked. */
static void eagain_does_not_keep_the_worker_busy(void **state)
{
	(void)state;
	alarm(20); /* or it never sleeps */
	for_each_way(way, 3)
	{
		int fds[2];
		struct disk *d;

		assert_int_equal(pipe2(fds, O_NONBLOCK | O_CLOEXEC), 0);
		d = disk_new(way->store, way->engine, fds[0]);
		disk_io(d, 0, IO_read, 0, 10);
		disk_start(d, 0, 1);
		while (!atomic_load(&d->worker->idle))
			;
		assert_int_equal(write(fds[1], "0123456789", 10), 10);
		disk_wait(d, 1);
		assert_true(d->results[0] == 0 || d->results[0] == -EAGAIN);
		disk_free(d); /* closes that end */
		close(fds[1]);
	}
	alarm(0);
}

static void disk_submit_stale(struct call *call)
{
	const struct disk *d = container_of(call, struct disk, call);

	__atomic_or_fetch(d->worker->ring->io.sq.kflags, IORING_SQ_TASKRUN, __ATOMIC_SEQ_CST);
	disk_submit(call);
}

/* The kernel sets the flag after it has added work: when the worker was faster, nothing is left to
 * do, and nothing takes the flag back.  (fio --numjobs=4 --iodepth=32 made that in a minute.) */
static void a_flag_without_work_does_not_keep_the_worker_busy(void **state)
{
	struct disk *d;

	(void)state;
	if (!is_here("io_uring"))
		skip();
	d = disk_new("io_uring", "epoll", -1);
	alarm(20); /* or it never sleeps */
	disk_io(d, 0, IO_read, 0, 10);
	disk_start_with(d, disk_submit_stale, 0, 1);
	disk_wait(d, 1);
	assert_int_equal(d->results[0], 0);
	while (!atomic_load(&d->worker->idle))
		;
	disk_free(d);
	alarm(0);
}

/* ---- Where the calls are ours ---- */

static void short_transfers_go_on(void **state)
{
	struct disk *d = disk_new("threads", "epoll", -1);

	(void)state;
	for (unsigned i = 0; i < 5000; i++)
		d->memory[i] = (uint8_t)(i % 251);
	atomic_store(&calls.shorten, true);
	disk_io(d, 0, IO_write, 77, 5000);
	assert_int_equal(disk_run(d, 0), 0);
	disk_io(d, 1, IO_read, 77, 5000);
	assert_int_equal(disk_run(d, 1), 0);
	assert_memory_equal(d->memory, d->memory + 65536, 5000);
	assert_in_range(d->worker->stats.sys_pread, 50, 52);
	disk_free(d);
}

/* A flush, or what has FUA, that comes while one is under way waits for the next, with the others.
 */
static void flushes_are_shared(void **state)
{
	struct disk *d = disk_new("threads", "epoll", -1);

	(void)state;
	atomic_store(&calls.wait, true);
	disk_io(d, 0, IO_flush, 0, 0);
	disk_start(d, 0, 1);
	sem_wait(&calls.entered);
	for (unsigned i = 1; i < 4; i++)
		disk_io(d, i, IO_flush, 0, 0);
	disk_io(d, 4, IO_write, 0, 100); /* is done meanwhile */
	disk_io(d, 5, IO_read, 0, 100);
	disk_start(d, 1, 5);
	disk_wait(d, 2);
	assert_int_equal(calls.syncs, 1);
	sem_post(&calls.go);
	sem_wait(&calls.entered);
	sem_post(&calls.go);
	disk_wait(d, 4);
	assert_int_equal(calls.syncs, 2);
	for (unsigned i = 0; i < 6; i++)
		assert_int_equal(d->results[i], 0);
	atomic_store(&calls.wait, false);
	disk_io(d, 0, IO_write, 0, 100)->flags = IO_FUA;
	assert_int_equal(disk_run(d, 0), 0);
	assert_int_equal(calls.syncs, 3);
	disk_free(d);
}

static void a_flush_that_failed_is_never_repeated(void **state)
{
	struct disk *d;

	(void)state;
	if (!is_here("io_uring"))
		skip();
	d = disk_new("threads", "io_uring", -1);
	atomic_store(&calls.wait, true);
	atomic_store(&calls.error, EIO);
	disk_io(d, 0, IO_flush, 0, 0);
	disk_start(d, 0, 1);
	sem_wait(&calls.entered);
	disk_io(d, 1, IO_flush, 0, 0);
	disk_start(d, 1, 1);
	atomic_store(&calls.wait, false);
	sem_post(&calls.go);
	disk_wait(d, 2);
	atomic_store(&calls.error, 0); /* the kernel tells once */
	disk_io(d, 2, IO_read, 0, 100);
	disk_io(d, 3, IO_write, 0, 100)->flags = IO_FUA;
	disk_io(d, 4, IO_flush, 0, 0);
	disk_start(d, 2, 3);
	disk_wait(d, 3);
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(d->results[i], -EIO);
	assert_int_equal(calls.syncs, 1);
	assert_int_equal(d->failures, 1);
	assert_int_equal(d->export.failed, EIO);
	assert_int_equal(d->mount.errors[IO_ERROR_IO], 5);
	disk_free(d);
}

static void fua_that_could_not_be_made_stable_fails_the_export(void **state)
{
	struct disk *d = disk_new("threads", "epoll", -1);

	(void)state;
	atomic_store(&calls.error, EIO);
	disk_io(d, 0, IO_write_zeroes, 0, 4096)->flags = IO_FUA;
	assert_int_equal(disk_run(d, 0), -EIO);
	assert_int_equal(d->failures, 1);
	disk_free(d);
}

static void the_name_of_a_file_that_was_made_is_durable(void **state)
{
	struct disk *d = disk_new("threads", "epoll", -1);

	(void)state;
	assert_int_equal(calls.folders, 1);
	disk_free(d);
}

static void memory_that_cannot_be_aligned_is_refused(void **state)
{
	struct disk *d = disk_new("null", "epoll", -1);
	struct reason reason;

	(void)state;
	worker_stop(d->worker);
	d->export.align = 1 << 20;
	d->worker->mount_count = 1;
	assert_int_equal(worker_start(d->worker, NULL, 0, &reason), -EINVAL);
	assert_non_null(strstr(reason.text, "buffer-size"));
	disk_free(d);
}

/* `auto` on a busy host: a call that took long because others had the CPU has not waited. */
static void only_what_waits_goes_to_the_store(void **state)
{
	struct mount m = { .suspect_until_ns = 0 };

	(void)state;
	file_auto_slow(&m, 1000, 2 * NS_PER_MS, false);
	assert_int_equal(m.slow_until_ns, 0);
	assert_true(m.suspect_until_ns >=
		    1000 + 200 * (uint64_t)NS_PER_MS); /* however many calls */
	file_auto_slow(&m, 1000, 2 * NS_PER_MS, true);
	assert_int_equal(m.slow_until_ns, 1000 + 200 * (uint64_t)NS_PER_MS);
	assert_true(m.suspect_until_ns > m.slow_until_ns); /* then the first that waits is enough */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_read_and_zeroed_and_told_as_a_hole),
		cmocka_unit_test(what_exceeds_a_limit_is_an_error_and_not_short),
		cmocka_unit_test(a_file_that_was_cut_is_an_error),
		cmocka_unit_test(eagain_does_not_keep_the_worker_busy),
		cmocka_unit_test(a_flag_without_work_does_not_keep_the_worker_busy),
		cmocka_unit_test(short_transfers_go_on),
		cmocka_unit_test(flushes_are_shared),
		cmocka_unit_test(a_flush_that_failed_is_never_repeated),
		cmocka_unit_test(fua_that_could_not_be_made_stable_fails_the_export),
		cmocka_unit_test(the_name_of_a_file_that_was_made_is_durable),
		cmocka_unit_test(memory_that_cannot_be_aligned_is_refused),
		cmocka_unit_test(only_what_waits_goes_to_the_store),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
