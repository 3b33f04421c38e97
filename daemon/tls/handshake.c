/* Handshakes and their bounds: the time and the bytes of each handshake, the number of handshakes
 * of a worker, and the steps of handshakes in one turn.  Worker's thread.  See stage.h. */
#include "engine.h"
#include "log.h"
#include "stage.h"

enum {
	/* Steps of handshakes, and records without data, of a worker's turn; the others wait for
	 * the next one, as each may cost 0.3 ms. */
	STAGE_STEPS = 8,
	/* Maximum of handshakes of a worker that have begun: one more ends the oldest. */
	STAGE_HANDSHAKES = 1024,
};

bool stage_may_step(struct conn *c)
{
	struct stage_worker *part = worker_part(c->worker);
	uint64_t turn = stat_load(c->worker->stats.turns);

	if (part->turn != turn) {
		part->turn = turn;
		part->steps = 0;
	}
	if (part->steps < STAGE_STEPS) {
		part->steps++;
		return true;
	}
	conn_ready(c);
	return false;
}

void stage_leave_handshake(struct stage_conn *t)
{
	struct stage_worker *part = worker_part(t->conn->worker);

	if (!t->shaking)
		return;
	t->shaking = false;
	*(t->prev ? &t->prev->next : &part->first) = t->next;
	*(t->next ? &t->next->prev : &part->last) = t->prev;
	part->count--;
}

static void handshake_enter(struct stage_conn *t)
{
	struct worker *w = t->conn->worker;
	struct stage_worker *part = worker_part(w);

	if (part->count == STAGE_HANDSHAKES) {
		struct stage_conn *oldest = part->first;

		stat_add(w->stats.tls_evicted, 1);
		oldest->failed = true;
		conn_close(oldest->conn, CONN_END_PROTOCOL);
		stage_leave_handshake(oldest);
	}
	t->shaking = true;
	t->prev = part->last;
	*(t->prev ? &t->prev->next : &part->first) = t;
	part->last = t;
	part->count++;
}

void stage_log(const struct stage_conn *t, const char *why)
{
	static struct log_limit limit;
	const struct conn *c = t->conn;
	char peer[ADDRESS_TEXT_MAX];
	unsigned missed;

	if (likely(log_get_level() < LOG_DEBUG) || !log_limited(&limit, &missed))
		return;
	conn_peer(c, peer);
	log_connection(LOG_DEBUG, c->worker->listener, c->id, peer,
		       "listener '%s': connection %u.%llu from %s: TLS: %s%s", c->worker->listener,
		       c->worker->index, (unsigned long long)c->id, peer,
		       t->established ? "" : "in the handshake: ", why);
}

void stage_fail(struct stage_conn *t, const char *why)
{
	struct conn *c = t->conn;
	struct pool *p = &c->worker->pool;

	stage_log(t, why);
	stat_add(c->worker->stats.tls_failed, 1);
	t->failed = true;
	stage_leave_handshake(t);
	bufq_clear(p, &t->in);
	bufq_clear(p, &t->plain);
	bufq_clear(p, &c->rx);
	conn_close_when_sent(c, CONN_END_PROTOCOL);
	/* received only to notice the end of the connection; the data is dropped */
	if (c->flags & CONN_RAW) {
		c->flags &= ~(uint32_t)CONN_RAW;
		c->worker->engine->recv(c, true);
	}
}

static bool open_session(struct stage_conn *t)
{
	struct tls_stage *stage = stage_of(t->conn->worker);

	pthread_mutex_lock(&stage->lock);
	t->session = tls_library.session(stage->context, &stage_wire, t);
	pthread_mutex_unlock(&stage->lock);
	if (t->session)
		handshake_enter(t);
	else
		conn_close(t->conn, CONN_END_ERROR);
	return t->session;
}

/* Makes one step, with the session for it if it is the first.  Its CPU time is counted apart: it
 * is the price of a connection, not of its requests. */
static int handshake_step(struct stage_conn *t)
{
	struct stats *stats = &t->conn->worker->stats;
	uint64_t begin_ns = clock_thread_ns();
	int rc = TLS_WANT_INPUT;

	if (t->session || open_session(t))
		rc = tls_library.handshake(t->session);
	stat_add(stats->tls_handshake_cpu_ns, clock_thread_ns() - begin_ns);
	stat_add(stats->sys_other, 2); /* the clock */
	return rc;
}

bool stage_handshake(struct stage_conn *t)
{
	struct conn *c = t->conn;
	int rc;

	if (unlikely(conn_deadline_passed(c))) {
		stat_add(c->worker->stats.tls_timeouts, 1);
		conn_close(c, CONN_END_PROTOCOL);
		return false;
	}
	if ((!t->in.head && !t->starved && !stage_receives(c)) || !stage_may_step(c))
		return false;
	rc = handshake_step(t);
	if (!t->session)
		return false;
	t->starved = rc == TLS_WANT_MEMORY;
	if (rc == 0) {
		stage_leave_handshake(t);
		conn_set_deadline(c, 0);
		stat_add(c->worker->stats.tls_handshakes, 1);
		t->established = true;
	} else if (t->starved) {
		conn_wait_for_memory(c);
	} else if (rc != TLS_WANT_INPUT && rc != TLS_CONTROL) {
		stage_fail(t, tls_library.why(t->session));
	} else if (t->flight > STAGE_FLIGHT) {
		stage_fail(t, "too many bytes");
	} else if (rc == TLS_CONTROL) {
		conn_ready(c);
	}
	return t->established;
}
