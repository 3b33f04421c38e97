/* A service: what bytes mean.  Written once, runs over every engine.
 *
 * To add one: a folder in service/ that defines a `const struct service`, and
 * its line in registry/registry.c. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct conn;
struct connect_data;
struct key_table;
struct reason;
struct transport;
struct worker;
struct worker_options;

enum {
	SERVICE_OPERATIONS_MAX = 8,
	/* Where HOSTNQN SUBNQN begin in the identity of an NVMe host. */
	SERVICE_IDENTITY_NQNS = sizeof("NVMe0R01 ") - 1,
};

/* Properties of a service.  A transport needs some of them and refuses others: transport.h. */
enum service_flag {
	/* It sends without requests: run() is also called whenever tx has drained. */
	SERVICE_SENDS_FIRST = 1 << 0,
	/* It answers each input with output, so a client's reset shows as a failed send. */
	SERVICE_ANSWERS = 1 << 1,
	/* It reports how many requests a connection brings in a turn: batch_requests(). */
	SERVICE_COUNTS_REQUESTS = 1 << 2,
	/* It also runs over engines with messages: see engine->messages. */
	SERVICE_MESSAGES = 1 << 3,
	/* It may be used by listeners with `transport = udp`. */
	SERVICE_UDP = 1 << 5,
	/* Its clients send without waiting for answers, so engine rdma posts as
	 * many receives as it can. */
	SERVICE_ONE_WAY = 1 << 6,
	/* It uses one-sided operations, by either side: see remote.h. */
	SERVICE_REMOTE = 1 << 7,
	/* The connections of a client share state without locks, so all connections from an address
	 * go to the same worker. */
	SERVICE_SAME_WORKER = 1 << 8,
	/* Its open() wants the client's address (w->accept.arrival), which costs no
	 * system call while accepting. */
	SERVICE_WANTS_ADDRESS = 1 << 9,
	/* Its clients may access memory of the worker (remote_region()), `region-size` bytes at
	 * most. */
	SERVICE_REGION = 1 << 10,
	/* It serves the listener's `exports`: w->mounts has one at least. */
	SERVICE_EXPORTS = 1 << 11,
	/* Its clients may be silent for hours and have a keep-alive of their
	 * own: `idle-timeout` is invalid. */
	SERVICE_KEEPS_ALIVE = 1 << 12,
	/* RDMA: clients may agree on queue pairs over sockets, so the engine accepts them at the
	 * listener's addresses as well: see pair.h. */
	SERVICE_EXCHANGES = 1 << 14,
	/* It reads c->rx and appends to c->tx only within run(), and uses no socket: it may be used
	 * by listeners with `tls`. */
	SERVICE_TLS = 1 << 15,
	/* With `tls` its connections begin without encryption, until
	 * it calls w->service->secure(). */
	SERVICE_STARTS_TLS = 1 << 16,
	/* With `tls` its clients prove keys of NVMe: it needs `tls-psk-file`. */
	SERVICE_NVME_KEYS = 1 << 17,
};

/* An address at which a listener serves. */
struct service_endpoint {
	const struct transport *transport;
	struct sockaddr_storage sa; /* port 0 resolved */
	int fd;                     /* its socket, the listener's; -1: the engine has bound it */
	uint64_t datagram_max;      /* bytes of the longest datagram that it receives */
	bool tls;                   /* its connections are inside TLS */
};

struct service {
	const char *name; /* as in `service = NAME` */
	uint32_t flags;   /* enum service_flag */

	/* Its own keys of the listener's section, whose values options_of()
	 * finds; see keys.h.  Optional. */
	const struct key_table *keys;

	/* The kinds of operations that the service counts, NULL-terminated. */
	const char *operations[SERVICE_OPERATIONS_MAX + 1];

	/* Bit mask of operations[] that count batches of a byte stream.  A batch is the data of one
	 * receive or send, whatever the number of the client's requests in it. */
	unsigned batches;

	/* A client's command to try the service with, shown to users. {host}, {port} and
	 * {transport} are replaced by the listener's, {name} by the result of name_of(). */
	const char *example, *example_udp, *example_rdma, *example_tls; /* NULL: as the first */
	const char *example_psk; /* of TLS with shared keys; NULL: openssl s_client */

	/* The name by which clients address a listener, given its w->shared.  Optional. */
	const char *(*name_of)(const void *shared);

	/* Bytes that a connection may hold while the pool has room; 0: CONN_HELD_MAX. */
	size_t held_max;

	/* Bytes of the longest message that it must be able to receive, the minimum of buffer-size
	 * then; 0: any size will do. */
	size_t message_max;

	/* State shared by all workers of one listener (w->shared): made before they start, freed
	 * when they have ended, used by all their threads concurrently.  Both run on the main
	 * thread.  shared_new(): NULL with the reason on failure.  Optional: both or none. */
	void *(*shared_new)(const struct worker_options *options, const char *listener,
			    struct reason *reason);
	void (*shared_free)(void *shared);

	/* A new listener, which is to replace the one with that `shared`, has the same state; then
	 * shared_free() runs once for each.  Main thread.  Optional: without it each listener has
	 * its own. */
	void *(*shared_keep)(void *shared);

	/* The listener with that `shared` now serves at this endpoint, of which it may have
	 * several, and a socket of each worker for each; NULL: it serves nowhere from now on (may
	 * be repeated).  Main thread.  Optional. */
	void (*listens)(void *shared, const struct service *service,
			const struct service_endpoint *endpoint);

	/* Called after the last listens() of a start, a reload, a drain or a resume.  Main thread.
	 * Optional. */
	void (*settle)(void);

	/* A client asks to connect over RDMA: see connect_data.h.  0: accept, -errno:
	 * refuse; the reply is sent in both cases.  Optional: without it a refused client
	 * gets the reason as text. */
	int (*connect)(const struct worker *w, struct connect_data *connect_data);

	/* Bytes of c->state, zeroed, which the core allocates before open() and frees after
	 * close(); 0: the service does that by itself. */
	size_t state_bytes;

	/* A connection begins.  0 or -errno: the connection is dropped.  Optional. */
	int (*open)(struct conn *c);

	/* Moves views from c->rx to c->tx, or keeps them; never blocks.  Called when rx grew, tx
	 * drained, an operation of this connection completed, or the pool recovered.  To refuse
	 * input, leave it in c->rx. */
	void (*run)(struct conn *c);

	/* If set, messages do not appear in c->rx.  Instead this is called, within the engine's
	 * wait(), for each message of `bytes` bytes: the first connect_data.message_max of them are
	 * at head until this returns, the rest is not accessible.  run() follows.  Only on engines
	 * with remote operations.  Optional. */
	void (*message)(struct conn *c, const uint8_t *head, uint32_t bytes);

	/* Writes the client's description of itself, if it sent one; text is empty.  Optional. */
	void (*describe)(const struct conn *c, char *text, size_t size);

	/* Set by a stage around a service, which ends the output in its
	 * own way: see conn_end_output(). */
	void (*end_output)(struct conn *c);
	/* Set by a stage around a service with SERVICE_STARTS_TLS, which calls it within run() when
	 * it has taken all input: tx is the last output without encryption, and in the next run()
	 * rx is what TLS records contain. */
	void (*secure)(struct conn *c);

	/* Set by a stage: a receive or send failed with `error` (positive errno).  True: the stage
	 * has handled it, c is closed or runs again. */
	bool (*failed)(struct conn *c, int error);

	/* Set by a stage: the identity of an NVMe host of which the client has proved the key;
	 * NULL: of none.  Valid until close(). */
	const char *(*identity)(const struct conn *c);

	/* The connection ends; nothing is in flight any more.  Optional. */
	void (*close)(struct conn *c);
};
