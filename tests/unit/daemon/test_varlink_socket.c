/* The socket of the Varlink server: its mode, and what may be in its place when a server starts. */
#include "varlink_case.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/stat.h>

static const struct varlink_method methods[] = {
	{ "Echo", VARLINK_READ, false, NULL, echo },
	{ 0 },
};
static const struct varlink_interface interface = { "org.example.Test",
						    "interface org.example.Test\n", methods };

static _Atomic bool ended;

/* Makes files meanwhile; not NULL: one of them had another mode than it was made with. */
static void *make_files(void *arg)
{
	const char *path = arg;
	struct stat st;
	bool wrong = false;

	while (!ended && !wrong) {
		int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);

		if (fd >= 0 && fstat(fd, &st) == 0 && (st.st_mode & 07777) != 0666)
			wrong = true;
		unlink(path);
		close(fd);
	}
	return wrong ? arg : NULL;
}

/* The umask is the whole process's. */
TEST(files_of_other_threads_keep_their_mode)
{
	mode_t mask = umask(0);
	pthread_t thread;
	char file[] = "/tmp/test_varlink_mode.XXXXXX", path[64];
	void *wrong;

	close(mkstemp(file));
	snprintf(path, sizeof(path), "%s.sock", file);
	ended = false;
	unlink(file);
	pthread_create(&thread, NULL, make_files, file);
	for (unsigned i = 0; i < 5000; i++) {
		struct unix_socket s;
		struct reason reason;

		assert_int_equal(unix_socket_open(path, (gid_t)-1, 1, &s, &reason), 0);
		unix_socket_close(&s);
	}
	ended = true;
	pthread_join(thread, &wrong);
	umask(mask);
	assert_null(wrong);
}

static void stop(struct world *w)
{
	varlink_free(w->varlink);
	w->varlink = NULL;
}

static int try_to_listen(struct world *w, struct reason *reason)
{
	struct varlink *v;
	int rc;

	assert_int_equal(varlink_new(w->event, w->interface, w, &v), 0);
	rc = varlink_listen(v, w->path, (gid_t)-1, reason);
	varlink_free(v);
	return rc;
}

/* Another server that has bound it and does not listen yet is not robbed of it, and to find out
 * leaves no connection in its queue. */
TEST_WITH(the_owner_is_found_without_connecting, setup, teardown, &interface)
{
	struct world *w = *state;
	struct sockaddr_un sa = address_of(w);
	struct reason reason = { 0 };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);

	stop(w);
	assert_int_equal(bind(fd, (const struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_int_equal(try_to_listen(w, &reason), -EADDRINUSE);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(try_to_listen(w, &reason), -EADDRINUSE);
	assert_int_equal(accept(fd, NULL, NULL), -1);
	assert_int_equal(errno, EAGAIN);
	close(fd);
	assert_int_equal(unlink(w->path), 0);
}

TEST_WITH(out_of_descriptors_it_does_not_spin, setup, teardown, &interface)
{
	struct world *w = *state;
	struct rlimit old, none;
	struct sockaddr_un sa = address_of(w);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	none = (struct rlimit){ .rlim_cur = (rlim_t)fd, .rlim_max = old.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_int_equal(connect(fd, (const struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_true(pump(w) < 10);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_int_equal(sd_event_run(w->event, 5000 * 1000), 1); /* a second later */
	expect_service(w, fd);
	close(fd);
}
