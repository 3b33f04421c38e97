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

static void worker_do_serve(struct worker *w, uint64_t value)
{
	(void)value;
	if (w->engine->accept)
		w->engine->accept(w, true);
	for (unsigned i = 0; i < w->accept.count; i++)
		w->engine->watch_listener(w, &w->accept.acceptors[i], true);
}

static void worker_do_accept_waiting(struct worker *w, uint64_t value)
{
	(void)value;
	for (unsigned i = 0; i < w->accept.count; i++)
		if (!w->accept.acceptors[i].paused)
			worker_accept_queued(&w->accept.acceptors[i]);
}

static void worker_do_drain(struct worker *w, uint64_t deadline_ns)
{
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

static void worker_do_idle_timeout(struct worker *w, uint64_t timeout_ns)
{
	w->options.idle_timeout_ns = timeout_ns;
	for (struct conn *c = w->conns; c; c = c->next)
		worker_arm(w, &c->due.timer, 0); /* conn_due() arms it for the right time */
}

static void worker_do_peers_max(struct worker *w, uint64_t max)
{
	w->options.peers_max = max;
}

/* This turn has reaped all completions before it runs requests, so every finished send is counted
 * when the owner gets the answer. */
static void worker_do_flush_counters(struct worker *w, uint64_t value)
{
	(void)value;
	if (w->engine->flush_counters)
		w->engine->flush_counters(w);
	sem_post(&w->thread.flushed);
}

/* The turn ends first; worker_serve() then sees the flag and tears the worker down. */
static void worker_do_stop(struct worker *w, uint64_t value)
{
	(void)value;
	w->turn.stop = true;
}

static void worker_run_request(struct call *call)
{
	static void (*const run[])(struct worker * w, uint64_t value) = {
		[REQUEST_STOP] = worker_do_stop,
		[REQUEST_SERVE] = worker_do_serve,
		[REQUEST_ACCEPT_WAITING] = worker_do_accept_waiting,
		[REQUEST_DRAIN] = worker_do_drain,
		[REQUEST_IDLE_TIMEOUT] = worker_do_idle_timeout,
		[REQUEST_PEERS_MAX] = worker_do_peers_max,
		[REQUEST_FLUSH_COUNTERS] = worker_do_flush_counters,
	};
	struct worker_request *r = container_of(call, struct worker_request, call);
	struct worker *w = r->worker;

	/* From here on the owner may post the request again.  The value is read after this store: a
	 * value that the owner sets later is not lost, because the owner then posts it. */
	atomic_store(&r->posted, false);
	if (w->engine_state) /* else it was posted after the last turn: worker_await_stopped() */
		run[r - w->requests](w, atomic_load(&r->value));
}

/* Runs on the owner's thread.  The value is stored before `posted` is tested: either this posts the
 * call, or the call that is posted already reads the new value. */
void worker_request(struct worker *w, enum worker_requested which, uint64_t value)
{
	struct worker_request *r = &w->requests[which];

	atomic_store(&r->value, value);
	if (atomic_exchange(&r->posted, true))
		return;
	r->worker = w;
	r->call.fn = worker_run_request;
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

void worker_flush_begin(struct worker *w)
{
	w->flush_asked = w->thread.lives && atomic_load(&w->counters_lag) &&
			 !atomic_load(&w->requests[REQUEST_FLUSH_COUNTERS].posted);
	if (!w->flush_asked)
		return;
	while (sem_trywait(&w->thread.flushed) == 0)
		; /* the answer came too late for the last worker_flush_await() */
	worker_request(w, REQUEST_FLUSH_COUNTERS, 0);
}

void worker_flush_await(struct worker *w, uint64_t end_ns)
{
	if (w->flush_asked)
		sem_wait_until(&w->thread.flushed, end_ns);
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
