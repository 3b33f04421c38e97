/* Engine `io_uring`, transport `udp`: see udp.h.  A multishot receive for each socket, into a ring
 * of provided buffers of a chunk each; the buffers are not incremental, as the rest of a chunk may
 * be too small for another datagram.
 *
 * A small batch is submitted with the system call that waits.  Its sends have no completion on
 * success, which needs no MSG_WAITALL as with TCP: a datagram is sent whole or not at all.  For
 * larger batches one sendmmsg() is cheaper, and for those that are timed or awaited it is needed:
 * the worker learns that a silent batch was sent only when its wait is over. */
#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "udp.h"

enum {
	URING_UDP_GROUP = 0,
	URING_UDP_POSTED = 128, /* chunks posted to the kernel at first */
	URING_UDP_SILENT = 8,   /* messages: larger batches are sent by sendmmsg() */
	URING_UDP_NAME = 32,    /* bytes for an address; keeps the following data aligned */
	/* Bytes before a datagram in its chunk. */
	URING_UDP_HEAD = 16 + URING_UDP_NAME + UDP_CONTROL,
};

static_assert(sizeof(struct io_uring_recvmsg_out) == 16, "the kernel's");
static_assert((int)URING_UDP_HEAD <= (int)UDP_HEADROOM, "as it is for the longest datagram");

struct uring_udp {
	struct udp udp; /* first: see udp.h */
	struct io_uring_buf_ring *buf_ring;
	unsigned buf_entries, posted_max;
	unsigned added;            /* added to the buffer ring and not published yet */
	struct msghdr shape;       /* the room for address and control data before a datagram */
	struct udp_socket *silent; /* the socket whose udp.batch the next system call submits */
};

/* ---- Buffers ---- */

static void uring_udp_add(struct uring_udp *u, struct chunk *k)
{
	io_uring_buf_ring_add(u->buf_ring, k->base, u->udp.worker->pool.stride, (uint16_t)k->id,
			      io_uring_buf_ring_mask(u->buf_entries), (int)u->added++);
}

static void uring_udp_publish(struct uring_udp *u)
{
	if (u->added)
		io_uring_buf_ring_advance(u->buf_ring, (int)u->added);
	u->added = 0;
}

/* Posts chunks to the kernel.  A quarter of the pool stays for services. */
static void uring_udp_refill(struct uring_udp *u)
{
	struct worker *w = u->udp.worker;

	while (w->pool_posted < u->posted_max && w->pool.free_count > w->pool.keep) {
		uring_udp_add(u, chunk_get(&w->pool));
		w->pool_posted++;
	}
	uring_udp_publish(u);
}

/* ---- Receiving ---- */

static void uring_udp_arm(struct udp_socket *s)
{
	struct acceptor *a = s->acceptor;
	struct uring_udp *u = a->worker->engine_state;
	struct io_uring_sqe *sqe = ring_sqe(&u->udp.ring);

	io_uring_prep_recvmsg_multishot(sqe, a->fd, &u->shape, MSG_TRUNC);
	sqe->flags |= IOSQE_BUFFER_SELECT;
	sqe->buf_group = URING_UDP_GROUP;
	ring_op(sqe, &a->op);
	a->armed++;
	s->polled_in = true;
}

/* Takes a received datagram.  Before it the kernel has stored io_uring_recvmsg_out, the
 * address and control data. */
static void uring_udp_take(struct uring_udp *u, struct udp_socket *s, struct chunk *k, int res)
{
	const struct io_uring_recvmsg_out *out = (void *)k->base;
	struct msghdr msg = { .msg_control = k->base + 16 + URING_UDP_NAME };
	struct udp_datagram d = {
		.name = (void *)(k->base + 16),
		.msg = &msg,
		.chunk = k,
		.data = k->base + URING_UDP_HEAD,
	};

	if (res < URING_UDP_HEAD)
		return;
	msg.msg_controllen = MIN(out->controllen, (uint32_t)UDP_CONTROL);
	d.name_bytes = MIN(out->namelen, (uint32_t)URING_UDP_NAME);
	d.flags = (int)out->flags;
	d.bytes = (uint32_t)res - URING_UDP_HEAD;
	/* The chunk may have had room for more than buffer-size. */
	if (d.bytes > u->udp.worker->pool.chunk_size)
		d.flags |= MSG_TRUNC;
	udp_arrived(s, &d);
}

static void uring_udp_ended(struct uring_udp *u, struct udp_socket *s, int res)
{
	struct worker *w = u->udp.worker;

	s->acceptor->armed--;
	s->polled_in = false;
	if (res == -ENOBUFS) { /* more arrived than was posted: post more, if available */
		u->posted_max = MIN(u->posted_max * 2, u->buf_entries);
		if (w->pool_posted == 0 && w->pool.free_count <= w->pool.keep) {
			stat_add(w->stats.starved, 1);
			s->starved = true;
			udp_set_interest(s);
		}
	}
	if (s->want_in && s->acceptor->fd >= 0)
		s->again = true; /* retried when chunks were posted */
}

/* A completion of a receive.  An empty datagram ends a multishot receive, too. */
static void uring_udp_event(struct op *op, int res, uint32_t flags)
{
	struct acceptor *a = container_of(op, struct acceptor, op);
	struct uring_udp *u = a->worker->engine_state;
	struct udp_socket *s = udp_socket_of(&u->udp, a);
	struct pool *p = &a->worker->pool;

	if (flags & IORING_CQE_F_BUFFER) {
		struct chunk *k = &p->chunks[flags >> IORING_CQE_BUFFER_SHIFT];

		uring_udp_take(u, s, k, res);
		if (k->refs == 1 && a->worker->pool_posted <= u->posted_max) {
			uring_udp_add(u, k); /* no connection holds data in it */
		} else {
			a->worker->pool_posted--;
			chunk_put(p, k);
		}
	}
	if (unlikely(!(flags & IORING_CQE_F_MORE)))
		uring_udp_ended(u, s, res);
}

static void uring_udp_watch(struct udp_socket *s)
{
	struct acceptor *a = s->acceptor;
	struct uring_udp *u = a->worker->engine_state;

	a->op.done = uring_udp_event;
	if (s->want_in && !s->polled_in)
		s->again = true;
	else if (!s->want_in && s->polled_in)
		ring_cancel(&u->udp.ring, &a->op);
	udp_ring_poll_out(s);
}

/* ---- Sending ---- */

/* A silent datagram could not be sent.  Its client may have been freed since. */
static void uring_udp_failed(struct op *op, int res, uint32_t flags)
{
	struct udp_socket *s = container_of(op, struct udp_socket, failed_op);
	struct stats *stats = &s->udp->worker->stats;

	(void)flags;
	stat_add(stats->datagrams_unsent, 1);
	stat_add(stats->datagrams_out, UINT64_C(-1));
	if (udp_is_full(-res))
		udp_block(s);
}

/* Is the time of sending measured, or does a client's connection wait until its output was sent? */
static bool uring_udp_is_awaited(const struct udp_batch *b)
{
	for (unsigned i = 0; i < b->count; i++) {
		const struct conn *c = b->peers[i]->peer.conn;

		if (c->op_start_ns || conn_waits_for_tx(c))
			return true;
	}
	return false;
}

/* Takes the socket's output as the silent batch if that is one small batch of plain datagrams. */
static void uring_udp_choose(struct uring_udp *u, struct udp_socket *s)
{
	struct udp_batch *b = &u->udp.batch;

	s->failed_op.done = uring_udp_failed;
	udp_batch_fill(s, b);
	if (!u->udp.ring.sqpoll && b->count <= URING_UDP_SILENT && b->count == b->views &&
	    !uring_udp_is_awaited(b))
		u->silent = s;
}

static void uring_udp_queue_silent(struct uring_udp *u)
{
	struct udp_batch *b = &u->udp.batch;

	for (unsigned i = 0; i < b->count; i++) {
		struct io_uring_sqe *sqe = ring_sqe(&u->udp.ring);

		io_uring_prep_sendmsg(sqe, u->silent->acceptor->fd, &b->messages[i].msg_hdr,
				      MSG_DONTWAIT | MSG_NOSIGNAL);
		sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
		ring_op(sqe, &u->silent->failed_op);
	}
}

/* Queues the silent batch last; the wait that follows submits it: see uring_udp_silent_sent(). */
static bool uring_udp_send(struct worker_hook *hook)
{
	struct uring_udp *u = container_of(hook, struct uring_udp, udp.hook);

	for (unsigned i = 0; i < u->udp.count && !u->silent; i++) {
		struct udp_socket *s = &u->udp.sockets[i];

		if (s->out && !s->blocked && s->acceptor->fd >= 0)
			uring_udp_choose(u, s);
	}
	if (!u->silent)
		udp_ready_send(hook);
	uring_udp_refill(u);
	for (unsigned i = 0; i < u->udp.count; i++) {
		struct udp_socket *s = &u->udp.sockets[i];

		if (!s->again || !u->udp.worker->pool_posted)
			continue;
		s->again = false;
		if (s->want_in && !s->polled_in && s->acceptor->fd >= 0)
			uring_udp_arm(s);
	}
	if (u->silent)
		uring_udp_queue_silent(u);
	return false;
}

/* The silent batch was submitted; datagrams that could not be sent have a completion.
 * Without memory for requests the kernel has not taken all of it: the rest is
 * withdrawn and sent by calls. */
static void uring_udp_silent_sent(struct uring_udp *u)
{
	struct udp_socket *s = u->silent;
	unsigned count = u->udp.batch.count, left = MIN(ring_queued(&u->udp.ring), count);

	u->udp.ring.io.sq.sqe_tail -= left;
	u->silent = NULL;
	udp_batch_sent(s, &u->udp.batch, 0, count - left, 0, 0);
	if (s->out || u->udp.count > 1) /* output of the other sockets */
		udp_ready_send(&u->udp.hook);
}

/* ---- The worker's part ---- */

static void uring_udp_wait(struct worker *w, bool block)
{
	struct uring_udp *u = w->engine_state;

	if (u->silent) {
		ring_enter(&u->udp.ring, block && u->udp.count == 1 && !ring_ready(&u->udp.ring),
			   w->deadlines.wake_ns);
		uring_udp_silent_sent(u);
	} else {
		ring_wait(&u->udp.ring, block);
	}
	worker_awake(w);
	u->udp.now_ns = clock_coarse_ns();
	ring_reap(&u->udp.ring);
	uring_udp_publish(u);
}

static int uring_udp_init_buffers(struct uring_udp *u, struct worker *w, struct reason *reason)
{
	struct io_uring_buf_reg reg = { .bgid = URING_UDP_GROUP };
	int rc;

	u->buf_entries = 1;
	while (u->buf_entries * 2 <= w->pool.chunk_count * 3 / 4)
		u->buf_entries *= 2;
	u->posted_max = MIN((unsigned)URING_UDP_POSTED, u->buf_entries);
	u->buf_ring = mmap(NULL, u->buf_entries * sizeof(struct io_uring_buf),
			   PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (u->buf_ring == MAP_FAILED)
		return reason_set(reason, -ENOMEM, "no memory for the buffer ring");
	io_uring_buf_ring_init(u->buf_ring);
	reg.ring_addr = (uint64_t)(uintptr_t)u->buf_ring;
	reg.ring_entries = u->buf_entries;
	rc = io_uring_register_buf_ring(&u->udp.ring.io, &reg, 0);
	if (rc < 0)
		return reason_set(reason, rc,
				  "no ring of provided buffers (%s); engine = io_uring needs Linux "
				  "6.0 for datagrams, use epoll or io_uring-poll",
				  strerror(-rc));
	if (!ring_has_opcode(&u->udp.ring, IORING_OP_SEND_ZC))
		return reason_set(reason, -ENOSYS,
				  "no multishot receive of datagrams; engine = io_uring needs "
				  "Linux 6.0 for them, use epoll or io_uring-poll");
	worker_feature(w, FEATURE_buffer_ring);
	worker_feature(w, FEATURE_multishot_recvmsg);
	return 0;
}

static void uring_udp_free(struct uring_udp *u)
{
	if (u->buf_ring && u->buf_ring != MAP_FAILED)
		munmap(u->buf_ring, u->buf_entries * sizeof(struct io_uring_buf));
	u->udp.worker->engine_state = NULL;
	free(u);
}

static int uring_udp_init(struct worker *w, struct reason *reason)
{
	struct uring_udp *u = calloc(1, sizeof(*u));
	int rc;

	if (!u)
		return reason_set(reason, -ENOMEM, "io_uring: no memory");
	w->engine_state = u;
	u->udp.worker = w;
	u->udp.watch = uring_udp_watch;
	u->shape = (struct msghdr){ .msg_namelen = URING_UDP_NAME, .msg_controllen = UDP_CONTROL };
	rc = ring_init(&u->udp.ring, w, 0, RING_LISTENS | RING_TRANSFERS, reason);
	if (rc < 0) {
		uring_udp_free(u);
		return rc;
	}
	rc = uring_udp_init_buffers(u, w, reason);
	if (rc == 0)
		rc = udp_init(&u->udp, uring_udp_send, reason);
	if (rc < 0) {
		ring_fini(&u->udp.ring);
		uring_udp_free(u);
	}
	return rc;
}

/* Chunks posted to the kernel are freed with the pool. */
static void uring_udp_fini(struct worker *w)
{
	struct uring_udp *u = w->engine_state;

	ring_fini(&u->udp.ring);
	udp_fini(&u->udp);
	uring_udp_free(u);
}

const struct engine engine_uring_udp = {
	.name = "io_uring",
	UDP_ENGINE,
	.sample_turns = 32,
	/* Not buffer_ring, which it cannot do without. */
	.features = UDP_FEATURES | UDP_RING_FEATURES | FEATURE_BIT(multishot_recvmsg),
	.init = uring_udp_init,
	.fini = uring_udp_fini,
	.watch = ring_watch,
	.wait = uring_udp_wait,
};
