/* Requests of a worker's owner from another thread, through the mailbox.  The functions worker_do_*
 * run on the worker's thread.  See worker_owner.h. */
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "conn.h"
#include "worker.h"
#include "worker_owner.h"

/* Begins to carry out a request: returns its worker and its value. */
static struct worker *worker_request_take(struct call *call, uint64_t *ret_value)
{
	struct worker_request *r = container_of(call, struct worker_request, call);

	struct worker *w = r->worker;

	/* From here on the request may be posted again.  The value is read after that store, so
	 * that a value set meanwhile is not lost: it posts the request again. */
	atomic_store(&r->posted, false);
	*ret_value = atomic_load(&r->value);
	return w;
}

static void worker_do_listen(struct call *call)
{
	uint64_t value;
	struct worker *w = worker_request_take(call, &value);

	if (w->engine->accept)
		w->engine->accept(w, true);
	for (unsigned i = 0; i < w->accept.count; i++)
		w->engine->listen(w, &w->accept.acceptors[i], true);
}

static void worker_do_accept_waiting(struct call *call)
{
	uint64_t value;
	struct worker *w = worker_request_take(call, &value);

	for (unsigned i = 0; i < w->accept.count; i++)
		if (!w->accept.acceptors[i].paused)
			worker_accept_queued(&w->accept.acceptors[i]);
}

static void worker_do_drain(struct call *call)
{
	uint64_t deadline_ns;
	struct worker *w = worker_request_take(call, &deadline_ns);

	w->drain.on = true;
	w->drain.deadline_ns = deadline_ns;
	if (!w->engine->connectionless) /* see worker_end_accept() */
		worker_stop_accepting(w);
	else if (w->accept.ended)
		w->owner->accept_ended(w);
	w->accept.left = w->accept.ended;
	worker_arm(w, &w->drain.timer, 0);
	for (struct conn *c = w->conns; c; c = c->next) {
		/* Running c lets sources stop and finished connections end.  It counts as activity:
		 * even a connection that was silent for long has WORKER_QUIET_NS for a request that
		 * is on its way. */
		conn_ready(c);
	}
}

static void worker_do_idle_timeout(struct call *call)
{
	uint64_t timeout_ns;
	struct worker *w = worker_request_take(call, &timeout_ns);

	w->options.idle_timeout_ns = timeout_ns;
	for (struct conn *c = w->conns; c; c = c->next)
		worker_arm(w, &c->due.timer, 0); /* conn_due() arms it for the right time */
}

static void worker_do_peers_max(struct call *call)
{
	uint64_t max;
	struct worker *w = worker_request_take(call, &max);

	w->options.peers_max = max;
}

/* The turn ends first; worker_serve() then sees the flag and tears the worker down. */
static void worker_do_stop(struct call *call)
{
	uint64_t value;

	worker_request_take(call, &value)->turn.stop = true;
}

/* Runs on the owner's thread.  The value is stored before `posted` is tested: either this posts the
 * call, or the call that is posted already reads the new value. */
void worker_request(struct worker *w, enum worker_requested which, uint64_t value)
{
	static void (*const run[])(struct call *) = {
		[REQUEST_STOP] = worker_do_stop,
		[REQUEST_SERVE] = worker_do_listen,
		[REQUEST_ACCEPT_WAITING] = worker_do_accept_waiting,
		[REQUEST_DRAIN] = worker_do_drain,
		[REQUEST_IDLE_TIMEOUT] = worker_do_idle_timeout,
		[REQUEST_PEERS_MAX] = worker_do_peers_max,
	};
	struct worker_request *r = &w->requests[which];

	atomic_store(&r->value, value);
	if (atomic_exchange(&r->posted, true))
		return;
	r->worker = w;
	r->call.fn = run[which];
	mailbox_post(&w->mailbox, &r->call);
}

void worker_stop(struct worker *w)
{
	if (w->thread.lives)
		worker_request(w, REQUEST_STOP, 0);
}

void worker_call(struct worker *w, struct call *call)
{
	mailbox_post(&w->mailbox, call);
}

/* ---- Flushing counters ---- */

enum { FLUSH_WAIT_NS = 50 * NS_PER_MS };

struct worker_flush {
	/* one held by the caller, and one by each worker that has not answered */
	_Atomic unsigned references;
	unsigned asked;
	sem_t answered;
};

struct flush_call {
	struct call call;
	struct worker_flush *flush;
	struct worker *worker;
};

struct worker_flush *worker_flush_new(void)
{
	struct worker_flush *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->references = 1;
	sem_init(&s->answered, 0, 0);
	return s;
}

static void counter_flush_put(struct worker_flush *s)
{
	if (atomic_fetch_sub(&s->references, 1) > 1)
		return;
	sem_destroy(&s->answered);
	free(s);
}

/* Runs from the mailbox, when this turn has reaped all completions: so every send is counted. */
static void worker_do_flush_counters(struct call *call)
{
	struct flush_call *c = container_of(call, struct flush_call, call);

	if (c->worker->engine->flush_counters)
		c->worker->engine->flush_counters(c->worker);
	atomic_store(&c->worker->flush_asked, false);
	sem_post(&c->flush->answered);
	counter_flush_put(c->flush);
	free(c);
}

/* Asks w to reap and count its finished sends.  Only the answer clears `flush_asked`, so a worker
 * that hangs is asked once, and costs one allocation. */
void worker_flush_add(struct worker *w, struct worker_flush *s)
{
	struct flush_call *c;

	if (!s || !atomic_load(&w->counters_lag) || atomic_load(&w->flush_asked))
		return;
	c = malloc(sizeof(*c));
	if (!c)
		return;
	atomic_store(&w->flush_asked, true);
	*c = (struct flush_call){ .call.fn = worker_do_flush_counters, .flush = s, .worker = w };
	atomic_fetch_add(&s->references, 1);
	s->asked++;
	mailbox_post(&w->mailbox, &c->call);
}

void worker_flush_await(struct worker_flush *s)
{
	uint64_t end_ns = clock_ns() + FLUSH_WAIT_NS;

	if (!s)
		return;
	for (; s->asked > 0; s->asked--)
		sem_wait_until(&s->answered, end_ns);
	counter_flush_put(s);
}

/* ---- ListConnections ---- */

static const char *conn_state(const struct conn *c)
{
	if (c->flags & CONN_CLOSING)
		return "closing";
	if (c->flags & CONN_NO_MEMORY)
		return "starved";
	if (c->flags & CONN_RECV_OFF)
		return "throttled";
	return c->flags & CONN_EOF ? "eof" : "open";
}

static void conn_describe_tcp(const struct conn *c, struct conn_info *info)
{
	struct tcp_info tcp = { 0 };
	socklen_t len = sizeof(tcp);
	int unsent = 0;

	stat_add(c->worker->stats.sys_other, 2);
	if (getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &tcp, &len) == 0) {
		info->rtt_us = tcp.tcpi_rtt;
		info->retransmits = tcp.tcpi_total_retrans;
	}
	if (ioctl(c->fd, SIOCOUTQ, &unsent) == 0)
		info->unsent_bytes = (uint32_t)unsent;
}

static void conn_describe(struct conn *c, uint64_t now_ns, struct conn_info *info)
{
	*info = (struct conn_info){
		.id = c->id,
		.age_ns = now_ns - c->opened_ns,
		.idle_ns = now_ns > c->active_ns ? now_ns - c->active_ns : 0,
		.bytes_in = c->bytes_in,
		.bytes_out = c->bytes_out,
		.held_bytes = conn_held_bytes(c),
		.state = conn_state(c),
	};
	if (conn_peer(c, info->peer) != AF_UNIX && !conn_clients(c))
		conn_describe_tcp(c, info);
	info->device = conn_device(c);
	if (c->worker->service->describe && (c->flags & CONN_OPEN))
		c->worker->service->describe(c, info->about, sizeof(info->about));
}

/* Lists connections, newest first.  After WORKER_TURN_MAX of them it posts itself again and
 * continues behind after_id: ids fall along the list, and connections may end in between. */
static void worker_do_list(struct call *call)
{
	struct worker_list *list = container_of(call, struct worker_list, call);
	struct worker *w = list->worker;
	uint64_t now_ns = clock_ns();
	unsigned slice = 0;

	for (struct conn *c = w->conns; c && list->count < list->max; c = c->next) {
		if (list->after_id && c->id >= list->after_id)
			continue;
		if (slice++ == WORKER_TURN_MAX) {
			mailbox_post(&w->mailbox, &list->call);
			return;
		}
		conn_describe(c, now_ns, &list->infos[list->count++]);
		list->after_id = c->id;
	}
	list->done(list);
}

void worker_list_connections(struct worker *w, struct worker_list *list)
{
	list->call.fn = worker_do_list;
	list->worker = w;
	list->count = 0;
	list->after_id = 0;
	mailbox_post(&w->mailbox, &list->call);
}

int worker_probe(const struct engine *engine, const struct worker_options *options,
		 uint64_t *ret_features, struct reason *reason)
{
	struct worker *w = aligned_alloc(CACHE_LINE, sizeof(*w));
	int rc;

	if (!w)
		return reason_set(reason, -ENOMEM, "no memory");
	memset(w, 0, sizeof(*w));
	w->engine = engine;
	w->options = *options;
	strcpy(w->name, "probe");
	rc = worker_start_and_wait(w, NULL, 0, reason);
	if (rc == 0)
		*ret_features = w->features;
	worker_stop(w);
	if (worker_await_stopped(w, rc == 0 ? clock_ns() + WORKER_START_NS : 0))
		free(w); /* otherwise the thread hangs and still uses w, which is leaked */
	return rc;
}
