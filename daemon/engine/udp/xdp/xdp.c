/* Engine `af_xdp`, transport `udp`: frames of a receive queue, past the kernel's stack, beside the
 * sockets of engine `epoll`.
 *
 * A program in the interface takes the frames of datagrams to the listener, if they come by that
 * queue.  All else, as another queue, a fragment, or any frame while this is not open, goes to the
 * listener's UDP socket.  A client is the same by both ways: its answers leave by the way its last
 * datagram came, over a `way` that stands in for the socket.  Worker's thread only. */
#include <errno.h>
#include <ifaddrs.h>
#include <net/if_arp.h>
#include <netpacket/packet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "ring_keys.h"
#include "sockaddr.h"
#include "udp.h"
#include "xdp.h"

enum {
	RECEIVES = UDP_RECEIVES * UDP_CALLS, /* frames in a turn */
	OPEN_TRIES = 10,                     /* at the start, while the queue is busy */
};
#define OPEN_PAUSE_NS ((uint64_t)50 * NS_PER_MS)
#define REOPEN_NS     ((uint64_t)100 * NS_PER_MS)
/* AF_XDP has no event for changes of the interface or its addresses, so a timer checks them. */
#define CHECK_NS ((uint64_t)1000 * NS_PER_MS)
/* The kernel reports no sent frames, and free space not always, so a timer polls the rings. */
#define RING_POLL_NS ((uint64_t)NS_PER_MS)

enum xdp_mode { MODE_AUTO, MODE_ZERO_COPY, MODE_COPY, MODE_GENERIC };

struct xdp_settings {
	char queues[RING_QUEUE_BYTES]; /* see ring_parse_queue(); "": none */
	uint64_t mode;                 /* enum xdp_mode */
};

static const struct key_table key_table;

struct xdp {
	struct worker_hook hook; /* runs before that of the sockets, which sends what this leaves */
	struct udp *udp;
	const struct xdp_settings *settings;
	char name[IF_NAMESIZE];
	uint32_t queue;
	struct frames_interface interface;
	struct xdp_program program;
	struct xdp_socket socket;
	union frames_address addresses[XDP_FAMILIES];
	struct in6_addr listens[XDP_FAMILIES]; /* these, as frames_interface.own[] */
	/* For each acceptor, beside its udp_socket. */
	struct udp_socket ways[XDP_FAMILIES];
	unsigned count;
	bool open;
	bool serves;      /* tries to be open, and receives */
	bool full;        /* the ring has no room for what is queued: nothing is received */
	uint32_t longest; /* bytes of a frame that the interface sends */
	uint32_t events;  /* of socket.fd in the epoll set */
	uint32_t posted;  /* of socket, as worker.pool_posted has it */
	uint16_t id;      /* of the next IPv4 packet */
	uint64_t dropped; /* by the kernel, at the last look */
	struct op op;
	struct timer timer; /* to look at the rings, and at check_ns at the interface */
	uint64_t check_ns;
	struct udp_peer *recent[UDP_RECENT]; /* see struct udp_socket */
};

/* ---- Errors ---- */

#define UNIT "nbserved-xdp.conf for the unit has it"

static const struct wording {
	int error;
	const char *what; /* NULL: whatever has failed */
	const char *text; /* behind "af_xdp INTERFACE:QUEUE: " */
} wordings[] = {
	{ EPERM, NULL,
	  "this process lacks CAP_NET_RAW, CAP_NET_ADMIN or CAP_BPF, or the unit forbids bpf; " UNIT
	  ", or run as root" },
	{ EAFNOSUPPORT, NULL,
	  "this kernel has no sockets of AF_XDP (CONFIG_XDP_SOCKETS), or the unit forbids them, or "
	  "those of AF_NETLINK; " UNIT },
	{ ENOSYS, NULL, "the system call bpf is not there, or the unit forbids it; " UNIT },
	{ ENOBUFS, "memory",
	  "the buffers may not be locked in memory; LimitMEMLOCK=infinity, or lower `buffers`" },
	{ EBUSY, "queue",
	  "another socket of AF_XDP has this queue; end its program, or reload again when the "
	  "listener that has it has ended" },
	{ EINVAL, "queue", "the interface has no such queue; `ethtool -l` tells how many" },
	{ EOPNOTSUPP, "queue", "the driver cannot do without a copy; `xdp-mode = auto` can" },
	{ EBUSY, "program",
	  "another program of XDP is attached to the interface; `ip link show` tells, and "
	  "`ip link set dev NAME xdp off` removes one that is no link" },
	{ EEXIST, "program",
	  "a program of XDP is attached in another mode, generic or native; set `xdp-mode` to that "
	  "one's after it has ended, or remove it" },
	{ EOPNOTSUPP, "program",
	  "the interface's driver has no XDP; xdp-mode = generic serves any driver, without gain" },
	{ EINVAL, "program",
	  "the driver refuses it, as the MTU is too long or LRO is on; lower the MTU, "
	  "`ethtool -K NAME lro off`" },
	{ ERANGE, "program", "the MTU is too long for the driver's XDP; lower the MTU" },
	{ ENODEV, "interface", "there is no such interface; name one that `ip link` shows" },
	{ EOPNOTSUPP, "interface", "the interface is not Ethernet; name one that is" },
	{ E2BIG, "interface",
	  "this host has too many addresses to verify senders; another `engine`" },
	{ EADDRNOTAVAIL, "interface",
	  "an address of the listener is not one of the interface; give it one IPv4 and one IPv6 "
	  "address at most, which the interface has itself, not a bridge, bond or VLAN above it" },
};

static int explain(const struct xdp *x, int error, const char *what, struct reason *reason)
{
	const char *at = x->settings->queues;

	for (unsigned i = 0; i < ARRAY_SIZE(wordings); i++)
		if (wordings[i].error == -error &&
		    (!wordings[i].what || !strcmp(wordings[i].what, what)))
			return reason_set(reason, error, "af_xdp%s%s: %s", *at ? " " : "", at,
					  wordings[i].text);
	return reason_set(reason, error, "af_xdp%s%s: %s: %s; another `engine`", *at ? " " : "", at,
			  what, strerror(-error));
}

/* ---- The interface ---- */

/* Adds an address of the interface.  1: the listener listens on it; 0: it does not, or it is no IP
 * address; -E2BIG: too many. */
static int add_own(struct xdp *x, const struct sockaddr *sa)
{
	struct sockaddr_storage storage = { .ss_family = sa ? sa->sa_family : AF_UNSPEC };
	struct in6_addr *own = &x->interface.own[x->interface.own_count];

	if (storage.ss_family != AF_INET && storage.ss_family != AF_INET6)
		return 0;
	if (x->interface.own_count == FRAMES_OWN_MAX)
		return -E2BIG;
	memcpy(&storage, sa, sockaddr_size(&storage));
	*own = sockaddr_mapped(&storage);
	x->interface.own_count++;
	for (unsigned i = 0; i < x->count; i++)
		if (IN6_ARE_ADDR_EQUAL(&x->listens[i], own))
			return 1;
	return 0;
}

static int set_card(struct frames_interface *interface, const struct sockaddr_ll *card)
{
	interface->index = (uint32_t)card->sll_ifindex;
	memcpy(interface->mac, card->sll_addr, FRAMES_MAC);
	return card->sll_hatype == ARPHRD_ETHER ? 0 : -EOPNOTSUPP;
}

/* Looks at the interface and at all addresses of this host.  0; -ENODEV; -EADDRNOTAVAIL: one of the
 * listener's is not the interface's. */
static int find_interface(struct xdp *x)
{
	struct ifreq mtu = { .ifr_mtu = 0 };
	unsigned found = 0;
	struct ifaddrs *all;
	int rc = 0;

	if (getifaddrs(&all) < 0)
		return -errno;
	x->interface.index = x->interface.own_count = 0;
	for (const struct ifaddrs *a = all; a && rc >= 0; a = a->ifa_next) {
		bool here = !strcmp(a->ifa_name, x->name);

		if (here && a->ifa_addr && a->ifa_addr->sa_family == AF_PACKET)
			rc = set_card(&x->interface, (const void *)a->ifa_addr);
		else
			rc = add_own(x, a->ifa_addr);
		found += here && rc == 1;
		if (rc >= 0 && a->ifa_flags & IFF_BROADCAST)
			rc = add_own(x, a->ifa_broadaddr);
	}
	freeifaddrs(all);
	if (rc < 0)
		return rc;
	if (!x->interface.index || found < x->count)
		return x->interface.index ? -EADDRNOTAVAIL : -ENODEV;
	strcpy(mtu.ifr_name, x->name);
	if (x->count && ioctl(x->ways[0].acceptor->fd, SIOCGIFMTU, &mtu) < 0)
		return -errno;
	x->longest = MIN((uint32_t)mtu.ifr_mtu + FRAMES_ETHERNET, (uint32_t)XDP_FRAME_MAX);
	return 0;
}

/* ---- Open and close ---- */

static struct udp_socket *socket_of(const struct udp_socket *way)
{
	return udp_socket_of(way->udp, way->acceptor);
}

/* Makes the events that epoll waits for follow from the state. */
static void set_interest(struct xdp *x)
{
	uint32_t events = x->serves && !x->full ? EPOLLIN : 0;

	if (events != x->events &&
	    epoll_change(x->udp->worker, EPOLL_CTL_MOD, x->socket.fd, events, &x->op) == 0)
		x->events = events;
}

static void count_posted(struct xdp *x)
{
	x->udp->worker->pool_posted += x->socket.posted - x->posted;
	x->posted = x->socket.posted;
}

/* Closes what is open; the program takes nothing any more from then on. */
static void shut(struct xdp *x)
{
	x->open = x->full = x->udp->epoll.on_nic = false;
	x->check_ns = 0;
	x->events = 0;
	xdp_program_close(&x->program);
	xdp_socket_close(&x->socket);
	count_posted(x);
}

/* The steps that leave the interface alone, and so tell the doctor what this process may do. */
static int open_parts(struct xdp *x, const char **ret_what)
{
	union frames_address none = { 0 }, *four = &none, *six = &none;
	int rc;

	*ret_what = "interface";
	rc = x->name[0] ? find_interface(x) : 0;
	if (rc < 0)
		return rc;
	rc = xdp_socket_open(&x->socket, &x->udp->worker->pool, ret_what);
	if (rc < 0)
		return rc;
	*ret_what = "loading the program";
	for (unsigned i = 0; i < x->count; i++)
		*(x->addresses[i].sa.sa_family == AF_INET6 ? &six : &four) = &x->addresses[i];
	return xdp_program_load(&x->program, &four->in, &six->in6, x->queue);
}

static int attach(struct xdp *x, const char **ret_what)
{
	static const uint16_t flags[] = { [MODE_AUTO] = 0,
					  [MODE_ZERO_COPY] = XDP_ZEROCOPY,
					  [MODE_COPY] = XDP_COPY,
					  [MODE_GENERIC] = XDP_COPY };
	int rc;

	*ret_what = "queue";
	rc = xdp_socket_bind(&x->socket, x->interface.index, x->queue, flags[x->settings->mode]);
	if (rc < 0)
		return rc;
	*ret_what = "program";
	rc = xdp_program_attach(&x->program, x->interface.index, x->settings->mode == MODE_GENERIC);
	if (rc < 0)
		return rc;
	*ret_what = "epoll_ctl";
	rc = epoll_change(x->udp->worker, EPOLL_CTL_ADD, x->socket.fd, 0, &x->op);
	return rc < 0 ? rc : xdp_program_take(&x->program, x->queue, x->socket.fd);
}

/* From then on frames wait in the ring until they are received, as datagrams do in a socket.  0, or
 * -errno of *ret_what. */
static int open_queue(struct xdp *x, const char **ret_what)
{
	int rc = open_parts(x, ret_what);
	unsigned calls = 0;

	if (rc == 0)
		rc = attach(x, ret_what);
	if (rc < 0) {
		shut(x);
		return rc;
	}
	x->open = true;
	x->dropped = 0;
	xdp_socket_refill(&x->socket, &calls);
	count_posted(x);
	worker_feature(x->udp->worker, x->settings->mode == MODE_GENERIC ? FEATURE_xdp_generic
				       : x->socket.zero_copy             ? FEATURE_xdp_zero_copy
									 : FEATURE_xdp_copy);
	return 0;
}

/* Has the interface gone, or its address?  Then all goes by the sockets, until it is back. */
static void check(struct xdp *x, uint64_t now_ns)
{
	uint32_t index = x->interface.index;
	const char *what;

	if (x->open && (find_interface(x) < 0 || x->interface.index != index))
		shut(x);
	if (!x->open)
		open_queue(x, &what);
	x->check_ns = now_ns + (x->open ? CHECK_NS : REOPEN_NS);
}

/* Looking at the rings is send_all()'s in the same turn. */
static void on_timer(struct timer *t, uint64_t now_ns)
{
	struct xdp *x = container_of(t, struct xdp, timer);

	if (!x->serves)
		return;
	if (now_ns >= x->check_ns)
		check(x, now_ns);
	worker_arm(x->udp->worker, t, x->check_ns);
}

static void arm_check(struct xdp *x, uint64_t ns)
{
	worker_arm(x->udp->worker, &x->timer, clock_ns() + ns);
}

/* ---- Receiving ---- */

static void take(struct xdp *x, struct chunk *k, uint8_t *frame, uint32_t bytes)
{
	struct frames_datagram d;
	struct udp_peer *peer;
	unsigned i = 0;

	while (i < x->count && !frames_parse(&x->interface, &x->addresses[i], frame, bytes, &d))
		i++;
	if (i == x->count) {
		stat_add(x->udp->worker->stats.datagrams_refused, 1);
		return;
	}
	peer = udp_arrived_frame(&x->ways[i], &(struct udp_datagram){ .name = &d.from.sa,
								      .name_bytes = d.from_bytes,
								      .chunk = k,
								      .data = d.data,
								      .bytes = d.bytes });
	if (peer)
		memcpy(peer->mac, frame + FRAMES_MAC, FRAMES_MAC);
}

static void receive(struct xdp *x, uint32_t max)
{
	uint32_t n = MIN(xdp_socket_received(&x->socket), max);

	/* The socket knows its queue since its first frame. */
	x->udp->epoll.on_nic = x->udp->epoll.polls_nic;
	x->udp->now_ns = clock_coarse_ns();
	while (n-- > 0) {
		uint8_t *frame;
		uint32_t bytes;
		struct chunk *k = xdp_socket_next(&x->socket, &frame, &bytes);

		take(x, k, frame, bytes);
		xdp_socket_done(&x->socket, k);
	}
}

static void lost(struct xdp *x)
{
	shut(x);
	arm_check(x, REOPEN_NS);
}

static void on_event(struct op *op, int ready, uint32_t flags)
{
	struct xdp *x = container_of(op, struct xdp, op);

	(void)flags;
	if (x->open && ready & (EPOLLERR | EPOLLHUP))
		lost(x);
	else if (x->open && x->events)
		receive(x, RECEIVES);
}

/* ---- Sending ---- */

enum sent { SENT, FULL, BY_SOCKET };

/* A message that is alone in its chunk, with room for the headers in front of it, is sent from
 * there; others are copied.  NULL: there is no chunk for that. */
static struct chunk *frame_for(struct xdp *x, const struct iovec *v, uint32_t headers,
			       uint8_t **ret_data)
{
	struct worker *w = x->udp->worker;
	struct pool *p = &w->pool;
	size_t at = (size_t)((uint8_t *)v->iov_base - p->slab), in = at % p->stride;
	struct chunk *k = &p->chunks[at / p->stride];

	if (k->refs == 1 && in >= headers && in + v->iov_len <= XDP_CHUNK) {
		k->refs++;
		*ret_data = v->iov_base;
		return k;
	}
	k = chunk_get(p);
	if (!k)
		return NULL;
	*ret_data = k->base + XDP_DATA_AT;
	memcpy(*ret_data, v->iov_base, v->iov_len);
	stat_add(w->stats.bytes_copied, v->iov_len);
	return k;
}

static enum sent send_message(struct xdp *x, const struct udp_socket *way,
			      const struct udp_peer *peer, const struct iovec *v)
{
	const union frames_address *from = &x->addresses[way - x->ways];
	struct frames_path path = { .to_mac = peer->mac,
				    .from_mac = x->interface.mac,
				    .to = (const union frames_address *)&peer->to,
				    .from = from,
				    .traffic_class = (uint8_t)peer->peer.conn->traffic_class,
				    .id = x->id };
	uint32_t headers = from->sa.sa_family == AF_INET6 ? FRAMES_IPV6 : FRAMES_IPV4;
	uint32_t bytes = (uint32_t)v->iov_len;
	struct chunk *k;
	uint8_t *data;

	if (bytes + headers > x->longest)
		return BY_SOCKET;
	if (xdp_socket_unsent(&x->socket) >= XDP_ENTRIES)
		return FULL;
	k = frame_for(x, v, headers, &data);
	if (!k)
		return BY_SOCKET;
	x->id++;
	frames_build(data, bytes, &path);
	xdp_socket_queue(&x->socket, k, data - headers, bytes + headers);
	return SENT;
}

static void give_to_kernel(struct xdp *x)
{
	unsigned calls = 0;
	int rc = xdp_socket_send(&x->socket, &calls);

	stat_add(x->udp->worker->stats.sys_send, calls);
	if (rc < 0)
		lost(x);
}

/* Sends what is queued for the way, until the ring is full even after the kernel was asked to send.
 */
static void send_way(struct xdp *x, struct udp_socket *way)
{
	uint64_t sent_ns = x->udp->worker->turn.timing ? clock_ns() : 0;
	struct udp_batch *b = &x->udp->batch;
	enum sent sent = SENT;

	while (x->open && way->out &&
	       (sent != FULL || xdp_socket_unsent(&x->socket) < XDP_ENTRIES)) {
		unsigned n = 0;

		udp_batch_fill(way, b);
		for (sent = SENT; n < b->count && sent == SENT; n += sent == SENT)
			sent = send_message(x, way, b->peers[n], b->messages[n].msg_hdr.msg_iov);
		stat_add(x->udp->worker->stats.frames_out, n);
		udp_batch_sent(way, b, 0, n, 0, sent_ns);
		if (sent == BY_SOCKET)
			udp_move(way->out, socket_of(way));
		if (sent == FULL)
			give_to_kernel(x);
	}
}

/* At the end of a turn: gives the kernel the frames to send and the chunks to receive into.  Looks
 * again soon if the kernel has not taken all, or has no chunk to receive into, since neither is an
 * event. */
static void settle(struct xdp *x)
{
	struct worker *w = x->udp->worker;
	bool full = false;
	unsigned calls = 0;

	xdp_socket_refill(&x->socket, &calls);
	stat_add(w->stats.sys_recv, calls);
	count_posted(x);
	for (unsigned i = 0; i < x->count; i++)
		full |= x->ways[i].out != NULL;
	stat_add(w->stats.tx_blocked, full && !x->full);
	stat_add(w->stats.starved, x->posted == 0);
	x->full = full;
	set_interest(x);
	if (xdp_socket_unsent(&x->socket) || x->posted == 0)
		arm_check(x, RING_POLL_NS);
}

/* While it is closed, the clients' answers leave by the sockets. */
static bool send_all(struct worker_hook *hook)
{
	struct xdp *x = container_of(hook, struct xdp, hook);

	for (unsigned i = 0; i < x->count; i++)
		send_way(x, &x->ways[i]);
	if (x->open)
		give_to_kernel(x);
	if (x->open)
		settle(x);
	for (unsigned i = 0; i < x->count && !x->open; i++)
		while (x->ways[i].out)
			udp_move(x->ways[i].out, socket_of(&x->ways[i]));
	return false;
}

/* ---- Functions of struct engine ---- */

/* Frames that have arrived are received before the sockets are another worker's: their answers
 * leave by the sockets. */
static void leave(struct xdp *x)
{
	if (!x->open)
		return;
	xdp_program_close(&x->program);
	receive(x, XDP_ENTRIES);
	give_to_kernel(x);
	shut(x);
}

static void watch_listener(struct worker *w, struct acceptor *a, bool on)
{
	struct xdp *x = ((struct udp *)w->engine_state)->xdp;

	if (!on)
		leave(x);
	udp_watch_listener(w, a, on);
	x->serves = on;
	if (on)
		arm_check(x, 0);
}

static void flush_counters(struct worker *w)
{
	struct xdp *x = ((struct udp *)w->engine_state)->xdp;
	uint64_t dropped;

	udp_flush_counters(w);
	if (!x->open)
		return;
	dropped = xdp_socket_dropped(&x->socket);
	stat_add(w->stats.sys_other, 1);
	stat_add(w->stats.datagrams_overflowed, dropped - x->dropped);
	x->dropped = dropped;
}

/* False: the program has no place for so many addresses. */
static bool make_ways(struct xdp *x)
{
	struct udp *u = x->udp;

	if (u->count > XDP_FAMILIES)
		return false;
	for (; x->count < u->count; x->count++) {
		const struct udp_socket *s = &u->sockets[x->count];
		struct sockaddr_storage sa = { .ss_family = AF_UNSPEC };
		struct udp_socket *way = &x->ways[x->count];
		socklen_t bytes = sizeof(sa);

		if (s->acceptor->late)
			sa = *s->acceptor->late;
		else
			getsockname(s->acceptor->fd, (struct sockaddr *)&sa, &bytes);
		memcpy(&x->addresses[x->count], &sa, sizeof(x->addresses[0]));
		x->listens[x->count] = sockaddr_mapped(&sa);
		*way = (struct udp_socket){ .udp = u, .acceptor = s->acceptor, .index = s->index };
		way->out_tail = &way->out;
		way->recent = x->recent;
	}
	return x->count < 2 || x->addresses[0].sa.sa_family != x->addresses[1].sa.sa_family;
}

/* The queue of a process that has ended just now is free a moment later; that of a worker whose
 * sockets these are is free when it has handed them over, and until then they serve. */
static int open_first(struct xdp *x, const char **ret_what)
{
	const struct timespec pause = { .tv_nsec = OPEN_PAUSE_NS };
	bool taken = x->udp->worker->accept.acceptors[0].taken;
	int rc = open_queue(x, ret_what);

	for (unsigned i = 0; rc == -EBUSY && !taken && i < OPEN_TRIES; i++) {
		clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
		rc = open_queue(x, ret_what);
	}
	return rc == -EBUSY && taken ? 0 : rc;
}

static int start(struct xdp *x, struct reason *reason)
{
	const char *what = "interface";
	int rc = 0;

	ring_parse_queue(x->settings->queues, x->name, &x->queue);
	if (!make_ways(x)) {
		rc = -EADDRNOTAVAIL;
	} else if (x->count) {
		rc = open_first(x, &what);
	} else { /* the doctor's */
		rc = open_parts(x, &what);
		shut(x);
	}
	return rc < 0 ? explain(x, rc, what, reason) : 0;
}

static void fini(struct worker *w)
{
	struct xdp *x = ((struct udp *)w->engine_state)->xdp;

	shut(x);
	deadline_drop(&w->deadlines, &x->timer);
	engine_epoll_udp.fini(w);
	free(x);
}

static int init(struct worker *w, struct reason *reason)
{
	struct xdp *x = calloc(1, sizeof(*x));
	int rc;

	if (!x)
		return reason_set(reason, -ENOMEM, "af_xdp: no memory");
	rc = engine_epoll_udp.init(w, reason);
	if (rc < 0) {
		free(x);
		return rc;
	}
	x->udp = w->engine_state;
	x->udp->xdp = x;
	x->settings = options_of(&w->options, &key_table);
	x->program = (struct xdp_program){ -1, -1, -1 };
	x->socket.fd = -1;
	x->op.done = on_event;
	x->timer.due = on_timer;
	x->hook.run = send_all;
	worker_add_hook(w, &x->hook);
	epoll_poll_nic(&x->udp->epoll, w);
	rc = start(x, reason);
	if (rc < 0)
		fini(w);
	return rc;
}

static void wait_turn(struct worker *w, bool block)
{
	engine_epoll_udp.wait(w, block);
}

static bool queue_is_valid(const char *text)
{
	char interface[IF_NAMESIZE];
	uint32_t queue;

	return ring_parse_queue(text, interface, &queue);
}

static const char *const modes[] = { "auto", "zero-copy", "copy", "generic", NULL };

static const struct key keys[] = {
	{ "xdp-queues", "no", "of af_xdp: the interface's receive queue that it takes frames from",
	  KEY_FIELD(struct xdp_settings, queues), .type = KEY_TEXT, .word = "no",
	  .valid = queue_is_valid, .form = "INTERFACE:QUEUE such as eth0:4" },
	{ "xdp-mode", "auto",
	  "auto: the driver's own, without a copy where it can; generic: the kernel's, for any driver",
	  KEY_FIELD(struct xdp_settings, mode), .type = KEY_CHOICE, .words = modes },
};

static void check_keys(struct key_check *check)
{
	const struct xdp_settings *settings = options_of(check->options, &key_table);

	if (!check->engine && settings->queues[0])
		check->refuse(check, "xdp-queues", "requires engine = af_xdp (engine is auto)");
	if (!check->engine)
		return;
	if (!settings->queues[0])
		check->refuse(check, "xdp-queues",
			      "is required with engine = af_xdp: INTERFACE:QUEUE such as eth0:4");
	if (check->workers != 1)
		check->refuse(check, "xdp-queues", "requires workers = 1");
}

/* An interface has one program, whose map has one queue. */
static void check_beside(struct key_check *check, const struct worker_options *other,
			 const char *name)
{
	const struct xdp_settings *own = options_of(check->options, &key_table);
	const struct xdp_settings *others = options_of(other, &key_table);
	char interface[IF_NAMESIZE], taken[IF_NAMESIZE];
	uint32_t queue;

	if (ring_parse_queue(own->queues, interface, &queue) &&
	    ring_parse_queue(others->queues, taken, &queue) && !strcmp(interface, taken))
		check->refuse(check, "xdp-queues",
			      "expected another interface than '%s', which [listener %s] has: "
			      "engine af_xdp serves one listener of an interface",
			      interface, name);
}

static const struct key_table key_table =
	KEY_TABLE(keys, struct xdp_settings, .check = check_keys, .check_beside = check_beside);

const struct engine engine_xdp = {
	.name = "af_xdp",
	.transport = &transport_udp,
	.keys = &key_table,
	.messages = true,
	.connectionless = true,
	.headroom = XDP_CHUNK, /* so that a chunk's bytes are whole frames of the UMEM */
	.sample_turns = 8,
	.features = UDP_FEATURES | FEATURE_BIT(socket_busy_poll) | FEATURE_BIT(epoll_busy_poll),
	.init = init,
	.fini = fini,
	.watch_listener = watch_listener,
	.watch = epoll_watch,
	.wait = wait_turn,
	.open = udp_open,
	.recv = udp_recv,
	.flush = udp_flush,
	.close = udp_close,
	.release = udp_release,
	.flush_counters = flush_counters,
	.clients = &udp_clients,
};
