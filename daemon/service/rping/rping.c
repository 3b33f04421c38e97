/* Service rping: the server of rping.  In each round the client's first message names its source
 * memory, which the server reads and then acknowledges.  The second message names its sink memory,
 * to which the server writes the same bytes, and acknowledges that.  In between the bytes stay in
 * chunks of the pool.  The acknowledgement of a write is sent at once: the transport delivers it
 * after the bytes. */
#include "conn.h"
#include "conn_op.h"
#include "proto.h"
#include "remote.h"

enum { OPERATION_READ, OPERATION_WRITE };

struct rping_conn {
	struct remote read, write;
	uint64_t start_ns; /* when the message arrived, if timed */
	bool holds;        /* read.data holds the source's bytes; the next message names the sink */
	bool reading, writing;
	bool reply; /* a reply for `operation` is to be sent */
	uint8_t operation;
};

static void rping_free(struct conn *c, struct remote *remote)
{
	bufq_drop(&c->worker->pool, &remote->data, remote->data.bytes);
}

static void rping_read_done(struct remote *remote, int result)
{
	struct rping_conn *s = container_of(remote, struct rping_conn, read);

	s->reading = false;
	s->holds = s->reply = result == 0;
	if (result < 0)
		rping_free(remote->conn, remote);
}

static void rping_write_done(struct remote *remote, int result)
{
	struct rping_conn *s = container_of(remote, struct rping_conn, write);

	(void)result;
	s->writing = false;
	rping_free(remote->conn, remote);
}

static void rping_submit(struct remote *remote, const struct rping_buffer *buffer)
{
	remote->address = buffer->address;
	remote->key = buffer->key;
	remote_submit(remote);
}

/* Starts a read.  0 or -ENOBUFS. */
static int rping_read(struct rping_conn *s, const struct rping_buffer *buffer)
{
	int rc = remote_room(s->read.conn->worker, &s->read.data, buffer->size);

	if (rc < 0)
		return rc;
	s->reading = true;
	s->operation = OPERATION_READ;
	rping_submit(&s->read, buffer);
	return 0;
}

static void rping_write(struct rping_conn *s, const struct rping_buffer *buffer)
{
	struct pool *p = &s->write.conn->worker->pool;

	bufq_take(p, &s->write.data, &s->read.data, MIN(s->read.data.bytes, buffer->size));
	rping_free(s->read.conn, &s->read);
	s->holds = false;
	s->writing = s->reply = true;
	s->operation = OPERATION_WRITE;
	rping_submit(&s->write, buffer);
}

/* Sends the reply.  False: the pool is exhausted. */
static bool rping_reply(struct conn *c, struct rping_conn *s)
{
	static const uint8_t go_ahead[RPING_MESSAGE]; /* clients check only its size */

	if (!conn_try_write(c, go_ahead, sizeof(go_ahead)))
		return false;
	s->reply = false;
	conn_op_reply(c, s->operation, s->start_ns);
	return true;
}

/* Handles the first message of rx.  False: not possible now. */
static bool rping_message(struct conn *c, struct rping_conn *s)
{
	struct pool *p = &c->worker->pool;
	struct rping_buffer buffer;

	if (s->reading || (s->holds && s->writing))
		return false;
	if (c->rx.head->len != RPING_MESSAGE || rping_parse(c->rx.head->data, &buffer) < 0) {
		bufq_drop(p, &c->rx, c->rx.bytes);
		conn_close(c, CONN_END_PROTOCOL);
		return false;
	}
	s->start_ns = c->worker->turn.sampling ? c->worker->turn.now_ns : 0;
	if (s->holds) {
		rping_write(s, &buffer);
	} else if (rping_read(s, &buffer) < 0) {
		conn_wait_for_memory(c);
		return false;
	}
	bufq_drop(p, &c->rx, RPING_MESSAGE);
	return true;
}

static void rping_run(struct conn *c)
{
	struct rping_conn *s = c->state;

	do
		if (s->reply && !rping_reply(c, s))
			return;
	while (c->rx.head && rping_message(c, s));
}

static int rping_open(struct conn *c)
{
	struct rping_conn *s = c->state;

	s->read = (struct remote){ .done = rping_read_done, .conn = c, .kind = REMOTE_READ };
	s->write = (struct remote){ .done = rping_write_done, .conn = c, .kind = REMOTE_WRITE };
	return 0;
}

static void rping_close(struct conn *c)
{
	struct rping_conn *s = c->state;

	rping_free(c, &s->read);
}

const struct service service_rping = {
	.name = "rping",
	.example = "rping -c -a {host} -p {port} -V -C 10",
	.operations = { "read", "write" },
	.flags = SERVICE_MESSAGES | SERVICE_REMOTE,
	.state_bytes = sizeof(struct rping_conn),
	.open = rping_open,
	.run = rping_run,
	.close = rping_close,
};
