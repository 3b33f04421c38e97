/* host/notify.c with a service manager that reads when it likes to. */
#include "notify.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "unit.h"
#include "util.h"

enum { MANY = 700 }; /* net.unix.max_dgram_qlen is 10, or 512 (systemd) */

struct manager {
	int fd;
	sd_event *event;
	struct notify notify;
};

static int setup(void **state)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	struct manager *m = calloc(1, sizeof(*m));
	socklen_t bytes = sizeof(at);
	char name[64];

	assert_non_null(m);
	m->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	/* The kernel chooses an abstract name. */
	assert_int_equal(bind(m->fd, (struct sockaddr *)&at, sizeof(sa_family_t)), 0);
	assert_int_equal(getsockname(m->fd, (struct sockaddr *)&at, &bytes), 0);
	snprintf(name, sizeof(name), "@%.*s", (int)(bytes - sizeof(sa_family_t) - 1),
		 at.sun_path + 1);
	setenv("NOTIFY_SOCKET", name, 1);
	assert_true(sd_event_new(&m->event) >= 0);
	notify_open(&m->notify, m->event);
	*state = m;
	return 0;
}

static int teardown(void **state)
{
	struct manager *m = *state;

	notify_close(&m->notify);
	sd_event_unref(m->event);
	close(m->fd);
	free(m);
	return 0;
}

/* One message, with at most one descriptor (-1: none); false: there is none. */
static bool hear(struct manager *m, char text[static 64], int *ret_fd)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int))];
	} control = {};
	struct iovec iov = { text, 63 };
	struct msghdr message = { .msg_iov = &iov,
				  .msg_iovlen = 1,
				  .msg_control = &control,
				  .msg_controllen = sizeof(control) };
	ssize_t bytes = recvmsg(m->fd, &message, MSG_CMSG_CLOEXEC);

	if (bytes < 0)
		return false;
	text[bytes] = '\0';
	*ret_fd = -1;
	if (message.msg_controllen >= sizeof(struct cmsghdr))
		memcpy(ret_fd, CMSG_DATA(&control.header), sizeof(int));
	return true;
}

/* The next one: the daemon's event loop runs until it comes. */
static void assert_hears(struct manager *m, const char *expected, int *ret_fd)
{
	char text[64];

	while (!hear(m, text, ret_fd))
		assert_true(sd_event_run(m->event, 10 * 1000 * 1000) > 0);
	assert_string_equal(text, expected);
}

static bool is_silent(struct manager *m)
{
	char text[64];
	int fd;

	return !hear(m, text, &fd) && sd_event_run(m->event, 0) == 0 && !m->notify.first;
}

static void fill(struct manager *m)
{
	for (int i = 0; i < MANY; i++)
		assert_int_equal(notify(&m->notify, "N=%d", i), 0);
	assert_non_null(m->notify.first);
}

static void drain(struct manager *m)
{
	int fd;

	for (int i = 0; i < MANY; i++) {
		char expected[16];

		snprintf(expected, sizeof(expected), "N=%d", i);
		assert_hears(m, expected, &fd);
	}
}

static ino_t inode(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return st.st_ino;
}

/* The caller's may be closed meanwhile, and none is left behind. */
TEST_WITH(descriptors_are_copied_while_they_wait, setup, teardown, NULL)
{
	struct manager *m = *state;
	int ends[2], fd, next = dup(m->fd);
	ino_t expected;

	close(next); /* the lowest that is free */
	assert_int_equal(pipe(ends), 0);
	expected = inode(ends[0]);
	assert_int_equal(notify_send(&m->notify, "FDSTORE=1", ends, 1), 0);
	fill(m);
	assert_int_equal(notify_send(&m->notify, "FDSTORE=1", ends, 1), 0);
	close(ends[0]);
	close(ends[1]);
	assert_hears(m, "FDSTORE=1", &fd);
	assert_int_equal(inode(fd), expected);
	close(fd);
	drain(m);
	assert_hears(m, "FDSTORE=1", &fd);
	assert_int_equal(inode(fd), expected);
	close(fd);
	assert_true(is_silent(m));
	fd = dup(m->fd);
	assert_int_equal(fd, next);
	close(fd);
}

TEST_WITH(a_repetition_waits_once, setup, teardown, NULL)
{
	struct manager *m = *state;
	unsigned count;
	int fd;

	fill(m);
	count = m->notify.count;
	for (int i = 0; i < 100; i++)
		assert_int_equal(notify(&m->notify, "WATCHDOG=1"), 0);
	assert_int_equal(m->notify.count, count + 1);
	assert_int_equal(notify(&m->notify, "READY=1"), 0);
	assert_int_equal(notify(&m->notify, "WATCHDOG=1"), 0);
	drain(m);
	assert_hears(m, "WATCHDOG=1", &fd);
	assert_hears(m, "READY=1", &fd);
	assert_hears(m, "WATCHDOG=1", &fd);
	assert_true(is_silent(m));
}

TEST_WITH(too_many_are_refused, setup, teardown, NULL)
{
	struct manager *m = *state;
	int i = 0, rc;

	do
		rc = notify(&m->notify, "N=%d", i++);
	while (rc == 0);
	assert_int_equal(rc, -ENOBUFS);
	assert_int_equal(m->notify.count, 8192);
}

TEST_WITH(a_manager_that_is_gone_ends_the_wait, setup, teardown, NULL)
{
	struct manager *m = *state;

	fill(m);
	close(m->fd);
	m->fd = -1;
	while (m->notify.first)
		assert_true(sd_event_run(m->event, 10 * 1000 * 1000) > 0);
	assert_int_equal(m->notify.fd, -1);
	assert_int_equal(notify(&m->notify, "READY=1"), -ECONNREFUSED);
}

TEST_WITH(without_a_manager_nothing_is_to_be_told, setup, teardown, NULL)
{
	struct manager *m = *state;

	unsetenv("NOTIFY_SOCKET");
	assert_int_equal(notify(&m->notify, "READY=1"), 0);
	notify_barrier(&m->notify, UINT64_MAX);
	setenv("NOTIFY_SOCKET", "vsock:2:1", 1);
	assert_int_equal(notify(&m->notify, "READY=1"), -EINVAL);
	assert_int_equal(m->notify.fd, -1);
}

static void *read_all(void *context)
{
	struct manager *m = context;
	char text[64] = "";
	int fd = -1;

	while (strcmp(text, "BARRIER=1")) {
		struct pollfd readable = { .fd = m->fd, .events = POLLIN };

		poll(&readable, 1, -1);
		hear(m, text, &fd);
	}
	close(fd);
	return NULL;
}

TEST_WITH(a_barrier_ends_when_all_messages_were_read, setup, teardown, NULL)
{
	struct manager *m = *state;
	pthread_t thread;

	fill(m);
	assert_int_equal(pthread_create(&thread, NULL, read_all, m), 0);
	notify_barrier(&m->notify, UINT64_MAX);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(is_silent(m));
}
