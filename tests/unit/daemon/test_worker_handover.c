/* A worker with each real engine: listening sockets that go from one worker to another, as in a
 * reload, and the connections in their queues when a worker is told to accept no more. */
#include "worker_parts.h"
#include "worker_stop.h"

enum { CLIENTS = 5 };

struct bench {
	struct worker old, new; /* old first: aligned */
	struct place place;
	int fd; /* theirs are duplicates of it */
	struct owner owner;
};

static void bench_start(struct bench *b, struct worker *w, const struct engine *engine)
{
	worker_prepare(w, &b->owner, engine, echo());
	worker_begin(w, dup(b->fd), b->place.sa.ss_family == AF_UNIX);
	worker_request(w, REQUEST_SERVE, 0);
}

static struct bench *bench_new(sa_family_t family)
{
	struct bench *b = bench_alloc(sizeof(*b));

	owner_init(&b->owner);
	b->place = anywhere(family);
	b->fd = listen_at(&b->place);
	assert_true(b->fd >= 0);
	return b;
}

static void bench_free(struct bench *b)
{
	worker_stop_and_wait(&b->old);
	worker_stop_and_wait(&b->new);
	if (b->fd >= 0)
		close(b->fd);
	owner_fini(&b->owner);
	free(b);
}

CLEANUP_OF(struct bench *, bench_free)

static void clients_connect(const struct bench *b, int *fds)
{
	for (unsigned i = 0; i < CLIENTS; i++)
		fds[i] = client_connect(&b->place);
}

/* Each is answered. */
static void clients_echo(const struct engine *engine, int *fds)
{
	for (unsigned i = 0; i < CLIENTS; i++) {
		if (!client_echo(fds[i]))
			fail_msg("%s: connection %u is not served", engine->name, i);
		close(fds[i]);
	}
}

/* Drains w; clients connect in that turn, before its drain or behind it, when the worker cannot
 * look at its engine. */
static void drain_and_connect(struct bench *b, bool behind, int *fds)
{
	uint64_t deadline_ns = clock_ns() + 3600ULL * NS_PER_S;
	CLEANUP(stall_fini) struct stall gather, s;

	stall(&b->old, &gather);
	await(&gather.there);
	if (behind)
		worker_request(&b->old, REQUEST_DRAIN, deadline_ns);
	stall(&b->old, &s);
	if (!behind)
		worker_request(&b->old, REQUEST_DRAIN, deadline_ns);
	sem_post(&gather.go);
	await(&s.there);
	clients_connect(b, fds);
	sem_post(&s.go);
	await(&b->owner.accept_ended);
}

static void run_mark(struct call *call)
{
	sem_post(&container_of(call, struct stall, call)->there);
}

/* Waits until the worker has run its requests, and its ring the operations that these queued. */
static void settle(struct worker *w)
{
	for (unsigned i = 0; i < 2; i++) {
		struct stall s = { .call.fn = run_mark };

		sem_init(&s.there, 0, 0);
		worker_call(w, &s.call);
		await(&s.there);
		sem_destroy(&s.there);
	}
}

/* ---- Tests ---- */

/* The kernel wakes one worker for a connection.  It may be the one that is about to stop. */
static void hand_over(const struct engine *engine, sa_family_t family, bool behind)
{
	CLEANUP(bench_free_p) struct bench *b = bench_new(family);
	int fds[CLIENTS];

	bench_start(b, &b->old, engine);
	settle(&b->old);
	bench_start(b, &b->new, engine);
	settle(&b->new);
	b->old.accept.acceptors[0].given = true;
	drain_and_connect(b, behind, fds);
	worker_request(&b->new, REQUEST_ACCEPT_WAITING, 0);
	clients_echo(engine, fds);
}

TEST(clients_are_kept_when_a_socket_moves_to_another_worker)
{
	for_each_engine(engine)
	{
		hand_over(engine, AF_INET, false);
		hand_over(engine, AF_INET, true);
		hand_over(engine, AF_UNIX, false);
		hand_over(engine, AF_UNIX, true);
	}
}

/* They come when the worker has looked at its queue and told its engine to stop. */
static void drain_late(const struct engine *engine, sa_family_t family)
{
	CLEANUP(bench_free_p) struct bench *b = bench_new(family);
	int fds[CLIENTS];

	bench_start(b, &b->old, engine);
	settle(&b->old);
	close(b->fd);
	b->fd = -1;
	drain_and_connect(b, true, fds);
	clients_echo(engine, fds);
}

TEST(a_client_that_connects_as_a_drain_begins_is_served)
{
	for_each_engine(engine)
	{
		drain_late(engine, AF_INET);
		drain_late(engine, AF_UNIX);
	}
}
