/* The yardstick: an echo server on io_uring, one thread, as tight as it can be made.
 *
 * Multishot accept and receive, received bytes are sent from the buffer they came in, and one
 * io_uring_enter per turn submits all sends, takes their results and waits for one completion more.
 * A connection has at most one send in flight; data that comes meanwhile waits in its queue.
 *
 * Measured and chosen (CPU per request, 512 B): registered files save 1-2 %; incremental
 * buffers of 2 MB in all save 2-5 %, because what is received lies close together in the cache; a
 * completion queue smaller than a batch costs 20 %; leaving out the completions of successful
 * sends saves nothing. */
#include <liburing.h>
#include <stdbool.h>
#include <sys/mman.h>

#include "bench.h"

enum {
	SQ_ENTRIES = 256,
	CQ_ENTRIES = 4096, /* more than one batch: two for every connection that is ready at once */
	CONNECTIONS_MAX = 32768,
	BUFFERS_MAX = 1024,
	BUFFER_INCREMENTAL = 2, /* IOU_PBUF_RING_INC and IORING_CQE_F_BUF_MORE: Linux 6.12 */
	CQE_BUFFER_MORE = 1 << 4,
};

enum kind { KIND_ACCEPT, KIND_RECEIVE, KIND_SEND };

/* A part of a buffer that waits to be sent. */
struct piece {
	struct piece *next;
	uint8_t *data;
	uint32_t bytes;
	uint32_t buffer;
};

struct conn {
	struct piece now;            /* being sent when bytes > 0 */
	struct piece *queue, **tail; /* to follow it */
	struct conn *starved_next;
	bool ended; /* the peer has ended it */
};

struct buffer {
	uint32_t filled; /* bytes that the kernel has used */
	uint32_t users;  /* the kernel and each piece */
};

static struct {
	struct io_uring ring;
	struct io_uring_buf_ring *buffer_ring;
	uint8_t *slab;
	struct buffer buffers[BUFFERS_MAX];
	uint32_t buffer_count, buffer_bytes;
	bool incremental;
	unsigned lent;    /* buffers with the kernel */
	int buffers_back; /* given back in this turn */
	unsigned sends;   /* that complete at once, with nothing to follow them */
	int listen_fd;
	bool accepting;
	struct conn *starved;
	struct piece *free_pieces;
	struct conn conns[CONNECTIONS_MAX];
} s;

/* ---- Submissions ---- */

static struct io_uring_sqe *sqe_get(void)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&s.ring);

	while (!sqe) {
		io_uring_submit(&s.ring);
		sqe = io_uring_get_sqe(&s.ring);
	}
	return sqe;
}

static void sqe_name(struct io_uring_sqe *sqe, enum kind kind, unsigned slot)
{
	sqe->user_data = (uint64_t)slot << 8 | kind;
}

static void accept_start(void)
{
	struct io_uring_sqe *sqe = sqe_get();

	io_uring_prep_multishot_accept_direct(sqe, s.listen_fd, NULL, NULL, 0);
	sqe_name(sqe, KIND_ACCEPT, 0);
	s.accepting = true;
}

static void receive_start(unsigned slot)
{
	struct io_uring_sqe *sqe = sqe_get();

	io_uring_prep_recv_multishot(sqe, (int)slot, NULL, 0, 0);
	sqe->flags |= IOSQE_BUFFER_SELECT | IOSQE_FIXED_FILE;
	sqe->ioprio |= IORING_RECVSEND_POLL_FIRST;
	sqe_name(sqe, KIND_RECEIVE, slot);
}

/* Tries at once; the rest of a send that fell short waits for room instead. */
static void send_start(unsigned slot, bool rest)
{
	struct piece *now = &s.conns[slot].now;
	struct io_uring_sqe *sqe = sqe_get();

	io_uring_prep_send(sqe, (int)slot, now->data, now->bytes,
			   MSG_NOSIGNAL | (rest ? 0 : MSG_DONTWAIT));
	sqe->flags |= IOSQE_FIXED_FILE;
	if (rest)
		sqe->ioprio |= IORING_RECVSEND_POLL_FIRST;
	else if (!s.conns[slot].queue && !s.conns[slot].ended)
		s.sends++;
	sqe_name(sqe, KIND_SEND, slot);
}

static void conn_close(unsigned slot)
{
	struct io_uring_sqe *sqe = sqe_get();

	s.conns[slot] = (struct conn){ 0 };
	io_uring_prep_close_direct(sqe, slot);
	sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
	sqe_name(sqe, KIND_SEND, slot);
	if (!s.accepting)
		accept_start();
}

/* ---- Buffers ---- */

static void buffer_give(uint32_t id)
{
	s.buffers[id] = (struct buffer){ .users = 1 };
	s.lent++;
	io_uring_buf_ring_add(s.buffer_ring, s.slab + (size_t)id * s.buffer_bytes, s.buffer_bytes,
			      (uint16_t)id, (int)s.buffer_count - 1, s.buffers_back++);
}

static void buffer_put(uint32_t id)
{
	if (--s.buffers[id].users == 0)
		buffer_give(id);
}

/* Makes buffers known to the kernel; connections that found none may receive again. */
static void buffers_publish(void)
{
	struct conn *c = s.starved;

	if (!s.buffers_back)
		return;
	io_uring_buf_ring_advance(s.buffer_ring, s.buffers_back);
	s.buffers_back = 0;
	s.starved = NULL;
	for (; c; c = c->starved_next)
		receive_start((unsigned)(c - s.conns));
}

/* ---- Connections ---- */

static void piece_queue(struct conn *c, const struct piece *piece)
{
	struct piece *p = s.free_pieces;

	if (p)
		s.free_pieces = p->next;
	else if (!(p = malloc(sizeof(*p))))
		err(1, "malloc");
	*p = *piece;
	p->next = NULL;
	if (!c->queue)
		c->tail = &c->queue;
	*c->tail = p;
	c->tail = &p->next;
}

static void piece_next(struct conn *c)
{
	struct piece *p = c->queue;

	buffer_put(c->now.buffer);
	c->now.bytes = 0;
	if (!p)
		return;
	c->now = *p;
	c->queue = p->next;
	p->next = s.free_pieces;
	s.free_pieces = p;
}

static void sent(unsigned slot, int result)
{
	struct conn *c = &s.conns[slot];
	bool rest = false;

	if (result == (int)c->now.bytes) {
		piece_next(c);
	} else if (result >= 0 || result == -EAGAIN) {
		c->now.data += MAX(result, 0);
		c->now.bytes -= (uint32_t)MAX(result, 0);
		rest = true;
	} else { /* broken: the receive ends, too */
		while (c->now.bytes)
			piece_next(c);
	}
	if (c->now.bytes)
		send_start(slot, rest);
	else if (c->ended)
		conn_close(slot);
}

static void received(unsigned slot, uint32_t bytes, uint32_t flags)
{
	uint32_t id = flags >> IORING_CQE_BUFFER_SHIFT;
	struct buffer *buffer = &s.buffers[id];
	struct conn *c = &s.conns[slot];
	struct piece piece = { .data = s.slab + (size_t)id * s.buffer_bytes + buffer->filled,
			       .bytes = bytes,
			       .buffer = id };

	buffer->filled += bytes;
	if (s.incremental && (flags & CQE_BUFFER_MORE))
		buffer->users++;
	else
		s.lent--; /* the kernel's share is the piece's now */
	if (c->now.bytes) {
		piece_queue(c, &piece);
		s.sends = 0;
		return;
	}
	c->now = piece;
	send_start(slot, false);
}

static void receive_ended(unsigned slot, int result)
{
	struct conn *c = &s.conns[slot];

	if (result == -ENOBUFS && !s.lent) {
		c->starved_next = s.starved;
		s.starved = c;
	} else if (result > 0 || result == -ENOBUFS) {
		receive_start(slot);
	} else if (c->now.bytes) {
		c->ended = true;
		s.sends = 0;
	} else {
		conn_close(slot);
	}
}

static void complete(const struct io_uring_cqe *cqe)
{
	unsigned slot = (unsigned)(cqe->user_data >> 8);
	enum kind kind = cqe->user_data & 0xff;

	if (kind == KIND_SEND) {
		sent(slot, cqe->res);
	} else if (kind == KIND_RECEIVE) {
		if (cqe->res > 0)
			received(slot, (uint32_t)cqe->res, cqe->flags);
		if (!(cqe->flags & IORING_CQE_F_MORE))
			receive_ended(slot, cqe->res);
	} else {
		if (cqe->res >= 0)
			receive_start((unsigned)cqe->res);
		if (!(cqe->flags & IORING_CQE_F_MORE)) { /* out of slots: until one is closed */
			s.accepting = false;
			if (cqe->res >= 0)
				accept_start();
		}
	}
}

static void turn(void)
{
	unsigned head, count = 0, ready, wait = s.sends + 1;
	struct io_uring_cqe *cqe;
	int result;

	s.sends = 0;
	result = io_uring_submit_and_wait(&s.ring, wait);
	if (result < 0 && result != -EINTR)
		errx(1, "io_uring_enter: %s", strerror(-result));
	ready = io_uring_cq_ready(&s.ring); /* not those of sends that a full queue submits below */
	io_uring_for_each_cqe(&s.ring, head, cqe)
	{
		if (count++ == ready)
			break;
		complete(cqe);
	}
	io_uring_cq_advance(&s.ring, ready);
	buffers_publish();
}

/* ---- Start ---- */

static void *map(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		err(1, "mmap");
	return p;
}

static int buffer_ring_register(bool incremental)
{
	struct io_uring_buf_reg reg = { .ring_addr = (uintptr_t)s.buffer_ring,
					.ring_entries = incremental ? 32 : BUFFERS_MAX,
					.pad = incremental ? BUFFER_INCREMENTAL : 0 };

	s.incremental = incremental;
	s.buffer_count = reg.ring_entries;
	s.buffer_bytes = incremental ? 64 * 1024 : 16 * 1024;
	return io_uring_register_buf_ring(&s.ring, &reg, 0);
}

static void buffers_init(void)
{
	int result;

	s.buffer_ring = map(BUFFERS_MAX * sizeof(struct io_uring_buf));
	result = buffer_ring_register(true);
	if (result < 0)
		result = buffer_ring_register(false);
	if (result < 0)
		errx(77, "no buffer ring: %s", strerror(-result));
	s.slab = map((size_t)s.buffer_count * s.buffer_bytes);
	for (uint32_t i = 0; i < s.buffer_count; i++)
		buffer_give(i);
	buffers_publish();
}

static void ring_init(void)
{
	struct io_uring_params params = { .cq_entries = CQ_ENTRIES,
					  .flags = IORING_SETUP_CQSIZE | IORING_SETUP_SUBMIT_ALL |
						   IORING_SETUP_SINGLE_ISSUER |
						   IORING_SETUP_DEFER_TASKRUN };
	struct rlimit limit = { 0 };
	int result = io_uring_queue_init_params(SQ_ENTRIES, &s.ring, &params);

	if (result < 0)
		errx(77, "no io_uring: %s", strerror(-result));
	io_uring_register_ring_fd(&s.ring);
	getrlimit(RLIMIT_NOFILE, &limit);
	result = io_uring_register_files_sparse(&s.ring,
						(unsigned)MIN(limit.rlim_cur, CONNECTIONS_MAX));
	if (result < 0)
		errx(77, "no registered files: %s", strerror(-result));
}

int main(void)
{
	raise_nofile();
	ring_init();
	buffers_init();
	s.listen_fd = listen_loopback();
	accept_start();
	for (;;)
		turn();
}
