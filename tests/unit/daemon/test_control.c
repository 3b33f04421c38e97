/* ListConnections and the documents over workers that have no thread: the test answers for them,
 * when it likes. */
#include <sys/un.h>
#include <unistd.h>

#include "control.h"
#include "document.h"
#include "server.h"
#include "unit.h"
#include "util.h"

enum { WORKERS = 2, ANSWER_MAX = 65536 };

struct world {
	struct server server;
	struct control control;
	struct listener listener, *listeners[1];
	char directory[32], path[64], answer[ANSWER_MAX];
};

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));
	struct listener *l = &w->listener;
	struct config_errors errors = { 0 };
	struct reason reason;
	char text[256];
	int bytes;

	assert_non_null(w);
	strcpy(w->directory, "/tmp/nbserved-XXXXXX");
	assert_non_null(mkdtemp(w->directory));
	snprintf(w->path, sizeof(w->path), "%s/s", w->directory);
	bytes = snprintf(text, sizeof(text),
			 "[server]\ncontrol = %s\n"
			 "[listener l]\naddress = 127.0.0.1:7008\nservice = echo\n",
			 w->path);
	assert_int_equal(config_load_text("test", text, (size_t)bytes, &w->server.config, &errors),
			 0);
	config_errors_free(&errors);
	l->config = &w->server.config->listeners[0];
	l->all = &w->server.listeners;
	l->worker_count = WORKERS;
	l->workers = aligned_alloc(CACHE_LINE, WORKERS * sizeof(struct worker));
	assert_non_null(l->workers);
	memset(l->workers, 0, WORKERS * sizeof(struct worker));
	l->costs = calloc(WORKERS, sizeof(*l->costs));
	assert_non_null(l->costs);
	for (unsigned i = 0; i < WORKERS; i++) {
		l->workers[i].index = i;
		assert_int_equal(mailbox_init(&l->workers[i].mailbox), 0);
	}
	w->listeners[0] = l;
	w->server.listeners.list = w->listeners;
	w->server.listeners.count = 1;
	w->server.generation = 1;
	assert_int_equal(mailbox_init(&w->server.listeners.mailbox), 0);
	assert_true(sd_event_new(&w->server.event) >= 0);
	assert_int_equal(control_start(&w->control, &w->server, &reason), 0);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	control_stop(&w->control);
	for (unsigned i = 0; i < WORKERS; i++) {
		mailbox_run(&w->listener.workers[i].mailbox);
		mailbox_fini(&w->listener.workers[i].mailbox);
	}
	mailbox_run(&w->server.listeners.mailbox); /* what they still owed */
	mailbox_fini(&w->server.listeners.mailbox);
	sd_event_unref(w->server.event);
	config_free(w->server.config);
	free(w->listener.workers);
	free(w->listener.costs);
	assert_int_equal(rmdir(w->directory), 0);
	free(w);
	return 0;
}

static void pump(struct world *w)
{
	while (sd_event_run(w->server.event, 0) > 0)
		;
}

static int ask(struct world *w, const char *call)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);

	strcpy(sa.sun_path, w->path);
	assert_int_equal(connect(fd, (const struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_int_equal(send(fd, call, strlen(call) + 1, 0), strlen(call) + 1);
	pump(w);
	return fd;
}

/* The answer so far, "" for none. */
static const char *hear(struct world *w, int fd)
{
	ssize_t got;

	pump(w);
	got = recv(fd, w->answer, ANSWER_MAX - 1, 0);
	w->answer[got > 0 ? got : 0] = '\0';
	return w->answer;
}

/* The worker runs the calls in its mailbox, and the main thread its answers. */
static void answer(struct world *w, unsigned worker)
{
	mailbox_run(&w->listener.workers[worker].mailbox);
	mailbox_run(&w->server.listeners.mailbox);
}

#define LIST "{\"method\":\"org.nbserved.Control.ListConnections\"}"

TEST_WITH(workers_are_asked_one_after_the_other, setup, teardown, NULL)
{
	struct world *w = *state;
	int fd;

	w->listener.workers[0].stats.open = 2;
	w->listener.workers[1].stats.open = 3;
	fd = ask(w, LIST);
	answer(w, 1); /* was not asked */
	assert_string_equal(hear(w, fd), "");
	answer(w, 0);
	assert_string_equal(hear(w, fd), "");
	answer(w, 1);
	assert_string_equal(hear(w, fd), "{\"parameters\":{\"connections\":[],\"open\":5}}\n");
	close(fd);
}

TEST_WITH(a_worker_that_does_not_answer_is_an_error, setup, teardown, NULL)
{
	struct world *w = *state;
	int fd = ask(w, LIST);

	assert_int_equal(sd_event_run(w->server.event, 6 * 1000 * 1000), 1);
	assert_string_equal(hear(w, fd),
			    "{\"error\":\"org.nbserved.Control.NoAnswer\",\"parameters\":{"
			    "\"listener\":\"l\",\"message\":"
			    "\"worker 0 of listener 'l' has not answered in 5 s\"}}\n");
	answer(w, 0); /* too late */
	assert_string_equal(hear(w, fd), "");
	close(fd);
}

TEST_WITH(an_answer_for_a_client_that_left_is_dropped, setup, teardown, NULL)
{
	struct world *w = *state;

	close(ask(w, LIST));
	pump(w);
	answer(w, 0);
	close(ask(w, LIST)); /* A request that is answered after the end: see teardown(). */
	pump(w);
}

TEST_WITH(a_reload_meanwhile_is_an_error, setup, teardown, NULL)
{
	struct world *w = *state;
	int fd = ask(w, LIST);

	w->server.generation++;
	answer(w, 0);
	assert_has(hear(w, fd), "reloaded");
	close(fd);
}

TEST_WITH(unanswered_requests_to_workers_are_limited, setup, teardown, NULL)
{
	struct world *w = *state;
	unsigned calls = 0;
	int fd;

	for (;;) {
		fd = ask(w, LIST);
		if (*hear(w, fd))
			break;
		close(fd);
		pump(w);
		assert_true(++calls <= 64);
	}
	assert_int_equal(calls, 64);
	assert_has(w->answer, "NoAnswer");
	close(fd);
	answer(w, 0);
	fd = ask(w, LIST);
	assert_string_equal(hear(w, fd), "");
	answer(w, 0);
	answer(w, 1);
	assert_has(hear(w, fd), "\"open\":0");
	close(fd);
}

TEST_WITH(counters_saturate_and_sum_over_workers, setup, teardown, NULL)
{
	struct world *w = *state;
	json_t *stats, *l;

	w->listener.workers[0].stats.bytes_in = UINT64_MAX;
	w->listener.workers[0].stats.sys_recv = 1;
	w->listener.workers[1].stats.sys_recv = 2;
	histogram_add(&w->listener.workers[0].stats.operations[0].latency, 1000, 1);
	histogram_add(&w->listener.workers[1].stats.operations[0].latency, 3000, 1);
	stats = document_stats(&w->server, NULL, false);
	l = json_array_get(json_object_get(stats, "listeners"), 0);
	assert_int_equal(json_integer_value(json_object_get(l, "bytes_in")), INT64_MAX);
	l = json_object_get(l, "cost");
	l = json_object_get(json_object_get(l, "syscalls"), "recv");
	assert_int_equal(json_integer_value(l), 3);
	l = json_array_get(json_object_get(stats, "listeners"), 0);
	l = json_object_get(json_object_get(l, "operations"), "echo");
	l = json_object_get(l, "latency_ns");
	assert_int_equal(json_integer_value(json_object_get(l, "count")), 2);
	assert_int_equal(json_integer_value(json_object_get(l, "sum")), 4000);
	assert_int_equal(json_integer_value(json_object_get(l, "min")), 1000);
	assert_int_equal(json_integer_value(json_object_get(l, "max")), 3000);
	assert_int_equal(json_array_size(json_object_get(l, "buckets")), 2);
	json_decref(stats);
}
