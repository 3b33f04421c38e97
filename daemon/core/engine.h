/* An engine: how bytes move and how a worker sleeps.
 *
 * Every function runs on the worker's thread.  An engine appends to c->rx through conn_input(),
 * drains c->tx and reports it through conn_sent(), and counts each of its operations that will
 * still name a connection in c->pending: a connection is not freed before that is 0, so a pointer
 * that comes back from the kernel is always valid.
 *
 * To add one: a file in engine/ that defines a `const struct engine`, and its line in
 * registry/registry.c.  An engine that works in another way with some options, as over UDP, has a
 * variant: a `const struct engine` of the same name. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "reason.h"
#include "transport.h"

struct conn;
struct key_table;
struct op;
struct pair;
struct region;
struct remote;
struct sockaddr_storage;
struct worker;
struct worker_options;

/* One listening socket of one worker; owned by the worker. */
struct acceptor;

/* A port of a device that a worker uses.  All fields but `gone` are constant once
 * worker->devices.count includes it. */
struct engine_device {
	char name[64];
	unsigned port;
	const char *link_layer; /* "Ethernet", "InfiniBand" */
	const char *transport;  /* "RoCE", "iWARP", "InfiniBand" */
	_Atomic bool gone;      /* reported as unplugged */
};

/* One requirement of an engine, as --doctor found it; reason and fix: only if it is not ok. */
struct engine_finding {
	const char *name, *value, *reason, *fix;
	bool ok;
};
typedef void engine_found(void *context, const struct engine_finding *finding);

/* For an engine whose connections are not sockets: the addresses and devices of its clients. */
struct engine_clients {
	/* Fills in the peer's address. */
	void (*peer)(const struct conn *c, struct sockaddr_storage *ret_peer);

	/* Fills in the local address of c; AF_UNSPEC: unknown.  Optional: it is unknown. */
	void (*local)(const struct conn *c, struct sockaddr_storage *ret_local);

	/* The device of the connection, one of w->devices.  Optional: it has none. */
	const struct engine_device *(*device)(const struct conn *c);

	/* The service has verified that c's client did not forge its address.  The engine
	 * then keeps the client's place in the table of peers, and no longer limits output to
	 * the bytes received.  Optional. */
	void (*verified)(struct conn *c);
};

/* For an engine with one-sided operations (RDMA reads and writes), by both sides: see remote.h. */
struct engine_remote {
	/* The engine uses the request until it calls remote_finish(). */
	void (*submit)(struct remote *remote);
	int (*region)(struct conn *c, size_t bytes, struct region *ret_region);

	/* For services that have message(). */
	void (*scratch_region)(const struct conn *c, struct region *ret_region);
	unsigned (*send_scratch)(struct conn *c, uint32_t bytes);

	/* For services with SERVICE_EXCHANGES: see pair.h. */
	int (*pair_mtu)(struct conn *c);
	int (*pair)(struct conn *c, struct pair *pair);
	bool (*is_pair)(const struct conn *c);
};

struct engine {
	const char *name; /* as in `engine = NAME` */
	const struct transport *transport;

	/* Its own keys of the listener's section, see keys.h.  Optional; variants have those of the
	 * engine of their name. */
	const struct key_table *keys;

	/* Variants only: do workers with these options use it, not the engine of its name? */
	bool (*suits)(const struct worker_options *options);

	/* The reason why this build lacks the engine; then only the members above and init() are
	 * set.  NULL: the build has it. */
	const char *absent;

	/* Its transport carries messages: each view of c->rx is one as it was received, each view
	 * of c->tx is sent as one.  The core neither joins nor splits them. */
	bool messages;

	/* One turn in this many is sampled; more for engines for which timing a
	 * send costs a system call. */
	unsigned sample_turns;

	/* Bits of enum engine_feature that this engine uses on hosts which offer them; without the
	 * bits that become known only with the first connection. */
	uint64_t features;

	/* The engine serves over its listening sockets: no connection is accepted, and a client's
	 * first datagram begins one.  The memory of its connections needs no limit of its own,
	 * since the engine stops receiving while sends cannot proceed.  No event tells that a
	 * client has gone: one that was silent for `idle-timeout`, or WORKER_FORGET_NS, is
	 * forgotten; beyond `max-connections` a new one takes the place of the oldest (peers.h). */
	bool connectionless;

	/* Bytes that the engine needs in each chunk in addition to the longest message. */
	uint32_t headroom;

	/* Allocates w->engine_state and whatever the engine's kernel side needs; reports the
	 * features in use by worker_feature().  0, or -errno with the reason. */
	int (*init)(struct worker *w, struct reason *reason);
	void (*fini)(struct worker *w);

	/* For --doctor: reports each device, limit and permission through found().  Any thread, no
	 * worker needed.  NULL: the result of init() is enough. */
	void (*examine)(engine_found *found, void *context);

	/* Starts (on) or stops accepting on a->fd.  NULL: the engine has no sockets. */
	void (*watch_listener)(struct worker *w, struct acceptor *a, bool on);

	/* Starts or stops accepting on w->accept.endpoints, which init() has bound; off also
	 * unbinds them. NULL: the engine accepts from sockets (watch_listener()) alone.  init() may
	 * add sockets at the endpoints to w->accept.acceptors, which have room for one at each. */
	void (*accept)(struct worker *w, bool on);

	/* The worker that is to serve a client with this address, whose socket w has accepted.
	 * Optional: w is. */
	struct worker *(*choose)(const struct worker *w, const struct sockaddr_storage *peer);

	/* From now until the worker ends, runs op->done(op, 0, 0) on each turn that finds fd
	 * readable.  0 or -errno. */
	int (*watch)(struct worker *w, int fd, struct op *op);

	/* Submits queued operations, sleeps if block (until w->deadlines.wake_ns at most, 0: no
	 * limit), calls worker_awake() once, and runs op->done() of each completed operation. */
	void (*wait)(struct worker *w, bool block);

	/* A new connection: start receiving.  0 or -errno. */
	int (*open)(struct conn *c);

	/* The connection stays open after its first run().  The engine now does the work that its
	 * open() put off, because many connections bring one request and end.  Until then
	 * CONN_FRESH is set.  Optional. */
	void (*keep_open)(struct conn *c);

	/* Backpressure: stop or resume receiving. */
	void (*recv)(struct conn *c, bool on);

	/* Hands as much of c->tx to the kernel as the kernel takes. */
	void (*flush)(struct conn *c);

	/* Stop: every operation in flight completes soon; must not free c, nor close c->fd. */
	void (*close)(struct conn *c);

	/* Nothing is in flight any more: closes c->fd and frees the resources of open().  NULL:
	 * there is only c->fd. */
	void (*release)(struct conn *c);

	/* Updates the counters of events that only the kernel counts, such as drops.  Optional. */
	void (*flush_counters)(struct worker *w);

	/* NULL: its connections are sockets, whose addresses getpeername() and getsockname()
	 * return. */
	const struct engine_clients *clients;

	/* One-sided operations, see remote.h.  NULL: none. */
	const struct engine_remote *remote;
};
