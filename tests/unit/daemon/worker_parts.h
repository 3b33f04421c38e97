/* Shared by the tests of workers with real engines: an owner that counts, a place to listen
 * at, clients, a way to stop a worker at a point of its life. */
#pragma once
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "conn.h"
#include "here.h"
#include "registry.h"
#include "unit.h"
#include "util.h"
#include "worker_owner.h"

enum { TIMEOUT_S = 10 };

/* NOLINTBEGIN(bugprone-macro-parentheses): e is declared here */
#define for_each_engine(e)                                                                         \
	for (const struct engine *const *e##_ = engines, *e = *e##_; e; e = *++e##_)               \
		if (e->transport == &transport_tcp && is_here(e->name))
/* NOLINTEND(bugprone-macro-parentheses) */

static inline const struct service *echo(void)
{
	return registry_service("echo");
}

/* Zeroed memory for a worker, aligned as it must be. */
static inline void *bench_alloc(size_t size)
{
	void *b;

	size = (size + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
	b = aligned_alloc(CACHE_LINE, size);
	assert_non_null(b);
	return memset(b, 0, size);
}

static inline void await(sem_t *event)
{
	if (!sem_wait_until(event, clock_ns() + TIMEOUT_S * (uint64_t)NS_PER_S))
		fail_msg("nothing has happened in %d s", TIMEOUT_S);
}

/* ---- The owner ---- */

struct owner {
	_Atomic unsigned admitted, released, drained;
	sem_t accept_ended;
	sem_t event; /* drained(), or whatever a test waits for */
};

static inline void owner_init(struct owner *o)
{
	sem_init(&o->accept_ended, 0, 0);
	sem_init(&o->event, 0, 0);
}

static inline void owner_fini(struct owner *o)
{
	assert_int_equal(o->admitted, o->released);
	sem_destroy(&o->accept_ended);
	sem_destroy(&o->event);
}

static inline struct owner *owner_of(const struct worker *w)
{
	return w->owner_context;
}

static inline int owner_admit(struct worker *w, int fd, const struct sockaddr_storage *peer)
{
	(void)fd, (void)peer;
	atomic_fetch_add(&owner_of(w)->admitted, 1);
	return 0;
}

static inline void owner_release(struct worker *w)
{
	atomic_fetch_add(&owner_of(w)->released, 1);
}

static inline void owner_paused(struct worker *w, int error)
{
	(void)w, (void)error;
}

static inline void owner_accept_ended(struct worker *w)
{
	sem_post(&owner_of(w)->accept_ended);
}

static inline void owner_drained(struct worker *w)
{
	atomic_fetch_add(&owner_of(w)->drained, 1);
	sem_post(&owner_of(w)->event);
}

static const struct worker_owner test_owner = {
	.admit = owner_admit,
	.release = owner_release,
	.paused = owner_paused,
	.accept_ended = owner_accept_ended,
	.drained = owner_drained,
};

/* Makes w, zeroed, ready for worker_start_and_wait(). */
static inline void worker_prepare(struct worker *w, struct owner *o, const struct engine *engine,
				  const struct service *service)
{
	w->engine = engine;
	w->service = service;
	w->owner = &test_owner;
	w->owner_context = o;
	w->options.buffers = 64;
	w->options.buffer_size = 4096;
	snprintf(w->name, sizeof(w->name), "test");
}

/* Takes fd over. */
static inline void worker_begin(struct worker *w, int fd, bool shared)
{
	struct worker_socket socket = { .fd = fd, .shared = shared };
	struct reason reason = { "" };

	if (worker_start_and_wait(w, &socket, 1, &reason) < 0)
		fail_msg("%s: %s", w->engine->name, reason.text);
}

/* ---- Where clients find it ---- */

struct place {
	struct sockaddr_storage sa;
	socklen_t size;
};

/* On loopback, or an abstract name; the kernel chooses which. */
static inline struct place anywhere(sa_family_t family)
{
	struct place p = { .sa.ss_family = family, .size = sizeof(family) };

	if (family == AF_INET) {
		((struct sockaddr_in *)&p.sa)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		p.size = sizeof(struct sockaddr_in);
	}
	return p;
}

/* A listening socket, or -errno. */
static inline int listen_at(struct place *p)
{
	int fd = socket(p->sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1;
	struct sockaddr *sa = (struct sockaddr *)&p->sa;

	assert_true(fd >= 0);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, sa, p->size) < 0 || listen(fd, 1024) < 0) {
		int error = errno;

		close(fd);
		return -error;
	}
	p->size = sizeof(p->sa);
	assert_int_equal(getsockname(fd, sa, &p->size), 0);
	return fd;
}

static inline int client_connect(const struct place *p)
{
	struct timeval timeout = { .tv_sec = TIMEOUT_S };
	int fd = socket(p->sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
	assert_int_equal(connect(fd, (const struct sockaddr *)&p->sa, p->size), 0);
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

/* ---- Keeping a worker from its turns until it may continue ---- */

struct stall {
	struct call call;
	sem_t there, go;
};

static inline void run_stall(struct call *call)
{
	struct stall *stall = container_of(call, struct stall, call);

	sem_post(&stall->there);
	while (sem_wait(&stall->go) < 0)
		;
}

static inline void stall(struct worker *w, struct stall *s)
{
	s->call.fn = run_stall;
	sem_init(&s->there, 0, 0);
	sem_init(&s->go, 0, 0);
	worker_call(w, &s->call);
}

static inline void stall_fini(struct stall *s)
{
	sem_destroy(&s->there);
	sem_destroy(&s->go);
}
