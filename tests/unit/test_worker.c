/* core/worker.c with each real engine over loopback: starting, stopping, draining, and what its
 * owner may ask of it. */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "conn.h"
#include "util.h"
#include "worker.h"

enum { TIMEOUT_MS = 5 * 1000, CLIENTS_MAX = 256 };

/* ---- A worker and its owner ---- */

struct bench {
	struct worker worker;
	struct sockaddr_in address;
	_Atomic unsigned admitted, released;
	_Atomic unsigned drained;
	sem_t event; /* drained(), or a listing is done */
};

static struct bench *bench_of(const struct worker *w)
{
	return container_of(w, struct bench, worker);
}

static int bench_admit(struct worker *w, int fd, const struct sockaddr_storage *peer,
		       void **ret_ticket)
{
	(void)fd, (void)peer;
	atomic_fetch_add(&bench_of(w)->admitted, 1);
	*ret_ticket = w;
	return 0;
}

static void bench_release(struct worker *w, void *ticket)
{
	if (ticket != w)
		abort();
	atomic_fetch_add(&bench_of(w)->released, 1);
}

static void bench_paused(struct worker *w, int error)
{
	(void)w, (void)error;
}

static void bench_deaf(struct worker *w)
{
	(void)w;
}

static void bench_drained(struct worker *w)
{
	atomic_fetch_add(&bench_of(w)->drained, 1);
	sem_post(&bench_of(w)->event);
}

static const struct worker_owner bench_owner = {
	.admit = bench_admit,
	.release = bench_release,
	.paused = bench_paused,
	.deaf = bench_deaf,
	.drained = bench_drained,
};

/* A listening socket on loopback; `address` with port 0 gets one. */
static int listen_on(struct sockaddr_in *address)
{
	socklen_t len = sizeof(*address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1;

	address->sin_family = AF_INET;
	address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_true(fd >= 0);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, (struct sockaddr *)address, len) < 0 || listen(fd, 1024) < 0 ||
	    getsockname(fd, (struct sockaddr *)address, &len) < 0) {
		int error = errno;

		close(fd);
		return -error;
	}
	return fd;
}

static struct bench *bench_new(const struct engine *engine, const struct service *service)
{
	size_t size = (sizeof(struct bench) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
	struct bench *b = aligned_alloc(CACHE_LINE, size);

	assert_non_null(b);
	memset(b, 0, size);
	sem_init(&b->event, 0, 0);
	b->worker.engine = engine;
	b->worker.service = service;
	b->worker.owner = &bench_owner;
	b->worker.options.buffers = 64;
	b->worker.options.buffer_size = 4096;
	b->worker.options.sqpoll_cpu = UINT64_MAX;
	snprintf(b->worker.name, sizeof(b->worker.name), "test");
	return b;
}

static struct bench *bench_start(const struct engine *engine, const struct service *service)
{
	struct bench *b = bench_new(engine, service);
	struct reason reason = { "" };
	int fd = listen_on(&b->address);

	assert_true(fd >= 0);
	if (worker_start(&b->worker, &(struct worker_socket){ .fd = fd }, 1, &reason) < 0)
		fail_msg("%s: %s", engine->name, reason.text);
	worker_listen(&b->worker);
	return b;
}

static void bench_stop(struct bench *b)
{
	worker_stop(&b->worker);
	assert_int_equal(b->admitted, b->released);
	sem_destroy(&b->event);
	free(b);
}

static const struct service *echo(void)
{
	return service_find("echo");
}

/* ---- Clients ---- */

static int client_connect(const struct bench *b)
{
	struct timeval timeout = { .tv_sec = TIMEOUT_MS / 1000 };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	assert_int_equal(connect(fd, (const struct sockaddr *)&b->address, sizeof(b->address)), 0);
	return fd;
}

/* 1: answered; 0: the connection has ended. */
static int client_echo(int fd)
{
	char out = 'x', in = 0;

	if (send(fd, &out, 1, MSG_NOSIGNAL) != 1 || recv(fd, &in, 1, 0) != 1)
		return 0;
	return in == out;
}

/* The worker has ended the connection: by FIN or reset, but it has. */
static bool client_is_ended(int fd)
{
	char byte;
	ssize_t n = recv(fd, &byte, 1, 0);

	return n == 0 || (n < 0 && errno == ECONNRESET);
}

static unsigned descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* The kernel closes what a ring held some time after the ring. */
static void await_descriptors(unsigned count)
{
	uint64_t end_ns = clock_ns() + 2ULL * NS_PER_S;

	while (descriptors() != count && clock_ns() < end_ns)
		poll(NULL, 0, 1);
	assert_int_equal(descriptors(), count);
}

static uint64_t elapsed_ms(uint64_t since_ns)
{
	return (clock_ns() - since_ns) / NS_PER_MS;
}

static void await_event(struct bench *b)
{
	struct timespec end;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += TIMEOUT_MS / 1000;
	while (sem_timedwait(&b->event, &end) < 0)
		assert_int_equal(errno, EINTR);
}

/* NOLINTBEGIN(bugprone-macro-parentheses): e is declared here */
#define for_each_engine(e)                                                                         \
	for (const struct engine *const *e##_ = engines, *e = *e##_; e; e = *++e##_)               \
		if (e->transport == TRANSPORT_TCP)
/* NOLINTEND(bugprone-macro-parentheses) */

/* ---- Tests ---- */

static void starting_and_stopping_leaves_nothing(void **state)
{
	(void)state;
	for_each_engine(engine)
	{
		unsigned before = descriptors();

		for (unsigned i = 0; i < 5; i++)
			bench_stop(bench_start(engine, echo()));
		await_descriptors(before);
	}
}

static void each_engine_answers(void **state)
{
	(void)state;
	for_each_engine(engine)
	{
		struct bench *b = bench_start(engine, echo());
		int fds[20];

		for (unsigned i = 0; i < ARRAY_SIZE(fds); i++)
			fds[i] = client_connect(b);
		for (unsigned round = 0; round < 20; round++)
			for (unsigned i = 0; i < ARRAY_SIZE(fds); i++)
				assert_int_equal(client_echo(fds[i]), 1);
		for (unsigned i = 0; i < ARRAY_SIZE(fds); i++)
			close(fds[i]);
		bench_stop(b);
	}
}

static void features_say_what_the_engine_uses(void **state)
{
	(void)state;
	for_each_engine(engine)
	{
		struct bench *b = bench_start(engine, echo());
		uint32_t features = b->worker.features, probed = 0;
		struct reason reason;

		if (!strcmp(engine->name, "epoll"))
			assert_int_equal(features, 0);
		else
			assert_true(features & (1U << FEATURE_multishot_accept));
		if (!strcmp(engine->name, "io_uring"))
			assert_true(features & (1U << FEATURE_multishot_recv));
		if (!strcmp(engine->name, "io_uring-poll"))
			assert_true(features & (1U << FEATURE_multishot_poll));
		assert_int_equal(worker_probe(engine, &b->worker.options, &probed, &reason), 0);
		assert_int_equal(probed, features);
		bench_stop(b);
	}
}

static void stopping_ends_open_connections_at_once(void **state)
{
	(void)state;
	for_each_engine(engine)
	{
		unsigned before = descriptors();
		struct bench *b = bench_start(engine, echo());
		int fds[100];
		uint64_t start_ns;

		for (unsigned i = 0; i < ARRAY_SIZE(fds); i++) {
			fds[i] = client_connect(b);
			assert_int_equal(client_echo(fds[i]), 1);
		}
		start_ns = clock_ns();
		bench_stop(b);
		assert_in_range(elapsed_ms(start_ns), 0, 1000);
		for (unsigned i = 0; i < ARRAY_SIZE(fds); i++) {
			assert_true(client_is_ended(fds[i]));
			close(fds[i]);
		}
		await_descriptors(before);
	}
}

/* Keeps the worker from its turns until it may go on. */
struct stall {
	struct call call;
	sem_t go;
};

static void run_stall(struct call *call)
{
	struct stall *stall = container_of(call, struct stall, call);

	while (sem_wait(&stall->go) < 0)
		;
}

static void *stop_worker(void *worker)
{
	worker_stop(worker);
	return NULL;
}

/* Connections that arrive while the worker stops must not be forgotten. */
static void stopping_while_clients_connect_ends_them_all(void **state)
{
	(void)state;
	for_each_engine(engine)
	{
		unsigned before = descriptors();
		struct bench *b = bench_start(engine, echo());
		struct stall stall = { .call.fn = run_stall };
		int fds[CLIENTS_MAX];
		pthread_t stopper;
		uint64_t start_ns;

		sem_init(&stall.go, 0, 0);
		fds[0] = client_connect(b);
		assert_int_equal(client_echo(fds[0]), 1);
		worker_call(&b->worker, &stall.call);
		while (atomic_load(&b->worker.mailbox.head))
			sched_yield();
		assert_int_equal(pthread_create(&stopper, NULL, stop_worker, &b->worker), 0);
		while (!atomic_load(&b->worker.mailbox.head))
			sched_yield();
		for (unsigned i = 1; i < CLIENTS_MAX; i++)
			fds[i] = client_connect(b);
		start_ns = clock_ns();
		sem_post(&stall.go);
		pthread_join(stopper, NULL);
		if (elapsed_ms(start_ns) > 1000)
			fail_msg("%s: stopping took %llu ms", engine->name,
				 (unsigned long long)elapsed_ms(start_ns));
		for (unsigned i = 0; i < CLIENTS_MAX; i++) {
			assert_true(client_is_ended(fds[i]));
			close(fds[i]);
		}
		sem_destroy(&stall.go);
		bench_stop(b);
		await_descriptors(before);
	}
}

static void the_address_is_free_when_the_worker_has_stopped(void **state)
{
	(void)state;
	for_each_engine(engine)
	{
		struct bench *b = bench_start(engine, echo());
		struct sockaddr_in address = b->address;
		int fd = client_connect(b), again;

		assert_int_equal(client_echo(fd), 1);
		bench_stop(b);
		again = listen_on(&address);
		if (again < 0)
			fail_msg("%s: %s", engine->name, strerror(-again));
		close(again);
		close(fd);
	}
}

static void drain_answers_what_is_open_and_accepts_no_more(void **state)
{
	(void)state;
	for_each_engine(engine)
	{
		struct bench *b = bench_start(engine, echo());
		int fd = client_connect(b), late;

		assert_int_equal(client_echo(fd), 1);
		worker_drain(&b->worker, clock_ns() + 3600ULL * NS_PER_S);
		assert_int_equal(client_echo(fd), 1);
		assert_int_equal(b->drained, 0);
		late = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		while (connect(late, (struct sockaddr *)&b->address, sizeof(b->address)) == 0) {
			close(late); /* the kernel has not closed the socket yet */
			late = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		}
		close(late);
		shutdown(fd, SHUT_WR);
		await_event(b);
		assert_true(client_is_ended(fd));
		assert_int_equal(b->drained, 1);
		close(fd);
		bench_stop(b);
	}
}

static void drain_ends_silent_connections(void **state)
{
	(void)state;
	for_each_engine(engine)
	{
		struct bench *b = bench_start(engine, echo());
		int fd = client_connect(b);
		uint64_t start_ns;

		assert_int_equal(client_echo(fd), 1);
		start_ns = clock_ns();
		worker_drain(&b->worker, clock_ns() + 3600ULL * NS_PER_S);
		await_event(b);
		assert_in_range(elapsed_ms(start_ns), 900, 5000);
		assert_true(client_is_ended(fd));
		assert_int_equal(stat_load(b->worker.stats.closed_drain), 1);
		close(fd);
		bench_stop(b);
	}
}

/* Fails for every other connection. */
static int open_every_other(struct conn *c)
{
	return c->id % 2 ? 0 : -ENOMEM;
}

static void a_connection_that_fails_to_open_disturbs_no_other(void **state)
{
	struct service service = *echo();

	(void)state;
	service.open = open_every_other;
	for_each_engine(engine)
	{
		unsigned before = descriptors();
		struct bench *b = bench_start(engine, &service);
		int fds[40];

		for (unsigned i = 0; i < ARRAY_SIZE(fds); i++)
			fds[i] = client_connect(b);
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

static void a_start_that_fails_closes_the_listening_socket(void **state)
{
	(void)state;
	for_each_engine(engine)
	{
		unsigned before = descriptors();
		struct bench *b = bench_new(engine, echo());
		struct reason reason = { "" };
		int fd = listen_on(&b->address);

		CPU_SET(CPU_SETSIZE - 1, &b->worker.options.cpus);
		assert_true(worker_start(&b->worker, &(struct worker_socket){ .fd = fd }, 1,
					 &reason) < 0);
		assert_true(reason.text[0] != '\0');
		bench_stop(b); /* allowed, and does nothing */
		await_descriptors(before);
	}
}

/* ---- worker_call() ---- */

struct numbered {
	struct call call;
	struct bench *bench;
	unsigned sender, number;
};

enum { SENDERS = 4, CALLS = 500 };

static _Atomic unsigned calls_run, calls_disordered, calls_elsewhere;
static unsigned last_of[SENDERS];

static void run_numbered(struct call *call)
{
	struct numbered *n = container_of(call, struct numbered, call);

	if (n->number != last_of[n->sender] + 1)
		calls_disordered++;
	last_of[n->sender] = n->number;
	if (!pthread_equal(pthread_self(), n->bench->worker.thread))
		calls_elsewhere++;
	if (atomic_fetch_add(&calls_run, 1) + 1 == SENDERS * CALLS)
		sem_post(&n->bench->event);
}

static void *send_calls(void *arg)
{
	struct numbered *calls = arg;

	for (unsigned i = 0; i < CALLS; i++)
		worker_call(&calls[i].bench->worker, &calls[i].call);
	return NULL;
}

static void calls_run_on_the_worker_in_the_order_of_each_sender(void **state)
{
	(void)state;
	for_each_engine(engine)
	{
		struct bench *b = bench_start(engine, echo());
		struct numbered *calls = calloc((size_t)SENDERS * CALLS, sizeof(*calls));
		pthread_t threads[SENDERS];

		calls_run = calls_disordered = calls_elsewhere = 0;
		memset(last_of, 0, sizeof(last_of));
		for (unsigned i = 0; i < SENDERS * CALLS; i++)
			calls[i] = (struct numbered){
				{ .fn = run_numbered }, b, i / CALLS, i % CALLS + 1
			};
		for (unsigned i = 0; i < SENDERS; i++)
			pthread_create(&threads[i], NULL, send_calls, &calls[(size_t)i * CALLS]);
		for (unsigned i = 0; i < SENDERS; i++)
			pthread_join(threads[i], NULL);
		await_event(b);
		bench_stop(b);
		assert_int_equal(calls_run, SENDERS * CALLS);
		assert_int_equal(calls_disordered, 0);
		assert_int_equal(calls_elsewhere, 0);
		free(calls);
	}
}

/* ---- ListConnections ---- */

static void listed(struct worker_list *list)
{
	sem_post(&bench_of(list->worker)->event);
}

static void list(struct bench *b, struct worker_list *request, unsigned max)
{
	request->max = max;
	request->done = listed;
	worker_list_connections(&b->worker, request);
	await_event(b);
}

static void a_list_has_the_newest_first_and_no_more_than_asked(void **state)
{
	enum { COUNT = WORKER_TURN_MAX + 5 };

	(void)state;
	for_each_engine(engine)
	{
		struct bench *b = bench_start(engine, echo());
		struct worker_list request = { .infos = calloc(COUNT + 1,
							       sizeof(struct conn_info)) };
		int fds[COUNT];

		for (unsigned i = 0; i < COUNT; i++) {
			fds[i] = client_connect(b);
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

/* ---- Starvation ---- */

enum { REPLY_CHUNKS = 2 };

/* Leaves the pool with REPLY_CHUNKS for services.  Each request is answered with a byte from each
 * of them; who comes next has to wait until they are back. */
static void take_all_chunks(struct conn *c)
{
	struct pool *p = &c->worker->pool;

	while (p->free_count > REPLY_CHUNKS && !c->worker->service_state)
		chunk_get(p); /* goes with the pool */
	c->worker->service_state = p;
	if (!c->rx.bytes)
		return;
	if (p->free_count < REPLY_CHUNKS) {
		conn_starved(c);
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
static void who_starves_is_woken_when_sends_give_chunks_back(void **state)
{
	static const struct service greedy = { .name = "greedy",
					       .operations = { "take" },
					       .run = take_all_chunks };
	struct bench *b = bench_start(engine_find("io_uring"), &greedy);
	struct stall stalls[20];
	int fds[8];

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(fds); i++) {
		fds[i] = client_connect(b);
		assert_true(client_asks(fds[i]) && client_is_answered(fds[i]));
	}
	for (unsigned round = 0; round < ARRAY_SIZE(stalls); round++) {
		stalls[round].call.fn = run_stall;
		sem_init(&stalls[round].go, 0, 0);
		worker_call(&b->worker, &stalls[round].call);
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
		sem_destroy(&stalls[i].go);
}

/* ---- Backpressure against a real socket ---- */

static void a_client_that_reads_late_gets_everything(void **state)
{
	static char data[2 * 1024 * 1024], back[sizeof(data)];

	(void)state;
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (char)(i * 31 + i / 256 * 7);
	for_each_engine(engine)
	{
		struct bench *b = bench_start(engine, echo());
		int fd = client_connect(b);
		size_t sent = 0, got = 0;

		while (sent < sizeof(data)) {
			ssize_t n = send(fd, data + sent, sizeof(data) - sent,
					 MSG_DONTWAIT | MSG_NOSIGNAL);

			if (n > 0) {
				sent += (size_t)n;
				continue;
			}
			assert_int_equal(errno, EAGAIN);
			n = recv(fd, back + got, 50000, 0);
			assert_true(n > 0);
			got += (size_t)n;
		}
		shutdown(fd, SHUT_WR);
		while (got < sizeof(data)) {
			ssize_t n = recv(fd, back + got, sizeof(data) - got, 0);

			assert_true(n > 0);
			got += (size_t)n;
		}
		assert_true(client_is_ended(fd));
		assert_memory_equal(back, data, sizeof(data));
		close(fd);
		bench_stop(b);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(starting_and_stopping_leaves_nothing),
		cmocka_unit_test(each_engine_answers),
		cmocka_unit_test(features_say_what_the_engine_uses),
		cmocka_unit_test(stopping_ends_open_connections_at_once),
		cmocka_unit_test(stopping_while_clients_connect_ends_them_all),
		cmocka_unit_test(the_address_is_free_when_the_worker_has_stopped),
		cmocka_unit_test(drain_answers_what_is_open_and_accepts_no_more),
		cmocka_unit_test(drain_ends_silent_connections),
		cmocka_unit_test(a_connection_that_fails_to_open_disturbs_no_other),
		cmocka_unit_test(a_start_that_fails_closes_the_listening_socket),
		cmocka_unit_test(calls_run_on_the_worker_in_the_order_of_each_sender),
		cmocka_unit_test(a_list_has_the_newest_first_and_no_more_than_asked),
		cmocka_unit_test(who_starves_is_woken_when_sends_give_chunks_back),
		cmocka_unit_test(a_client_that_reads_late_gets_everything),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
