/* Transport `udp`: sockets, clients, and received datagrams.  See udp.h. */
#include "udp.h"

#include <errno.h>
#include <linux/sock_diag.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conn_op.h"
#include "sockaddr.h"

/* ---- Sending: batches of datagrams ---- */

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
static void drop_amplification(struct conn *c)
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

		drop_amplification(peer->peer.conn);
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
static void queue_drop_empty(struct udp_socket *s)
{
	while (s->out && !s->out->peer.conn->tx.head) {
		s->out->queued = false;
		s->out = s->out->out_next;
	}
	if (!s->out)
		s->out_tail = &s->out;
}

/* True: the message of several datagrams (GSO) was refused and is to be retried as single ones. */
static bool retry_unsegmented(struct udp_peer *peer, size_t views, int error)
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

		if (unlikely(error) && retry_unsegmented(b->peers[i], views, error)) {
			more = false;
			break;
		}
		if (views > 1 && !error)
			stat_add(c->worker->stats.datagrams_split, views);
		conn_sent_messages(c, &c->tx, views, !error, sent_ns);
	}
	queue_drop_empty(s);
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

void udp_writable(struct udp_socket *s)
{
	s->blocked = false;
	udp_set_interest(s);
}

static void ring_writable(struct op *op, int ready, uint32_t flags)
{
	struct udp_socket *s = container_of(op, struct udp_socket, out_op);

	(void)flags;
	s->polled_out = false;
	if (s->want_out && ready != -ECANCELED)
		udp_writable(s);
	else
		udp_ring_poll_out(s);
}

void udp_ring_poll_out(struct udp_socket *s)
{
	struct io_uring_sqe *sqe;

	if (s->want_out == s->polled_out)
		return;
	if (!s->want_out) { /* the request would hold the socket when it is closed */
		ring_cancel(&s->udp->ring, &s->out_op);
		return;
	}
	s->polled_out = true;
	s->out_op.done = ring_writable;
	sqe = ring_sqe(&s->udp->ring);
	io_uring_prep_poll_add(sqe, s->acceptor->fd, POLLOUT);
	ring_op(sqe, &s->out_op);
}

/* ---- Addresses that are not answered ---- */

/* Ports of services that answer any datagram: echo, daytime, quote, chargen, time, DNS, TFTP,
 * portmapper, NTP, NetBIOS, SNMP, LDAP, RIP, SSDP, mDNS, memcached.  Port 0 cannot be a
 * destination. */
static const uint16_t udp_reflectors[] = { 0,   7,   13,  17,  19,  37,   53,   69,   111,
					   123, 137, 161, 389, 520, 1900, 5353, 11211 };

/* For each port, the number of this process's sockets that use it.  The address does not matter: an
 * nbserved on another host has the same default ports. */
static _Atomic uint16_t udp_ports[UINT16_MAX + 1];

void udp_port_taken(uint16_t port, bool taken)
{
	atomic_fetch_add_explicit(&udp_ports[port], (uint16_t)(taken ? 1 : -1),
				  memory_order_relaxed);
}

static bool is_reflector(uint16_t port)
{
	for (size_t i = 0; i < ARRAY_SIZE(udp_reflectors); i++)
		if (udp_reflectors[i] == port)
			return true;
	return false;
}

static bool is_host4(uint32_t address)
{
	return address != INADDR_ANY && address < 0xe0000000; /* not multicast or reserved */
}

bool udp_may_answer(const struct sockaddr *name)
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)name;
	const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)name;
	bool six = name->sa_family == AF_INET6, loopback;
	uint16_t port = ntohs(six ? in6->sin6_port : in->sin_port);

	if (six ? IN6_IS_ADDR_UNSPECIFIED(&in6->sin6_addr) || IN6_IS_ADDR_MULTICAST(&in6->sin6_addr)
		: !is_host4(ntohl(in->sin_addr.s_addr)))
		return false;
	loopback = six ? IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr)
		       : ntohl(in->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
	return port && !atomic_load_explicit(&udp_ports[port], memory_order_relaxed) &&
	       (loopback || !is_reflector(port));
}

/* 2^64 by the golden ratio (Knuth's multiplicative hash). */
#define HASH_FACTOR UINT64_C(0x9e3779b97f4a7c15)

/* ---- Sockets ---- */

/* Returns how many datagrams the kernel has dropped since the last call because the socket's queue
 * was full. */
static uint32_t udp_count_overflow(struct udp_socket *s)
{
	uint32_t info[SK_MEMINFO_VARS] = { 0 }, before = s->overflowed;
	socklen_t bytes = sizeof(info);

	stat_add(s->udp->worker->stats.sys_other, 1);
	if (s->acceptor->fd < 0 ||
	    getsockopt(s->acceptor->fd, SOL_SOCKET, SO_MEMINFO, info, &bytes) < 0)
		return 0;
	s->overflowed = info[SK_MEMINFO_DROPS];
	return s->overflowed - before;
}

bool udp_suits(const struct worker_options *options)
{
	return options->datagrams;
}

void udp_flush_counters(struct worker *w)
{
	struct udp *u = w->engine_state;

	for (unsigned i = 0; i < u->count; i++)
		if (u->sockets[i].receives)
			stat_add(u->worker->stats.datagrams_overflowed,
				 udp_count_overflow(&u->sockets[i]));
}

/* Decides what the engine waits for, and calls it only when that has changed.  A blocked socket
 * without output that is not to receive waits for nothing: its worker drains, and may close it. */
void udp_set_interest(struct udp_socket *s)
{
	bool input = s->receives && !s->blocked && !s->starved;
	bool room = s->blocked && (s->receives || s->out);

	if (input == s->want_in && room == s->want_out)
		return;
	s->want_in = input;
	s->want_out = room;
	s->udp->watch(s);
}

void udp_watch_listener(struct worker *w, struct acceptor *a, bool on)
{
	struct udp_socket *s = udp_socket_of(w->engine_state, a);

	if (!on)
		udp_flush_counters(w);
	else if (a->taken) /* what was dropped before is counted elsewhere */
		udp_count_overflow(s);
	s->receives = on;
	udp_set_interest(s);
}

/* acceptors[] and sockets[] are parallel. */
struct udp_socket *udp_socket_of(struct udp *u, const struct acceptor *a)
{
	return &u->sockets[a - u->worker->accept.acceptors];
}

/* Enables GRO only if a chunk has room for all that the kernel may merge. */
static void udp_socket_init(struct udp *u, struct udp_socket *s, struct acceptor *a)
{
	struct sockaddr_storage sa = { .ss_family = AF_UNSPEC };
	socklen_t bytes = sizeof(sa);
	int on = 1, gro = u->gro;

	*s = (struct udp_socket){ .udp = u, .acceptor = a, .out_tail = &s->out };
	s->index = (uint16_t)(s - u->sockets);
	s->recent = u->recent;
	if (a->late)
		sa = *a->late;
	else
		getsockname(a->fd, (struct sockaddr *)&sa, &bytes);
	s->port = sockaddr_port(&sa);
	udp_port_taken(s->port, true);
	s->pktinfo = sockaddr_is_wildcard(&sa);
	if (s->pktinfo && sa.ss_family == AF_INET6)
		setsockopt(a->fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, &on, sizeof(on));
	else if (s->pktinfo)
		setsockopt(a->fd, IPPROTO_IP, IP_PKTINFO, &on, sizeof(on));
	setsockopt(a->fd, SOL_UDP, UDP_GRO, &gro, sizeof(gro));
	s->gso = u->gso;
}

/* ---- Life of a client ---- */

/* Finds the place of this key's client in a cache of recent ones. */
static struct udp_peer **udp_recent(struct udp_peer **cache, const struct peer_key *key)
{
	uint64_t mixed = (key->words[1] ^ key->words[4] << 32) * HASH_FACTOR;

	return &cache[mixed >> (64 - UDP_RECENT_BITS)];
}

/* Called by the table of peers, which needs the place at once: conn_close() calls udp_close(),
 * which takes the peer out of it. */
static void udp_evict(struct peer *peer)
{
	stat_add(peer->conn->worker->stats.peers_evicted, 1);
	conn_close(peer->conn, CONN_END_IDLE);
}

int udp_open(struct conn *c)
{
	struct udp_peer *peer = c->engine_state;

	peer->peer.conn = c;
	peers_add(&peer->socket->udp->peers, &peer->peer, peer->socket->udp->now_ns);
	return 0;
}

/* Does nothing: backpressure applies to sockets, not to clients: see udp.h. */
void udp_recv(struct conn *c, bool on)
{
	(void)c, (void)on;
}

/* Only puts the peer into its socket's list: the hook at the end of the turn sends the output of
 * all peers of a socket by as few calls as possible.  c->tx is not drained before that. */
void udp_flush(struct conn *c)
{
	struct udp_peer *peer = c->engine_state;
	struct udp_socket *s = peer->socket;

	if (peer->queued)
		return;
	peer->queued = true;
	peer->out_next = NULL;
	*s->out_tail = peer;
	s->out_tail = &peer->out_next;
}

/* Takes the peer out of its socket's cache and queue. */
static void udp_leave(struct udp_peer *peer)
{
	struct udp_socket *s = peer->socket;
	struct udp_peer **at = &s->out, **recent = udp_recent(s->recent, &peer->peer.key);

	if (*recent == peer)
		*recent = NULL;
	while (peer->queued && *at != peer)
		at = &(*at)->out_next;
	if (peer->queued) {
		*at = peer->out_next;
		if (s->out_tail == &peer->out_next)
			s->out_tail = at;
		peer->queued = false;
		udp_set_interest(s);
	}
}

void udp_move(struct udp_peer *peer, struct udp_socket *s)
{
	bool queued = peer->queued;

	udp_leave(peer);
	peer->socket = s;
	if (queued)
		udp_flush(peer->peer.conn);
}

/* Forgets the peer, and drops its output. */
void udp_close(struct conn *c)
{
	struct udp_peer *peer = c->engine_state;

	peers_forget(&peer->socket->udp->peers, &peer->peer);
	udp_leave(peer);
	stat_add(c->worker->stats.datagrams_unsent, c->tx.views);
	bufq_clear(&c->worker->pool, &c->tx);
}

void udp_release(struct conn *c)
{
	free(c->engine_state);
}

static void udp_verified(struct conn *c)
{
	struct udp_peer *peer = c->engine_state;

	c->flags |= CONN_TRUSTED;
	peers_pin(&peer->socket->udp->peers, &peer->peer);
}

static void udp_peer_address(const struct conn *c, struct sockaddr_storage *ret_peer)
{
	const struct udp_peer *peer = c->engine_state;

	*ret_peer = (struct sockaddr_storage){ .ss_family = AF_UNSPEC };
	memcpy(ret_peer, &peer->to, peer->to_bytes);
}

static void udp_local_address(const struct conn *c, struct sockaddr_storage *ret_local)
{
	const struct udp_peer *peer = c->engine_state;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ret_local;
	struct sockaddr_in *in = (struct sockaddr_in *)ret_local;
	socklen_t bytes = sizeof(*ret_local);

	*ret_local = (struct sockaddr_storage){ .ss_family = AF_UNSPEC };
	stat_add(c->worker->stats.sys_other, 1);
	getsockname(peer->socket->acceptor->fd, (struct sockaddr *)ret_local, &bytes);
	if (peer->socket->pktinfo && ret_local->ss_family == AF_INET6)
		in6->sin6_addr = peer->from;
	else if (peer->socket->pktinfo && ret_local->ss_family == AF_INET)
		memcpy(&in->sin_addr, &peer->from, sizeof(in->sin_addr));
}

const struct engine_clients udp_clients = {
	.peer = udp_peer_address,
	.local = udp_local_address,
	.verified = udp_verified,
};

static bool is_loopback(const struct sockaddr *name)
{
	struct sockaddr_storage sa = { .ss_family = AF_UNSPEC };
	struct in6_addr address;

	memcpy(&sa, name,
	       name->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
					   : sizeof(struct sockaddr_in));
	address = sockaddr_mapped(&sa);
	return IN6_IS_ADDR_LOOPBACK(&address) ||
	       (IN6_IS_ADDR_V4MAPPED(&address) && address.s6_addr[12] == IN_LOOPBACKNET);
}

/* As conn_admit(). */
static int udp_admit(struct udp *u, const struct sockaddr_storage *from)
{
	struct worker *w = u->worker;
	uint64_t max = w->options.peers_max;

	u->peers.max = (unsigned)MIN(max ? max : WORKER_PEERS_MAX, (uint64_t)WORKER_PEERS_MAX);
	return w->drain.on || w->turn.stop ? -EUSERS : conn_admit(w, -1, from);
}

/* Begins a connection for an unknown sender; NULL: its datagram is dropped.  The peer belongs
 * to the connection once conn_start() has succeeded, and udp_release() frees it.
 * conn_start() adds it to the table, which may evict another peer: its connection is closed
 * at once, and freed by a later run. */
static struct udp_peer *udp_peer_new(struct udp_socket *s, const struct udp_datagram *d,
				     const struct peer_key *key, const struct in6_addr *local)
{
	struct worker *w = s->udp->worker;
	struct sockaddr_storage from = { .ss_family = AF_UNSPEC };
	struct udp_peer *peer;
	int rc;

	if (!(w->service->flags & SERVICE_ONE_WAY) && !udp_may_answer(d->name)) {
		stat_add(w->stats.datagrams_refused, 1);
		return NULL;
	}
	memcpy(&from, d->name, d->name_bytes);
	rc = udp_admit(s->udp, &from);
	if (rc < 0) {
		stat_add(w->stats.datagrams_dropped, 1);
		return NULL;
	}
	peer = calloc(1, sizeof(*peer));
	if (!peer) {
		w->owner->release(w);
		stat_add(w->stats.closed_error, 1);
		return NULL;
	}
	peer->peer.key = *key;
	peer->socket = s;
	peer->gso = true;
	peer->to_bytes = d->name_bytes;
	memcpy(&peer->to, d->name, d->name_bytes);
	peer->from = *local;
	if (conn_start(w, -1, peer) < 0) {
		free(peer);
		return NULL;
	}
	if (peer->peer.list == PEER_UNKNOWN) /* the peer is being closed */
		return NULL;
	if (rc == 1 || is_loopback(d->name))
		peer->peer.conn->flags |= CONN_TRUSTED;
	return peer;
}

/* ---- Received datagrams ---- */

/* Is c a control message of this level and type, with at least this many bytes of data? */
static bool control_is(const struct msghdr *msg, const struct cmsghdr *c, int level, int type,
		       size_t bytes)
{
	const char *end = (const char *)msg->msg_control + msg->msg_controllen;

	return c->cmsg_level == level && c->cmsg_type == type && c->cmsg_len >= CMSG_LEN(bytes) &&
	       (size_t)(end - (const char *)c) >= CMSG_LEN(bytes);
}

/* The local address that the datagram was sent to.  False: the control data does not tell it. */
static bool udp_local(struct msghdr *msg, struct in6_addr *ret_local)
{
	struct cmsghdr *c;

	for (c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		if (control_is(msg, c, IPPROTO_IP, IP_PKTINFO, sizeof(struct in_pktinfo))) {
			struct in_pktinfo info;

			memcpy(&info, CMSG_DATA(c), sizeof(info));
			memcpy(ret_local, &info.ipi_spec_dst, sizeof(info.ipi_spec_dst));
			return true;
		}
		if (control_is(msg, c, IPPROTO_IPV6, IPV6_PKTINFO, sizeof(struct in6_pktinfo))) {
			struct in6_pktinfo info;

			memcpy(&info, CMSG_DATA(c), sizeof(info));
			*ret_local = info.ipi6_addr;
			return true;
		}
	}
	return false;
}

uint32_t udp_segment_size(struct msghdr *msg, uint32_t bytes)
{
	struct cmsghdr *c;

	for (c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		int size;

		if (!control_is(msg, c, SOL_UDP, UDP_GRO, sizeof(size)))
			continue;
		memcpy(&size, CMSG_DATA(c), sizeof(size));
		return size > 0 && (uint32_t)size < bytes ? (uint32_t)size : 0;
	}
	return 0;
}

/* False: unknown address family. */
static bool udp_make_key(const struct udp_socket *s, const struct udp_datagram *d,
			 const struct in6_addr *local, struct peer_key *ret_key)
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)d->name;
	const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)d->name;

	memcpy(&ret_key->words[2], local, sizeof(*local));
	if (likely(d->name_bytes >= sizeof(*in) && d->name->sa_family == AF_INET)) {
		ret_key->words[0] = 0;
		ret_key->words[1] = in->sin_addr.s_addr;
		ret_key->words[4] = in->sin_port | (uint64_t)s->index << 16;
		return true;
	}
	if (d->name_bytes < sizeof(*in6) || d->name->sa_family != AF_INET6)
		return false;
	memcpy(&ret_key->words[0], &in6->sin6_addr, sizeof(in6->sin6_addr));
	ret_key->words[4] =
		in6->sin6_port | (uint64_t)s->index << 16 | (uint64_t)in6->sin6_scope_id << 32;
	return true;
}

/* Copies a small datagram to the shared chunk, so that fewer chunks are touched and held.  Returns
 * the chunk that holds it afterwards: d->chunk if the pool is exhausted. */
static struct chunk *udp_small(struct udp *u, struct udp_datagram *d)
{
	struct pool *p = &u->worker->pool;
	struct chunk *k = u->small;

	if (k && k->refs == 1)
		k->used = 0;
	if (!k || k->used + d->bytes > p->chunk_size) {
		struct chunk *fresh = chunk_get(p);

		if (!fresh)
			return d->chunk;
		if (k)
			chunk_put(p, k);
		else
			u->worker->pool_posted++;
		k = u->small = fresh;
	}
	memcpy(k->base + k->used, d->data, d->bytes);
	stat_add(u->worker->stats.bytes_copied, d->bytes);
	d->data = k->base + k->used;
	k->used += (d->bytes + 15) & ~15U;
	return k;
}

static void udp_input(struct udp *u, struct conn *c, struct udp_datagram *d, uint32_t segment)
{
	struct worker *w = u->worker;

	if (likely(!segment)) {
		struct chunk *k = d->bytes <= CONN_COPY_MAX ? udp_small(u, d) : d->chunk;

		stat_add(w->stats.datagrams_in, 1);
		conn_input(c, k, d->data, d->bytes);
		return;
	}
	for (uint32_t at = 0; at < d->bytes; at += segment) {
		stat_add(w->stats.datagrams_in, 1);
		stat_add(w->stats.datagrams_merged, 1);
		conn_input(c, d->chunk, d->data + at, MIN(segment, d->bytes - at));
	}
}

/* Finds the datagram's client in the cache or in the table, or begins a new one.  Clients in a
 * cache answer by its socket, so only a client from the table may have to move to s.  NULL: the
 * datagram is dropped. */
static inline struct udp_peer *udp_client(struct udp_socket *s, const struct udp_datagram *d,
					  struct udp_peer **cache, const struct peer_key *key,
					  const struct in6_addr *local)
{
	struct udp_peer **recent = udp_recent(cache, key), *peer = *recent;
	struct peer *known;

	if (likely(peer && memcmp(&peer->peer.key, key, sizeof(*key)) == 0))
		return peer;
	known = peers_find(&s->udp->peers, key);
	peer = known ? container_of(known, struct udp_peer, peer) : udp_peer_new(s, d, key, local);
	if (unlikely(!peer))
		return NULL;
	if (unlikely(peer->socket != s))
		udp_move(peer, s);
	*recent = peer;
	return peer;
}

void udp_arrived(struct udp_socket *s, struct udp_datagram *d)
{
	struct udp *u = s->udp;
	struct worker *w = u->worker;
	struct in6_addr local = { 0 };
	struct peer_key key;
	struct udp_peer *peer;

	if (unlikely(d->flags & MSG_TRUNC) ||
	    (s->pktinfo && unlikely(!udp_local(d->msg, &local)))) {
		stat_add(w->stats.datagrams_truncated, 1);
		return;
	}
	if (unlikely(!udp_make_key(s, d, &local, &key))) {
		stat_add(w->stats.datagrams_refused, 1);
		return;
	}
	peer = udp_client(s, d, u->recent, &key, &local);
	if (unlikely(!peer))
		return;
	peers_active(&u->peers, &peer->peer, u->now_ns);
	udp_input(u, peer->peer.conn, d,
		  u->gro && d->msg->msg_controllen ? udp_segment_size(d->msg, d->bytes) : 0);
}

struct udp_peer *udp_arrived_frame(struct udp_socket *way, struct udp_datagram *d)
{
	static const struct in6_addr none;
	struct udp_peer *peer;
	struct peer_key key;

	udp_make_key(way, d, &none, &key);
	peer = udp_client(way, d, way->recent, &key, &none);
	if (!peer)
		return NULL;
	peers_active(&way->udp->peers, &peer->peer, way->udp->now_ns);
	stat_add(way->udp->worker->stats.datagrams_in, 1);
	stat_add(way->udp->worker->stats.frames_in, 1);
	conn_input(peer->peer.conn, d->chunk, d->data, d->bytes);
	return peer;
}

/* ---- The worker's part ---- */

static void udp_probe(struct udp *u)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), on = 1, size = 1400;

	if (fd < 0)
		return;
	u->gro = worker_wants(u->worker, FEATURE_udp_gro) &&
		 u->worker->pool.chunk_size >= UDP_GRO_ROOM &&
		 setsockopt(fd, SOL_UDP, UDP_GRO, &on, sizeof(on)) == 0;
	if (u->gro)
		worker_feature(u->worker, FEATURE_udp_gro);
	u->gso = worker_wants(u->worker, FEATURE_udp_gso) &&
		 setsockopt(fd, SOL_UDP, UDP_SEGMENT, &size, sizeof(size)) == 0;
	if (u->gso)
		worker_feature(u->worker, FEATURE_udp_gso);
	close(fd);
}

int udp_init(struct udp *u, bool (*sends)(struct worker_hook *hook), struct reason *reason)
{
	struct worker *w = u->worker;

	u->hook.run = sends;
	u->peers.evict = NULL;
	if (peers_init(&u->peers) < 0)
		return reason_set(reason, -ENOMEM, "no memory for the table of clients");
	u->peers.evict = udp_evict;
	u->sockets = calloc(w->accept.count + 1, sizeof(*u->sockets));
	if (!u->sockets) {
		peers_fini(&u->peers);
		return reason_set(reason, -ENOMEM, "no memory for the sockets");
	}
	udp_probe(u);
	u->count = w->accept.count;
	for (unsigned i = 0; i < u->count; i++)
		udp_socket_init(u, &u->sockets[i], &w->accept.acceptors[i]);
	worker_add_hook(w, &u->hook);
	atomic_store(&w->counters_lag,
		     true); /* the kernel may have counted drops: see udp_flush_counters() */
	return 0;
}

void udp_fini(struct udp *u)
{
	for (unsigned i = 0; i < u->count; i++)
		udp_port_taken(u->sockets[i].port, false);
	for (struct conn *c = u->worker->conns; c; c = c->next)
		udp_release(c);
	if (u->small)
		chunk_put(&u->worker->pool, u->small);
	free(u->sockets);
	peers_fini(&u->peers);
}
