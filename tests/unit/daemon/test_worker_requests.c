/* A worker with each real engine over loopback: requests of its owner, and service of connections
 * that wait. */
#include "registry.h"
#include "worker_case.h"

/* ---- worker_call() ---- */

struct numbered {
	struct call call;
	struct bench *bench;
	unsigned sender, number;
};

enum { SENDERS = 4, CALLS = 500 };

static _Atomic unsigned calls_run, calls_disordered, calls_elsewhere;
static unsigned last_of[SENDERS], calls_in_turn, calls_in_turn_most;
static uint64_t calls_turn;

static void run_numbered(struct call *call)
{
	struct numbered *n = container_of(call, struct numbered, call);

	if (n->number != last_of[n->sender] + 1)
		calls_disordered++;
	last_of[n->sender] = n->number;
	calls_in_turn = n->bench->worker.stats.turns == calls_turn ? calls_in_turn + 1 : 1;
	calls_turn = n->bench->worker.stats.turns;
	calls_in_turn_most = MAX(calls_in_turn_most, calls_in_turn);
	if (!pthread_equal(pthread_self(), n->bench->worker.thread.id))
		calls_elsewhere++;
	if (atomic_fetch_add(&calls_run, 1) + 1 == SENDERS * CALLS)
		sem_post(&n->bench->owner.event);
}

struct gate {
	struct call call;
	sem_t open;
	atomic_bool holds;
};

/* Holds the worker until all are there. */
static void run_gate(struct call *call)
{
	struct gate *gate = container_of(call, struct gate, call);

	gate->holds = true;
	await(&gate->open);
}

static void *send_calls(void *arg)
{
	struct numbered *calls = arg;

	for (unsigned i = 0; i < CALLS; i++)
		worker_call(&calls[i].bench->worker, &calls[i].call);
	return NULL;
}

/* And not all of many in one turn. */
TEST(calls_run_on_the_worker_in_the_order_of_each_sender)
{
	struct gate gate = { .call.fn = run_gate };

	sem_init(&gate.open, 0, 0);
	for_each_engine(engine)
	{
		struct bench *b = bench_start(engine, echo());
		CLEANUP(free_p)
		struct numbered *calls = calloc((size_t)SENDERS * CALLS, sizeof(*calls));
		pthread_t threads[SENDERS];

		calls_run = calls_disordered = calls_elsewhere = 0;
		calls_in_turn_most = 0;
		memset(last_of, 0, sizeof(last_of));
		for (unsigned i = 0; i < SENDERS * CALLS; i++)
			calls[i] = (struct numbered){
				{ .fn = run_numbered }, b, i / CALLS, i % CALLS + 1
			};
		worker_call(&b->worker, &gate.call);
		for (unsigned i = 0; i < SENDERS; i++)
			pthread_create(&threads[i], NULL, send_calls, &calls[(size_t)i * CALLS]);
		for (unsigned i = 0; i < SENDERS; i++)
			pthread_join(threads[i], NULL);
		sem_post(&gate.open);
		await(&b->owner.event);
		bench_stop(b);
		assert_int_equal(calls_run, SENDERS * CALLS);
		assert_int_equal(calls_disordered, 0);
		assert_int_equal(calls_elsewhere, 0);
		assert_in_range(calls_in_turn_most, 1, WORKER_TURN_MAX);
	}
}

/* ---- worker_flush_begin() ---- */

static _Atomic unsigned settled;

static void count_settle(struct worker *w)
{
	(void)w;
	settled++;
}

static void settle_one(struct worker *w)
{
	worker_flush_begin(w);
	worker_flush_await(w, clock_ns() + 50 * NS_PER_MS);
}

/* However many documents are made meanwhile: each would wait for it. */
TEST(a_hung_worker_is_asked_once_to_flush_its_counters)
{
	struct gate gate = { .call.fn = run_gate };
	struct engine engine;
	struct bench *b;

	for_each_engine(real)
	{
		engine = *real;
		engine.flush_counters = count_settle;
		settled = 0;
		gate.holds = false;
		sem_init(&gate.open, 0, 0);
		b = bench_start(&engine, echo());
		worker_call(&b->worker, &gate.call);
		while (!gate.holds)
			poll(NULL, 0, 1);
		for (unsigned i = 0; i < 4; i++) {
			atomic_store(&b->worker.counters_lag, true);
			settle_one(&b->worker);
		}
		assert_int_equal(settled, 0);
		sem_post(&gate.open);
		while (settled == 0)
			poll(NULL, 0, 1);
		assert_int_equal(settled, 1);
		while (settled == 1) { /* the worker may find that it owes nothing */
			atomic_store(&b->worker.counters_lag, true);
			settle_one(&b->worker);
		}
		bench_stop(b);
	}
}

static void (*real_fini)(struct worker *w);
static atomic_bool has_ended;

static void note_fini(struct worker *w)
{
	real_fini(w);
	has_ended = true;
}

/* GetStats may ask a worker that has run its last turn. */
TEST(a_request_of_a_worker_whose_engine_has_ended_is_dropped)
{
	for_each_engine(real)
	{
		struct engine engine = *real;
		struct bench *b;

		real_fini = real->fini;
		engine.fini = note_fini;
		engine.flush_counters = count_settle;
		settled = 0;
		has_ended = false;
		b = bench_start(&engine, echo());
		worker_stop(&b->worker);
		while (!has_ended)
			poll(NULL, 0, 1);
		atomic_store(&b->worker.counters_lag, true);
		worker_flush_begin(&b->worker);
		bench_stop(b);
		assert_int_equal(settled, 0);
	}
}

/* ---- ListConnections ---- */

static void listed(struct worker_list *list)
{
	sem_post(&owner_of(list->worker)->event);
}

static void list(struct bench *b, struct worker_list *request, unsigned max)
{
	request->max = max;
	request->done = listed;
	worker_list_connections(&b->worker, request);
	await(&b->owner.event);
}

TEST(a_list_has_the_newest_first_and_no_more_than_asked)
{
	enum { COUNT = WORKER_TURN_MAX + 5 };

	for_each_engine(engine)
	{
		struct bench *b = bench_start(engine, echo());
		struct worker_list request = { .infos = calloc(COUNT + 1,
							       sizeof(struct conn_info)) };
		int fds[COUNT];

		for (unsigned i = 0; i < COUNT; i++) {
			fds[i] = client_connect(&b->place);
			assert_int_equal(client_echo(fds[i]), 1);
		}
		list(b, &request, COUNT + 1);
		assert_int_equal(request.count, COUNT);
		for (unsigned i = 0; i < COUNT; i++) {
			struct sockaddr_in own;
			char peer[ADDRESS_TEXT_MAX];
			socklen_t len = sizeof(own);

			assert_int_equal(request.infos[i].id, COUNT - i);
			getsockname(fds[COUNT - 1 - i], (struct sockaddr *)&own, &len);
			assert_string_equal(request.infos[i].peer,
					    format_sockaddr((struct sockaddr_storage *)&own, peer));
			assert_int_equal(request.infos[i].bytes_in, 1);
			assert_string_equal(request.infos[i].state, "open");
		}
		list(b, &request, 3);
		assert_int_equal(request.count, 3);
		assert_int_equal(request.infos[2].id, COUNT - 2);
		list(b, &request, 0);
		assert_int_equal(request.count, 0);
		for (unsigned i = 0; i < COUNT; i++)
			close(fds[i]);
		free(request.infos);
		bench_stop(b);
	}
}

static atomic_bool io_may_end;

/* Its input is the memory of an operation of its own. */
static void slow_run(struct conn *c)
{
	struct bufq *data = c->state;

	if (!data->bytes && !c->rx.bytes)
		return;
	if (!data->bytes) {
		bufq_splice(data, &c->rx);
		conn_io_begin(c, data);
	} else if (atomic_load(&io_may_end)) {
		conn_io_end(c, data);
		bufq_drop(&c->worker->pool, data, data->bytes);
		conn_ready(c);
		return;
	}
	conn_set_deadline(c, clock_ns() + NS_PER_MS);
}

static int slow_open(struct conn *c)
{
	c->state = calloc(1, sizeof(struct bufq));
	return c->state ? 0 : -ENOMEM;
}

static void slow_close(struct conn *c)
{
	free(c->state);
}

TEST(data_of_remote_operations_counts_as_held)
{
	enum { BYTES = 1000 };
	static const struct service slow = { .name = "slow",
					     .operations = { "take" },
					     .open = slow_open,
					     .run = slow_run,
					     .close = slow_close };
	static const char data[BYTES];

	for_each_engine(engine)
	{
		struct bench *b = bench_start(engine, &slow);
		struct conn_info info = { 0 };
		struct worker_list request = { .infos = &info };
		int fd = client_connect(&b->place);

		atomic_store(&io_may_end, false);
		assert_int_equal(send(fd, data, BYTES, MSG_NOSIGNAL), BYTES);
		shutdown(fd, SHUT_WR);
		do {
			list(b, &request, 1);
		} while (request.count == 0 || strcmp(info.state, "eof") != 0);
		for (unsigned i = 0; i < 3; i++, list(b, &request, 1)) {
			assert_int_equal(request.count, 1);
			assert_int_equal(info.held_bytes, BYTES);
		}
		atomic_store(&io_may_end, true);
		assert_true(client_is_ended(fd));
		close(fd);
		bench_stop(b);
	}
}

/* ---- Starvation ---- */

enum { REPLY_CHUNKS = 2 };

/* Leaves the pool with REPLY_CHUNKS for services.  Each request is answered with a byte from each
 * of them; the next connection has to wait until they are free again. */
static void take_all_chunks(struct conn *c)
{
	struct pool *p = &c->worker->pool;

	for (struct chunk *last = NULL; !c->worker->constant;
	     c->worker->constant = p->free_count == REPLY_CHUNKS ? last : NULL)
		last = chunk_get(p); /* the others go with the pool */
	if (!c->rx.bytes)
		return;
	if (p->free_count < REPLY_CHUNKS) {
		conn_wait_for_memory(c);
		return;
	}
	bufq_drop(p, &c->rx, c->rx.bytes);
	for (unsigned i = 0; i < REPLY_CHUNKS; i++) {
		struct chunk *k = chunk_get(p);

		k->base[0] = 'x';
		bufq_push(&c->tx, view_new(p, k, k->base, 1));
		chunk_put(p, k);
	}
}

static bool client_asks(int fd)
{
	return send(fd, "?", 1, MSG_NOSIGNAL) == 1;
}

static bool client_is_answered(int fd)
{
	char bytes[REPLY_CHUNKS];

	return recv(fd, bytes, sizeof(bytes), MSG_WAITALL) == sizeof(bytes);
}

/* Only an engine whose sends complete later lets one connection wait for another's chunks. */
TEST(a_starved_connection_runs_when_sends_free_chunks)
{
	static const struct service greedy = { .name = "greedy",
					       .operations = { "take" },
					       .run = take_all_chunks };
	struct bench *b;
	struct stall stalls[20];
	int fds[8];

	if (!is_here("io_uring"))
		skip();
	b = bench_start(registry_engine("io_uring"), &greedy);
	for (unsigned i = 0; i < ARRAY_SIZE(fds); i++) {
		fds[i] = client_connect(&b->place);
		assert_true(client_asks(fds[i]) && client_is_answered(fds[i]));
	}
	for (unsigned round = 0; round < ARRAY_SIZE(stalls); round++) {
		stall(&b->worker, &stalls[round]);
		for (unsigned i = 0; i < ARRAY_SIZE(fds); i++)
			assert_true(client_asks(fds[i]));
		sem_post(&stalls[round].go);
		for (unsigned i = 0; i < ARRAY_SIZE(fds); i++)
			assert_true(client_is_answered(fds[i]));
	}
	for (unsigned i = 0; i < ARRAY_SIZE(fds); i++)
		close(fds[i]);
	bench_stop(b);
	for (unsigned i = 0; i < ARRAY_SIZE(stalls); i++)
		stall_fini(&stalls[i]);
}

/* ---- Backpressure against a real socket ---- */
