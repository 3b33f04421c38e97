/* Transport `udp`: the code that all engines share.
 *
 * To the core a client is a connection.  It is identified by its address and, on a socket
 * with several local addresses, the one that it sends to.  reactor.c is engines `epoll` and
 * `io_uring-poll`, uring.c is engine `io_uring`, xdp/ is engine `af_xdp`, which adds to `epoll`.
 *
 * Sends are made at the end of a turn, for all clients of a socket together.  While the kernel does
 * not take them, nothing is received from that socket, so that its queue overflows instead of our
 * memory.  Worker's thread only. */
#pragma once
#include <assert.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "conn.h"
#include "engine.h"
#include "epoll.h"
#include "peers.h"
#include "ring.h"
#include "worker.h"

enum {
	UDP_RECEIVES = 64, /* datagrams that one call receives, and chunks kept ready for them */
	UDP_CALLS = 2,     /* receive calls for one socket in a turn */
	UDP_SENDS = 64,    /* messages that one call sends */
	UDP_SEGMENTS = 64, /* datagrams of a message (GSO): the limit of Linux 4.18 to 6.8 */
	UDP_VIEWS = 512,   /* datagrams that one call sends */
	UDP_BYTES = 65487, /* bytes of a message: fits into a packet with an IPv6 header */
	UDP_CONTROL = 128, /* bytes of control data, received or sent */
	UDP_RECENT_BITS = 9,
	UDP_RECENT = 1 << UDP_RECENT_BITS, /* clients that are found without the table */
	/* Bytes of a chunk: for the data that io_uring stores before a datagram, and so that chunks
	 * do not all start in the same cache sets. */
	UDP_HEADROOM = 256,
	/* bytes: the longest buffer that the kernel merges datagrams into (GRO). */
	UDP_GRO_ROOM = 65536,
};

struct udp;
struct xdp;

/* One socket of a worker; the descriptor belongs to its acceptor. */
struct udp_socket {
	struct udp *udp;
	struct acceptor *acceptor;
	struct udp_peer *out, **out_tail; /* list of peers with datagrams to send */
	struct udp_peer **recent;         /* udp.recent, or that of the engine's own sockets */
	/* the kernel's drop count (SO_MEMINFO) when it was last read */
	uint32_t overflowed;
	uint16_t port; /* 0: not counted in udp_ports (any more) */
	uint16_t index;
	/* The socket has several local addresses, and reports the one to
	 * which a datagram was sent. */
	bool pktinfo;
	bool gso;      /* no device has refused segmentation (GSO) */
	bool receives; /* the worker wants to receive here */
	bool blocked;  /* the kernel takes no more datagrams now */
	bool starved;  /* there is no chunk to receive into */
	/* Events that the engine has to report, see udp_set_interest(): input, and room to send.
	 * For engines with a ring, whether the poll for each is in flight. */
	bool want_in, want_out;
	bool polled_in, polled_out;
	bool again;          /* for the engine: receive again in the next turn */
	uint32_t events;     /* for epoll: those registered; 0: the socket is not in the set */
	struct op out_op;    /* for the engine: the event that there is room to send */
	struct op failed_op; /* for io_uring: a datagram of a silent batch could not be sent */
};

/* A client; exists while it has a place in the table of peers. */
struct udp_peer {
	struct peer peer;
	struct udp_socket *socket;
	struct udp_peer *out_next;
	bool queued;    /* in socket->out */
	bool gso;       /* no path to it has refused segmentation (GSO) */
	uint8_t mac[6]; /* af_xdp: where its last frame came from */
	socklen_t to_bytes;
	union {
		struct sockaddr sa;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
	} to;
	struct in6_addr from; /* local address, if pktinfo; IPv4: the first 4 bytes */
};

/* A received datagram.  The pointers are valid during udp_arrived(). */
struct udp_datagram {
	const struct sockaddr *name;
	socklen_t name_bytes;
	int flags;           /* MSG_TRUNC, MSG_CTRUNC */
	struct msghdr *msg;  /* holds its control data */
	struct chunk *chunk; /* the chunk that holds it, at data */
	uint8_t *data;
	uint32_t bytes;
};

/* Messages for one sendmmsg(), or one submission each. */
struct udp_batch {
	unsigned count, views; /* messages, and entries of iov */
	struct mmsghdr messages[UDP_SENDS];
	struct udp_peer *peers[UDP_SENDS]; /* of each message */
	struct iovec iov[UDP_VIEWS];
	char control[UDP_SENDS][UDP_CONTROL] __attribute__((aligned(8)));
};

/* Per worker: the state of its engine begins with it. */
struct udp {
	union { /* Must be first, as epoll.h and ring.h require; the engine uses one of them. */
		struct epoll epoll;
		struct ring ring;
	};
	struct worker *worker; /* set by the engine's init() */
	struct peers peers;
	struct udp_socket *sockets;
	unsigned count;
	/* A cache of the table of peers, whose hash with a secret is most of a look-up's cost.  The
	 * index is a hash without a secret; an entry is the last client with that hash, or NULL.
	 * It has only clients of sockets[]. */
	struct udp_peer *recent[UDP_RECENT];
	struct chunk *small; /* the chunk that small datagrams are copied to */
	bool gro, gso;
	struct worker_hook hook; /* sends all queued datagrams at the end of a turn */
	/* The time of the current batch, set by the engine.  Everything that the batch causes uses
	 * this time, no other clock. */
	uint64_t now_ns;
	struct udp_batch batch;
	/* Set by the engine: s->want_in or s->want_out has changed. */
	void (*watch)(struct udp_socket *s);
	struct xdp *xdp; /* of engine `af_xdp` */
};

static_assert(offsetof(struct udp, ring) == 0, "ring_of() expects it there");

/* 0, or -errno with the reason.  The caller has set worker and watch.  sends: the
 * function of the hook. */
int udp_init(struct udp *u, bool (*sends)(struct worker_hook *hook), struct reason *reason);
void udp_fini(struct udp *u);
struct udp_socket *udp_socket_of(struct udp *u, const struct acceptor *a);
/* To be called after the socket's state has changed: receives, blocked, starved, out. */
void udp_set_interest(struct udp_socket *s);
void udp_arrived(struct udp_socket *s, struct udp_datagram *d);
/* udp_arrived() for a datagram in a frame of af_xdp, which is not copied; flags and msg are not
 * used.  Returns its client, whose answers leave by `way`.  NULL: it was dropped. */
struct udp_peer *udp_arrived_frame(struct udp_socket *way, struct udp_datagram *d);
/* From now on the peer's answers leave by s, also those that are queued. */
void udp_move(struct udp_peer *peer, struct udp_socket *s);

extern const struct engine_clients udp_clients;
extern const struct engine engine_epoll_udp;

/* Members that the struct engine of all UDP engines have in common. */
#define UDP_FEATURES      (FEATURE_BIT(busy_poll) | FEATURE_BIT(udp_gro) | FEATURE_BIT(udp_gso))
#define UDP_RING_FEATURES (RING_FEATURES & ~FEATURE_BIT(multishot_accept))
#define UDP_ENGINE                                                                                 \
	.transport = &transport_udp, .suits = udp_suits, .messages = true, .connectionless = true, \
	.headroom = UDP_HEADROOM, .watch_listener = udp_watch_listener,                            \
	.flush_counters = udp_flush_counters, .open = udp_open, .recv = udp_recv,                  \
	.flush = udp_flush, .close = udp_close, .release = udp_release, .clients = &udp_clients

/* engine->... */
bool udp_suits(const struct worker_options *options);
void udp_watch_listener(struct worker *w, struct acceptor *a, bool on);
void udp_flush_counters(struct worker *w);
int udp_open(struct conn *c);
void udp_recv(struct conn *c, bool on);
void udp_flush(struct conn *c);
void udp_close(struct conn *c);
void udp_release(struct conn *c);

/* Fills b with as many of the socket's queued datagrams as fit; these stay queued. */
void udp_batch_fill(struct udp_socket *s, struct udp_batch *b);
/* Messages begin..end-1 of b were sent (error 0) or refused with error.  False: do not send the
 * rest of the batch, as an earlier message is to be retried first. */
bool udp_batch_sent(struct udp_socket *s, struct udp_batch *b, unsigned begin, unsigned end,
		    int error, uint64_t sent_ns);
/* Is it a temporary error: the kernel is out of buffers? */
static inline bool udp_is_full(int error)
{
	return error == EAGAIN || error == ENOBUFS || error == ENOMEM;
}

/* How many of the datagrams from v on, at most max, can be sent as one message: all as long as the
 * first, the last may be shorter.  *ret_bytes: their bytes.  Pure. */
unsigned udp_run(const struct view *v, unsigned max, size_t *ret_bytes);

/* Size of the datagrams that the kernel merged into this one (GRO); 0: not merged. */
uint32_t udp_segment_size(struct msghdr *msg, uint32_t bytes);

/* May datagrams from this address be answered?  Not if its port belongs to a service that answers
 * every datagram, here or on another host: one forged datagram would start an endless exchange. Any
 * thread. */
bool udp_may_answer(const struct sockaddr *name);
void udp_port_taken(uint16_t port, bool taken);

/* The kernel takes no more datagrams: waits for room, and receives nothing until then. */
void udp_block(struct udp_socket *s);
/* There is room again. */
void udp_writable(struct udp_socket *s);
/* Part of udp.watch() for engines with a ring. */
void udp_ring_poll_out(struct udp_socket *s);

bool udp_ready_send(struct worker_hook *hook); /* sends all queued datagrams */
