/* Non-blocking accept, recv and send for the readiness engines.  See readiness.h. */
#include "readiness.h"

#include <errno.h>
#include <sys/socket.h>

#include "bulk.h"
#include "conn.h"
#include "syscall.h"
#include "worker.h"

/* How many chunks the next receive may fill, as flags of conn->flags; raised when the last receive
 * filled all its chunks.  Draining a socket in small pieces would keep its sender's window nearly
 * closed.  Then each acknowledgement makes the kernel transmit the next piece; for a sender on this
 * host this costs CPU time of this worker. */
enum {
	CONN_WIDE = READINESS_FLAGS << 0,
	CONN_WIDEST = READINESS_FLAGS << 1,
	READINESS_WIDE_BYTES = 64 * 1024, /* bytes: the most that TCP delivers in one piece */
};

/* The receive and send functions below return the number of bytes, or -errno. */
static inline ssize_t recv_now(int fd, void *data, size_t bytes)
{
	return syscall6(SYS_recvfrom, fd, (long)data, (long)bytes, MSG_DONTWAIT, 0, 0);
}

static inline ssize_t send_now(int fd, const void *data, size_t bytes)
{
	return syscall6(SYS_sendto, fd, (long)data, (long)bytes, MSG_DONTWAIT | MSG_NOSIGNAL, 0, 0);
}

/* Receives into one chunk. */
__attribute__((always_inline)) static inline ssize_t recv_one(struct conn *c)
{
	struct pool *p = &c->worker->pool;
	struct chunk *k = chunk_get(p);
	ssize_t n;

	stat_add(c->worker->stats.sys_recv, 1);
	n = recv_now(c->fd, k->base, p->chunk_size);
	if (likely(n > 0))
		conn_input(c, k, k->base, (uint32_t)n);
	chunk_put(p, k);
	return n;
}

/* Receives into the reserve, while chunks are short; *ret_room: bytes of its view. */
__attribute__((noinline)) static ssize_t recv_reserve(struct conn *c, size_t *ret_room)
{
	struct view *v = conn_reserve(c);
	ssize_t n;

	if (!v)
		return -ENOBUFS;
	*ret_room = v->len;
	stat_add(c->worker->stats.sys_recv, 1);
	n = recv_now(c->fd, v->data, v->len);
	conn_reserve_used(c, v, (size_t)MAX(n, 0));
	return n;
}

/* Receives into several chunks, of max_bytes in all or one chunk. */
__attribute__((noinline)) static ssize_t recv_wide(struct conn *c, size_t max_bytes,
						   size_t *ret_room)
{
	struct pool *p = &c->worker->pool;
	struct chunk *chunks[READINESS_CHUNKS];
	struct iovec iov[READINESS_CHUNKS];
	struct msghdr msg = { .msg_iov = iov };
	size_t max =
		c->flags & CONN_WIDEST ? READINESS_CHUNKS : READINESS_WIDE_BYTES / p->chunk_size;
	/* A bulk receiver drops all its data when it runs, so it may receive more at once. */
	size_t hold =
		c->worker->limits.held_max * ((c->flags & CONN_BULK) && c->rx.bytes == 0 ? 2 : 1);
	unsigned count = 0;
	ssize_t n, left;

	max = MAX(MIN(max, MIN(hold, max_bytes) / p->chunk_size), 1);
	while (count < max && conn_may_receive(c)) {
		chunks[count] = chunk_get(p);
		iov[count] = (struct iovec){ chunks[count]->base, p->chunk_size };
		count++;
	}
	msg.msg_iovlen = count;
	*ret_room = (size_t)count * p->chunk_size;
	stat_add(c->worker->stats.sys_recv, 1);
	n = recvmsg(c->fd, &msg, MSG_DONTWAIT | (c->flags & CONN_DROPS ? MSG_TRUNC : 0));
	if (n < 0)
		n = -errno;
	left = n;
	for (unsigned i = 0; i < count; i++) {
		if (left > 0)
			conn_input(c, chunks[i], chunks[i]->base,
				   (uint32_t)MIN(left, (ssize_t)p->chunk_size));
		left -= (ssize_t)p->chunk_size;
		chunk_put(p, chunks[i]);
	}
	return n;
}

/* Adapts the number of chunks after a receive of `bytes` into `room`: one step wider if it filled
 * all of them, narrower if fewer would have been enough. */
static inline void recv_adapt(struct conn *c, size_t bytes, size_t room)
{
	size_t chunk_size = c->worker->pool.chunk_size;

	if (bytes < chunk_size)
		c->flags &= ~(uint32_t)(CONN_WIDE | CONN_WIDEST);
	else if (bytes == room)
		c->flags |= c->flags & CONN_WIDE ? CONN_WIDEST : CONN_WIDE;
	else if (bytes < READINESS_WIDE_BYTES)
		c->flags &= ~(uint32_t)CONN_WIDEST;
}

/* Receives into one chunk, several, or the reserve. */
static inline ssize_t recv_next(struct conn *c, size_t max_bytes, size_t *ret_room)
{
	if (unlikely(!conn_may_receive(c)))
		return recv_reserve(c, ret_room);
	if (c->flags & (CONN_WIDE | CONN_DROPS))
		return recv_wide(c, max_bytes, ret_room);
	*ret_room = c->worker->pool.chunk_size;
	return recv_one(c);
}

/* Handles a receive of n bytes (or -errno) into `room`, and receives
 * further, `left` bytes in all. */
__attribute__((noinline)) static enum readiness recv_more(struct conn *c, bool to_eagain, ssize_t n,
							  size_t room, size_t left)
{
	for (unsigned i = 1; n > 0 || n == -EINTR; i++) {
		if (n > 0) {
			left -= MIN(left, (size_t)n);
			recv_adapt(c, (size_t)n, room);
			if ((size_t)n < room && !to_eagain)
				return READINESS_DRAINED;
		}
		if (i == READINESS_READS || left == 0 || conn_is_full(c) ||
		    room < c->worker->pool.chunk_size)
			return READINESS_MORE;
		n = recv_next(c, left, &room);
	}
	if (n == -EAGAIN)
		return READINESS_DRAINED;
	if (n == 0)
		conn_eof(c);
	else if (n == -ENOBUFS)
		conn_wait_to_receive(c);
	else
		conn_failed(c, (int)-n);
	return READINESS_ENDED;
}

__attribute__((noinline)) static enum readiness recv_much(struct conn *c, bool to_eagain)
{
	size_t room = c->worker->pool.chunk_size;
	size_t share = c->flags & CONN_BULK ? bulk_share(c) : worker_share(c->worker);
	uint64_t before = c->bytes_in;
	enum readiness result;
	ssize_t n;

	if (share == 0)
		return READINESS_MORE;
	n = recv_next(c, share, &room);
	result = recv_more(c, to_eagain, n, room, share);
	if (c->flags & CONN_BULK)
		bulk_received(c, c->bytes_in - before);
	return result;
}

enum readiness readiness_recv(struct conn *c, bool to_eagain)
{
	size_t room = c->worker->pool.chunk_size;
	ssize_t n;

	if (unlikely((c->flags & (CONN_WIDE | CONN_BULK | CONN_DROPS)) || !conn_may_receive(c)))
		return recv_much(c, to_eagain);
	n = recv_one(c);
	if (likely(n > 0 && (size_t)n < room && !to_eagain))
		return READINESS_DRAINED;
	return recv_more(c, to_eagain, n, room, worker_share(c->worker));
}

/* Sends several views; *ret_bytes: the bytes offered to the kernel. */
__attribute__((noinline)) static ssize_t send_many(struct conn *c, size_t *ret_bytes)
{
	struct iovec iov[READINESS_IOV];
	struct msghdr msg = { .msg_iov = iov };
	ssize_t n;

	msg.msg_iovlen = bufq_iov(&c->tx, iov, MIN(READINESS_IOV, worker_share_chunks(c->worker)),
				  ret_bytes);
	stat_add(c->worker->stats.sys_send, 1);
	n = sendmsg(c->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
	return n < 0 ? -errno : n;
}

/* Handles the result n (bytes or -errno) of a send of `bytes`, 0 if there was none
 * yet, and sends the rest. */
__attribute__((noinline)) static bool send_more(struct conn *c, ssize_t n, size_t bytes)
{
	size_t left = worker_share(c->worker);

	for (;;) {
		if (n < 0 && n != -EAGAIN && n != -EINTR) {
			conn_failed(c, (int)-n);
			return false;
		}
		if (n > 0)
			conn_sent(c, &c->tx, (size_t)n, 0);
		if (n < (ssize_t)bytes && n != -EINTR) {
			stat_add(c->worker->stats.tx_blocked, 1);
			return false;
		}
		left -= MIN(left, (size_t)MAX(n, 0));
		if (left == 0 && c->tx.bytes) /* the rest is sent in the next turn */
			conn_ready(c);
		if (left == 0 || c->tx.bytes == 0)
			return true;
		n = send_many(c, &bytes);
	}
}

bool readiness_send(struct conn *c)
{
	const struct view *v = c->tx.head;
	size_t bytes = v->len;
	ssize_t n;

	if (unlikely(v->next))
		return send_more(c, 0, 0);
	stat_add(c->worker->stats.sys_send, 1);
	n = send_now(c->fd, v->data, bytes);
	if (unlikely(n != (ssize_t)bytes))
		return send_more(c, n, bytes);
	conn_sent(c, &c->tx, bytes, 0);
	return true;
}

bool readiness_accept(struct acceptor *a)
{
	unsigned max = a->shared ? 1 : MIN(MAX(a->worker->turn.ran, 1U), READINESS_ACCEPTS);
	bool by_address = (a->worker->service->flags & SERVICE_WANTS_ADDRESS);

	for (unsigned i = 0; i < max && a->fd >= 0 && !a->paused; i++) {
		struct sockaddr_storage peer;
		socklen_t len = sizeof(peer);
		struct sockaddr *sa = by_address ? (struct sockaddr *)&peer : NULL;
		int fd = accept4(a->fd, sa, sa ? &len : NULL, SOCK_CLOEXEC);

		stat_add(a->worker->stats.sys_accept, 1);
		if (fd < 0 && errno == EAGAIN)
			return false;
		worker_accept_done(a, fd < 0 ? -errno : fd, sa ? &peer : NULL);
	}
	return a->fd >= 0 && !a->paused;
}
