/* Transport `udp`: batches of datagrams to be sent.  See udp.h. */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "conn_op.h"
#include "udp.h"

/* A message of GSO is cut into datagrams of equal length, the last of which may be shorter: so a
 * shorter view ends the run. */
unsigned udp_run(const struct view *v, unsigned max, size_t *ret_bytes)
{
	uint32_t size = v->len;
	size_t bytes = size;
	unsigned n = 1;

	for (v = v->next; size && v && n < MIN(max, (unsigned)UDP_SEGMENTS) && v->len &&
			  v->len <= size && bytes + v->len <= UDP_BYTES;
	     v = v->next) {
		bytes += v->len;
		n++;
		if (v->len < size)
			break;
	}
	*ret_bytes = bytes;
	return n;
}

/* ---- Control data ---- */

static void control_add(struct msghdr *msg, int level, int type, const void *data, size_t bytes)
{
	struct cmsghdr *c = (void *)((char *)msg->msg_control + msg->msg_controllen);

	c->cmsg_level = level;
	c->cmsg_type = type;
	c->cmsg_len = CMSG_LEN(bytes);
	memcpy(CMSG_DATA(c), data, bytes);
	msg->msg_controllen += CMSG_SPACE(bytes);
}

/* Sets the source address to the one that the client sent to.  The route chooses the interface,
 * except for link-local addresses, which are ambiguous without one. */
static void control_from(struct msghdr *msg, const struct udp_peer *peer)
{
	struct in6_pktinfo six = { .ipi6_addr = peer->from };
	struct in_pktinfo four = { 0 };

	if (peer->to.sa.sa_family == AF_INET6) {
		if (IN6_IS_ADDR_LINKLOCAL(&peer->from))
			six.ipi6_ifindex = peer->to.in6.sin6_scope_id;
		control_add(msg, IPPROTO_IPV6, IPV6_PKTINFO, &six, sizeof(six));
	} else {
		memcpy(&four.ipi_spec_dst, &peer->from, sizeof(four.ipi_spec_dst));
		control_add(msg, IPPROTO_IP, IP_PKTINFO, &four, sizeof(four));
	}
}

/* Sets the traffic class, which the socket's clients may want different values of. */
static void control_class(struct msghdr *msg, const struct udp_peer *peer, int value)
{
	bool six =
		peer->to.sa.sa_family == AF_INET6 && !IN6_IS_ADDR_V4MAPPED(&peer->to.in6.sin6_addr);

	control_add(msg, six ? IPPROTO_IPV6 : IPPROTO_IP, six ? IPV6_TCLASS : IP_TOS, &value,
		    sizeof(value));
}

static void batch_control(struct udp_batch *b, unsigned i, const struct udp_peer *peer,
			  unsigned views, size_t first)
{
	struct msghdr *msg = &b->messages[i].msg_hdr;
	uint16_t size = (uint16_t)first;

	msg->msg_control = b->control[i];
	msg->msg_controllen = 0;
	if (peer->socket->pktinfo)
		control_from(msg, peer);
	if (unlikely(peer->peer.conn->traffic_class))
		control_class(msg, peer, peer->peer.conn->traffic_class);
	if (views > 1)
		control_add(msg, SOL_UDP, UDP_SEGMENT, &size, sizeof(size));
	if (!msg->msg_controllen)
		msg->msg_control = NULL;
}

/* ---- Batches ---- */

/* Drops output to an unverified address beyond the number of bytes received from it, whatever the
 * service does, so that forged datagrams cannot use us to amplify an attack. */
static void withhold(struct conn *c)
{
	struct worker *w = c->worker;
	uint64_t may = c->bytes_in - MIN(c->bytes_out, c->bytes_in);
	struct bufq keep = { 0 };

	if (likely((c->flags & CONN_TRUSTED) || c->tx.bytes <= may))
		return;
	while (c->tx.head && c->tx.head->len <= may) {
		may -= c->tx.head->len;
		bufq_move_view(&keep, &c->tx);
	}
	stat_add(w->stats.datagrams_withheld, c->tx.views);
	bufq_clear(&w->pool, &c->tx);
	c->tx = keep;
	if (!c->tx.head)
		conn_op_end(c);
}

/* Adds a message of v and the views behind it; returns the number of views used. */
static unsigned batch_add(struct udp_batch *b, struct udp_peer *peer, const struct view *v)
{
	struct msghdr *msg = &b->messages[b->count].msg_hdr;
	size_t bytes = v->len;
	unsigned views = 1;

	if (v->next && peer->gso && peer->socket->gso)
		views = udp_run(v, UDP_VIEWS - b->views, &bytes);
	*msg = (struct msghdr){
		.msg_name = &peer->to,
		.msg_namelen = peer->to_bytes,
		.msg_iov = &b->iov[b->views],
		.msg_iovlen = views,
	};
	batch_control(b, b->count, peer, views, v->len);
	for (unsigned i = 0; i < views; i++, v = v->next)
		b->iov[b->views++] = (struct iovec){ v->data, v->len };
	b->peers[b->count++] = peer;
	return views;
}

void udp_batch_fill(struct udp_socket *s, struct udp_batch *b)
{
	b->count = b->views = 0;
	for (struct udp_peer *peer = s->out; peer; peer = peer->out_next) {
		const struct view *v;

		withhold(peer->peer.conn);
		for (v = peer->peer.conn->tx.head; v;) {
			unsigned views;

			if (b->count == UDP_SENDS || b->views == UDP_VIEWS)
				return;
			views = batch_add(b, peer, v);
			while (views-- > 0)
				v = v->next;
		}
	}
}

/* Removes peers without output from the queue's head; the first messages of a batch always belong
 * to the first peers in the queue. */
static void leave_queue(struct udp_socket *s)
{
	while (s->out && !s->out->peer.conn->tx.head) {
		s->out->queued = false;
		s->out = s->out->out_next;
	}
	if (!s->out)
		s->out_tail = &s->out;
}

/* True: the message of several datagrams (GSO) was refused and is to be retried as single ones. */
static bool split(struct udp_peer *peer, size_t views, int error)
{
	if (views == 1)
		return false;
	if (error == EIO)
		peer->socket->gso = false;
	else if (error == EINVAL || error == EMSGSIZE)
		peer->gso = false;
	else
		return false;
	return true;
}

bool udp_batch_sent(struct udp_socket *s, struct udp_batch *b, unsigned begin, unsigned end,
		    int error, uint64_t sent_ns)
{
	bool more = true;

	for (unsigned i = begin; i < end; i++) {
		struct conn *c = b->peers[i]->peer.conn;
		size_t views = b->messages[i].msg_hdr.msg_iovlen;

		if (unlikely(error) && split(b->peers[i], views, error)) {
			more = false;
			break;
		}
		if (views > 1 && !error)
			stat_add(c->worker->stats.datagrams_split, views);
		conn_sent_messages(c, &c->tx, views, !error, sent_ns);
	}
	leave_queue(s);
	return more;
}

void udp_block(struct udp_socket *s)
{
	if (s->blocked)
		return;
	stat_add(s->udp->worker->stats.tx_blocked, 1);
	s->blocked = true;
	udp_set_interest(s);
}

void udp_room(struct udp_socket *s)
{
	s->blocked = false;
	udp_set_interest(s);
}

static void ring_room(struct op *op, int ready, uint32_t flags)
{
	struct udp_socket *s = container_of(op, struct udp_socket, out_op);

	(void)flags;
	s->room_polled = false;
	if (s->awaits_room && ready != -ECANCELED)
		udp_room(s);
	else
		udp_ring_watch_room(s);
}

void udp_ring_watch_room(struct udp_socket *s)
{
	struct io_uring_sqe *sqe;

	if (s->awaits_room == s->room_polled)
		return;
	if (!s->awaits_room) { /* the request would hold the socket when it is closed */
		ring_cancel(&s->udp->ring, &s->out_op);
		return;
	}
	s->room_polled = true;
	s->out_op.done = ring_room;
	sqe = ring_sqe(&s->udp->ring);
	io_uring_prep_poll_add(sqe, s->acceptor->fd, POLLOUT);
	ring_op(sqe, &s->out_op);
}
