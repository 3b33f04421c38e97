/* A worker with each real engine over Unix sockets: the differences from TCP. */
#include <fcntl.h>

#include "registry.h"
#include "ring_keys.h"
#include "worker_parts.h"
#include "worker_stop.h"

enum { WORKERS = 3 };

/* Workers that accept from one socket. */
struct bench {
	struct worker workers[WORKERS]; /* first: aligned */
	unsigned count;
	struct place place;
	struct owner owner;
};

static struct bench *bench_start(const struct engine *engine, const struct service *service,
				 unsigned count)
{
	struct bench *b = bench_alloc(sizeof(*b));
	int fd;

	owner_init(&b->owner);
	b->count = count;
	b->place = anywhere(AF_UNIX);
	fd = listen_at(&b->place);
	assert_true(fd >= 0);
	for (unsigned i = 0; i < count; i++) {
		struct worker *w = &b->workers[i];

		worker_prepare(w, &b->owner, engine, service);
		options_set(&w->options, &ring_key_table,
			    &(struct ring_options){ .zero_copy_min = 8192 });
		worker_begin(w, i == 0 ? fd : fcntl(fd, F_DUPFD_CLOEXEC, 0), count > 1);
		worker_request(w, REQUEST_SERVE, 0);
	}
	return b;
}

static void bench_stop(struct bench *b)
{
	for (unsigned i = 0; i < b->count; i++)
		worker_stop_and_wait(&b->workers[i]);
	owner_fini(&b->owner);
	free(b);
}

static void client_send(int fd, const void *data, size_t bytes)
{
	assert_int_equal(send(fd, data, bytes, MSG_NOSIGNAL), bytes);
}

static void client_expect(int fd, const void *data, size_t bytes)
{
	char *answer = malloc(bytes);

	assert_int_equal(recv(fd, answer, bytes, MSG_WAITALL), bytes);
	assert_memory_equal(answer, data, bytes);
	free(answer);
}

/* Of the first worker; until then at most TIMEOUT_S. */
static void await_at_least(_Atomic uint64_t *counter, uint64_t value)
{
	uint64_t end_ns = clock_ns() + TIMEOUT_S * (uint64_t)NS_PER_S;

	while (stat_load(*counter) < value && clock_ns() < end_ns)
		usleep(1000);
	assert_int_equal(stat_load(*counter), value);
}

/* ---- Tests ---- */

static uint64_t fewest_accepted(struct bench *b)
{
	uint64_t fewest = UINT64_MAX;

	for (unsigned i = 0; i < b->count; i++)
		fewest = MIN(fewest, stat_load(b->workers[i].stats.accepted));
	return fewest;
}

/* One connection after the other: each finds all workers asleep, once all of them listen. */
TEST(workers_that_share_a_socket_take_turns)
{
	enum { TURNS = 8 };

	for_each_engine(engine)
	{
		struct bench *b = bench_start(engine, echo(), WORKERS);
		uint64_t end_ns = clock_ns() + TIMEOUT_S * (uint64_t)NS_PER_S;

		while (fewest_accepted(b) < TURNS && clock_ns() < end_ns) {
			int fd = client_connect(&b->place);

			client_send(fd, "x", 1);
			client_expect(fd, "x", 1);
			close(fd);
		}
		assert_true(fewest_accepted(b) >= TURNS);
		bench_stop(b);
	}
}

/* The FIN comes while the worker looks at the data, or with it. */
TEST(data_and_the_fin_behind_it_are_both_noticed)
{
	enum { ROUNDS = 300 };
	static char data[3000];

	for_each_engine(engine)
	{
		struct bench *b = bench_start(engine, echo(), 1);

		for (unsigned i = 0; i < ROUNDS; i++) {
			int fd = client_connect(&b->place);

			client_send(fd, data, 1 + i * 7);
			shutdown(fd, SHUT_WR);
			client_expect(fd, data, 1 + i * 7);
			assert_int_equal(recv(fd, data, 1, 0), 0);
			close(fd);
		}
		await_at_least(&b->workers[0].stats.closed_peer, ROUNDS);
		bench_stop(b);
	}
}

static atomic_bool gate_open;

/* Takes nothing while the gate is closed. */
static void gated_run(struct conn *c)
{
	if (atomic_load(&gate_open))
		bufq_drop(&c->worker->pool, &c->rx, c->rx.bytes);
	else
		conn_set_deadline(c, clock_ns() + NS_PER_MS);
}

/* A TCP peer's close ends one direction, a Unix peer's both: nothing more can be sent, but data
 * sent before is still to be received, even if no receive is armed at that time. */
TEST(data_sent_before_the_close_is_received)
{
	static const struct service gated = {
		.name = "gated", .operations = { "take" }, .run = gated_run, .held_max = 16 * 1024
	};
	static char data[150 * 1000];

	for_each_engine(engine)
	{
		struct bench *b = bench_start(engine, &gated, 1);
		struct stats *s = &b->workers[0].stats;
		int fd = client_connect(&b->place);

		atomic_store(&gate_open, false);
		client_send(fd, data, sizeof(data));
		await_at_least(&s->throttled, 1);
		close(fd);
		/* The worker has heard of the close when it hears of this one. */
		fd = client_connect(&b->place);
		await_at_least(&s->accepted, 2);
		close(fd);
		await_at_least(&s->closed_peer, 1);
		assert_int_equal(stat_load(s->closed_reset), 0);
		atomic_store(&gate_open, true);
		await_at_least(&s->bytes_in, sizeof(data));
		await_at_least(&s->closed_peer, 2);
		bench_stop(b);
	}
}

/* A peer that closes with answers unread: a reset, also on a Unix socket. */
TEST(a_close_before_the_answer_was_read_is_a_reset)
{
	enum { ROUNDS = 100 };
	char byte;

	for_each_engine(engine)
	{
		struct bench *b = bench_start(engine, echo(), 1);

		for (unsigned i = 0; i < ROUNDS; i++) {
			int fd = client_connect(&b->place);

			client_send(fd, "x", 1);
			assert_int_equal(recv(fd, &byte, 1, MSG_PEEK), 1);
			close(fd);
		}
		await_at_least(&b->workers[0].stats.closed_reset, ROUNDS);
		bench_stop(b);
	}
}

/* Unix sockets have no zero copy: the data is sent nevertheless, and counted as copied. */
TEST(zero_copy_falls_back_to_copies)
{
	static char data[64 * 1024];
	struct bench *b;
	struct worker *w;
	int fd;

	if (!is_here("io_uring"))
		skip();
	b = bench_start(registry_engine("io_uring"), echo(), 1);
	w = &b->workers[0];
	fd = client_connect(&b->place);
	if (!(w->features & FEATURE_BIT(send_zc))) {
		close(fd);
		bench_stop(b);
		skip();
	}
	for (unsigned i = 0; i < sizeof(data); i++)
		data[i] = (char)(i * 31);
	for (unsigned i = 0; i < 20; i++) {
		client_send(fd, data, sizeof(data));
		client_expect(fd, data, sizeof(data));
	}
	assert_true(stat_load(w->stats.zero_copy_copied) >= 20);
	assert_int_equal(stat_load(w->stats.zero_copied), 0);
	close(fd);
	await_at_least(&w->stats.closed_peer, 1);
	bench_stop(b);
}

static void listed(struct worker_list *list)
{
	atomic_store(&gate_open, true);
	(void)list;
}

TEST(the_client_is_named_by_its_process_and_user)
{
	for_each_engine(engine)
	{
		struct bench *b = bench_start(engine, echo(), 1);
		struct conn_info info = { 0 };
		struct worker_list list = { .infos = &info, .max = 1, .done = listed };
		uint64_t end_ns = clock_ns() + TIMEOUT_S * (uint64_t)NS_PER_S;
		char peer[ADDRESS_TEXT_MAX];
		int fd = client_connect(&b->place);

		client_send(fd, "x", 1);
		client_expect(fd, "x", 1);
		atomic_store(&gate_open, false);
		worker_list_connections(&b->workers[0], &list);
		while (!atomic_load(&gate_open) && clock_ns() < end_ns)
			usleep(1000);
		assert_int_equal(list.count, 1);
		snprintf(peer, sizeof(peer), "unix:pid=%d,uid=%u", (int)getpid(), getuid());
		assert_string_equal(info.peer, peer);
		assert_int_equal(info.rtt_us, 0);
		assert_int_equal(info.retransmits, 0);
		assert_int_equal(info.unsent_bytes, 0);
		close(fd);
		bench_stop(b);
	}
}
