/* The fake engine.  See fake_engine.h. */
#include "fake_engine.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "util.h"
#include "worker_stop.h"

static struct fake *fake_of(const struct worker *w)
{
	return container_of(w, struct fake, worker);
}

/* ---- The engine: on the worker's thread, while the test waits ---- */

static int fake_init(struct worker *w, struct reason *reason)
{
	(void)reason;
	w->engine_state = w;
	return 0;
}

static void fake_fini(struct worker *w)
{
	w->engine_state = NULL;
}

static void fake_watch_listener(struct worker *w, struct acceptor *a, bool on)
{
	(void)w, (void)a, (void)on;
}

static int fake_watch(struct worker *w, int fd, struct op *op)
{
	(void)fd;
	fake_of(w)->watched = op;
	return 0;
}

static void fake_output(struct fake_peer *peer, const struct view *v, size_t bytes)
{
	if (peer->out_bytes + bytes > peer->out_max) {
		peer->out_max = 2 * (peer->out_bytes + bytes);
		peer->out = realloc(peer->out, peer->out_max);
		if (!peer->out)
			abort();
	}
	memcpy(peer->out + peer->out_bytes, v->data, bytes);
	peer->out_bytes += bytes;
}

/* The peer takes from q as many bytes as it has room for; returns their number. */
static size_t fake_transmit(struct fake_peer *peer, const struct bufq *q)
{
	size_t max = MIN(q->bytes, peer->room), left;

	if (peer->send_max)
		max = MIN(max, peer->send_max);
	left = max;
	for (const struct view *v = q->head; v && left; v = v->next) {
		size_t n = MIN(v->len, left);

		fake_output(peer, v, n);
		left -= n;
	}
	if (peer->room != SIZE_MAX)
		peer->room -= max;
	return max;
}

/* Completion mode: the send in flight is over, whole or in part. */
static void fake_complete(struct fake_peer *peer)
{
	struct conn *c = peer->conn;
	size_t bytes = fake_transmit(peer, &c->sending);

	peer->sending = false;
	c->pending--;
	if (bytes)
		conn_sent(c, &c->sending, bytes, 0);
	if (c->sending.bytes)
		bufq_prepend(&c->tx, &c->sending);
	conn_ready(c);
}

/* A send completes when the peer takes some of it, or the connection is closed. */
static bool fake_is_due(const struct fake_peer *peer)
{
	return peer->sending && (peer->room || (peer->conn->flags & CONN_CLOSING));
}

static bool fake_has_due(const struct fake *f)
{
	for (unsigned i = 0; i < f->peer_count; i++)
		if (fake_is_due(&f->peers[i]))
			return true;
	return false;
}

static void fake_complete_all(struct fake *f)
{
	for (unsigned i = 0; i < f->peer_count; i++) {
		struct fake_peer *peer = &f->peers[i];

		if (fake_is_due(peer))
			fake_complete(peer);
	}
}

static void fake_wait(struct worker *w, bool block)
{
	struct fake *f = fake_of(w);
	struct pollfd mail = { .fd = w->mailbox.fd, .events = POLLIN };

	f->slept = block && !fake_has_due(f);
	if (!f->stopping) {
		sem_post(&f->parked);
		while (sem_wait(&f->go) < 0)
			;
	}
	worker_awake(w);
	if (poll(&mail, 1, f->stopping && block ? 1 : 0) > 0)
		f->watched->done(f->watched, 0, 0);
	fake_complete_all(f);
}

static int fake_open(struct conn *c)
{
	struct fake *f = fake_of(c->worker);
	struct fake_peer *peer = &f->peers[f->peer_count];

	peer->conn = c;
	peer->receiving = true;
	c->engine_state = peer;
	return 0;
}

static void fake_recv(struct conn *c, bool on)
{
	struct fake_peer *peer = c->engine_state;

	peer->pauses += !on;
	peer->receiving = on;
}

static void fake_flush(struct conn *c)
{
	struct fake_peer *peer = c->engine_state;
	size_t bytes;

	if (fake_of(c->worker)->completion) {
		if (peer->sending)
			return;
		bufq_splice(&c->sending, &c->tx);
		peer->sending = true;
		c->pending++;
		return;
	}
	bytes = fake_transmit(peer, &c->tx);
	if (bytes)
		conn_sent(c, &c->tx, bytes, 0);
}

static void fake_close(struct conn *c)
{
	struct fake_peer *peer = c->engine_state;

	if (peer)
		peer->closes++;
}

static void fake_release(struct conn *c)
{
	struct fake_peer *peer = c->engine_state;

	close(c->fd);
	if (peer)
		peer->conn = NULL;
}

static const struct engine fake_engine = {
	.name = "fake",
	.sample_turns = 1,
	.init = fake_init,
	.fini = fake_fini,
	.watch_listener = fake_watch_listener,
	.watch = fake_watch,
	.wait = fake_wait,
	.open = fake_open,
	.recv = fake_recv,
	.flush = fake_flush,
	.close = fake_close,
	.release = fake_release,
};

/* ---- The owner ---- */

static int fake_admit(struct worker *w, int fd, const struct sockaddr_storage *peer)
{
	struct fake *f = fake_of(w);

	(void)fd, (void)peer;
	if (f->admit < 0)
		return f->admit;
	f->admitted++;
	return 0;
}

static void fake_give_back(struct worker *w)
{
	struct fake *f = fake_of(w);

	f->released++;
	f->open_then = stat_load(w->stats.open);
	f->free_then = stat_load(w->stats.chunks_free);
}

static void fake_accept_ended(struct worker *w)
{
	(void)w;
}

static void fake_drained(struct worker *w)
{
	fake_of(w)->drained++;
}

static const struct worker_owner fake_owner = {
	.admit = fake_admit,
	.release = fake_give_back,
	.accept_ended = fake_accept_ended,
	.drained = fake_drained,
};

/* ---- For the test ---- */

struct fake *fake_start(const struct service *service, uint32_t chunks, uint32_t chunk_size,
			uint64_t idle_timeout_ns)
{
	size_t size = (sizeof(struct fake) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
	struct fake *f = aligned_alloc(CACHE_LINE, size);
	struct reason reason;

	assert_non_null(f);
	memset(f, 0, size);
	sem_init(&f->go, 0, 0);
	sem_init(&f->parked, 0, 0);
	f->worker.service = service;
	f->worker.engine = &fake_engine;
	f->worker.owner = &fake_owner;
	f->worker.options.buffers = chunks;
	f->worker.options.buffer_size = chunk_size;
	f->worker.options.idle_timeout_ns = idle_timeout_ns;
	f->room = SIZE_MAX;
	strcpy(f->worker.name, "fake");
	assert_int_equal(worker_start_and_wait(&f->worker, NULL, 0, &reason), 0);
	sem_wait(&f->parked);
	return f;
}

static size_t views_free(const struct pool *p)
{
	size_t n = 0;

	for (const struct view *v = p->views; v; v = v->next)
		n++;
	return n;
}

void fake_stop(struct fake *f)
{
	struct worker *w = &f->worker;
	uint32_t kept;

	for (unsigned i = 0; i < f->peer_count; i++) {
		while (f->peers[i].conn && f->peers[i].extra)
			fake_unhold(&f->peers[i]);
		if (f->peers[i].conn)
			fake_reset(f, &f->peers[i]);
	}
	fake_settle(f);
	assert_null(w->conns);
	assert_int_equal(w->pressure.waiting, 0);
	assert_int_equal(stat_load(w->stats.open), 0);
	assert_int_equal(f->admitted, f->released);
	kept = (f->kept ? f->kept : w->constant != NULL) + (w->scratch != NULL);
	assert_int_equal(fake_chunks_used(f), kept);
	assert_int_equal(views_free(&w->pool) % POOL_BLOCK_VIEWS, 0);
	f->stopping = true;
	sem_post(&f->go);
	worker_stop_and_wait(w);
	sem_destroy(&f->go);
	sem_destroy(&f->parked);
	for (unsigned i = 0; i < f->peer_count; i++)
		free(f->peers[i].out);
	free(f);
}

struct fake_peer *fake_connect(struct fake *f)
{
	struct fake_peer *peer = &f->peers[f->peer_count];
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	assert_true(f->peer_count < FAKE_PEERS_MAX);
	assert_true(fd >= 0);
	peer->room = f->room;
	conn_new(&f->worker, fd);
	f->peer_count++;
	fake_settle(f);
	return peer;
}

void fake_turn(struct fake *f)
{
	sem_post(&f->go);
	while (sem_wait(&f->parked) < 0)
		;
}

unsigned fake_settle(struct fake *f)
{
	unsigned turns = 0;

	do {
		assert_true(turns < FAKE_TURNS_MAX); /* it spins */
		fake_turn(f);
		turns++;
	} while (!f->slept);
	return turns;
}

size_t fake_send(struct fake *f, struct fake_peer *peer, const void *data, size_t bytes)
{
	struct pool *p = &f->worker.pool;
	struct chunk *k;

	if (!peer->conn || !peer->receiving || (peer->conn->flags & (CONN_NO_MEMORY | CONN_EOF)))
		return 0;
	if (!conn_may_receive(peer->conn)) {
		struct view *v = conn_reserve(peer->conn);

		if (!v) {
			conn_wait_to_receive(peer->conn);
			return 0;
		}
		bytes = MIN(bytes, v->len);
		memcpy(v->data, data, bytes);
		conn_reserve_used(peer->conn, v, bytes);
		return bytes;
	}
	k = chunk_get(p);
	bytes = MIN(bytes, p->chunk_size);
	memcpy(k->base, data, bytes);
	conn_input(peer->conn, k, k->base, (uint32_t)bytes);
	chunk_put(p, k);
	return bytes;
}

size_t fake_send_all(struct fake *f, struct fake_peer *peer, const void *data, size_t bytes,
		     size_t piece)
{
	size_t sent = 0;

	while (sent < bytes) {
		size_t n =
			fake_send(f, peer, (const uint8_t *)data + sent, MIN(piece, bytes - sent));

		fake_settle(f);
		if (!n)
			break;
		sent += n;
	}
	return sent;
}

void fake_take(struct fake *f, struct fake_peer *peer, size_t bytes)
{
	peer->room = bytes;
	if (peer->conn && !f->completion)
		conn_ready(peer->conn);
}

void fake_eof(struct fake *f, struct fake_peer *peer)
{
	(void)f;
	conn_eof(peer->conn);
}

void fake_reset(struct fake *f, struct fake_peer *peer)
{
	(void)f;
	conn_failed(peer->conn, ECONNRESET);
}

void fake_hold(struct fake_peer *peer)
{
	peer->extra++;
	peer->conn->pending++;
}

void fake_unhold(struct fake_peer *peer)
{
	peer->extra--;
	peer->conn->pending--;
	conn_ready(peer->conn);
}
