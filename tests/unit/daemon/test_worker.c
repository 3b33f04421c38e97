/* A worker with each real engine over loopback: starting, stopping, draining. */
#include <fcntl.h>

#include "epoll.h"
#include "worker_case.h"
#include "worker_stop.h"

static void *stop_worker(void *worker)
{
	worker_stop_and_wait(worker);
	return NULL;
}

/* Connections that arrive while the worker stops must not be forgotten. */
TEST(stopping_while_clients_connect_ends_them_all)
{
	for_each_engine(engine)
	{
		unsigned before = descriptors();
		struct bench *b = bench_start(engine, echo());
		struct stall s;
		int fds[CLIENTS_MAX];
		pthread_t stopper;
		uint64_t start_ns;

		fds[0] = client_connect(&b->place);
		assert_int_equal(client_echo(fds[0]), 1);
		stall(&b->worker, &s);
		await(&s.there);
		assert_int_equal(pthread_create(&stopper, NULL, stop_worker, &b->worker), 0);
		while (!atomic_load(&b->worker.mailbox.head))
			sched_yield();
		for (unsigned i = 1; i < CLIENTS_MAX; i++)
			fds[i] = client_connect(&b->place);
		start_ns = clock_ns();
		sem_post(&s.go);
		pthread_join(stopper, NULL);
		if (elapsed_ms(start_ns) > 1000)
			fail_msg("%s: stopping took %llu ms", engine->name,
				 (unsigned long long)elapsed_ms(start_ns));
		for (unsigned i = 0; i < CLIENTS_MAX; i++) {
			assert_true(client_is_ended(fds[i]));
			close(fds[i]);
		}
		stall_fini(&s);
		bench_stop(b);
		await_descriptors(before);
	}
}

TEST(the_address_is_free_when_the_worker_has_stopped)
{
	for_each_engine(engine)
	{
		struct bench *b = bench_start(engine, echo());
		struct place place = b->place;
		int fd = client_connect(&b->place), again;

		assert_int_equal(client_echo(fd), 1);
		bench_stop(b);
		again = listen_at(&place);
		if (again < 0)
			fail_msg("%s: %s", engine->name, strerror(-again));
		close(again);
		close(fd);
	}
}

/* Fails for every second connection. */
static int open_every_other(struct conn *c)
{
	return c->id % 2 ? 0 : -ENOMEM;
}

/* Ends at its deadline; each connection has another distance to the ticks of the coarse clock. */
static void brief_run(struct conn *c)
{
	if (conn_deadline_passed(c))
		conn_close(c, CONN_END_IDLE);
	else if (!c->due.ns)
		conn_set_deadline(c, clock_ns() + c->id % 8 * NS_PER_MS);
}

TEST(a_deadline_that_has_passed_is_never_lost)
{
	static const struct service brief = { .name = "brief",
					      .operations = { "wait" },
					      .run = brief_run };

	for_each_engine(engine)
	{
		struct bench *b = bench_start(engine, &brief);

		for (unsigned i = 0; i < 40; i++) { /* one by one: nobody else wakes the worker */
			int fd = client_connect(&b->place);

			assert_true(client_is_ended(fd));
			close(fd);
		}
		bench_stop(b);
	}
}

TEST(a_connection_that_fails_to_open_disturbs_no_other)
{
	struct service service = *echo();

	service.open = open_every_other;
	for_each_engine(engine)
	{
		unsigned before = descriptors();
		struct bench *b = bench_start(engine, &service);
		int fds[40];

		for (unsigned i = 0; i < ARRAY_SIZE(fds); i++)
			fds[i] = client_connect(&b->place);
		for (unsigned i = 0; i < ARRAY_SIZE(fds); i++)
			assert_int_equal(client_echo(fds[i]), i % 2 == 0);
		for (unsigned i = 0; i < ARRAY_SIZE(fds); i += 2)
			assert_int_equal(client_echo(fds[i]), 1);
		for (unsigned i = 0; i < ARRAY_SIZE(fds); i++)
			close(fds[i]);
		bench_stop(b);
		await_descriptors(before);
	}
}

TEST(a_start_that_fails_closes_the_listening_socket)
{
	for_each_engine(engine)
	{
		unsigned before = descriptors();
		struct bench *b = bench_new(engine, echo());
		struct reason reason = { "" };
		int fd = listen_at(&b->place);

		CPU_SET(CPU_SETSIZE - 1, &b->worker.options.cpus);
		assert_true(worker_start_and_wait(&b->worker, &(struct worker_socket){ .fd = fd },
						  1, &reason) < 0);
		assert_true(reason.text[0] != '\0');
		bench_stop(b); /* allowed, and does nothing */
		await_descriptors(before);
	}
}

TEST(waiting_for_the_end_has_a_limit)
{
	for_each_engine(engine)
	{
		struct bench *b = bench_start(engine, echo());
		CLEANUP(stall_fini) struct stall s;

		stall(&b->worker, &s);
		worker_stop(&b->worker);
		assert_false(worker_await_stopped(&b->worker, clock_ns()));
		assert_false(worker_await_stopped(&b->worker, clock_ns() + NS_PER_MS));
		sem_post(&s.go);
		assert_true(worker_await_stopped(&b->worker, UINT64_MAX));
		assert_true(worker_await_stopped(&b->worker, clock_ns()));
		worker_stop(&b->worker); /* nothing to stop any more */
		bench_stop(b);
	}
}

/* ---- A turn's receives ---- */

enum {
	TURN_HELD_MAX = (64 - 64 / 4 - 64 / 8) / 4 * 4096
}; /* of an empty pool: see worker_prepare() */

static _Atomic size_t most_held;

static void holds_all_run(struct conn *c)
{
	size_t held = conn_held_bytes(c);

	if (held > most_held)
		most_held = held;
	if (held == 1 || held >= TURN_HELD_MAX)
		sem_post(&owner_of(c->worker)->event);
}

/* io_uring has a bound of its own: its kernel receives while the worker is busy. */
TEST(a_turn_of_a_reactor_receives_once_from_each)
{
	static const struct service holder = { .name = "holder",
					       .operations = { "hold" },
					       .run = holds_all_run };
	static const uint8_t data[50 * 4096];

	for_each_engine(engine)
	{
		struct bench *b;
		CLEANUP(stall_fini) struct stall s;
		int fd;

		if (engine->features & FEATURE_BIT(multishot_recv))
			continue;
		b = bench_new(engine, &holder);
		fd = listen_at(&b->place);
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &(int){ sizeof(data) }, sizeof(int));
		worker_begin(&b->worker, fd, false);
		worker_request(&b->worker, REQUEST_SERVE, 0);
		most_held = 0;
		fd = client_connect(&b->place);
		assert_int_equal(send(fd, data, 1, 0), 1);
		await(&b->owner.event);
		stall(&b->worker, &s);
		await(&s.there);
		assert_int_equal(send(fd, data, 2 * TURN_HELD_MAX + 1, 0), 2 * TURN_HELD_MAX + 1);
		sem_post(&s.go);
		await(&b->owner.event);
		assert_in_range(most_held, TURN_HELD_MAX, TURN_HELD_MAX * 3 / 2);
		bench_stop(b);
		close(fd);
	}
}

/* ---- Given up ---- */

static _Atomic unsigned given_up_closes;

/* The first client's I/O never ends, like that of a hung device.  The second client's is in flight
 * in the engine. */
static void never_ends_run(struct conn *c)
{
	if (!c->rx.head)
		return;
	if (c->id == 1)
		conn_io_begin(c, &(struct bufq){ 0 });
	else
		c->pending++;
	echo()->run(c);
}

static void never_ends_close(struct conn *c)
{
	if (c->io.count > 0)
		abort();
	atomic_fetch_add(&given_up_closes, 1);
}

/* All engines at the same time, since a worker waits two seconds before it abandons operations. */
TEST(operations_that_never_end_are_abandoned_when_a_worker_stops)
{
	struct service service = *echo();
	struct bench *benches[8];
	int fds[ARRAY_SIZE(benches)][2];
	unsigned before = descriptors(), count = 0;

	service.run = never_ends_run;
	service.close = never_ends_close;
	for_each_engine(engine)
	{
		assert_true(count < ARRAY_SIZE(benches));
		benches[count] = bench_start(engine, &service);
		for (unsigned i = 0; i < 2; i++) {
			fds[count][i] = client_connect(&benches[count]->place);
			assert_int_equal(client_echo(fds[count][i]), 1);
		}
		count++;
	}
	for (unsigned i = 0; i < count; i++)
		worker_stop(&benches[i]->worker);
	for (unsigned i = 0; i < count; i++) {
		bench_stop(benches[i]); /* sees that each was released, once */
		for (unsigned j = 0; j < 2; j++) {
			assert_true(client_is_ended(fds[i][j]));
			close(fds[i][j]);
		}
	}
	assert_int_equal(given_up_closes,
			 count); /* a store may still write to the first connection's memory */
	await_descriptors(before);
}

/* ---- One request a connection ---- */

static void answer_and_end(struct conn *c)
{
	if (!c->rx.head)
		return;
	bufq_splice(&c->tx, &c->rx);
	conn_close_when_sent(c, CONN_END_PEER);
}

/* To receive, to send, to close; accepting, and one turn for all. */
TEST(a_connection_that_brings_one_request_takes_few_calls)
{
	static const struct service service = { .name = "once", .run = answer_and_end };
	enum { COUNT = 8 };

	for_each_engine(engine)
	{
		struct bench *b = bench_start(engine, &service);
		struct stats *seen = &b->worker.stats;
		CLEANUP(stall_fini) struct stall s;
		int fds[COUNT];

		stall(&b->worker, &s);
		await(&s.there);
		for (unsigned i = 0; i < COUNT; i++) {
			fds[i] = client_connect(&b->place);
			assert_int_equal(send(fds[i], "x", 1, MSG_NOSIGNAL), 1);
		}
		sem_post(&s.go);
		for (unsigned i = 0; i < COUNT; i++) {
			char byte;

			assert_int_equal(recv(fds[i], &byte, 1, 0), 1);
			assert_int_equal(recv(fds[i], &byte, 1, 0), 0);
			close(fds[i]);
		}
		while (stat_load(seen->open))
			sched_yield();
		assert_int_equal(stat_load(seen->sys_recv), COUNT);
		assert_int_equal(stat_load(seen->sys_send), COUNT);
		assert_int_equal(stat_load(seen->sys_close), COUNT);
		assert_int_equal(stat_load(seen->sys_shutdown), 0);
		assert_in_range(stat_load(seen->sys_epoll_ctl), 0, 2); /* the worker's own */
		bench_stop(b);
	}
}

/* The worker sleeps between its attempts, and its owner can still stop it. */
TEST(a_wait_that_always_fails_does_not_spin)
{
	enum { TURNS = 4 };
	struct bench *b = bench_start(registry_engine("epoll"), echo());
	int fd = ((const struct epoll *)b->worker.engine_state)->fd,
	    none = open("/dev/null", O_RDONLY);
	struct stall s;
	uint64_t since_ns, begun;

	stall(&b->worker, &s);
	await(&s.there);
	assert_int_equal(dup2(none, fd), fd); /* from now on EINVAL */
	begun = stat_load(b->worker.stats.turns);
	since_ns = clock_ns();
	sem_post(&s.go);
	while (stat_load(b->worker.stats.turns) < begun + TURNS)
		sched_yield();
	assert_true(elapsed_ms(since_ns) >= (TURNS - 1) * WORKER_RETRY_NS / NS_PER_MS);
	bench_stop(b);
	stall_fini(&s);
	close(none);
}
