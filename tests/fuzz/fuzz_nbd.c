/* Fuzzes a whole NBD session on a memory export: whatever a client says, whole or in pieces that
 * the input chooses, it hears the same, nothing is left in flight, and no chunk is lost. */
#include <unistd.h>

#include "../unit/daemon/by_hand.h"
#include "fuzz.h"
#include "store.h"

enum { EXPORT_SIZE = 256 * 1024, CHUNKS = 64, CHUNK_SIZE = 16384 };

extern const struct service service_nbd;
extern const struct store store_memory;

struct session {
	struct worker worker;
	struct mount mounts[2];
	struct export exports[2];
	struct export_options options;
	uint64_t heard; /* a digest of what the client was sent */
	bool ended;
};

static struct session *session_of(const struct conn *c)
{
	return container_of(c->worker, struct session, worker);
}

static void session_flush(struct conn *c)
{
	struct session *s = session_of(c);

	while (c->tx.bytes) {
		const struct view *v = c->tx.head;

		for (uint32_t i = 0; i < v->len; i++)
			s->heard = (s->heard ^ v->data[i]) * UINT64_C(0x100000001b3);
		conn_sent(c, &c->tx, v->len, 0);
	}
}

static void session_release(struct conn *c)
{
	session_of(c)->ended = true;
}

static const struct engine session_engine = {
	.name = "fuzz",
	.open = by_hand_open,
	.recv = by_hand_recv,
	.flush = session_flush,
	.close = by_hand_close,
	.release = session_release,
};

static void session_init(struct session *s)
{
	static const char *const names[] = { "one", "two" };
	struct worker *w = &s->worker;
	struct reason reason;

	memset(s, 0, sizeof(*s));
	s->options = (struct export_options){ .size = EXPORT_SIZE, .queue_depth = 4 };
	w->service = &service_nbd;
	w->engine = &session_engine;
	w->owner = &by_hand_owner;
	w->turn.ready_tail = &w->turn.ready;
	w->limits.held_max = EXPORT_SIZE;
	w->limits.views_max = CHUNKS;
	w->mounts = s->mounts;
	w->mount_count = 2;
	pool_init(&w->pool, CHUNKS, CHUNK_SIZE, 0);
	for (unsigned i = 0; i < 2; i++) {
		struct export *e = &s->exports[i];

		*e = (struct export){ .name = names[i], .options = &s->options, .fd = -1 };
		if (store_memory.open(e, &reason) < 0)
			abort();
		s->mounts[i] = (struct mount){ .export = e, .store = &store_memory, .worker = w };
	}
}

static void session_fini(struct session *s)
{
	struct worker *w = &s->worker;

	for (unsigned i = 0; i < 2; i++) {
		assert(s->mounts[i].in_flight == 0);
		store_memory.close(&s->exports[i]);
	}
	if (w->scratch)
		chunk_put(&w->pool, w->scratch);
	assert(w->pool.free_count == CHUNKS);
	pool_fini(&w->pool);
}

static uint64_t session_run(struct session *s, const uint8_t *data, size_t bytes, size_t piece)
{
	struct conn *c;

	session_init(s);
	conn_new(&s->worker, -1);
	c = s->worker.conns;
	by_hand_turns(&s->worker);
	for (size_t at = 0; at < bytes && !s->ended;)
		at += by_hand_input(c, data + at, MIN(piece, bytes - at));
	if (!s->ended)
		conn_eof(c);
	by_hand_turns(&s->worker);
	assert(s->ended);
	session_fini(s);
	return s->heard;
}

/* The first byte says how long the pieces are. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static struct session s;

	if (bytes == 0)
		return 0;
	/* What is done in slices ends with the time of a turn: after an interruption by other
	 * processes the replies may come in another order, so a difference has to come again. */
	for (unsigned attempt = 1;; attempt++) {
		uint64_t whole = session_run(&s, data + 1, bytes - 1, SIZE_MAX);

		if (session_run(&s, data + 1, bytes - 1, (size_t)data[0] % 64 + 1) == whole)
			return 0;
		assert(attempt < 3);
	}
}
