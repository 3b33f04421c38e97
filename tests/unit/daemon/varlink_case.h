/* A Varlink server over a real socket: the client and the server share the thread of the test and
 * its event loop. */
#pragma once
#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "unit.h"
#include "util.h"
#include "varlink.h"

enum { ANSWER_MAX = 4 * 1024 * 1024, LOOPS_MAX = 10000 };

struct world {
	const struct varlink_interface
		*interface; /* of the methods under test; they get the world */
	sd_event *event;
	struct varlink *varlink;
	char directory[32], path[64];
};

static inline struct varlink *start(struct world *w)
{
	struct varlink *v;
	struct reason reason = { 0 };

	assert_int_equal(varlink_new(w->event, w->interface, w, &v), 0);
	assert_int_equal(varlink_listen(v, w->path, (gid_t)-1, &reason), 0);
	return v;
}

/* Before the set-up the state of a test is its interface. */
static inline int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	w->interface = *state;
	strcpy(w->directory, "/tmp/nbserved-XXXXXX");
	assert_non_null(mkdtemp(w->directory));
	snprintf(w->path, sizeof(w->path), "%s/s", w->directory);
	assert_true(sd_event_new(&w->event) >= 0);
	w->varlink = start(w);
	*state = w;
	return 0;
}

static inline int teardown(void **state)
{
	struct world *w = *state;

	varlink_free(w->varlink);
	sd_event_unref(w->event);
	assert_int_equal(access(w->path, F_OK), -1);
	assert_int_equal(rmdir(w->directory), 0);
	free(w);
	return 0;
}

/* Runs the server until it has nothing more to do; how many events that were. */
static inline unsigned pump(struct world *w)
{
	unsigned events = 0;

	while (sd_event_run(w->event, 0) > 0)
		assert_true(++events < LOOPS_MAX);
	return events;
}

static inline struct sockaddr_un address_of(const struct world *w)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };

	strcpy(sa.sun_path, w->path);
	return sa;
}

static inline int dial(struct world *w)
{
	struct sockaddr_un sa = address_of(w);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);

	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (const struct sockaddr *)&sa, sizeof(sa)), 0);
	pump(w);
	return fd;
}

static inline void say_bytes(struct world *w, int fd, const char *text, size_t bytes)
{
	assert_int_equal(send(fd, text, bytes, MSG_NOSIGNAL), bytes);
	pump(w);
}

/* With its NUL. */
static inline void say(struct world *w, int fd, const char *text)
{
	say_bytes(w, fd, text, strlen(text) + 1);
}

/* Reads what there is: its bytes, or -1 for the end of the connection. */
static inline ssize_t hear_bytes(struct world *w, int fd, char *answer)
{
	size_t bytes = 0;
	ssize_t got;

	do {
		pump(w);
		got = recv(fd, answer + bytes, ANSWER_MAX - bytes, 0);
		if (got > 0)
			bytes += (size_t)got;
	} while (got > 0);
	if (bytes == 0 && (got == 0 || errno != EAGAIN))
		return -1;
	return (ssize_t)bytes;
}

static inline void expect_bytes(struct world *w, int fd, const char *expected, size_t bytes)
{
	CLEANUP(free_p) char *answer = calloc(1, ANSWER_MAX + 1);
	ssize_t got = hear_bytes(w, fd, answer);

	if (got != (ssize_t)bytes || memcmp(answer, expected, bytes))
		fail_msg("got %zd bytes: %s", got, answer);
}

static inline void expect(struct world *w, int fd, const char *expected)
{
	expect_bytes(w, fd, expected, strlen(expected) + 1);
}

static inline void expect_nothing(struct world *w, int fd)
{
	expect_bytes(w, fd, "", 0);
}

static inline void expect_end(struct world *w, int fd)
{
	char *answer = calloc(1, ANSWER_MAX);

	assert_int_equal(hear_bytes(w, fd, answer), -1);
	free(answer);
	close(fd);
}

/* The method Echo, which each interface of these tests has. */
static inline void echo(struct varlink_call *call, json_t *parameters)
{
	varlink_reply(call, json_incref(parameters));
}

static inline void expect_service(struct world *w, int fd)
{
	say(w, fd, "{\"method\":\"org.example.Test.Echo\"}");
	expect(w, fd, "{\"parameters\":{}}\n");
}
