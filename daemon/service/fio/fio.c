/* The server's side of fio's ioengine `rdma`.  The client's first message announces its test, and
 * the reply names the memory to use.  With `verb=write` and `verb=read` that is a region of the
 * connection, and the client sends no message until its test has ended; with `verb=send` its
 * messages are dropped. */
#include <errno.h>
#include <stdlib.h>

#include "conn.h"
#include "proto.h"
#include "remote.h"

enum { OPERATION_TEST, OPERATION_MESSAGE };

struct fio_conn {
	struct fio_control control;
	struct region region;
	bool started;
};

/* Lends as much memory as the client asks for and region-size allows; if that is less, its buffers
 * share pieces (*ret_spread of them).  If not even one block fits, the reply tells the maximum
 * block size.  0 or -errno. */
static int fio_lend(struct conn *c, struct fio_conn *s, uint32_t *ret_spread)
{
	struct fio_control *control = &s->control;
	uint64_t limit = control->mode == FIO_SEND ? c->worker->pool.chunk_size
						   : c->worker->options.region_size;

	*ret_spread = 0;
	if (control->block_bytes > limit) {
		control->block_bytes = (uint32_t)limit;
		return 0;
	}
	if (control->mode == FIO_SEND)
		return 0;
	*ret_spread = (uint32_t)MIN(limit / control->block_bytes, control->buffers);
	if (s->region.base)
		return 0;
	return conn_region(c, (size_t)*ret_spread * control->block_bytes, &s->region);
}

/* 0 or -errno; -ENOBUFS: to be repeated when the pool has chunks. */
static int fio_start(struct conn *c, struct fio_conn *s)
{
	uint8_t message[FIO_MESSAGE];
	uint32_t spread;
	int rc;

	if (c->rx.head->len != FIO_MESSAGE || fio_parse(c->rx.head->data, &s->control) < 0)
		return -EPROTO;
	rc = fio_lend(c, s, &spread);
	if (rc < 0)
		return rc;
	fio_format(message, &s->control, (uintptr_t)s->region.base, s->region.key, spread);
	rc = conn_write(c, message, sizeof(message));
	if (rc < 0)
		return rc;
	conn_op_begin(c, OPERATION_TEST);
	bufq_drop(&c->worker->pool, &c->rx, FIO_MESSAGE);
	s->started = true;
	return 0;
}

static void fio_drop(struct conn *c, const struct fio_conn *s)
{
	if (s->control.mode == FIO_SEND) {
		conn_op_begin(c, OPERATION_MESSAGE);
		stat_add(c->worker->stats.operations[OPERATION_MESSAGE].count, c->rx.views - 1);
	}
	bufq_drop(&c->worker->pool, &c->rx, c->rx.bytes);
	conn_op_end(c);
}

static void fio_run(struct conn *c)
{
	struct fio_conn *s = c->state;
	int rc;

	if (!c->rx.head)
		return;
	rc = s->started ? 0 : fio_start(c, s);
	if (rc == -ENOBUFS)
		conn_starved(c);
	else if (rc == -EPROTO)
		conn_close(c, CONN_END_PROTOCOL);
	else if (rc < 0)
		conn_failed(c, -rc);
	else if (c->rx.head)
		fio_drop(c, s);
}

static int fio_open(struct conn *c)
{
	c->state = calloc(1, sizeof(struct fio_conn));
	return c->state ? 0 : -ENOMEM;
}

static void fio_close(struct conn *c)
{
	free(c->state);
}

const struct service service_fio = {
	.name = "fio",
	.example =
		"fio --name=rdma --thread --ioengine=rdma --hostname={host} --port={port} --verb=write --rw=write --size=1g",
	.operations = { "test", "message" },
	.flags = SERVICE_MESSAGES | SERVICE_ONE_WAY | SERVICE_REMOTE | SERVICE_LENDS,
	.message_max = FIO_MESSAGE,
	.open = fio_open,
	.run = fio_run,
	.close = fio_close,
};
