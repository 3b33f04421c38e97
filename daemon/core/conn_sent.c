/* Output that the kernel has taken: it leaves its queue, and the clock of an operation stops. */
#include "conn.h"
#include "conn_op.h"

static void conn_op_time(struct conn *c, uint64_t end_ns)
{
	struct worker *w = c->worker;

	if (end_ns < c->op_start_ns)
		end_ns = clock_ns();
	histogram_add(&w->stats.operations[c->op_index].latency, end_ns - c->op_start_ns,
		      c->op_count);
	c->op_start_ns = 0;
}

void conn_op_end(struct conn *c)
{
	if (c->op_start_ns)
		conn_op_time(c, 0);
}

void conn_sent_some(struct conn *c, struct bufq *q, size_t bytes, uint64_t sent_ns)
{
	bufq_drop_slow(&c->worker->pool, q, bytes);
	c->active_ns = c->worker->turn.now_ns;
	if (c->op_start_ns && !conn_has_unsent(c))
		conn_op_time(c, sent_ns);
	if (conn_waits_for(c, q))
		conn_ready(c);
}

void conn_sent_messages(struct conn *c, struct bufq *q, size_t views, bool sent, uint64_t sent_ns)
{
	struct worker *w = c->worker;
	size_t bytes = q->bytes;

	bufq_drop_views(&w->pool, q, views);
	bytes -= q->bytes;
	if (sent) {
		stat_add(w->stats.bytes_out, bytes);
		stat_add(w->stats.datagrams_out, views);
		c->bytes_out += bytes;
	} else {
		stat_add(w->stats.datagrams_unsent, views);
	}
	if (c->op_start_ns && !conn_has_unsent(c))
		conn_op_time(c, sent_ns);
	if (conn_waits_for_tx(c))
		conn_ready(c);
}
