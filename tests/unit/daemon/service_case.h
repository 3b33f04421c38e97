/* One connection of a service, fed and drained by hand: no socket, no thread. */
#pragma once
#include <errno.h>
#include <unistd.h>

#include "by_hand.h"
#include "pressure.h"
#include "remote.h"
#include "unit.h"

struct service_case {
	struct worker worker;
	struct conn *conn; /* NULL: the connection has ended */
	uint8_t *out;      /* the bytes that the service sent */
	size_t out_bytes, out_max;
	size_t room;    /* bytes that the peer still takes; SIZE_MAX: all */
	bool recv_off;  /* backpressure */
	size_t closed;  /* calls of engine->close() */
	size_t ends[6]; /* connections by enum conn_end */
	/* Of services that read and write the peer's memory: what waits for case_remote(). */
	struct remote *remotes[8];
	unsigned remote_count;
	struct region region; /* memory that the service has lent the peer */
};

static inline struct service_case *case_of(struct worker *w)
{
	return container_of(w, struct service_case, worker);
}

static inline void case_recv(struct conn *c, bool on)
{
	case_of(c->worker)->recv_off = !on;
}

static inline void case_flush(struct conn *c)
{
	struct service_case *t = case_of(c->worker);

	while (c->tx.bytes && t->room) {
		struct view *v = c->tx.head;
		size_t n = MIN(v->len, t->room);

		if (t->out_bytes + n > t->out_max) {
			t->out_max = 2 * (t->out_bytes + n);
			t->out = realloc(t->out, t->out_max);
			assert_non_null(t->out);
		}
		memcpy(t->out + t->out_bytes, v->data, n);
		t->out_bytes += n;
		if (t->room != SIZE_MAX)
			t->room -= n;
		conn_sent(c, &c->tx, n, 0);
	}
}

static inline void case_close(struct conn *c)
{
	case_of(c->worker)->closed++;
}

static inline void case_release(struct conn *c)
{
	struct service_case *t = case_of(c->worker);

	t->ends[c->end]++;
	t->conn = NULL;
}

static const struct engine case_engine = {
	.name = "by hand",
	.open = by_hand_open,
	.recv = case_recv,
	.flush = case_flush,
	.close = case_close,
	.release = case_release,
};

static inline void case_submit(struct remote *remote)
{
	struct service_case *t = case_of(remote->conn->worker);

	if (remote->conn->flags & (CONN_EOF | CONN_CLOSING)) {
		remote_finish(remote, -ECANCELED);
		return;
	}
	assert_true(t->remote_count < ARRAY_SIZE(t->remotes));
	t->remotes[t->remote_count++] = remote;
}

static inline int case_region(struct conn *c, size_t bytes, struct region *ret_region)
{
	struct service_case *t = case_of(c->worker);

	assert_null(t->region.base);
	t->region = (struct region){ calloc(1, bytes), bytes, 0x1234 };
	*ret_region = t->region;
	return t->region.base ? 0 : -ENOMEM;
}

static const struct engine_remote case_reach = { .submit = case_submit, .region = case_region };

/* Carries messages; the peer's memory is the test's own, any key will do. */
static const struct engine case_remote_engine = {
	.name = "by hand, one-sided",
	.messages = true,
	.open = by_hand_open,
	.recv = case_recv,
	.flush = case_flush,
	.close = case_close,
	.release = case_release,
	.remote = &case_reach,
};

static inline void case_turns(struct service_case *t)
{
	by_hand_turns(&t->worker);
}

/* Time passes, and the worker looks at its connections.  The turn that runs them may have a clock
 * that is behind. */
static inline void case_pass(struct service_case *t, uint64_t ns)
{
	struct worker *w = &t->worker;
	uint64_t now = w->turn.now_ns + ns;

	assert_non_null(t->conn);
	deadlines_run(&w->deadlines, now + (1 << DEADLINE_TICK_BITS), UINT32_MAX);
	w->turn.now_ns = now - 4 * NS_PER_MS;
	case_turns(t);
	w->turn.now_ns = now;
}

static inline void case_connect(struct service_case *t)
{
	assert_null(t->conn);
	t->out_bytes = 0;
	t->room = SIZE_MAX;
	conn_new(&t->worker, -1);
	t->conn = t->worker.conns;
	case_turns(t);
}

/* Without a connection yet: the caller may change the worker before case_connect(). */
static inline struct service_case *case_new_idle(const struct service *service, uint32_t chunks,
						 uint32_t chunk_size)
{
	struct service_case *t =
		aligned_alloc(CACHE_LINE, (sizeof(*t) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
	struct worker *w = &t->worker;

	assert_non_null(t);
	memset(t, 0, sizeof(*t));
	by_hand_init(w, service,
		     (service->flags & SERVICE_REMOTE) ? &case_remote_engine : &case_engine, chunks,
		     chunk_size);
	w->limits.held_max = CONN_HELD_MAX;
	w->limits.views_max = CONN_HELD_MAX / CONN_VIEW_BYTES;
	pressure_check_init(w);
	return t;
}

static inline struct service_case *case_new(const struct service *service, uint32_t chunks,
					    uint32_t chunk_size)
{
	struct service_case *t = case_new_idle(service, chunks, chunk_size);

	case_connect(t);
	return t;
}

/* The connection receives all the bytes, `piece` of them in a turn. */
static inline void case_input(struct service_case *t, const void *data, size_t bytes, size_t piece)
{
	for (size_t at = 0; at < bytes && t->conn;)
		at += by_hand_input(t->conn, (const uint8_t *)data + at, MIN(piece, bytes - at));
}

/* The first of the remote operations happens, or does not. */
static inline void case_remote(struct service_case *t, int result)
{
	struct remote *remote = t->remotes[0];
	uint8_t *at;

	assert_true(t->remote_count > 0);
	memmove(t->remotes, t->remotes + 1, --t->remote_count * sizeof(t->remotes[0]));
	/* The test's own address.  NOLINTNEXTLINE(*-no-int-to-ptr) */
	at = (uint8_t *)(uintptr_t)remote->address;
	for (struct view *v = remote->data.head; v && result == 0; at += v->len, v = v->next)
		memcpy(remote->kind == REMOTE_READ ? v->data : at,
		       remote->kind == REMOTE_READ ? at : v->data, v->len);
	remote_finish(remote, result);
	case_turns(t);
}

/* The same at random splits, which seed chooses. */
static inline void case_input_random(struct service_case *t, const void *data, size_t bytes,
				     unsigned seed)
{
	static const size_t most[] = { 1, 3, 20, 100, 1000, 4096 };

	for (size_t at = 0, n; at < bytes && t->conn; at += n) {
		seed = seed * 1103515245U + 12345U;
		n = 1 + (seed >> 16) % most[(seed >> 8) % ARRAY_SIZE(most)];
		n = MIN(n, bytes - at);
		case_input(t, (const uint8_t *)data + at, n, n);
	}
}

/* The peer takes `bytes` more. */
static inline void case_take(struct service_case *t, size_t bytes)
{
	t->room = bytes;
	conn_ready(t->conn);
	case_turns(t);
}

static inline void case_eof(struct service_case *t)
{
	conn_eof(t->conn);
	case_turns(t);
}

static inline void case_free(struct service_case *t)
{
	if (t->conn) {
		conn_close(t->conn, CONN_END_DRAIN);
		case_turns(t);
	}
	while (t->remote_count > 0)
		case_remote(t, -ECANCELED);
	assert_null(t->conn);
	pool_fini(&t->worker.pool);
	free(t->region.base);
	free(t->out);
	free(t);
}

CLEANUP_OF(struct service_case *, case_free)
