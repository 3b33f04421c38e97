/* The stores on real files, in a real worker: the results of requests when the kernel does less
 * than it was asked for, or fails.
 *
 * The file calls of the store `threads` are this program's own, which fail or wait when told to.
 * The kernel's io_uring cannot be told: requests fail there for real reasons. */
#include "store_case.h"

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

TEST(written_bytes_are_read_zeroed_and_reported_as_a_hole)
{
	struct io_extent extents[IO_EXTENTS_MAX];

	for_each_way(way, ARRAY_SIZE(ways))
	{
		CLEANUP(disk_free_p) struct disk *d = disk_new(way->store, way->engine, -1);

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
		if (!strcmp(way->store, "memory")) {
			assert_int_equal(d->ios[1].extent_count, 1);
			assert_false(extents[0].hole);
			continue;
		}
		assert_int_equal(d->ios[1].extent_count, 3);
		assert_true(extents[0].hole && !extents[1].hole && extents[2].hole);
		assert_int_equal(extents[0].length, 8192);
		assert_int_equal(extents[1].length, 4096);
		disk_io(d, 0, IO_flush, 0, 0);
		assert_int_equal(disk_run(d, 0), 0);
	}
}

/* The kernel writes up to the limit, and then refuses. */
TEST(text_beyond_a_limit_is_an_error_not_cut)
{
	struct rlimit all, some;

	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &all);
	for_each_way(way, 6)
	{
		CLEANUP(disk_free_p) struct disk *d = disk_new(way->store, way->engine, -1);

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
	}
}

TEST(a_file_that_was_cut_is_an_error)
{
	for_each_way(way, 6)
	{
		CLEANUP(disk_free_p) struct disk *d = disk_new(way->store, way->engine, -1);

		assert_int_equal(truncate(d->options.path, 5000), 0);
		disk_io(d, 0, IO_read, 0, 8192); /* short, and then nothing */
		assert_int_equal(disk_run(d, 0), -EIO);
		disk_io(d, 0, IO_read, 0, 5000);
		assert_int_equal(disk_run(d, 0), 0);
	}
}

/* An empty pipe that is O_NONBLOCK says EAGAIN as often as it is asked. */
TEST(eagain_does_not_keep_the_worker_busy)
{
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
TEST(a_flag_without_work_does_not_keep_the_worker_busy)
{
	struct disk *d;

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

/* ---- What costs the worker's time ---- */

/* One connection zeroes much, another a little. */
TEST(zeroing_of_one_connection_does_not_hold_up_another)
{
	CLEANUP(disk_free_p) struct disk *d = disk_new("memory", "epoll", -1);
	struct conn other = { .worker = d->worker };

	for (unsigned i = 0; i < IOS_MAX; i++)
		disk_io(d, i, IO_write_zeroes, 0, MEMORY_SIZE)->flags = IO_NO_HOLE;
	d->ios[IOS_MAX - 1].conn = &other;
	d->ios[IOS_MAX - 1].length = 4096;
	disk_start(d, 0, IOS_MAX);
	disk_wait(d, IOS_MAX);
	assert_int_equal(d->order[0], IOS_MAX - 1);
	for (unsigned i = 1; i < IOS_MAX; i++)
		assert_int_equal(d->order[i], i - 1);
	assert_int_equal(d->mount.operations[IO_write_zeroes].errors, 0);
}

static void disk_submit_and_drop(struct call *call)
{
	struct disk *d = container_of(call, struct disk, call);

	for (unsigned i = 0; i < IOS_MAX; i++)
		io_submit(&d->ios[i]);
	slices_drop(&d->conn);
	sem_post(&d->submitted);
}

TEST(zeroing_of_a_connection_that_ended_is_given_up)
{
	CLEANUP(disk_free_p) struct disk *d = disk_new("memory", "epoll", -1);
	struct conn other = { .worker = d->worker };

	for (unsigned i = 0; i < IOS_MAX; i++)
		disk_io(d, i, IO_write_zeroes, 0, MEMORY_SIZE)->flags = IO_NO_HOLE;
	d->ios[1].conn = &other;
	disk_start_with(d, disk_submit_and_drop, 0, IOS_MAX);
	disk_wait(d, IOS_MAX);
	for (unsigned i = 0; i < IOS_MAX; i++)
		assert_int_equal(d->results[i], i == 1 ? 0 : -ESHUTDOWN);
	assert_int_equal(d->mount.operations[IO_write_zeroes].errors, 0); /* not reported */
}

/* ---- Where the calls are ours ---- */

TEST(short_transfers_are_continued)
{
	CLEANUP(disk_free_p) struct disk *d = disk_new("threads", "epoll", -1);

	for (unsigned i = 0; i < 5000; i++)
		d->memory[i] = (uint8_t)(i % 251);
	atomic_store(&calls.shorten, true);
	disk_io(d, 0, IO_write, 77, 5000);
	assert_int_equal(disk_run(d, 0), 0);
	disk_io(d, 1, IO_read, 77, 5000);
	assert_int_equal(disk_run(d, 1), 0);
	assert_memory_equal(d->memory, d->memory + 65536, 5000);
	assert_in_range(d->worker->stats.sys_pread, 50, 52);
}

/* A flush or a request with FUA that comes while a flush is in flight waits for the next, with the
 * others. */
TEST(flushes_are_shared)
{
	CLEANUP(disk_free_p) struct disk *d = disk_new("threads", "epoll", -1);

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
}

/* A pool without threads to spare (ECANCELED), or FUSE (EINTR): nothing was lost. */
TEST(a_flush_that_was_not_carried_out_is_repeated)
{
	static const int errors[] = { ECANCELED, EINTR };

	for (unsigned i = 0; i < ARRAY_SIZE(errors); i++) {
		CLEANUP(disk_free_p) struct disk *d = disk_new("threads", "epoll", -1);

		atomic_store(&calls.error, errors[i]);
		atomic_store(&calls.error_count, 3);
		disk_io(d, 0, IO_write, 0, 100)->flags = IO_FUA;
		assert_int_equal(disk_run(d, 0), 0);
		assert_int_equal(calls.syncs, 4);
		atomic_store(&calls.error, errors[i]);
		disk_io(d, 1, IO_flush, 0, 0); /* it has a bound */
		assert_int_equal(disk_run(d, 1), -errors[i]);
		atomic_store(&calls.error, 0);
		assert_int_equal(disk_run(d, 1), 0);
		assert_int_equal(d->failures, 0);
	}
}

/* The data that it returns may have been written without a flush. */
TEST(a_read_with_fua_commits_what_it_read)
{
	CLEANUP(disk_free_p) struct disk *d = disk_new("threads", "epoll", -1);

	disk_io(d, 0, IO_write, 0, 100);
	assert_int_equal(disk_run(d, 0), 0);
	assert_int_equal(calls.syncs, 0);
	disk_io(d, 1, IO_read, 0, 100)->flags = IO_FUA;
	assert_int_equal(disk_run(d, 1), 0);
	assert_int_equal(calls.syncs, 1);
	atomic_store(&calls.error, EIO);
	disk_io(d, 1, IO_read, 0, 100)->flags = IO_FUA;
	assert_int_equal(disk_run(d, 1), -EIO);
}

TEST(a_flush_that_failed_is_never_repeated)
{
	CLEANUP(disk_free_p) struct disk *d;

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
}

TEST(fua_that_could_not_be_made_stable_fails_the_export)
{
	CLEANUP(disk_free_p) struct disk *d = disk_new("threads", "epoll", -1);

	atomic_store(&calls.error, EIO);
	disk_io(d, 0, IO_write_zeroes, 0, 4096)->flags = IO_FUA;
	assert_int_equal(disk_run(d, 0), -EIO);
	assert_int_equal(d->failures, 1);
}

TEST(the_name_of_a_file_that_was_made_is_durable)
{
	CLEANUP(disk_free_p) struct disk *d = disk_new("threads", "epoll", -1);

	assert_int_equal(calls.folders, 1);
	assert_int_equal(d->failures, 0);
}

TEST(memory_that_cannot_be_aligned_is_refused)
{
	CLEANUP(disk_free_p) struct disk *d = disk_new("null", "epoll", -1);
	struct reason reason;

	worker_stop_and_wait(d->worker);
	d->export.align = 1 << 20;
	d->worker->mount_count = 1;
	assert_int_equal(worker_start_and_wait(d->worker, NULL, 0, &reason), -EINVAL);
	assert_has(reason.text, "buffer-size");
}

/* `auto` on a busy host: a call that took long because others had the CPU has not waited. */
TEST(only_requests_that_would_block_go_to_the_store)
{
	struct mount m = { .suspect_until_ns = 0 };

	file_auto_slow(&m, 1000, 2 * NS_PER_MS, false);
	assert_int_equal(m.slow_until_ns, 0);
	assert_true(m.suspect_until_ns >=
		    1000 + 200 * (uint64_t)NS_PER_MS); /* however many calls */
	file_auto_slow(&m, 1000, 2 * NS_PER_MS, true);
	assert_int_equal(m.slow_until_ns, 1000 + 200 * (uint64_t)NS_PER_MS);
	assert_true(m.suspect_until_ns > m.slow_until_ns); /* then the first that waits is enough */
}
