/* A worker with a real engine over loopback, its owner and its clients: for tests of core/worker.c.
 */
#pragma once
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

static inline struct bench *bench_of(const struct worker *w)
{
	return container_of(w, struct bench, worker);
}

static inline int bench_admit(struct worker *w, int fd, const struct sockaddr_storage *peer,
			      void **ret_ticket)
{
	(void)fd, (void)peer;
	atomic_fetch_add(&bench_of(w)->admitted, 1);
	*ret_ticket = w;
	return 0;
}

static inline void bench_release(struct worker *w, void *ticket)
{
	if (ticket != w)
		abort();
	atomic_fetch_add(&bench_of(w)->released, 1);
}

static inline void bench_paused(struct worker *w, int error)
{
	(void)w, (void)error;
}

static inline void bench_deaf(struct worker *w)
{
	(void)w;
}

static inline void bench_drained(struct worker *w)
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
static inline int listen_on(struct sockaddr_in *address)
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

static inline struct bench *bench_new(const struct engine *engine, const struct service *service)
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

static inline struct bench *bench_start(const struct engine *engine, const struct service *service)
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

static inline void bench_stop(struct bench *b)
{
	worker_stop(&b->worker);
	assert_int_equal(b->admitted, b->released);
	sem_destroy(&b->event);
	free(b);
}

static inline const struct service *echo(void)
{
	return service_find("echo");
}

/* ---- Clients ---- */

static inline int client_connect(const struct bench *b)
{
	struct timeval timeout = { .tv_sec = TIMEOUT_MS / 1000 };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	assert_int_equal(connect(fd, (const struct sockaddr *)&b->address, sizeof(b->address)), 0);
	return fd;
}

/* 1: answered; 0: the connection has ended. */
static inline int client_echo(int fd)
{
	char out = 'x', in = 0;

	if (send(fd, &out, 1, MSG_NOSIGNAL) != 1 || recv(fd, &in, 1, 0) != 1)
		return 0;
	return in == out;
}

/* The worker has ended the connection: by FIN or reset, but it has. */
static inline bool client_is_ended(int fd)
{
	char byte;
	ssize_t n = recv(fd, &byte, 1, 0);

	return n == 0 || (n < 0 && errno == ECONNRESET);
}

static inline unsigned descriptors(void)
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
static inline void await_descriptors(unsigned count)
{
	uint64_t end_ns = clock_ns() + 2ULL * NS_PER_S;

	while (descriptors() != count && clock_ns() < end_ns)
		poll(NULL, 0, 1);
	assert_int_equal(descriptors(), count);
}

static inline uint64_t elapsed_ms(uint64_t since_ns)
{
	return (clock_ns() - since_ns) / NS_PER_MS;
}

static inline void await_event(struct bench *b)
{
	struct timespec end;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += TIMEOUT_MS / 1000;
	while (sem_timedwait(&b->event, &end) < 0)
		assert_int_equal(errno, EINTR);
}

/* Keeps the worker from its turns until it may go on. */
struct stall {
	struct call call;
	sem_t go;
};

static inline void run_stall(struct call *call)
{
	struct stall *stall = container_of(call, struct stall, call);

	while (sem_wait(&stall->go) < 0)
		;
}

/* NOLINTBEGIN(bugprone-macro-parentheses): e is declared here */
#define for_each_engine(e)                                                                         \
	for (const struct engine *const *e##_ = engines, *e = *e##_; e; e = *++e##_)               \
		if (e->transport == TRANSPORT_TCP)
/* NOLINTEND(bugprone-macro-parentheses) */
