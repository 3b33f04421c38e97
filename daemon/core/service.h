/* A service: what bytes mean.  Written once, runs over every engine.
 *
 * To add one: a file in service/ that defines a `const struct service`, and its line in
 * service/services.c. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct conn;
struct greeting;
struct reason;
struct worker;
struct worker_options;

enum { SERVICE_OPERATIONS_MAX = 8 };

struct service {
	const char *name; /* as in `service = NAME` */

	/* The kinds of operations that it counts, NULL-terminated. */
	const char *operations[SERVICE_OPERATIONS_MAX + 1];

	/* By bits of operations[]: those of a byte stream, each what one receive or send moved, be
	 * it one request of the client or many. */
	unsigned batches;

	/* A client's command to try it with, for people; {host} and {port} stand for where it is,
	 * {transport} for how, {name} for what name_of() says. */
	const char *example;

	/* The name by which clients know a listener with this w->shared.  Optional. */
	const char *(*name_of)(const void *shared);

	/* It sends without being asked: run() is also called whenever tx has drained. */
	bool source;

	/* Each input is answered with output: a send that fails tells of a client's reset. */
	bool answers;

	/* It tells how many requests a connection brings in a turn: gather_requests(). */
	bool requests;

	/* Bytes that a connection may hold if the pool is roomy; 0: CONN_HELD_MAX. */
	size_t held_max;

	/* The service can do with messages, too: see engine->messages. */
	bool messages;

	/* Bytes of the longest that it must understand, which sets a limit to buffer-size; 0: any
	 * size will do. */
	size_t message_max;

	/* Tolerates lost messages and missing disconnects. */
	bool datagrams;

	/* Listeners with `transport = udp` may have it. */
	bool udp;

	/* Its clients send without waiting for answers: as many receives as there can be. */
	bool one_way;

	/* The service reads and writes its client's memory, or lends it some: needs an engine that
	 * can, see remote.h. */
	bool remote;

	/* A client's connections share state without locks: all connections of an address go to the
	 * same worker. */
	bool together;

	/* It lends clients memory of its own, of `region-size` bytes at most. */
	bool lends;

	/* It serves the listener's `exports`: w->mounts, one at least. */
	bool exports;

	/* State shared by all workers of one listener (w->shared): made before they start, freed
	 * when they have ended, used by any of their threads at once.  NULL, with the reason.
	 * Optional, both or none. */
	void *(*shared_new)(const struct worker_options *options, const char *listener,
			    struct reason *reason);
	void (*shared_free)(void *shared);

	/* The listener with that state, of this service, now serves over this socket; -1: from now
	 * on over none, and more than once.  Main thread.  Optional. */
	void (*listens)(void *shared, const struct service *service, int fd);

	/* A client wishes to connect: see greeting.h.  0, or -errno: it is refused; either with a
	 * reply.  Optional: who is refused is told why in words. */
	int (*greet)(const struct worker *w, struct greeting *greeting);

	/* A connection begins; may set c->state.  0 or -errno: the connection is dropped. Optional.
	 */
	int (*open)(struct conn *c);

	/* Moves views from c->rx to c->tx, or keeps them; never blocks.  Called when rx grew, tx
	 * drained, an operation of this connection completed, or the pool recovered.  To refuse
	 * input, leave it in c->rx. */
	void (*run)(struct conn *c);

	/* Instead of views in c->rx: a message of `bytes` has arrived, whose first ones, as many as
	 * its greeting's message_max, are at head until this returns; the others nobody sees.  On
	 * engines with remote operations; within the engine's wait(), run() follows.  Optional. */
	void (*message)(struct conn *c, const uint8_t *head, uint32_t bytes);

	/* Writes what a client has said of itself, if it has, to a text that is empty.  Optional.
	 */
	void (*describe)(const struct conn *c, char *text, size_t size);

	/* The connection ends; nothing is in flight any more.  Frees c->state.  Optional. */
	void (*close)(struct conn *c);
};

/* service/services.c, NULL-terminated. */
extern const struct service *const services[];

/* NULL when there is none of that name. */
const struct service *service_find(const char *name);
