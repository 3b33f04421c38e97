/* What the tests of connections share: services of a few lines over the fake engine, and its
 * set-up. */
#pragma once
#include <errno.h>

#include "fake_engine.h"
#include "unit.h"
#include "util.h"
#include "worker_owner.h"

enum { CHUNKS = 32, CHUNK = 4096, MS = 1000 * 1000 };

static uint8_t data[1024 * 1024];

static inline struct fake_peer *peer_of(struct conn *c)
{
	return c->engine_state;
}

static inline void end_service(struct conn *c)
{
	if (peer_of(c))
		peer_of(c)->service_end = 1 + c->end;
}

static inline void answer(struct conn *c)
{
	bufq_splice(&c->tx, &c->rx);
}

static inline void keep(struct conn *c)
{
	(void)c;
}

static const struct service answering = { .name = "answer", .run = answer, .close = end_service };
static const struct service keeping = { .name = "keep", .run = keep, .close = end_service };

/* The state of a test: before its set-up the service, then the fake engine that runs it. */
static inline int start(void **state)
{
	*state = fake_start(*state, CHUNKS, CHUNK, 0);
	return 0;
}

static inline int stop(void **state)
{
	fake_stop(*state);
	return 0;
}

#define CONN_TEST(name, start, service) TEST_WITH(name, start, stop, &(service))

static inline int fill_data(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 31 + i / 256 * 7);
	return 0;
}
