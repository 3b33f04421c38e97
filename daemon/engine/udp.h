/* Transport `udp`: what all engines share of it.
 *
 * A client is a connection to the core: the address it sends from and, where a socket has several,
 * the one it has written to.  udp.c takes datagrams in, udp_send.c makes batches of what is to be
 * sent, udp_ready.c has the system calls of the engines that are told what is ready.
 *
 * Sends are made at the end of a turn, for all clients of a socket together.  While the kernel does
 * not take them nothing is received there: the socket's queue overflows instead of our
 * memory.  Worker's thread only. */
#pragma once
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "conn.h"
#include "engine.h"
#include "peers.h"
#include "worker.h"

enum {
	UDP_RECEIVES = 32,    /* datagrams of a call, and chunks that stand by for them */
	UDP_CALLS = 4,        /* of those for one socket in a turn */
	UDP_SENDS = 64,       /* messages of a call */
	UDP_SEGMENTS = 64,    /* datagrams of a message: Linux 4.18 to 6.8 take no more */
	UDP_VIEWS = 512,      /* datagrams of a call that sends */
	UDP_BYTES = 65487,    /* of a message: with an IPv6 header it is still a packet */
	UDP_CONTROL = 128,    /* bytes of control data, received or sent */
	UDP_HEADROOM = 256,   /* of a chunk: what io_uring puts before a datagram; and so that not
				 all chunks begin in the same lines of the cache */
	UDP_GRO_ROOM = 65536, /* the longest that the kernel merges into */
};

struct udp;

/* One socket of a worker: its acceptor's. */
struct udp_socket {
	struct udp *udp;
	struct acceptor *acceptor;
	struct udp_peer *out, **out_tail; /* list of peers that have something to send */
	uint32_t overflowed;              /* the kernel's count when it was looked at last */
	uint32_t interface;               /* of the last datagram: link-local addresses */
	uint16_t port;                    /* 0: none, its place in udp_ports is given back */
	uint16_t index;
	bool pktinfo;     /* the address that was written to matters */
	bool gso;         /* no device has refused to cut */
	bool receives;    /* the worker wants it to */
	bool blocked;     /* the kernel takes nothing more to send */
	bool starved;     /* no chunk to receive into */
	bool armed;       /* the engine is to tell of input */
	bool polled;      /* the engine's: a request for it is under way */
	bool again;       /* the engine's: another one is to be made */
	struct op out_op; /* the engine's: there is room to send */
};

/* A client, as long as it has its place in the table. */
struct udp_peer {
	struct peer peer;
	struct udp_socket *socket;
	struct udp_peer *out_next;
	bool queued; /* in socket->out */
	bool gso;    /* no path to it has refused merged datagrams */
	socklen_t to_bytes;
	union {
		struct sockaddr sa;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
	} to;
	struct in6_addr from; /* our address, with pktinfo; IPv4: the first 4 bytes */
};

/* A datagram that has arrived.  Pointers are into memory of the engine. */
struct udp_datagram {
	const struct sockaddr *name;
	socklen_t name_bytes;
	int flags;           /* MSG_TRUNC, MSG_CTRUNC */
	struct msghdr *msg;  /* its control data */
	struct chunk *chunk; /* has it, at data */
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

/* A worker's; after what its engine's state begins with. */
struct udp {
	struct worker *worker;
	struct peers peers;
	struct udp_socket *sockets;
	unsigned count;
	struct udp_peer *last; /* sender of the last datagram: a burst is often one client's */
	struct chunk *small;   /* where small datagrams are copied to */
	bool gro, gso;
	struct worker_hook hook; /* sends */
	uint64_t now_ns;         /* the engine's: when this turn began */
	struct udp_batch batch;
	/* The engine's: it wants to be told of input, or not; of room to send, once. */
	void (*receive)(struct udp_socket *s, bool on);
	void (*await_room)(struct udp_socket *s);
};

/* udp.c */
/* 0, or -errno with the reason.  receive and await_room are set; sends: the hook's. */
int udp_init(struct udp *u, struct worker *w, bool (*sends)(struct worker_hook *hook),
	     struct reason *reason);
void udp_fini(struct udp *u);
struct udp_socket *udp_socket_of(struct udp *u, const struct acceptor *a);
void udp_listen(struct udp_socket *s, bool on); /* engine->listen */
void udp_settle(struct udp *u);                 /* engine->settle */
void udp_set_receiving(struct udp_socket *s);   /* after what it depends on has changed */
void udp_arrived(struct udp_socket *s, struct udp_datagram *d, uint64_t now_ns);

/* Members that all UDP engines' tables have in common. */
#define UDP_FEATURES      (FEATURE_BIT(busy_poll) | FEATURE_BIT(udp_gro) | FEATURE_BIT(udp_gso))
#define UDP_RING_FEATURES (RING_FEATURES & ~FEATURE_BIT(multishot_accept))
#define UDP_ENGINE                                                                                 \
	.transport = &transport_udp, .messages = true, .connectionless = true,                     \
	.headroom = UDP_HEADROOM, .open = udp_open, .recv = udp_recv, .flush = udp_flush,          \
	.close = udp_close, .release = udp_release, .peer = udp_peer_address,                      \
	.local = udp_local_address, .vouch = udp_vouch

/* engine->... */
int udp_open(struct conn *c);
void udp_recv(struct conn *c, bool on);
void udp_flush(struct conn *c);
void udp_close(struct conn *c);
void udp_release(struct conn *c);
void udp_peer_address(const struct conn *c, struct sockaddr_storage *ret_peer);
void udp_local_address(const struct conn *c, struct sockaddr_storage *ret_local);
void udp_vouch(struct conn *c);

/* udp_send.c */
/* As many messages as go into one batch, of what is queued; it stays queued. */
void udp_batch_fill(struct udp_socket *s, struct udp_batch *b);
/* The messages before `end` from `begin` on were sent: error 0, or refused with it.  False: what is
 * left in the batch is not to be sent, as something before it will be tried again. */
bool udp_batch_sent(struct udp_socket *s, struct udp_batch *b, unsigned begin, unsigned end,
		    int error, uint64_t sent_ns);
/* Is it an error that passes by itself? */
static inline bool udp_is_full(int error)
{
	return error == EAGAIN || error == ENOBUFS || error == ENOMEM;
}

/* How many datagrams of the queue, of `bytes` or less in all, are one message: all as long as the
 * first, the last may be shorter.  Pure. */
unsigned udp_run(const struct view *v, unsigned max, size_t *ret_bytes);

/* Size of the datagrams that the kernel merged into this one; 0: it is a single one. */
uint32_t udp_segment_size(struct msghdr *msg, uint32_t bytes);

/* May somebody there be answered?  Ports that answer whatever comes would talk to us for ever, if
 * somebody made them begin: of other hosts, and our own.  Any thread. */
bool udp_may_answer(const struct sockaddr *name);
void udp_port_taken(uint16_t port, bool taken);

/* udp_ready.c: struct udp_receiver, and what is told by readiness. */
struct udp_receiver *udp_receiver_new(const struct worker *w);
void udp_receiver_free(struct udp_receiver *r, struct worker *w);
/* There may be input.  True: there may be more. */
bool udp_ready_receive(struct udp_receiver *r, struct udp_socket *s);
bool udp_ready_send(struct worker_hook *hook); /* sends all that is queued */
