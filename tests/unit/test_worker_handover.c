/* core/worker.c with each real engine: listening sockets that go from one worker to another, as a
 * reload does it, and what was connected when a worker is told to accept no more. */
#include <netinet/in.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "conn.h"
#include "util.h"
#include "worker.h"

enum { TIMEOUT_S = 10, CLIENTS = 5 };

/* ---- Workers ---- */

struct bench {
	struct worker old, new; /* old first: aligned */
	struct sockaddr_storage address;
	socklen_t address_size;
	int fd; /* theirs are duplicates of it */
	sem_t deaf;
};

static int bench_admit(struct worker *w, int fd, const struct sockaddr_storage *peer,
		       void **ret_ticket)
{
	(void)fd, (void)peer;
	*ret_ticket = w;
	return 0;
}

static void bench_release(struct worker *w, void *ticket)
{
	(void)w, (void)ticket;
}

static void bench_deaf(struct worker *w)
{
	struct bench *b = w->owner_context;

	sem_post(&b->deaf);
}

static void bench_drained(struct worker *w)
{
	(void)w;
}

static const struct worker_owner bench_owner = {
	.admit = bench_admit,
	.release = bench_release,
	.deaf = bench_deaf,
	.drained = bench_drained,
};

static void bench_start(struct bench *b, struct worker *w, const struct engine *engine)
{
	struct worker_socket socket = { .fd = dup(b->fd),
					.shared = b->address.ss_family == AF_UNIX };
	struct reason reason = { "" };

	w->engine = engine;
	w->service = service_find("echo");
	w->owner = &bench_owner;
	w->owner_context = b;
	w->options.buffers = 64;
	w->options.buffer_size = 4096;
	w->options.sqpoll_cpu = UINT64_MAX;
	snprintf(w->name, sizeof(w->name), "%s", w == &b->old ? "old" : "new");
	if (worker_start(w, &socket, 1, &reason) < 0)
		fail_msg("%s: %s", engine->name, reason.text);
}

/* With a socket that listens on an address that the kernel chooses. */
static struct bench *bench_new(sa_family_t family)
{
	size_t size = (sizeof(struct bench) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
	struct bench *b = aligned_alloc(CACHE_LINE, size);

	assert_non_null(b);
	memset(b, 0, size);
	sem_init(&b->deaf, 0, 0);
	b->address.ss_family = family;
	b->address_size = family == AF_UNIX ? sizeof(family) : sizeof(struct sockaddr_in);
	b->fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_int_equal(bind(b->fd, (struct sockaddr *)&b->address, b->address_size), 0);
	assert_int_equal(listen(b->fd, 1024), 0);
	b->address_size = sizeof(b->address);
	getsockname(b->fd, (struct sockaddr *)&b->address, &b->address_size);
	return b;
}

static void bench_free(struct bench *b)
{
	worker_stop(&b->old);
	worker_stop(&b->new);
	if (b->fd >= 0)
		close(b->fd);
	sem_destroy(&b->deaf);
	free(b);
}

static void await(sem_t *event)
{
	struct timespec end;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += TIMEOUT_S;
	assert_int_equal(sem_timedwait(event, &end), 0);
}

/* ---- Clients ---- */

static int client_connect(const struct bench *b)
{
	struct timeval timeout = { .tv_sec = TIMEOUT_S };
	int fd = socket(b->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	assert_int_equal(connect(fd, (const struct sockaddr *)&b->address, b->address_size), 0);
	return fd;
}

static void clients_connect(const struct bench *b, int *fds)
{
	for (unsigned i = 0; i < CLIENTS; i++)
		fds[i] = client_connect(b);
}

/* Each is answered. */
static void clients_echo(const struct engine *engine, int *fds)
{
	for (unsigned i = 0; i < CLIENTS; i++) {
		char byte = 'x';

		if (send(fds[i], &byte, 1, MSG_NOSIGNAL) != 1 || recv(fds[i], &byte, 1, 0) != 1)
			fail_msg("%s: connection %u is not served", engine->name, i);
		close(fds[i]);
	}
}

/* ---- Stopping a worker at a point of its life ---- */

struct stall {
	struct call call;
	sem_t there, go;
};

static void run_stall(struct call *call)
{
	struct stall *stall = container_of(call, struct stall, call);

	sem_post(&stall->there);
	while (sem_wait(&stall->go) < 0)
		;
}

static void stall(struct worker *w, struct stall *s)
{
	s->call.fn = run_stall;
	sem_init(&s->there, 0, 0);
	sem_init(&s->go, 0, 0);
	worker_call(w, &s->call);
}

/* Drains w; clients connect in that turn, before its drain or behind it, when the worker cannot
 * look at its engine. */
static void drain_and_connect(struct bench *b, bool behind, int *fds)
{
	uint64_t deadline_ns = clock_ns() + 3600ULL * NS_PER_S;
	struct stall gather, s;

	stall(&b->old, &gather);
	await(&gather.there);
	if (behind)
		worker_drain(&b->old, deadline_ns);
	stall(&b->old, &s);
	if (!behind)
		worker_drain(&b->old, deadline_ns);
	sem_post(&gather.go);
	await(&s.there);
	clients_connect(b, fds);
	sem_post(&s.go);
	await(&b->deaf);
}

static void run_mark(struct call *call)
{
	sem_post(&container_of(call, struct stall, call)->there);
}

/* Has done all that it was asked for, and what its ring had to do for that. */
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
	struct bench *b = bench_new(family);
	int fds[CLIENTS];

	bench_start(b, &b->old, engine);
	worker_listen(&b->old);
	settle(&b->old);
	bench_start(b, &b->new, engine);
	worker_listen(&b->new);
	settle(&b->new);
	b->old.acceptors[0].given = true;
	drain_and_connect(b, behind, fds);
	worker_accept_waiting(&b->new);
	clients_echo(engine, fds);
	bench_free(b);
}

static void nobody_is_forgotten_when_a_socket_changes_hands(void **state)
{
	(void)state;
	for (unsigned e = 0; engines[e]; e++)
		if (engines[e]->transport == TRANSPORT_TCP) {
			hand_over(engines[e], AF_INET, false);
			hand_over(engines[e], AF_INET, true);
			hand_over(engines[e], AF_UNIX, false);
			hand_over(engines[e], AF_UNIX, true);
		}
}

/* They come when the worker has looked at its queue and told its engine to stop. */
static void drain_late(const struct engine *engine, sa_family_t family)
{
	struct bench *b = bench_new(family);
	int fds[CLIENTS];

	bench_start(b, &b->old, engine);
	worker_listen(&b->old);
	settle(&b->old);
	close(b->fd);
	b->fd = -1;
	drain_and_connect(b, true, fds);
	clients_echo(engine, fds);
	bench_free(b);
}

static void who_is_connected_while_a_drain_begins_is_served(void **state)
{
	(void)state;
	for (unsigned e = 0; engines[e]; e++)
		if (engines[e]->transport == TRANSPORT_TCP) {
			drain_late(engines[e], AF_INET);
			drain_late(engines[e], AF_UNIX);
		}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(nobody_is_forgotten_when_a_socket_changes_hands),
		cmocka_unit_test(who_is_connected_while_a_drain_begins_is_served),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
