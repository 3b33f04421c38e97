/* Non-blocking accept, recv and send for the readiness engines.  See readiness.h. */
#include "readiness.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "conn.h"
#include "worker.h"

/* How many chunks the next receive may fill: more when the last one filled all it was given.  A
 * sender whose window is seldom opened, but wide, is not sent for by our acknowledgements: many
 * small ones make this thread's kernel time do its transmissions. */
enum {
	CONN_WIDE = CONN_ENGINE << 7,
	CONN_WIDEST = CONN_ENGINE << 8,
	READINESS_CHUNKS_WIDE = 8,
};

/* recv() and send() of libc are cancellation points, which cost each call some 50 instructions. */
static inline ssize_t recv_now(int fd, void *data, size_t bytes)
{
	return syscall(SYS_recvfrom, fd, data, bytes, MSG_DONTWAIT, NULL, NULL);
}

static inline ssize_t send_now(int fd, const void *data, size_t bytes)
{
	return syscall(SYS_sendto, fd, data, bytes, MSG_DONTWAIT | MSG_NOSIGNAL, NULL, 0);
}

/* Both return the bytes, or -errno; *ret_room: what they could have taken. */
static inline ssize_t recv_one(struct conn *c, size_t *ret_room)
{
	struct pool *p = &c->worker->pool;
	struct chunk *k;
	ssize_t n;

	if (p->free_count <= p->keep)
		return -ENOBUFS;
	k = chunk_get(p);
	*ret_room = p->chunk_size;
	stat_add(c->worker->stats.sys_recv, 1);
	n = recv_now(c->fd, k->base, p->chunk_size);
	if (n > 0)
		conn_input(c, k, k->base, (uint32_t)n);
	else if (n < 0)
		n = -errno;
	chunk_put(p, k);
	return n;
}

__attribute__((noinline)) static ssize_t recv_wide(struct conn *c, size_t *ret_room)
{
	struct pool *p = &c->worker->pool;
	struct chunk *chunks[READINESS_CHUNKS];
	struct iovec iov[READINESS_CHUNKS];
	struct msghdr msg = { .msg_iov = iov };
	size_t max = c->flags & CONN_WIDEST ? READINESS_CHUNKS : READINESS_CHUNKS_WIDE;
	unsigned count = 0;
	ssize_t n, left;

	max = MIN(max, MAX(c->worker->held_max / p->chunk_size, 1));
	while (count < max && p->free_count > p->keep) {
		chunks[count] = chunk_get(p);
		iov[count] = (struct iovec){ chunks[count]->base, p->chunk_size };
		count++;
	}
	if (count == 0)
		return -ENOBUFS;
	msg.msg_iovlen = count;
	*ret_room = (size_t)count * p->chunk_size;
	stat_add(c->worker->stats.sys_recv, 1);
	n = recvmsg(c->fd, &msg, MSG_DONTWAIT);
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

/* After a receive of `bytes` into `room`. */
static inline void recv_adapt(struct conn *c, size_t bytes, size_t room)
{
	size_t chunk_size = c->worker->pool.chunk_size;

	if (likely(bytes < chunk_size)) {
		if (unlikely(c->flags & CONN_WIDE))
			c->flags &= ~(uint32_t)(CONN_WIDE | CONN_WIDEST);
	} else if (bytes == room) {
		c->flags |= c->flags & CONN_WIDE ? CONN_WIDEST : CONN_WIDE;
	} else if (bytes < READINESS_CHUNKS_WIDE * chunk_size) {
		c->flags &= ~(uint32_t)CONN_WIDEST;
	}
}

enum readiness readiness_recv(struct conn *c, bool to_eagain)
{
	for (unsigned i = 0; i < READINESS_READS; i++) {
		size_t room = 0;
		ssize_t n = c->flags & CONN_WIDE ? recv_wide(c, &room) : recv_one(c, &room);

		if (n > 0) {
			recv_adapt(c, (size_t)n, room);
			if ((size_t)n < room && !to_eagain)
				return READINESS_DRAINED;
			if (c->rx.bytes > c->worker->held_max)
				return READINESS_MORE;
			continue;
		}
		if (n == -EAGAIN)
			return READINESS_DRAINED;
		if (n == -EINTR)
			continue;
		if (n == 0)
			conn_eof(c);
		else if (n == -ENOBUFS)
			conn_starved_input(c);
		else
			conn_failed(c, (int)-n);
		return READINESS_ENDED;
	}
	return READINESS_MORE;
}

/* Both return the bytes taken, or -errno; *ret_bytes: what the kernel was given. */
static inline ssize_t send_one(struct conn *c, size_t *ret_bytes)
{
	ssize_t n = send_now(c->fd, c->tx.head->data, c->tx.head->len);

	*ret_bytes = c->tx.head->len;
	return n < 0 ? -errno : n;
}

__attribute__((noinline)) static ssize_t send_many(struct conn *c, size_t *ret_bytes)
{
	struct iovec iov[READINESS_IOV];
	struct msghdr msg = { .msg_iov = iov };
	ssize_t n;

	msg.msg_iovlen = bufq_iov(&c->tx, iov, READINESS_IOV, ret_bytes);
	n = sendmsg(c->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
	return n < 0 ? -errno : n;
}

bool readiness_send(struct conn *c)
{
	while (c->tx.bytes > 0) {
		size_t bytes;
		ssize_t n = c->tx.head->next ? send_many(c, &bytes) : send_one(c, &bytes);

		stat_add(c->worker->stats.sys_send, 1);
		if (n == -EINTR)
			continue;
		if (n < 0 && n != -EAGAIN) {
			conn_failed(c, (int)-n);
			return false;
		}
		if (n > 0)
			conn_sent(c, &c->tx, (size_t)n, 0);
		if (n < (ssize_t)bytes) {
			stat_add(c->worker->stats.tx_blocked, 1);
			return false;
		}
	}
	return true;
}

bool readiness_accept(struct acceptor *a)
{
	for (unsigned i = 0; i < READINESS_ACCEPTS && a->fd >= 0 && !a->paused; i++) {
		int fd = accept4(a->fd, NULL, NULL, SOCK_CLOEXEC);

		stat_add(a->worker->stats.sys_accept, 1);
		if (fd < 0 && errno == EAGAIN)
			return false;
		worker_accepted(a, fd < 0 ? -errno : fd);
	}
	return a->fd >= 0 && !a->paused;
}
