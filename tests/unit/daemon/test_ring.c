/* ring/: the kernel allows a ring the operations of its purpose and refuses the rest
 * (ring_setup.c).  A worker that does not sleep gets the work that the kernel has deferred; one
 * that gathers requests looks for input in time. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ring.h"
#include "ring_keys.h"
#include "unit.h"

static struct worker worker;
static struct ring ring;

/* False: this host has no rings, or does not restrict them; says why. */
static bool open_ring(unsigned uses)
{
	struct reason reason = { "" };

	worker = (struct worker){ 0 };
	if (ring_init(&ring, &worker, 0, uses, &reason) < 0) {
		print_message("skipped: %s\n", reason.text);
		return false;
	}
	if (worker.features & FEATURE_BIT(restricted))
		return true;
	print_message("skipped: this kernel does not restrict rings\n");
	ring_fini(&ring);
	return false;
}

/* The result of the operation that was prepared last. */
static int result(void)
{
	struct io_uring_cqe *cqe;
	int res;

	ring_enter(&ring, true, 0);
	assert_int_equal(io_uring_peek_cqe(&ring.io, &cqe), 0);
	res = cqe->res;
	io_uring_cqe_seen(&ring.io, cqe);
	return res;
}

static int try_nop(void)
{
	io_uring_prep_nop(ring_sqe(&ring));
	return result();
}

static int try_open(void)
{
	io_uring_prep_openat(ring_sqe(&ring), AT_FDCWD, "/dev/null", O_RDONLY, 0);
	return result();
}

static int try_read(void)
{
	int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC), res;
	char byte;

	assert_true(fd >= 0);
	io_uring_prep_read(ring_sqe(&ring), fd, &byte, 1, 0);
	res = result();
	close(fd);
	return res;
}

static int try_poll(uint8_t flags)
{
	int fds[2], res;
	struct io_uring_sqe *sqe;

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	sqe = ring_sqe(&ring);
	io_uring_prep_poll_add(sqe, fds[1], POLLOUT);
	sqe->flags = flags;
	res = result();
	close(fds[0]);
	close(fds[1]);
	return res;
}

TEST(a_listener_s_ring_touches_no_file)
{
	if (!open_ring(RING_LISTENS | RING_TRANSFERS))
		skip();
	assert_int_equal(try_poll(0), POLLOUT);
	assert_int_equal(try_read(), -EACCES);
	assert_int_equal(try_open(), -EACCES);
	assert_int_equal(try_nop(), -EACCES);
	assert_int_equal(try_poll(IOSQE_IO_DRAIN), -EACCES);
	assert_int_equal(try_poll(0), POLLOUT);
	ring_fini(&ring);
}

TEST(a_store_s_ring_does_nothing_else)
{
	if (!open_ring(RING_STORES))
		skip();
	assert_int_equal(try_read(), 1);
	assert_int_equal(try_open(), -EACCES);
	assert_int_equal(try_poll(0), -EACCES);
	assert_int_equal(try_read(), 1);
	ring_fini(&ring);
}

TEST(registrations_are_restricted_too)
{
	if (!open_ring(RING_LISTENS | RING_TRANSFERS))
		skip();
	assert_int_equal(io_uring_register_personality(&ring.io), -EACCES);
	assert_int_equal(io_uring_register_eventfd(&ring.io, 0), -EACCES);
	assert_int_equal(io_uring_register_files_sparse(&ring.io, 8), 0);
	assert_int_equal(ring_restrict(&ring, RING_STORES), -EACCES); /* it is for good */
	ring_fini(&ring);
}

/* ---- Catching up ---- */

enum { EVENTS = 100, HANG_S = 20 };

/* False: this kernel runs work as it comes. */
static bool open_deferring_ring(void)
{
	if (!open_ring(RING_LISTENS | RING_TRANSFERS))
		return false;
	if (worker.features & FEATURE_BIT(defer_taskrun))
		return true;
	print_message("skipped: this kernel does not defer work\n");
	ring_fini(&ring);
	return false;
}

TEST(all_events_are_delivered_not_only_20)
{
	int fds[EVENTS][2];

	if (!open_deferring_ring())
		skip();
	for (unsigned i = 0; i < EVENTS; i++) {
		assert_int_equal(pipe2(fds[i], O_CLOEXEC), 0);
		io_uring_prep_poll_add(ring_sqe(&ring), fds[i][0], POLLIN);
	}
	ring_submit(&ring);
	for (unsigned i = 0; i < EVENTS; i++)
		assert_int_equal(write(fds[i][1], "x", 1), 1);
	assert_int_equal(ring_ready(&ring), 0);
	ring_catch_up(&ring);
	assert_int_equal(ring_ready(&ring), EVENTS);
	ring_fini(&ring);
	for (unsigned i = 0; i < EVENTS; i++) {
		close(fds[i][0]);
		close(fds[i][1]);
	}
}

/* As the kernel leaves it when the work has run before the flag was set. */
TEST(a_stale_flag_of_deferred_work_does_not_prevent_sleep)
{
	if (!open_deferring_ring())
		skip();
	__atomic_fetch_or(ring.sq_flags, IORING_SQ_TASKRUN, __ATOMIC_RELAXED);
	alarm(HANG_S);
	ring_catch_up(&ring);
	alarm(0);
	assert_int_equal(atomic_load(&worker.stats.sys_io_uring_enter), 1);
	ring_fini(&ring);
}

/* A client without an answer yet sends nothing; it may have more requests in flight
 * nevertheless. */
TEST(answers_are_sent_before_input_is_looked_for)
{
	int fds[2];

	if (!open_deferring_ring())
		skip();
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	worker.batch = (struct batching){ .on = true, .max_ns = NS_PER_MS };
	io_uring_prep_poll_add(ring_sqe(&ring), fds[1], POLLOUT); /* is true when submitted */
	alarm(HANG_S);
	ring_wait(&ring, true);
	alarm(0);
	assert_true(worker.batch.delay_ns > 0);
	ring_fini(&ring);
	close(fds[0]);
	close(fds[1]);
}

/* The kernel's thread takes submissions without a call, so they need not wait until a turn finds no
 * completion. */
TEST(sqpoll_sees_submissions_while_completions_wait)
{
	const struct ring_options options = { .sqpoll = KEY_CPU_ANY };
	struct reason reason = { "" };

	worker = (struct worker){ 0 };
	options_set(&worker.options, &ring_key_table, &options);
	if (ring_init(&ring, &worker, 0, RING_LISTENS, &reason) < 0) {
		print_message("skipped: %s\n", reason.text);
		return;
	}
	for (unsigned n = 1; n <= 3; n++) {
		uint64_t end_ns = clock_ns() + 10 * (uint64_t)NS_PER_S;
		struct io_uring_sqe *sqe = ring_sqe(&ring);

		io_uring_prep_cancel(sqe, &worker, 0); /* of nothing: completes at once */
		ring_op(sqe, NULL);
		if (n == 1)
			ring_submit(&ring);
		else if (n == 2)
			ring_catch_up(&ring);
		else
			assert_false(ring_wait(&ring, true));
		while (ring_ready(&ring) < n && clock_ns() < end_ns)
			sched_yield();
		assert_int_equal(ring_ready(&ring), n);
	}
	ring_fini(&ring);
}

/* The child is in a PID namespace of its own, with its own /proc: its number there is 1. */
static int see_kernel_tid(int out)
{
	pid_t number;

	if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("proc", "/proc", "proc", 0, NULL) < 0)
		return 1;
	number = ring_kernel_tid();
	return getpid() != 1 || write(out, &number, sizeof(number)) != sizeof(number);
}

TEST(the_kernels_number_of_a_thread_is_known_in_a_pid_namespace)
{
	pid_t number, outside, child;
	int fds[2], status;

	outside = ring_kernel_tid();
	if (outside != (pid_t)syscall(SYS_gettid) || getuid() != 0)
		skip(); /* a test in a namespace does not know the numbers outside */
	assert_int_equal(pipe(fds), 0);
	child = fork();
	if (child == 0) {
		pid_t inner;

		if (unshare(CLONE_NEWPID | CLONE_NEWNS) < 0)
			_exit(77);
		inner = fork();
		if (inner == 0)
			_exit(see_kernel_tid(fds[1]));
		_exit(write(fds[1], &inner, sizeof(inner)) != sizeof(inner) ||
		      waitpid(inner, &status, 0) != inner || status != 0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	if (WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(status, 0);
	assert_int_equal(read(fds[0], &outside, sizeof(outside)), sizeof(outside));
	assert_int_equal(read(fds[0], &number, sizeof(number)), sizeof(number));
	assert_int_equal(number, outside);
	assert_true(number > 1);
	close(fds[0]);
	close(fds[1]);
}
