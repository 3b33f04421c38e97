/* engine/uring.c: which connection gets the bytes of a completion, and which chunks the kernel
 * has. */
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>

#include "worker_case.h"

#include "registry.h"
#include "uring.h"
#include "uring_compat.h"

enum { RECEIVED = IORING_CQE_F_BUFFER | IORING_CQE_F_MORE };

struct swapped {
	struct call call;
	struct bench *bench;
	sem_t done;
};

static void receive(struct conn *c, unsigned chunk, int bytes)
{
	c->recv_op.done(&c->recv_op, bytes, RECEIVED | (uint32_t)chunk << IORING_CQE_BUFFER_SHIFT);
}

/* Completes two receives into the first two lent chunks, the later one first. */
static void swap(struct call *call)
{
	struct swapped *s = container_of(call, struct swapped, call);
	struct worker *w = &s->bench->worker;
	struct uring *u = w->engine_state;
	struct conn *second = w->conns, *first = second->next;
	unsigned oldest = u->buf_ring->bufs[0].bid, next = u->buf_ring->bufs[1].bid;

	w->pool.chunks[oldest].base[0] = '1';
	w->pool.chunks[next].base[0] = '2';
	receive(second, next, 1);
	receive(first, oldest, 1);
	w->pool_posted += 2; /* the kernel knows nothing of this, and still has both */
	sem_post(&s->done);
}

/* Completes a receive of a bundle of three bytes, the first in a chunk that an earlier bundle has
 * left shorter: Linux 6.10 to 6.15 shorten the last buffer of a bundle in the ring itself. */
static void receive_shortened(struct call *call)
{
	struct swapped *s = container_of(call, struct swapped, call);
	struct worker *w = &s->bench->worker;
	struct uring *u = w->engine_state;
	struct io_uring_buf *bufs = u->buf_ring->bufs;

	bufs[0].len = 1;
	w->pool.chunks[bufs[0].bid].base[0] = '1';
	memcpy(w->pool.chunks[bufs[1].bid].base, "23", 2);
	receive(w->conns, bufs[0].bid, 3);
	w->pool_posted += 2;
	sem_post(&s->done);
}

/* What the clients, one byte each or the only one all, receive after `completes` has run. */
static void answers_are(const char *expected, unsigned clients, void (*completes)(struct call *))
{
	size_t bytes = strlen(expected), each = bytes / clients;
	struct swapped s = { .call.fn = completes };
	char answers[8] = { 0 };
	int fds[2];

	if (!is_here("io_uring"))
		skip();
	s.bench = bench_new(registry_engine("io_uring"), echo());
	/* By calls a first request would be received outside the ring. */
	s.bench->worker.options.features_off =
		FEATURE_BIT(incremental_buffers) | FEATURE_BIT(eager_io);
	worker_begin(&s.bench->worker, listen_at(&s.bench->place), false);
	worker_request(&s.bench->worker, REQUEST_SERVE, 0);
	for (unsigned i = 0; i < clients; i++) {
		fds[i] = client_connect(&s.bench->place);
		while (atomic_load(&s.bench->owner.admitted) <= i)
			sched_yield();
	}
	sem_init(&s.done, 0, 0);
	worker_call(&s.bench->worker, &s.call);
	await(&s.done);
	for (unsigned i = 0; i < clients; i++)
		assert_int_equal(recv(fds[i], answers + i * each, each, MSG_WAITALL), each);
	assert_string_equal(answers, expected);
	for (unsigned i = 0; i < clients; i++)
		close(fds[i]);
	bench_stop(s.bench);
	sem_destroy(&s.done);
}

TEST(completions_in_another_order_swap_no_bytes)
{
	answers_are("12", 2, swap);
}

TEST(a_bundle_continues_behind_a_shortened_buffer)
{
	answers_are("123", 1, receive_shortened);
}

/* ---- Which chunks the kernel has ---- */

enum {
	URGENT = 140, /* more than the attempts after which Linux moves a receive to io-wq (128) */
	WINDOW = 8,   /* bytes in flight: fewer than the segments of TCP's first window */
};

/* Asks the worker for the number of chunks that it counts as posted, and how many the kernel has.
 */
struct posted {
	struct call call;
	struct worker *worker;
	sem_t done;
	int known; /* -errno: Linux before 6.8 does not tell */
	uint32_t counted, held;
};

static void look_at_posted(struct call *call)
{
	struct posted *p = container_of(call, struct posted, call);
	struct uring *u = p->worker->engine_state;
	struct nb_buf_status status = { .buf_group = URING_BUF_GROUP };

	p->known = ring_register(&u->ring, NB_REGISTER_PBUF_STATUS, &status, 1);
	p->counted = p->worker->pool_posted;
	p->held = (uint16_t)(u->buf_ring->tail - status.head);
	sem_post(&p->done);
}

/* The worker has made a turn when this returns. */
static void ask_posted(struct posted *p)
{
	worker_call(p->worker, &p->call);
	await(&p->done);
}

/* Waits until less than the window is in flight: a byte that has to wait in this socket is sent
 * behind a newer urgent one, and so as an ordinary one. */
static void await_window(int fd)
{
	uint64_t end_ns = clock_ns() + TIMEOUT_S * (uint64_t)NS_PER_S;
	int queued;

	while (ioctl(fd, SIOCOUTQ, &queued) == 0 && queued >= WINDOW && clock_ns() < end_ns)
		poll(NULL, 0, 1);
	assert_in_range(queued, 0, WINDOW - 1);
}

/* Each urgent byte wakes the receive, which finds no data.  The kernel gives up waiting for the
 * socket after some of that, and lets a thread of its own receive. */
static void send_urgent(int fd, struct posted *p)
{
	for (unsigned i = 0; i < URGENT; i++) {
		await_window(fd);
		assert_int_equal(send(fd, "u", 1, MSG_OOB), 1);
		ask_posted(p);
	}
}

/* The answer to 'x', behind those to the urgent bytes that the kernel has made ordinary ones. */
static void echo_x(int fd)
{
	char in = 0;

	assert_int_equal(send(fd, "x", 1, MSG_NOSIGNAL), 1);
	while (in != 'x')
		assert_int_equal(recv(fd, &in, 1, 0), 1);
}

static void urgent_bytes_take_no_chunks(uint64_t features_off)
{
	struct posted p = { .call.fn = look_at_posted };
	struct bench *b;
	int fd, on = 1;

	if (!is_here("io_uring"))
		skip();
	b = bench_new(registry_engine("io_uring"), echo());
	/* `restricted` refuses the question for the kernel's count. */
	b->worker.options.features_off = FEATURE_BIT(restricted) | features_off;
	worker_begin(&b->worker, listen_at(&b->place), false);
	worker_request(&b->worker, REQUEST_SERVE, 0);
	p.worker = &b->worker;
	sem_init(&p.done, 0, 0);
	fd = client_connect(&b->place);
	/* Only the last byte of a segment is urgent. */
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	echo_x(fd);
	ask_posted(&p);
	if (p.known == 0) {
		assert_int_equal(p.counted, p.held);
		send_urgent(fd, &p);
		assert_int_equal(p.counted, p.held); /* while the client is silent, too */
		echo_x(fd);
		ask_posted(&p);
		assert_int_equal(p.counted, p.held);
	}
	close(fd);
	bench_stop(b);
	sem_destroy(&p.done);
	if (p.known < 0)
		skip();
}

TEST(urgent_bytes_take_no_chunks_of_multishot_receives)
{
	urgent_bytes_take_no_chunks(0);
}

TEST(urgent_bytes_take_no_chunks_of_single_receives)
{
	urgent_bytes_take_no_chunks(FEATURE_BIT(multishot_recv));
	urgent_bytes_take_no_chunks(FEATURE_BIT(multishot_recv) | FEATURE_BIT(recv_bundle));
}
