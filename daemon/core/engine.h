/* An engine: how bytes move and how a worker sleeps.
 *
 * Every function runs on the worker's thread.  An engine appends to c->rx through conn_input(),
 * drains c->tx and reports it through conn_sent(), and counts each of its operations that will
 * still name a connection in c->pending: a connection is not freed before that is 0, so a pointer
 * that comes back from the kernel is always valid.
 *
 * To add one: a file in engine/ that defines a `const struct engine`, and its line in
 * engine/engines.c. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "reason.h"
#include "transport.h"

struct conn;
struct op;
struct region;
struct remote;
struct sockaddr_storage;
struct worker;

/* One listening socket of one worker; owned by the worker. */
struct acceptor;

/* A port of a device that a worker uses.  All but `gone` stays as it is once others may see it. */
struct engine_device {
	char name[64];
	unsigned port;
	const char *link_layer; /* "Ethernet", "InfiniBand" */
	const char *transport;  /* "RoCE", "iWARP", "InfiniBand" */
	_Atomic bool gone;      /* unplugged, as far as is known */
};

/* One requirement of an engine, as --doctor found it; reason and fix matter when it is not ok. */
struct engine_finding {
	const char *name, *value, *reason, *fix;
	bool ok;
};
typedef void engine_found(void *context, const struct engine_finding *finding);

struct engine {
	const char *name; /* as in `engine = NAME` */
	const struct transport *transport;

	/* The reason why this build does not have the engine; then only name, transport and init()
	 * are set.  NULL: it has all. */
	const char *absent;

	/* Its transport carries messages: each view of c->rx is one as it was received, each view
	 * of c->tx is sent as one.  The core neither joins nor splits them. */
	bool messages;

	/* One turn in so many is sampled: fewer where knowing when a send was taken costs a system
	 * call. */
	unsigned sample_turns;

	/* Bits of enum engine_feature that it has on hosts which grant them; without those that
	 * show with a connection only. */
	uint32_t features;

	/* The engine that serves the listener instead with `transport = udp` or `qp-type = ud`: see
	 * engine_of().  NULL: none. */
	const struct engine *datagrams;

	/* Its listening sockets are those over which it serves: nobody is accepted, a client begins
	 * with its first datagram, and nothing says that it is gone.  What may be held is bounded
	 * by what is received, which stops while sends do not get away. */
	bool connectionless;

	/* Bytes that it needs in a chunk besides the longest message. */
	uint32_t headroom;

	/* Allocates w->engine_state and whatever the engine's kernel side needs; sets the features
	 * that are really in use with worker_feature().  0, or -errno with the reason. */
	int (*init)(struct worker *w, struct reason *reason);
	void (*fini)(struct worker *w);

	/* Tells of each device, limit and permission on any thread, without a worker.  NULL:
	 * init() says it all. */
	void (*examine)(engine_found *found, void *context);

	/* Starts (on) or stops accepting on a->fd. */
	void (*listen)(struct worker *w, struct acceptor *a, bool on);

	/* Starts or stops accepting on w->endpoints, which init() has bound; off also gives them
	 * up.  NULL: the engine takes sockets. */
	void (*accept)(struct worker *w, bool on);

	/* op->done(op, 0, 0) on every turn that finds fd readable, until the worker ends. */
	int (*watch)(struct worker *w, int fd, struct op *op);

	/* Submits what is queued, sleeps if block (until w->deadline_ns at most, 0: for ever), and
	 * runs op->done() of what completed, after one worker_awake(). */
	void (*wait)(struct worker *w, bool block);

	/* A new connection: start receiving.  0 or -errno. */
	int (*open)(struct conn *c);

	/* Backpressure: stop or resume receiving. */
	void (*recv)(struct conn *c, bool on);

	/* Hand c->tx to the kernel, as much as it takes. */
	void (*flush)(struct conn *c);

	/* Stop: every operation in flight completes soon; must not free c, nor close c->fd. */
	void (*close)(struct conn *c);

	/* Nothing is in flight any more: close c->fd and drop what open() made. */
	void (*release)(struct conn *c);

	/* The service knows by other means who c's client is: its place is safe, and what is sent
	 * to it need not be less than what came.  Optional. */
	void (*vouch)(struct conn *c);

	/* Counts what only the kernel knows.  Optional. */
	void (*settle)(struct worker *w);

	/* Fills in the peer's address; NULL: use getpeername(). */
	void (*peer)(const struct conn *c, struct sockaddr_storage *ret_peer);

	/* How it has reached us; AF_UNSPEC: unknown.  NULL: use getsockname(). */
	void (*local)(const struct conn *c, struct sockaddr_storage *ret_local);

	/* The device of the connection, one of w->devices; NULL: sockets have none. */
	const struct engine_device *(*device)(const struct conn *c);

	/* One-sided operations, both or NULL: see remote.h.  Takes `remote` until remote_finish().
	 */
	void (*remote)(struct remote *remote);
	int (*region)(struct conn *c, size_t bytes, struct region *ret_region);

	/* For services that have message(): see remote.h. */
	void (*spill)(const struct conn *c, struct region *ret_region);
	unsigned (*send_spill)(struct conn *c, uint32_t bytes);
};

/* engine/engines.c, NULL-terminated, in the order that `engine = auto` tries from the end. */
extern const struct engine *const engines[];

/* Does the engine, or its table for datagrams, have that transport? */
static inline bool engine_carries(const struct engine *engine, const struct transport *transport)
{
	return engine->transport == transport ||
	       (engine->datagrams && engine->datagrams->transport == transport);
}

/* NULL when there is none of that name. */
const struct engine *engine_find(const char *name);
