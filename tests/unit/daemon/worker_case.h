/* A worker with a real engine over loopback: for tests of core/. */
#pragma once
#include <dirent.h>
#include <poll.h>

#include "worker_parts.h"
#include "worker_stop.h"

enum { CLIENTS_MAX = 256 };

struct bench {
	struct worker worker; /* first: aligned */
	struct place place;
	struct owner owner;
};

static inline struct bench *bench_new(const struct engine *engine, const struct service *service)
{
	struct bench *b = bench_alloc(sizeof(*b));

	owner_init(&b->owner);
	b->place = anywhere(AF_INET);
	worker_prepare(&b->worker, &b->owner, engine, service);
	return b;
}

static inline struct bench *bench_start(const struct engine *engine, const struct service *service)
{
	struct bench *b = bench_new(engine, service);

	worker_begin(&b->worker, listen_at(&b->place), false);
	worker_request(&b->worker, REQUEST_SERVE, 0);
	return b;
}

static inline void bench_stop(struct bench *b)
{
	worker_stop_and_wait(&b->worker);
	owner_fini(&b->owner);
	free(b);
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

/* The kernel closes the files of a ring some time after the ring. */
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
