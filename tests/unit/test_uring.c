/* engine/uring.c: which connection gets the bytes of a completion. */
#include "worker_case.h"

#include "registry.h"
#include "uring.h"

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
	unsigned oldest = u->buf_ring->bufs[0].bid, next = u->after[oldest];

	assert_int_equal(next, u->buf_ring->bufs[1].bid);
	w->pool.chunks[oldest].base[0] = '1';
	w->pool.chunks[next].base[0] = '2';
	receive(second, next, 1);
	receive(first, oldest, 1);
	sem_post(&s->done);
}

static void completions_in_another_order_swap_no_bytes(void **state)
{
	const struct engine *uring = engine_find("io_uring");
	struct swapped s = { .call.fn = swap };
	char answers[2] = { 0 };
	int fds[2];

	(void)state;
	if (!is_here("io_uring"))
		skip();
	s.bench = bench_new(uring, echo());
	/* By calls a first request would be received outside the ring. */
	s.bench->worker.options.features_off =
		FEATURE_BIT(incremental_buffers) | FEATURE_BIT(eager_io);
	worker_begin(&s.bench->worker, listen_at(&s.bench->place), false);
	worker_request(&s.bench->worker, REQUEST_LISTEN, 0);
	for (unsigned i = 0; i < 2; i++) {
		fds[i] = client_connect(&s.bench->place);
		while (atomic_load(&s.bench->owner.admitted) <= i)
			sched_yield();
	}
	sem_init(&s.done, 0, 0);
	worker_call(&s.bench->worker, &s.call);
	await(&s.done);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(recv(fds[i], &answers[i], 1, 0), 1);
	assert_memory_equal(answers, "12", 2);
	for (unsigned i = 0; i < 2; i++)
		close(fds[i]);
	bench_stop(s.bench);
	sem_destroy(&s.done);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(completions_in_another_order_swap_no_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
