/* Whole sessions of a service on exports in memory: what a client hears is the same, whole or in
 * pieces, nothing is left in flight, and no chunk is lost.  Shared by fuzz_nbd.c and fuzz_nvme.c.
 */
#pragma once
#include "../unit/daemon/by_hand.h"
#include "fuzz.h"
#include "store.h"

enum { SESSION_EXPORT = 256 * 1024, SESSION_EXPORTS = 2, SESSION_CHUNKS = 64 };

extern const struct store store_memory;

struct session {
	struct worker worker;
	struct mount mounts[SESSION_EXPORTS];
	struct export exports[SESSION_EXPORTS];
	struct export_options options;
	uint64_t heard;           /* a digest of what the client was sent on `queue` */
	const struct conn *queue; /* the client's; NULL: it has ended */
	unsigned open;
	bool ended; /* the queue, before the target ended it */
};

static inline struct session *session_of(const struct conn *c)
{
	return container_of(c->worker, struct session, worker);
}

static inline int session_open(struct conn *c)
{
	session_of(c)->open++;
	return 0;
}

static inline void session_flush(struct conn *c)
{
	struct session *s = session_of(c);

	while (c->tx.bytes) {
		const struct view *v = c->tx.head;

		for (uint32_t i = 0; i < v->len && c == s->queue; i++)
			s->heard = (s->heard ^ v->data[i]) * UINT64_C(0x100000001b3);
		conn_sent(c, &c->tx, v->len, 0);
	}
}

static inline void session_release(struct conn *c)
{
	struct session *s = session_of(c);

	s->open--;
	if (s->queue == c)
		s->queue = NULL;
}

static const struct engine session_engine = {
	.name = "fuzz",
	.open = session_open,
	.recv = by_hand_recv,
	.flush = session_flush,
	.close = by_hand_close,
	.release = session_release,
};

static inline void session_init(struct session *s, const struct service *service, unsigned exports)
{
	static const char *const names[SESSION_EXPORTS] = { "one", "two" };
	struct worker *w = &s->worker;
	struct reason reason;

	memset(s, 0, sizeof(*s));
	s->options = (struct export_options){ .size = SESSION_EXPORT, .queue_depth = 4 };
	by_hand_init(w, service, &session_engine, SESSION_CHUNKS, 16384);
	w->limits.held_max = SESSION_EXPORT;
	w->limits.views_max = SESSION_CHUNKS;
	w->mounts = s->mounts;
	w->mount_count = exports;
	for (unsigned i = 0; i < exports; i++) {
		struct export *e = &s->exports[i];

		*e = (struct export){ .name = names[i], .options = &s->options, .fd = -1 };
		if (store_memory.open(e, &reason) < 0)
			abort();
		s->mounts[i] = (struct mount){ .export = e, .store = &store_memory, .worker = w };
	}
}

static inline void session_fini(struct session *s)
{
	assert(s->open == 0);
	for (unsigned i = 0; i < s->worker.mount_count; i++) {
		assert(s->mounts[i].in_flight == 0);
		store_memory.close(&s->exports[i]);
	}
	by_hand_fini(&s->worker);
}

/* A connection, which is the client's from now on. */
static inline struct conn *session_connect(struct session *s)
{
	conn_new(&s->worker, -1);
	s->queue = s->worker.conns;
	by_hand_turns(&s->worker);
	return s->worker.conns;
}

/* Until its queue ends. */
static inline void session_input(struct session *s, struct conn *c, const uint8_t *data,
				 size_t bytes, size_t piece)
{
	for (size_t at = 0; at < bytes && c == s->queue;)
		at += by_hand_input(c, data + at, MIN(piece, bytes - at));
}
