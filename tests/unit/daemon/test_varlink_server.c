/* The Varlink server: clients that it ends or keeps waiting, and its end. */
#include "varlink_case.h"

#include <sys/syscall.h>
#include <time.h>

enum { JUMP_S = 4 };

/* ---- Clocks that a test moves; libsystemd's calls come here, too ---- */

static uint64_t skew_ns, burnt_ns; /* ahead of CLOCK_MONOTONIC, of this thread's CPU time */
static unsigned jump_after;        /* readings until a jump; 0: none */

static void skew(unsigned seconds)
{
	skew_ns += seconds * (uint64_t)NS_PER_S;
}

/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name) */
int clock_gettime(clockid_t clock, struct timespec *ts)
{
	long rc = syscall(SYS_clock_gettime, clock, ts);
	uint64_t ns = (uint64_t)ts->tv_sec * NS_PER_S + (uint64_t)ts->tv_nsec;

	if (clock == CLOCK_MONOTONIC && jump_after > 0 && --jump_after == 0)
		skew(JUMP_S);
	if (clock == CLOCK_MONOTONIC)
		ns += skew_ns;
	if (clock == CLOCK_THREAD_CPUTIME_ID)
		ns += burnt_ns;
	ts->tv_sec = (time_t)(ns / NS_PER_S);
	ts->tv_nsec = (long)(ns % NS_PER_S);
	return (int)rc;
}

/* ---- The service under test ---- */

static struct varlink_call *deferred; /* of Later and Stream */
static unsigned cancelled, onces;

static void once(struct varlink_call *call, json_t *parameters)
{
	(void)parameters;
	onces++;
	varlink_reply(call, json_object());
}

/* Uses more CPU time than its user may at once. */
static void burn(struct varlink_call *call, json_t *parameters)
{
	(void)parameters;
	burnt_ns += 2 * VARLINK_AHEAD_MS * (NS_PER_S / 1000);
	varlink_reply(call, json_object());
}

static void on_cancel(struct varlink_call *call, void *state)
{
	assert_ptr_equal(state, &cancelled);
	assert_ptr_equal(call, deferred);
	deferred = NULL;
	cancelled++;
}

static void later(struct varlink_call *call, json_t *parameters)
{
	(void)parameters;
	assert_null(deferred);
	deferred = call;
	varlink_defer(call, on_cancel, &cancelled);
}

static void large(struct varlink_call *call, json_t *parameters)
{
	size_t bytes = (size_t)json_integer_value(json_object_get(parameters, "bytes"));
	CLEANUP(free_p) char *text = malloc(bytes + 1);

	assert_non_null(text);
	memset(text, 'x', bytes);
	text[bytes] = '\0';
	varlink_reply(call, json_pack("{s:s}", "text", text));
}

static const struct varlink_parameter large_parameters[] = {
	{ "bytes", VARLINK_INT, .min = 0, .max = 64 * 1024 * 1024 },
	{ 0 },
};
static const struct varlink_method methods[] = {
	{ "Echo", VARLINK_READ, false, NULL, echo },
	{ "Once", VARLINK_CHANGE, true, NULL, once },
	{ "Burn", VARLINK_READ, false, NULL, burn },
	{ "Later", VARLINK_READ, false, NULL, later },
	{ "Stream", VARLINK_READ, true, NULL, later },
	{ "Large", VARLINK_READ, false, large_parameters, large },
	{ 0 },
};
static const struct varlink_interface interface = {
	"org.example.Test",
	"interface org.example.Test\n",
	methods,
};

static int fresh(void **state)
{
	cancelled = onces = jump_after = 0;
	deferred = NULL;
	setup(state);
	return 0;
}

/* The calls of a method without parameters. */
#define CALL(method) "{\"method\":\"org.example.Test." method "\"}"
#define MORE(method) "{\"method\":\"org.example.Test." method "\",\"more\":true}"

/* ---- Calls ---- */

TEST_WITH(the_end_of_the_server_cancels_its_calls, fresh, teardown, &interface)
{
	struct world *w = *state;
	int fd = dial(w);

	say(w, fd, CALL("Later"));
	varlink_free(w->varlink);
	assert_int_equal(cancelled, 1);
	expect_end(w, fd);
	w->varlink = start(w);
}

/* ---- Streams ---- */

TEST_WITH(a_stream_holds_one_part_for_a_client_that_does_not_read, fresh, teardown, &interface)
{
	struct world *w = *state;
	int fd = dial(w);
	unsigned parts = 0;
	char *answer = malloc(ANSWER_MAX);

	say(w, fd, MORE("Stream"));
	while (varlink_can_notify(deferred)) {
		varlink_notify(deferred,
			       json_pack("{s:i, s:[i,i,i]}", "part", parts++, "x", 1, 2, 3));
		pump(w);
		assert_true(parts < 1000000);
	}
	pump(w);
	assert_false(varlink_can_notify(deferred));
	assert_true(hear_bytes(w, fd, answer) > 0); /* the kernel's buffer, and the part */
	pump(w);
	assert_true(varlink_can_notify(deferred));
	free(answer);
	close(fd);
	pump(w);
	assert_int_equal(cancelled, 1);
}

/* ---- Input that ends a connection ---- */

TEST_WITH(an_answer_above_the_bound_ends_the_connection, fresh, teardown, &interface)
{
	struct world *w = *state;
	int fd = dial(w);
	char text[128];

	sprintf(text, "{\"method\":\"org.example.Test.Large\",\"parameters\":{\"bytes\":%d}}",
		VARLINK_OUTPUT_MAX);
	say(w, fd, text);
	expect_end(w, fd);
}

/* It gets its answers when it begins to read; until then only one is held. */
TEST_WITH(nothing_is_read_from_a_client_that_does_not_read, fresh, teardown, &interface)
{
	static const char text[] = "{\"method\":\"org.example.Test.Large\","
				   "\"parameters\":{\"bytes\":1000000}}";
	static const char once_text[] = CALL("Once");
	struct world *w = *state;
	int fd = dial(w);
	char *answer = malloc(ANSWER_MAX);
	ssize_t bytes;

	say_bytes(w, fd, text, sizeof(text));
	say_bytes(w, fd, text, sizeof(text));
	say_bytes(w, fd, once_text, sizeof(once_text));
	assert_int_equal(onces, 0);
	bytes = hear_bytes(w, fd, answer);
	assert_true(bytes > 2000000 && bytes < 2000200);
	assert_int_equal(onces, 1);
	free(answer);
	close(fd);
}

/* The user's share returns between any two readings of the clock while a call has arrived. */
TEST_WITH(a_call_is_answered_whenever_the_share_returns, fresh, teardown, &interface)
{
	static const char call[] = CALL("Echo");
	struct world *w = *state;
	int other = dial(w), fd = dial(w);

	for (unsigned after = 1; after <= 12; after++) {
		say(w, other, CALL("Burn"));
		expect(w, other, "{\"parameters\":{}}\n");
		assert_int_equal(send(fd, call, sizeof(call), 0), sizeof(call));
		jump_after = after;
		pump(w);
		jump_after = 0;
		skew(JUMP_S);
		expect(w, fd, "{\"parameters\":{}}\n");
	}
	close(other);
	close(fd);
}

/* The server stands still for longer than its clients may take for a step.  They have made
 * theirs. */
TEST_WITH(clients_do_not_pay_for_a_pause_of_the_server, fresh, teardown, &interface)
{
	static const char call[] = CALL("Echo");
	struct world *w = *state;
	int fds[VARLINK_USER_CLIENTS_MAX];

	for (unsigned i = 0; i < ARRAY_SIZE(fds); i++) {
		fds[i] = dial(w);
		if (i % 2)
			say_bytes(w, fds[i], call, 10);
	}
	for (unsigned i = 0; i < ARRAY_SIZE(fds); i++) {
		size_t sent = i % 2 ? 10 : 0;

		assert_int_equal(send(fds[i], call + sent, sizeof(call) - sent, 0),
				 sizeof(call) - sent);
	}
	skew(VARLINK_SILENCE_S + VARLINK_TIMEOUT_S);
	for (unsigned i = 0; i < ARRAY_SIZE(fds); i++) {
		expect(w, fds[i], "{\"parameters\":{}}\n");
		close(fds[i]);
	}
}
