/* Service fio: the server of fio's ioengine `rdma`.  The client's first message announces its test,
 * and the reply names the memory to use.  With `verb=write` and `verb=read` the memory is a region
 * of the connection, and the client sends no message until the test has ended.  With `verb=send`
 * the client sends messages, which are dropped. */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "conn.h"
#include "conn_op.h"
#include "log.h"
#include "proto.h"
#include "remote.h"
#include "util.h"

enum { OPERATION_TEST, OPERATION_MESSAGE };
enum { FIO_PAGE = 4096 };
enum { FIO_REGIONS = 256 }; /* memory of all clients of a listener, in units of `region-size` */

struct fio_conn {
	struct fio_control control;
	struct region region;
	uint32_t spread;         /* blocks in the region, which the client's buffers share */
	uint64_t reserved_bytes; /* its part of fio_shared.reserved, bytes */
	bool decided;            /* the reply has been decided */
	bool started;
};

/* State of a listener, shared by its workers. */
struct fio_shared {
	_Atomic uint64_t
		reserved; /* bytes of its clients' regions; whole pages, as these are locked */
};

/* ---- Memory ---- */

static uint64_t fio_pages(uint64_t bytes)
{
	return (bytes + FIO_PAGE - 1) & ~(uint64_t)(FIO_PAGE - 1);
}

static uint64_t fio_total(const struct worker *w)
{
	return w->options.region_size * FIO_REGIONS & ~(uint64_t)(FIO_PAGE - 1);
}

/* Reserves as many blocks, up to `wanted`, as fio_total() has room for, and returns their number.
 * *ret_left: the bytes that were free before. */
static uint32_t fio_reserve(struct conn *c, struct fio_conn *s, uint32_t wanted, uint64_t *ret_left)
{
	struct fio_shared *shared = c->worker->shared;
	uint64_t total = fio_total(c->worker);
	uint64_t reserved = atomic_load(&shared->reserved), block = s->control.block_bytes;
	uint32_t blocks;

	do {
		*ret_left = total - MIN(reserved, total);
		blocks = (uint32_t)MIN(*ret_left / block, wanted);
		s->reserved_bytes = fio_pages(blocks * block);
	} while (!atomic_compare_exchange_weak(&shared->reserved, &reserved,
					       reserved + s->reserved_bytes));
	return blocks;
}

static void fio_unreserve(const struct conn *c, struct fio_conn *s)
{
	struct fio_shared *shared = c->worker->shared;

	atomic_fetch_sub(&shared->reserved, s->reserved_bytes);
	s->reserved_bytes = 0;
}

static void fio_log_refusal(const struct conn *c, uint32_t block_bytes)
{
	static struct log_limit limit;
	const struct worker *w = c->worker;

	stat_add(c->worker->stats.refused_limit, 1);
	if (log_limited(&limit))
		log_listener(
			LOG_WARNING, w->listener,
			"a client is refused: the clients use all of %d times `region-size`, %llu bytes, and a block of %u does not fit",
			FIO_REGIONS, (unsigned long long)fio_total(w), block_bytes);
}

/* Allocates a region of as many blocks as the client asks for and the limits allow, s->spread.  If
 * not even one block fits, the reply names the largest possible block size. 0 or -errno. */
static int fio_prepare_region(struct conn *c, struct fio_conn *s)
{
	struct fio_control *control = &s->control;
	uint64_t left, limit = control->mode == FIO_SEND ? c->worker->pool.chunk_size
							 : c->worker->options.region_size;
	uint32_t wanted;
	int rc;

	if (control->block_bytes > limit) {
		control->block_bytes = (uint32_t)limit;
		return 0;
	}
	if (control->mode == FIO_SEND)
		return 0;
	wanted = (uint32_t)MIN(limit / control->block_bytes, control->buffers);
	s->spread = fio_reserve(c, s, wanted, &left);
	if (s->spread == 0) {
		fio_log_refusal(c, control->block_bytes);
		control->block_bytes = (uint32_t)left;
		return 0;
	}
	rc = remote_region(c, (size_t)s->spread * control->block_bytes, &s->region);
	if (rc < 0)
		fio_unreserve(c, s);
	return rc;
}

/* ---- A test ---- */

/* 0 or -errno; -ENOBUFS: to be repeated when the pool has chunks. */
static int fio_start(struct conn *c, struct fio_conn *s)
{
	uint8_t message[FIO_MESSAGE];
	int rc;

	if (!s->decided) {
		if (c->rx.head->len != FIO_MESSAGE || fio_parse(c->rx.head->data, &s->control) < 0)
			return -EPROTO;
		rc = fio_prepare_region(c, s);
		if (rc < 0)
			return rc;
		s->decided = true;
	}
	fio_format(message, &s->control, (uintptr_t)s->region.base, s->region.key, s->spread);
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
	if (s->control.mode == FIO_SEND)
		conn_op_begin_some(c, OPERATION_MESSAGE, c->rx.views);
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
		conn_wait_for_memory(c);
	else if (rc == -EPROTO)
		conn_close(c, CONN_END_PROTOCOL);
	else if (rc < 0)
		conn_failed(c, -rc);
	else if (c->rx.head)
		fio_drop(c, s);
}

/* The engine has freed the region. */
static void fio_close(struct conn *c)
{
	fio_unreserve(c, c->state);
}

static void *fio_shared_new(const struct worker_options *options, const char *listener,
			    struct reason *reason)
{
	struct fio_shared *shared = calloc(1, sizeof(*shared));

	(void)options, (void)listener;
	if (!shared)
		reason_set(reason, -ENOMEM, "no memory");
	return shared;
}

const struct service service_fio = {
	.name = "fio",
	.example =
		"fio --name=rdma --thread --ioengine=rdma --hostname={host} --port={port} --verb=write --rw=write --size=1g",
	.operations = { "test", "message" },
	.flags = SERVICE_MESSAGES | SERVICE_ONE_WAY | SERVICE_REMOTE | SERVICE_REGION,
	.message_max = FIO_MESSAGE,
	.shared_new = fio_shared_new,
	.shared_free = free,
	.state_bytes = sizeof(struct fio_conn),
	.run = fio_run,
	.close = fio_close,
};
