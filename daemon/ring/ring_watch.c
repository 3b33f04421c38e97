/* The accepts and polls of both io_uring engines.  See ring.h. */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "ring.h"

static void ring_watched_arm(struct ring_watched *watched)
{
	struct io_uring_sqe *sqe = ring_sqe(watched->ring);

	io_uring_prep_poll_multishot(sqe, watched->fd, POLLIN);
	ring_op(sqe, &watched->op);
}

static void ring_watched_done(struct op *op, int res, uint32_t flags)
{
	struct ring_watched *watched = container_of(op, struct ring_watched, op);

	if (res == -ECANCELED)
		return;
	watched->target->done(watched->target, 0, 0);
	if (!(flags & IORING_CQE_F_MORE))
		ring_watched_arm(watched);
}

int ring_watch(struct worker *w, int fd, struct op *op)
{
	struct ring *r = ring_of(w);
	struct ring_watched *watched = &r->watched[r->watched_count];

	if (r->watched_count == RING_WATCHED_MAX)
		return -ENOSPC;
	r->watched_count++;
	*watched = (struct ring_watched){
		.op.done = ring_watched_done,
		.ring = r,
		.target = op,
		.fd = fd,
	};
	ring_watched_arm(watched);
	return 0;
}

/* Of several workers that wait on one socket the kernel wakes the first.  A multishot accept would
 * always stay the first, so shared sockets use single ones. */
static void ring_accept_arm(struct acceptor *a)
{
	struct io_uring_sqe *sqe = ring_sqe(ring_of(a->worker));

	if (a->shared || !worker_wants(a->worker, FEATURE_multishot_accept))
		io_uring_prep_accept(sqe, a->fd, NULL, NULL, SOCK_CLOEXEC);
	else
		io_uring_prep_multishot_accept(sqe, a->fd, NULL, NULL, SOCK_CLOEXEC);
	ring_op(sqe, &a->op);
	a->armed++;
}

static void ring_accept_done(struct op *op, int res, uint32_t flags)
{
	struct acceptor *a = container_of(op, struct acceptor, op);

	if (!(flags & IORING_CQE_F_MORE))
		a->armed--;
	if (res != -ECANCELED)
		worker_accepted(a, res, NULL);
	if (!(flags & IORING_CQE_F_MORE) && res != -ECANCELED && a->fd >= 0 && !a->paused)
		ring_accept_arm(a);
}

void ring_listen(struct worker *w, struct acceptor *a, bool on)
{
	a->op.done = ring_accept_done;
	if (on) {
		ring_accept_arm(a);
		return;
	}
	ring_cancel(ring_of(w), &a->op);
}
