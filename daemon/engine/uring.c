/* Engine `io_uring`: completions (proactor).  Multishot accept and receive into a ring of provided
 * buffers, one send in flight per connection, one io_uring_enter per turn that submits the sends,
 * waits, and runs the kernel's deferred work.
 *
 * The kernel holds only some chunks (`lent`): what is received soon lies in the cache.  With
 * incremental buffers (Linux 6.12) many receives share a chunk, so few are enough. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "conn.h"
#include "engine.h"
#include "ring.h"
#include "uring_compat.h"
#include "worker.h"

enum {
	URING_BUF_GROUP = 0,
	URING_LENT_BYTES = 1024 * 1024, /* lent at first, with incremental buffers: fits the cache */
	URING_FILES_MAX = 16 * 1024, /* registered sockets; connections beyond go without */
	URING_IOV = 32,             /* views one send may carry */
	URING_WATCHES = 4,
	URING_NO_SLOT = UINT32_MAX,
};

enum uring_conn_flags {
	URING_RECV_ARMED = CONN_ENGINE << 0,
	URING_SEND_WAIT = CONN_ENGINE << 1, /* the next send waits for room instead of failing */
};

/* A send of several views, or without a copy: what must live until its last completion. */
struct uring_send {
	struct op op;
	struct conn *conn;
	struct uring_send *next; /* free list */
	struct bufq lent;        /* what the kernel still reads (zero copy) */
	struct msghdr msg;
	struct iovec iov[URING_IOV];
};

struct uring {
	struct ring ring; /* first: see ring_accept_done() */
	uint64_t sent_ns; /* when the last sampled turn's sends were with the kernel */
	struct io_uring_buf_ring *buf_ring;
	unsigned buf_entries, buf_mask;
	uint16_t buf_head, buf_tail; /* of order[] */
	uint16_t *order;             /* ids of the lent chunks, oldest first */
	unsigned lent_max;
	bool incremental, bundle, zero_copy;
	uint32_t *slots; /* stack of free registered-file slots */
	unsigned slot_count, slots_total;
	struct uring_send *send_free;
	unsigned watch_count;
	struct ring_watch watches[URING_WATCHES];
};

static const int uring_no_file = -1;

/* Something waits for the completion of c's send after all. */
static void uring_hurry(struct conn *c)
{
	struct uring *u = c->worker->engine_state;

	if (c->sending.bytes)
		u->ring.quiet = 0;
}

/* ---- Provided buffers ---- */

/* Lends chunks to the kernel up to lent_max; one release store for the batch.  A quarter of the pool
 * stays for services. */
static void uring_refill(struct worker *w)
{
	struct uring *u = w->engine_state;
	unsigned keep = w->pool.chunk_count / 4, n = 0;

	while (w->pool_lent < u->lent_max && w->pool.free_count > keep) {
		struct chunk *k = chunk_get(&w->pool);

		io_uring_buf_ring_add(u->buf_ring, k->base, w->pool.chunk_size, (uint16_t)k->id,
				      (int)u->buf_mask, (int)n++);
		u->order[u->buf_tail++ & u->buf_mask] = (uint16_t)k->id;
		w->pool_lent++;
	}
	if (n)
		io_uring_buf_ring_advance(u->buf_ring, (int)n);
}

/* The oldest lent chunk is full, or was consumed: the kernel's reference ends. */
static void uring_take_back(struct worker *w, struct chunk *k)
{
	struct uring *u = w->engine_state;

	u->buf_head++;
	w->pool_lent--;
	chunk_put(&w->pool, k);
}

/* `bytes` were received into the oldest lent chunk, and those behind it when it was a bundle. */
static void uring_received(struct conn *c, uint32_t bytes)
{
	struct worker *w = c->worker;
	struct uring *u = w->engine_state;

	while (bytes > 0) {
		struct chunk *k = &w->pool.chunks[u->order[u->buf_head & u->buf_mask]];
		uint32_t n = MIN(bytes, w->pool.chunk_size - k->used);
		uint8_t *data = k->base + k->used;

		k->used += n;
		bytes -= n;
		conn_input(c, k, data, n);
		if (!u->incremental || k->used == w->pool.chunk_size)
			uring_take_back(w, k);
	}
}

/* ---- Receiving ---- */

static void uring_fd(const struct conn *c, struct io_uring_sqe *sqe)
{
	if (c->slot == URING_NO_SLOT)
		return;
	sqe->fd = (int)c->slot;
	sqe->flags |= IOSQE_FIXED_FILE;
}

static void uring_recv_arm(struct conn *c, unsigned ioprio)
{
	struct uring *u = c->worker->engine_state;
	struct io_uring_sqe *sqe;

	if (c->flags & (URING_RECV_ARMED | CONN_CLOSING | CONN_EOF))
		return;
	sqe = ring_sqe(&u->ring);
	io_uring_prep_recv_multishot(sqe, c->fd, NULL, 0, 0);
	sqe->ioprio |= (uint16_t)(ioprio | (u->bundle ? NB_RECVSEND_BUNDLE : 0));
	sqe->flags |= IOSQE_BUFFER_SELECT;
	sqe->buf_group = URING_BUF_GROUP;
	uring_fd(c, sqe);
	ring_op(sqe, &c->recv_op);
	c->flags |= URING_RECV_ARMED;
	c->pending++;
}

/* The multishot receive has ended. */
static void uring_recv_ended(struct conn *c, int res)
{
	struct worker *w = c->worker;
	struct uring *u = w->engine_state;

	c->pending--;
	c->flags &= ~(uint32_t)URING_RECV_ARMED;
	uring_hurry(c);
	conn_ready(c);
	if (res == 0) {
		conn_eof(c);
	} else if (res == -ENOBUFS) {
		/* More arrived in one turn than was lent: lend more, and go on when there is. */
		u->lent_max = MIN(u->lent_max * 2, u->buf_entries);
		conn_starved(c);
	} else if (res < 0 && res != -ECANCELED) {
		conn_failed(c, -res);
	} else if (!(c->flags & CONN_RECV_OFF)) {
		uring_recv_arm(c, 0);
	}
}

static void uring_recv_done(struct op *op, int res, uint32_t flags)
{
	struct conn *c = container_of(op, struct conn, recv_op);
	struct worker *w = c->worker;
	struct uring *u = w->engine_state;

	if (likely(res > 0)) {
		/* The kernel and we must agree on which chunk is the oldest, or data is lost. */
		assert(flags >> IORING_CQE_BUFFER_SHIFT == u->order[u->buf_head & u->buf_mask]);
		uring_received(c, (uint32_t)res);
	} else if ((flags & IORING_CQE_F_BUFFER) && !u->incremental) {
		/* Kernels before 6.10 consume a buffer for the FIN. */
		uring_take_back(w, &w->pool.chunks[u->order[u->buf_head & u->buf_mask]]);
	}
	if (unlikely(!(flags & IORING_CQE_F_MORE)))
		uring_recv_ended(c, res);
}

static void uring_control_done(struct op *op, int res, uint32_t flags)
{
	struct conn *c = container_of(op, struct conn, control_op);

	(void)res, (void)flags;
	c->pending--;
	conn_ready(c);
}

static void uring_recv(struct conn *c, bool on)
{
	struct uring *u = c->worker->engine_state;
	struct io_uring_sqe *sqe;

	if (on) {
		uring_recv_arm(c, 0);
		return;
	}
	uring_hurry(c);
	if (!(c->flags & URING_RECV_ARMED))
		return;
	sqe = ring_sqe(&u->ring);
	io_uring_prep_cancel(sqe, &c->recv_op, 0);
	ring_op(sqe, &c->control_op);
	c->pending++;
}

/* ---- Sending ---- */

/* The kernel took res bytes of c->sending, or failed. */
static void uring_sent(struct conn *c, int res)
{
	struct worker *w = c->worker;
	struct uring *u = w->engine_state;
	bool waited = c->flags & URING_SEND_WAIT;

	c->pending--;
	c->flags &= ~(uint32_t)URING_SEND_WAIT;
	if (res < 0 && res != -EAGAIN && res != -EINTR) {
		conn_ready(c);
		conn_failed(c, -res);
		return;
	}
	if (res > 0)
		conn_sent(c, &c->sending, (size_t)res, waited || u->ring.sqpoll ? 0 : u->sent_ns);
	if (c->sending.bytes) { /* the peer is slow: what is left goes first, and may wait */
		stat_add(w->stats.tx_blocked, 1);
		c->flags |= URING_SEND_WAIT;
		bufq_prepend(&c->tx, &c->sending);
	}
	if (c->tx.bytes || (c->flags & (CONN_EOF | CONN_CLOSING | CONN_RECV_OFF)))
		conn_ready(c);
}

static void uring_send_done(struct op *op, int res, uint32_t flags)
{
	(void)flags;
	uring_sent(container_of(op, struct conn, send_op), res);
}

static struct uring_send *uring_send_get(struct uring *u)
{
	struct uring_send *s = u->send_free;

	if (s) {
		u->send_free = s->next;
		return s;
	}
	return malloc(sizeof(*s));
}

static void uring_send_put(struct uring *u, struct uring_send *s)
{
	s->next = u->send_free;
	u->send_free = s;
}

static void uring_sendmsg_done(struct op *op, int res, uint32_t flags)
{
	struct uring_send *s = container_of(op, struct uring_send, op);
	struct conn *c = s->conn;

	(void)flags;
	uring_send_put(c->worker->engine_state, s);
	uring_sent(c, res);
}

/* Two completions: the result, and the kernel's word that it reads the buffers no more. */
static void uring_send_zc_done(struct op *op, int res, uint32_t flags)
{
	struct uring_send *s = container_of(op, struct uring_send, op);
	struct conn *c = s->conn;
	struct worker *w = c->worker;

	if (!(flags & NB_CQE_F_NOTIF)) {
		if (res > 0) { /* keep a reference of what was sent */
			for (struct view *v = c->sending.head; v; v = v->next)
				bufq_push(&s->lent, view_new(&w->pool, v->chunk, v->data, v->len));
			c->lent_bytes += s->lent.bytes;
		}
		if (flags & IORING_CQE_F_MORE)
			c->pending++; /* for the notification */
		uring_sent(c, res);
		if (flags & IORING_CQE_F_MORE)
			return;
	} else {
		if (res & (int)NB_NOTIF_ZC_COPIED)
			stat_add(w->stats.zero_copy_copied, 1);
		else
			stat_add(w->stats.zero_copied, 1);
		c->pending--;
		conn_ready(c);
	}
	c->lent_bytes -= s->lent.bytes;
	bufq_drop(&w->pool, &s->lent, s->lent.bytes);
	uring_send_put(w->engine_state, s);
}

static void uring_queue_sendmsg(struct conn *c, struct uring_send *s, unsigned views, int flags,
				bool zero_copy)
{
	struct uring *u = c->worker->engine_state;
	struct io_uring_sqe *sqe = ring_sqe(&u->ring);

	s->conn = c;
	s->lent = (struct bufq){ 0 };
	s->msg = (struct msghdr){ .msg_iov = s->iov, .msg_iovlen = views };
	s->op.done = zero_copy ? uring_send_zc_done : uring_sendmsg_done;
	if (zero_copy) {
		io_uring_prep_sendmsg_zc(sqe, c->fd, &s->msg, (unsigned)flags);
		sqe->ioprio |= NB_SEND_ZC_REPORT_USAGE;
	} else {
		io_uring_prep_sendmsg(sqe, c->fd, &s->msg, (unsigned)flags);
	}
	uring_fd(c, sqe);
	ring_op(sqe, &s->op);
}

static void uring_flush(struct conn *c)
{
	struct worker *w = c->worker;
	struct uring *u = w->engine_state;
	bool wait = c->flags & URING_SEND_WAIT, zero_copy;
	int flags = MSG_NOSIGNAL | (wait ? 0 : MSG_DONTWAIT);
	struct uring_send *s;
	struct iovec iov[URING_IOV];
	size_t bytes;
	unsigned n;

	if (c->sending.bytes) { /* one in flight: two on a full socket would interleave */
		uring_hurry(c);
		return;
	}
	n = bufq_iov(&c->tx, iov, URING_IOV, &bytes);
	zero_copy = u->zero_copy && bytes >= w->options.zero_copy_min;
	if (n == 1 && !zero_copy) {
		struct io_uring_sqe *sqe = ring_sqe(&u->ring);

		io_uring_prep_send(sqe, c->fd, iov[0].iov_base, bytes, flags);
		if (wait)
			sqe->ioprio |= IORING_RECVSEND_POLL_FIRST;
		uring_fd(c, sqe);
		ring_op(sqe, &c->send_op);
	} else {
		s = uring_send_get(u);
		if (!s) {
			conn_failed(c, ENOMEM);
			return;
		}
		memcpy(s->iov, iov, n * sizeof(iov[0]));
		uring_queue_sendmsg(c, s, n, flags, zero_copy);
	}
	if (bytes == c->tx.bytes)
		bufq_splice(&c->sending, &c->tx);
	else
		bufq_take(&w->pool, &c->sending, &c->tx, bytes);
	c->pending++;
	if (!wait && !c->tx.bytes && !c->rx.bytes && !w->service->source &&
	    !(c->flags & (CONN_EOF | CONN_RECV_OFF)))
		u->ring.quiet++;
}

/* ---- Connections ---- */

static int uring_open(struct conn *c)
{
	struct uring *u = c->worker->engine_state;

	c->recv_op.done = uring_recv_done;
	c->send_op.done = uring_send_done;
	c->control_op.done = uring_control_done;
	c->slot = URING_NO_SLOT;
	if (u->slot_count) { /* runs in order with what is queued behind it */
		struct io_uring_sqe *sqe;

		c->slot = u->slots[--u->slot_count];
		sqe = ring_sqe(&u->ring);
		io_uring_prep_files_update(sqe, &c->fd, 1, (int)c->slot);
		sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
		ring_op(sqe, NULL);
	}
	uring_recv_arm(c, IORING_RECVSEND_POLL_FIRST);
	return 0;
}

/* A shut down socket completes whatever waits for it. */
static void uring_close(struct conn *c)
{
	if (!c->pending)
		return;
	uring_hurry(c);
	stat_add(c->worker->stats.sys_shutdown, 1);
	shutdown(c->fd, SHUT_RDWR);
}

static void uring_release(struct conn *c)
{
	struct uring *u = c->worker->engine_state;
	struct io_uring_sqe *sqe;

	if (c->slot != URING_NO_SLOT) {
		sqe = ring_sqe(&u->ring);
		io_uring_prep_files_update(sqe, (int *)&uring_no_file, 1, (int)c->slot);
		sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
		ring_op(sqe, NULL);
		u->slots[u->slot_count++] = c->slot;
	}
	stat_add(c->worker->stats.sys_close, 1);
	close(c->fd);
}

/* ---- The worker's side ---- */

static int uring_register_buf_ring(struct uring *u, uint16_t flags)
{
	struct io_uring_buf_reg reg = {
		.ring_addr = (uint64_t)(uintptr_t)u->buf_ring,
		.ring_entries = u->buf_entries,
		.bgid = URING_BUF_GROUP,
		.pad = flags, /* named `flags` since liburing 2.7 */
	};

	return io_uring_register_buf_ring(&u->ring.io, &reg, 0);
}

static unsigned uring_power_of_two(unsigned n)
{
	unsigned power = 1;

	while (power * 2 <= n && power < 32768)
		power *= 2;
	return power;
}

static int uring_init_buffers(struct worker *w, struct reason *reason)
{
	struct uring *u = w->engine_state;
	int rc;

	u->buf_entries = uring_power_of_two(w->pool.chunk_count * 3 / 4);
	u->buf_mask = u->buf_entries - 1;
	u->order = calloc(u->buf_entries, sizeof(*u->order));
	u->buf_ring = mmap(NULL, u->buf_entries * sizeof(struct io_uring_buf),
			   PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!u->order || u->buf_ring == MAP_FAILED)
		return reason_set(reason, -ENOMEM, "no memory for the buffer ring");
	io_uring_buf_ring_init(u->buf_ring);
	rc = uring_register_buf_ring(u, NB_PBUF_RING_INC);
	u->incremental = rc == 0;
	if (rc < 0)
		rc = uring_register_buf_ring(u, 0);
	if (rc < 0)
		return reason_set(reason, rc,
				  "no ring of provided buffers (%s); engine = io_uring needs Linux "
				  "6.0, use epoll or io_uring-poll",
				  strerror(-rc));
	worker_feature(w, FEATURE_buffer_ring);
	if (u->incremental)
		worker_feature(w, FEATURE_incremental_buffers);
	u->lent_max = u->buf_entries;
	if (u->incremental)
		u->lent_max = MIN(MAX(URING_LENT_BYTES / w->pool.chunk_size, 4), u->buf_entries);
	return 0;
}

static void uring_init_files(struct worker *w)
{
	struct uring *u = w->engine_state;
	struct rlimit limit = { 0 };
	unsigned count;

	getrlimit(RLIMIT_NOFILE, &limit);
	count = (unsigned)MIN(limit.rlim_cur, URING_FILES_MAX);
	u->slots = calloc(count, sizeof(*u->slots));
	if (!u->slots || io_uring_register_files_sparse(&u->ring.io, count) < 0)
		return; /* connections go without */
	for (unsigned i = count; i-- > 0;)
		u->slots[u->slot_count++] = i;
	u->slots_total = count;
	worker_feature(w, FEATURE_registered_files);
}

/* Does this kernel know multishot receive (Linux 6.0)?  Tried on a socket pair. */
static int uring_probe_multishot(struct worker *w)
{
	struct uring *u = w->engine_state;
	struct io_uring_sqe *sqe;
	struct io_uring_cqe *cqe;
	int fds[2], rc, res;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) < 0)
		return -errno;
	close(fds[1]); /* the receive completes at once, with 0 */
	sqe = ring_sqe(&u->ring);
	io_uring_prep_recv_multishot(sqe, fds[0], NULL, 0, 0);
	sqe->flags |= IOSQE_BUFFER_SELECT;
	sqe->buf_group = URING_BUF_GROUP;
	ring_op(sqe, NULL);
	ring_enter(&u->ring, true, 0);
	rc = io_uring_peek_cqe(&u->ring.io, &cqe);
	res = rc < 0 ? rc : cqe->res;
	if (rc == 0)
		io_uring_cqe_seen(&u->ring.io, cqe);
	close(fds[0]);
	return res == -EINVAL ? -EINVAL : 0;
}

static void uring_probe_send_zc(struct worker *w)
{
	struct uring *u = w->engine_state;
	struct io_uring_probe *probe;

	if (!w->options.zero_copy_min)
		return;
	probe = io_uring_get_probe_ring(&u->ring.io);
	u->zero_copy = probe && io_uring_opcode_supported(probe, IORING_OP_SENDMSG_ZC);
	io_uring_free_probe(probe);
	if (u->zero_copy)
		worker_feature(w, FEATURE_send_zc);
}

static void uring_fini(struct worker *w)
{
	struct uring *u = w->engine_state;

	ring_fini(&u->ring);
	if (u->buf_ring && u->buf_ring != MAP_FAILED)
		munmap(u->buf_ring, u->buf_entries * sizeof(struct io_uring_buf));
	while (u->send_free) {
		struct uring_send *s = u->send_free;

		u->send_free = s->next;
		free(s);
	}
	free(u->order);
	free(u->slots);
	free(u);
	w->engine_state = NULL;
}

static int uring_init(struct worker *w, struct reason *reason)
{
	struct uring *u = calloc(1, sizeof(*u));
	int rc;

	if (!u)
		return reason_set(reason, -ENOMEM, "io_uring: no memory");
	w->engine_state = u;
	rc = ring_init(&u->ring, w, reason);
	if (rc < 0) {
		free(u);
		w->engine_state = NULL;
		return rc;
	}
	rc = uring_init_buffers(w, reason);
	if (rc == 0) {
		uring_refill(w);
		rc = uring_probe_multishot(w);
		if (rc < 0)
			reason_set(reason, rc, "no multishot receive; engine = io_uring needs Linux "
					       "6.0, use epoll or io_uring-poll");
	}
	if (rc < 0) {
		uring_fini(w);
		return rc;
	}
	worker_feature(w, FEATURE_multishot_accept);
	worker_feature(w, FEATURE_multishot_recv);
	u->bundle = u->ring.features & NB_FEAT_RECVSEND_BUNDLE;
	if (u->bundle)
		worker_feature(w, FEATURE_recv_bundle);
	uring_init_files(w);
	uring_probe_send_zc(w);
	return 0;
}

static void uring_listen(struct worker *w, struct acceptor *a, bool on)
{
	struct uring *u = w->engine_state;

	ring_listen(&u->ring, a, on);
}

static int uring_watch(struct worker *w, int fd, struct op *op)
{
	struct uring *u = w->engine_state;

	if (u->watch_count == URING_WATCHES)
		return -ENOSPC;
	ring_watch(&u->ring, &u->watches[u->watch_count++], fd, op);
	return 0;
}

/* One io_uring_enter per turn, none while completions are waiting.  A send with MSG_DONTWAIT
 * completes at once; it is `quiet` when nothing waits for that completion (no more to send, no
 * paused input, no FIN).  Waiting for one completion more than there are quiet sends submits them,
 * reaps them and sleeps until something new, in a single call. */
static void uring_wait(struct worker *w, bool block)
{
	struct uring *u = w->engine_state;

	uring_refill(w);
	if (w->sampling && u->ring.quiet && !u->ring.sqpoll) {
		ring_submit(&u->ring); /* when this returns, the sends are with the kernel */
		u->sent_ns = clock_ns();
	}
	if (!ring_ready(&u->ring))
		ring_wait(&u->ring, block);
	ring_reap(&u->ring);
}

const struct engine engine_uring = {
	.name = "io_uring",
	.sample_turns = 32,
	.init = uring_init,
	.fini = uring_fini,
	.listen = uring_listen,
	.watch = uring_watch,
	.wait = uring_wait,
	.open = uring_open,
	.recv = uring_recv,
	.flush = uring_flush,
	.close = uring_close,
	.release = uring_release,
};
