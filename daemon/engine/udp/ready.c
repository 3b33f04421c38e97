/* Transport `udp` on readiness engines: recvmmsg() and sendmmsg().  Its chunks stay with the
 * receiver until a connection keeps data in them.  Worker's thread.  See udp.h. */
#include <errno.h>
#include <stdlib.h>

#include "syscall.h"
#include "udp.h"

/* Buffers for one recvmmsg(), shared by all sockets of a worker. */
struct udp_receiver {
	unsigned max;
	unsigned ready;                     /* messages before this one have a chunk */
	struct chunk *chunks[UDP_RECEIVES]; /* NULL: allocated by the next call */
	struct mmsghdr messages[UDP_RECEIVES];
	struct iovec iov[UDP_RECEIVES];
	struct sockaddr_in6 names[UDP_RECEIVES];
	char control[UDP_RECEIVES][UDP_CONTROL] __attribute__((aligned(8)));
};

struct udp_receiver *udp_receiver_new(const struct worker *w)
{
	struct udp_receiver *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->max = MAX(MIN((unsigned)UDP_RECEIVES, w->pool.keep), 1U);
	for (unsigned i = 0; i < UDP_RECEIVES; i++)
		r->messages[i].msg_hdr = (struct msghdr){ .msg_name = &r->names[i],
							  .msg_namelen = sizeof(r->names[i]),
							  .msg_iov = &r->iov[i],
							  .msg_iovlen = 1,
							  .msg_control = r->control[i],
							  .msg_controllen = UDP_CONTROL };
	return r;
}

void udp_receiver_free(struct udp_receiver *r, struct worker *w)
{
	for (unsigned i = 0; r && i < UDP_RECEIVES; i++)
		if (r->chunks[i])
			chunk_put(&w->pool, r->chunks[i]);
	free(r);
}

/* Prepares the buffers; returns the number of datagrams for which there is memory. */
static unsigned receiver_prepare(struct udp_receiver *r, const struct udp_socket *s)
{
	struct pool *p = &s->udp->worker->pool;

	for (; r->ready < r->max; r->ready++) {
		unsigned n = r->ready;

		if (r->chunks[n])
			continue;
		if (p->free_count <= p->keep)
			break;
		r->chunks[n] = chunk_get(p);
		s->udp->worker->pool_posted++;
		r->iov[n] = (struct iovec){ r->chunks[n]->base, p->chunk_size };
	}
	return r->ready;
}

/* Passes a datagram on.  If it was consumed at once its chunk is used again, still in the cache;
 * else the next call gets a new one. */
static void receiver_take(struct udp_receiver *r, unsigned i, struct udp_socket *s)
{
	struct pool *p = &s->udp->worker->pool;
	struct msghdr *msg = &r->messages[i].msg_hdr;
	struct udp_datagram d = {
		.name = msg->msg_name,
		.name_bytes = msg->msg_namelen,
		.flags = msg->msg_flags,
		.msg = msg,
		.chunk = r->chunks[i],
		.data = r->chunks[i]->base,
		.bytes = r->messages[i].msg_len,
	};

	udp_arrived(s, &d);
	msg->msg_namelen = sizeof(r->names[i]);
	msg->msg_controllen = UDP_CONTROL;
	if (r->chunks[i]->refs > 1) { /* a connection still holds data in it */
		chunk_put(p, r->chunks[i]);
		r->chunks[i] = NULL;
		r->ready = MIN(r->ready, i);
		s->udp->worker->pool_posted--;
	}
}

/* Receives by at most UDP_CALLS calls, so that a socket under load does not keep the turn. */
unsigned udp_ready_receive(struct udp_receiver *r, struct udp_socket *s)
{
	struct worker *w = s->udp->worker;
	unsigned received = 0;

	s->udp->now_ns = clock_coarse_ns();
	for (unsigned call = 0; call < UDP_CALLS && s->armed; call++) {
		unsigned max = receiver_prepare(r, s);
		long n;

		if (max == 0) {
			stat_add(w->stats.starved, 1);
			s->starved = true;
			udp_set_interest(s);
			break;
		}
		stat_add(w->stats.sys_recv, 1);
		n = syscall6(SYS_recvmmsg, s->acceptor->fd, (long)r->messages, max, MSG_DONTWAIT, 0,
			     0);
		for (long i = 0; i < n; i++)
			receiver_take(r, (unsigned)i, s);
		received += (unsigned)MAX(n, 0);
		if (n < (long)max && n != -EINTR)
			break;
	}
	return received;
}

/* Sends messages of b from *at on, as many as the kernel takes, or skips one that it refuses.
 * False: the kernel takes no more. */
static bool send_some(struct udp_socket *s, struct udp_batch *b, unsigned *at)
{
	struct worker *w = s->udp->worker;
	struct msghdr *msg = &b->messages[*at].msg_hdr;
	unsigned left = b->count - *at;
	long n;

	stat_add(w->stats.sys_send, 1);
	if (left > 1)
		n = syscall6(SYS_sendmmsg, s->acceptor->fd, (long)&b->messages[*at], left,
			     MSG_DONTWAIT | MSG_NOSIGNAL, 0, 0);
	else if (msg->msg_control || msg->msg_iovlen > 1)
		n = syscall6(SYS_sendmsg, s->acceptor->fd, (long)msg, MSG_DONTWAIT | MSG_NOSIGNAL,
			     0, 0, 0);
	else
		n = syscall6(SYS_sendto, s->acceptor->fd, (long)msg->msg_iov->iov_base,
			     (long)msg->msg_iov->iov_len, MSG_DONTWAIT | MSG_NOSIGNAL,
			     (long)msg->msg_name, msg->msg_namelen);
	if (left == 1 && n >= 0)
		n = 1;
	if (n == -EINTR)
		return true;
	if (n < 0 && udp_is_full((int)-n))
		return false;
	if (udp_batch_sent(s, b, *at, *at + (unsigned)MAX(n, 1), n < 0 ? (int)-n : 0,
			   w->turn.timing ? clock_ns() : 0))
		*at += (unsigned)MAX(n, 1);
	else
		*at = b->count;
	return true;
}

static void send_all(struct udp_socket *s, struct udp_batch *b)
{
	while (s->out && !s->blocked) {
		unsigned at = 0;

		udp_batch_fill(s, b);
		while (at < b->count && !s->blocked)
			if (!send_some(s, b, &at))
				udp_block(s);
		if (b->count == 0)
			udp_batch_sent(s, b, 0, 0, 0, 0);
	}
}

bool udp_ready_send(struct worker_hook *hook)
{
	struct udp *u = container_of(hook, struct udp, hook);

	for (unsigned i = 0; i < u->count; i++) {
		struct udp_socket *s = &u->sockets[i];

		if (s->out)
			send_all(s, &u->batch);
		if (s->starved)
			s->starved = pool_is_short(&u->worker->pool);
		udp_set_interest(s);
	}
	return false;
}
