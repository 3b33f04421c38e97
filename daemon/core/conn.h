/* A connection: one client on one worker, for its whole life.
 *
 * Only conn_run() decides its fate.  It is freed when nothing is in flight (conn_in_flight()) and
 * it is on no list; until then every pointer to it stays valid.
 *
 * A file of core/ calls only files below it, in this order, which `make lint` checks:
 * worker_requests.c and worker_thread.c (the owner's side); worker_turn.c; pressure_check.c and
 * worker_accept.c; conn.c; then the files that only keep their own data: pressure.c, bulk.c,
 * slices.c, io.c, deadline.c, pool.c, bufq.c.
 *
 * Only conn_close() sets CONN_CLOSING, and only conn.c frees. */
#pragma once
#include <assert.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "bufq.h"
#include "log.h"
#include "op.h"
#include "parse.h"
#include "worker.h"

enum {
	CONN_HELD_MAX = 512 * 1024, /* bytes a connection may hold before its input is paused, if
				       its service does not say otherwise */
	/* A view counts at least this toward that limit: a small view may pin a whole chunk. */
	CONN_VIEW_BYTES = 4096,
	CONN_COPY_MAX = 512, /* input up to this size is packed behind the last view */
};

enum conn_flags {
	CONN_READY = 1 << 0,     /* on the ready list */
	CONN_NO_MEMORY = 1 << 1, /* waits for the pool */
	CONN_EOF = 1 << 2,       /* the peer has sent its FIN */
	CONN_CLOSING = 1 << 3,   /* engine->close() was called */
	CONN_RECV_OFF = 1 << 4,  /* input is paused by backpressure */
	CONN_OPEN = 1 << 5,      /* service->open() succeeded */
	/* run by the worker, not by the client's input: does not reset the idle timer */
	CONN_OWN_RUN = 1 << 6,
	/* Set by the service: run it when tx has drained; always set for a source. */
	CONN_WATCH_TX = 1 << 7,
	CONN_NO_INPUT = 1 << 8, /* waits for chunks to receive into */
	CONN_DUE = 1 << 9,      /* the service's deadline has passed */
	/* The connection waited for a chunk, and one is reserved for its next receive. */
	CONN_GRANTED = 1 << 10,
	/* Set by the service: a drain does not close the connection just because it is silent. */
	CONN_LASTING = 1 << 11,
	/* datagrams: the client's address is not forged; see engine_clients.verified(). */
	CONN_TRUSTED = 1 << 12,
	/* The connection waits for memory, and its socket holds output that the
	 * peer has not acknowledged. */
	CONN_UNACKED = 1 << 13,
	/* Set by the service: tx is its last output; see conn_close_when_sent(). */
	CONN_LAST = 1 << 14,
	CONN_FRESH = 1 << 15, /* the connection has not run yet; see engine->keep_open() */
	CONN_WAITS_FOR_TX = CONN_RECV_OFF | CONN_EOF | CONN_CLOSING | CONN_WATCH_TX | CONN_LAST |
			    CONN_NO_MEMORY,
	/* the socket has a low-water mark, so input comes in larger pieces: see bulk.h */
	CONN_RCVLOWAT = 1 << 16,
	CONN_BULK =
		1 << 17, /* a bulk receiver that has brought much in one turn: see bulk_share() */
	CONN_DROPS = 1 << 18, /* its input is only counted: the kernel drops it, see bulk_drop() */
	/* Set by a stage that receives by itself.  The engine then receives nothing but in its
	 * open(): it runs c when the socket has input.  After the stage has cleared the flag, the
	 * next engine->recv() makes the engine receive again. */
	CONN_RAW = 1 << 19,
	CONN_ENGINE = 1 << 20, /* this bit and all above belong to the engine */
};
static_assert(CONN_RAW < CONN_ENGINE, "an engine's flags overlap those of the core");

enum {
	CONN_LOG_MAX = 512,  /* bytes of a message of the log */
	CONN_TEST_MAX = 192, /* of them, of the options of a test */
};

enum conn_end {
	CONN_END_PEER,
	CONN_END_RESET,
	CONN_END_IDLE,
	CONN_END_PROTOCOL,
	/* The transport ended it: messages arrived faster than they were received. */
	CONN_END_OVERRUN,
	CONN_END_DRAIN,
	CONN_END_ERROR,
};

/* How a connection waits for the pool: pressure.c's, `moved` and `stalled` pressure_check.c's. */
struct conn_wait {
	struct conn *next, *prev; /* links in the queue that it is in */
	/* Connections that wait are served by their tickets, lowest first; 0: it has never waited.
	 */
	uint64_t ticket;
	uint64_t ticket_bytes_in; /* bytes_in when it was given that ticket */
	uint64_t moved;           /* conn_moved() at the last worker_check_pressure() */
	uint8_t queue;            /* enum wait_kind: the queue that it is in */
	/* Successive calls of worker_check_pressure() in which the peer had taken no output. */
	uint8_t stalled;
};

struct conn {
	struct worker *worker;
	uint32_t flags;
	uint32_t pending; /* the engine's operations in flight that name this connection */
	struct bufq rx;   /* received, not yet consumed by the service */
	struct bufq tx;   /* to send */
	/* Completion engines: output that was handed to the kernel, and whose
	 * completion has not arrived yet. */
	struct bufq sending;
	struct conn *ready_next;
	uint64_t op_start_ns; /* begin of the operation that is being timed; 0: none is */
	uint64_t active_ns;
	int fd;
	union {
		uint32_t events;    /* epoll.c: the events that are armed */
		uint32_t recv_left; /* uring_zcrx.c: bytes that its receive may still bring */
	};
	struct op recv_op, send_op;
	uint64_t bytes_in, bytes_out;
	void *state;         /* owned by the service */
	size_t pinned_bytes; /* bytes in zero-copy sends whose buffers the kernel still uses */
	/* The service's I/O in flight, see conn_io_begin(): requests, and the bytes
	 * and views that they hold. */
	struct {
		size_t count, bytes, views;
	} io;
	/* Cold: not used while bytes flow. */
	struct op control_op, reset_op; /* the engine's, for rare operations */
	void *engine_state;
	uint64_t opened_ns;
	struct {
		/* The service's deadline, CLOCK_MONOTONIC; 0: none.  See conn_set_deadline(). */
		uint64_t ns;
		/* Armed for the earlier of that deadline and idle-timeout, or
		 * before both: see conn_due(). */
		struct timer timer;
		/* conn_await_input(): the value of bytes_in at which the timeout restarts. */
		uint64_t restart_bytes_in;
	} due;
	uint64_t id;
	struct conn *next, *prev; /* links in the list of all the worker's connections */
	struct conn_wait wait;
	void *stage; /* of a service around the service: see tls/stage.h */
	/* slices.c: its I/O in slices, oldest first, and the next connection with any. */
	struct {
		struct io *first, *last;
		struct conn *next;
	} slices;
	uint8_t op_index, end;
	uint8_t traffic_class; /* of datagrams to this client; see conn_set_traffic_class() */
	uint32_t op_count;     /* operations that the clock of op_start_ns runs for */
	/* CONN_BULK: the turn in which it last received, or became one,
	 * modulo 2^32; see bulk_share(). */
	uint32_t bulk_turn;
};

/* Called by engines and services. */

/* Has the worker run c in this turn or the next. */
static inline void conn_ready(struct conn *c)
{
	struct worker *w = c->worker;

	if (c->flags & CONN_READY)
		return;
	c->flags |= CONN_READY;
	c->ready_next = NULL;
	*w->turn.ready_tail = c;
	w->turn.ready_tail = &c->ready_next;
}

/* True: the connection has to run once tx has drained, because its service left input in rx or
 * asked for it, input is paused, or a FIN is to be answered. */
static inline bool conn_waits_for_tx(const struct conn *c)
{
	return c->rx.head || (c->flags & CONN_WAITS_FOR_TX);
}

/* conn_waits_for_tx() when q has drained.  c->tx itself drains only within flush(), while c runs;
 * conn_run() checks all other reasons after that anyway. */
static inline bool conn_waits_for(const struct conn *c, const struct bufq *q)
{
	return q == &c->tx ? c->rx.head || (c->flags & CONN_WATCH_TX) : conn_waits_for_tx(c);
}

/* Is an operation of the engine or I/O of the service in flight?  Then c must not be freed. */
static inline bool conn_in_flight(const struct conn *c)
{
	return c->pending > 0 || c->io.count > 0;
}

/* The service starts an I/O into or from the memory of data, which must stay unchanged until
 * conn_io_end() of the same data.  Meanwhile the memory counts as held by c, and c is neither idle
 * nor freed.  The caller of the last conn_io_end() must call conn_ready(). */
static inline void conn_io_begin(struct conn *c, const struct bufq *data)
{
	c->io.count++;
	c->worker->io.count++;
	c->io.bytes += data->bytes;
	c->io.views += data->views;
}

static inline void conn_io_end(struct conn *c, const struct bufq *data)
{
	c->io.count--;
	c->worker->io.count--;
	c->io.bytes -= data->bytes;
	c->io.views -= data->views;
}

/* Called by engines. */

/* Takes ownership of fd in every case.  Asks the owner's admit(); may close fd at once. */
void conn_new(struct worker *w, int fd);

/* The two halves of conn_new(), for engines without sockets.
 *
 * conn_admit(): may peer connect?  1: yes, and the key `allow` names it; 0: yes; -errno: no, and
 * the refusal was counted.  conn_start() begins the connection.  0, or -ENOMEM: engine_state is
 * still the caller's. */
int conn_admit(struct worker *w, int fd, const struct sockaddr_storage *peer);
int conn_start(struct worker *w, int fd, void *engine_state);

/* Slow paths of conn_input() and conn_sent(): several views, or an operation being timed. */
void conn_input_more(struct conn *c, struct chunk *k, uint8_t *data, uint32_t len);
void conn_sent_some(struct conn *c, struct bufq *q, size_t bytes, uint64_t sent_ns);

/* Chunk k holds len bytes at data.  The view takes a reference of its own; the caller keeps its. */
static inline void conn_input(struct conn *c, struct chunk *k, uint8_t *data, uint32_t len)
{
	struct pool *p = &c->worker->pool;

	stat_add(c->worker->stats.bytes_in, len);
	c->bytes_in += len;
	if (unlikely(c->flags & CONN_CLOSING))
		return;
	/* The usual case, one request: inline, so that no register needs saving. */
	if (likely(!c->rx.head && p->views)) {
		struct view *v = view_new(p, k, data, len);

		c->rx = (struct bufq){ .head = v, .tail = v, .bytes = len, .views = 1 };
		conn_ready(c);
	} else {
		conn_input_more(c, k, data, len);
	}
}

/* The kernel took `bytes` of q (c->tx or c->sending); sent_ns: when, 0: now. */
static inline void conn_sent(struct conn *c, struct bufq *q, size_t bytes, uint64_t sent_ns)
{
	struct view *v = q->head;

	stat_add(c->worker->stats.bytes_out, bytes);
	c->bytes_out += bytes;
	if (likely(!v->next && v->len == bytes && !c->op_start_ns)) {
		*q = (struct bufq){ 0 };
		view_free(&c->worker->pool, v);
		if (conn_waits_for(c, q))
			conn_ready(c);
	} else {
		conn_sent_some(c, q, bytes, sent_ns);
	}
}

/* conn_sent() for messages: removes the first `views` of q.  sent: the kernel took them; false:
 * they are lost. */
void conn_sent_messages(struct conn *c, struct bufq *q, size_t views, bool sent, uint64_t sent_ns);

/* The peer has sent its FIN. */
void conn_eof(struct conn *c);

/* A receive or send failed with `error` (positive errno): closes c, or the service handles it. */
void conn_failed(struct conn *c, int error);

/* Called by engines and services. */

/* NULL: c is a socket.  Some connections of engine `rdma` are sockets as well: see pair.h. */
static inline const struct engine_clients *conn_clients(const struct conn *c)
{
	return c->fd < 0 ? c->worker->engine->clients : NULL;
}

/* The device that carries c, one of its worker's devices; NULL: c is a socket. */
static inline const struct engine_device *conn_device(const struct conn *c)
{
	const struct engine_clients *clients = conn_clients(c);

	return clients && clients->device ? clients->device(c) : NULL;
}

/* Output that the kernel has not taken yet. */
static inline size_t conn_queued_bytes(const struct conn *c)
{
	return c->tx.bytes + c->sending.bytes;
}

/* Has the connection output that its peer has not taken?  Then it waits for the peer to read, not
 * for the pool: where chunks are short, connections without such output come first. */
static inline bool conn_has_unsent(const struct conn *c)
{
	return c->tx.head || c->sending.head;
}

/* May an engine take a chunk from the pool to receive into?  If not, it calls conn_reserve(),
 * receives into the view that this returns, and passes the view and the number of bytes received
 * (0: none) to conn_reserve_used(), which hands them to c and frees the rest.  The view is a chunk,
 * or 1/CONN_RESERVE_PARTS of one while chunks are short; NULL: c waits.  Clears CONN_GRANTED. */
enum { CONN_RESERVE_PARTS = 16 };
static inline bool conn_may_receive(const struct conn *c)
{
	const struct pool *p = &c->worker->pool;

	return likely(p->free_count > p->floor);
}
struct view *conn_reserve(struct conn *c);
void conn_reserve_used(struct conn *c, struct view *reserve, size_t bytes);

/* Gives up the chunk that CONN_GRANTED reserves for c, since c will not receive now. */
void conn_drop_grant(struct conn *c);

/* Does the service wait for chunks (conn_wait_for_memory())?  False if only a receive does: such a
 * connection can still run. */
static inline bool conn_waits_for_memory(const struct conn *c)
{
	return (c->flags & (CONN_NO_MEMORY | CONN_NO_INPUT)) == CONN_NO_MEMORY;
}

/* Bytes of c's queued output and of its I/O in flight. */
static inline size_t conn_work_bytes(const struct conn *c)
{
	return c->tx.bytes + c->io.bytes;
}

/* For services that answer several requests in a run, which begins with conn_run_begin(): may the
 * next step begin?  After CONN_RUN_BYTES the other requests wait for the next turn.  This is when
 * the first answers are sent: their data is still in the CPU's cache, the next answers use their
 * chunks again, and the client has work.
 *
 * This limits one run, not the amount in flight: the next turn follows at once, and begins
 * as much again.  Each step counts as CONN_STEP_BYTES more than its data, as a step without
 * data costs CPU time, too. */
enum { CONN_RUN_BYTES = 512 * 1024, CONN_STEP_BYTES = 2048 };
static inline int64_t conn_run_begin(const struct conn *c)
{
	return (int64_t)conn_work_bytes(c) + CONN_RUN_BYTES;
}

static inline bool conn_goes_on(struct conn *c, int64_t *limit)
{
	*limit -= CONN_STEP_BYTES;
	if (unlikely((int64_t)conn_work_bytes(c) >= *limit)) {
		conn_ready(c);
		return false;
	}
	return !(c->flags & CONN_CLOSING) && !conn_waits_for_memory(c);
}

/* Called by a service: runs it again when the pool has chunks. */
void conn_wait_for_memory(struct conn *c);
void conn_wait_to_receive(struct conn *c); /* called by an engine: no chunk to receive into */
/* Other connections wait for chunks: c gives back what it can.  A small input is copied into a
 * chunk that it shares with others, and the service runs, as it may be able to consume it now. */
void conn_compact(struct conn *c);
void conn_close(struct conn *c, enum conn_end end);
/* Logs a message about c.  Those above LOG_DEBUG are written a few times a second for all
 * connections; debugging is off, as asking for the peer costs a system call. */
void conn_log(const struct conn *c, int level, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
#define conn_warn(c, ...) conn_log(c, LOG_WARNING, __VA_ARGS__)
/* Called by a service from run(): conn_close() once the kernel has taken all of tx. */
static inline void conn_close_when_sent(struct conn *c, enum conn_end end)
{
	c->flags |= CONN_LAST;
	c->end = (uint8_t)end;
}

/* Called by a service that has sent its last output but still drops input: ends the output now
 * (FIN), so that the client learns of it. */
void conn_end_output(struct conn *c);

/* Copies bytes behind tx: headers and small replies.  On engines with messages, up to buffer-size
 * bytes are one message.  0, or -ENOBUFS when the pool is exhausted and nothing was written: call
 * conn_wait_for_memory() to be run again. */
int conn_write(struct conn *c, const void *data, size_t bytes);
/* conn_write() for services that have nothing else to do without memory.  False: nothing was
 * written, and c runs again when the pool has chunks. */
bool conn_try_write(struct conn *c, const void *data, size_t bytes);

/* A view of `bytes` to fill, aligned to `align` (a power of two) and with room for `head` bytes
 * before it, in a chunk that is shared with earlier calls.  The caller owns the view.  NULL: too
 * much for one chunk, or the pool is exhausted. */
struct view *conn_room(struct worker *w, size_t head, size_t bytes, size_t align);

/* The service knows that c's client did not forge its address: see engine_clients.verified(). */
static inline void conn_peer_verified(struct conn *c)
{
	const struct engine_clients *clients = conn_clients(c);

	if (clients && clients->verified)
		clients->verified(c);
}

/* The worker's chunk of constant bytes, which services send again and again in views.  The first
 * call has fill() write all its chunk_size bytes; the worker owns it and frees it at its end.
 * NULL: the pool is exhausted, and c runs again when it has chunks. */
struct chunk *conn_constant(struct conn *c, void (*fill)(uint8_t *bytes, uint32_t size));

/* Bytes and views of the pool that c holds, in any of its queues. */
static inline size_t conn_held_bytes(const struct conn *c)
{
	return c->rx.bytes + conn_queued_bytes(c) + c->pinned_bytes + c->io.bytes;
}

static inline size_t conn_held_views(const struct conn *c)
{
	return c->rx.views + c->tx.views + c->sending.views + c->io.views;
}

/* True: c holds as much as it may, and its receiving is paused when the service returns. */
bool conn_is_filled(const struct conn *c); /* slow path: the connection holds many views */
static inline bool conn_is_full(const struct conn *c)
{
	return unlikely(conn_held_views(c) >= c->worker->limits.views_few || c->pinned_bytes) &&
	       conn_is_filled(c);
}

/* For services that fill pool memory at a client's request (reads).
 *
 * conn_read_must_wait(): must the request wait?  It must while chunks are short and the client has
 * not taken its earlier answers.  If the data is `in_memory`, it must also while CONN_RUN_BYTES are
 * in flight: there is no device that more requests would keep busy, and threads (the kernel's as
 * well) would finish all of them before the first answer is sent.
 *
 * conn_read_share(): how many of `bytes` the request may take at a time, a multiple of align if
 * `bytes` is one; 0: it must wait for memory. */
bool conn_read_must_wait(const struct conn *c, bool in_memory);
size_t conn_read_share(const struct conn *c, size_t bytes, uint32_t align);

/* Runs the service within some milliseconds after `ns` (CLOCK_MONOTONIC), once; 0: not at all.
 * conn_deadline_passed() is true from then until the next deadline is set.  A service compares no
 * clocks: the time of the turn that runs it may be before the deadline. */
static inline void conn_set_deadline(struct conn *c, uint64_t ns)
{
	c->due.ns = ns;
	c->flags &= ~(uint32_t)CONN_DUE;
	if (ns)
		worker_arm(c->worker, &c->due.timer, ns);
}

static inline bool conn_deadline_passed(const struct conn *c)
{
	return c->flags & CONN_DUE;
}

/* Sets the deadline for the rest of a step of the protocol: the client must send `bytes` more
 * within timeout_ns of the first call, and each time it has sent that many the timeout restarts;
 * fewer bytes do not extend it.  It also restarts while input is paused or there is no memory to
 * receive into.  The service calls conn_set_deadline(c, 0) when the step is complete.  False: the
 * deadline has passed. */
bool conn_await_input(struct conn *c, uint64_t timeout_ns, uint64_t bytes);

/* setsockopt() and getsockopt() of a connection that is a socket; the calls are counted. */
int conn_set_option(const struct conn *c, int level, int name, const void *value, size_t bytes);

/* Sets the traffic class (RFC 2474, RFC 3168) of what is sent to this client from now on: of its
 * socket, or of each datagram where clients share one.  0 or -1 with errno. */
int conn_set_traffic_class(struct conn *c, uint8_t value);
int conn_get_option(const struct conn *c, int level, int name, void *ret_value, size_t bytes);

/* The peer's address; AF_UNSPEC: unknown.  At most one system call. */
struct sockaddr_storage conn_peer_address(const struct conn *c);
/* The client, for tables that count by client: its address, IPv4 as ::ffff:a.b.c.d, of IPv6 the
 * network.  All clients of Unix sockets are one. */
struct in6_addr conn_client(const struct conn *c);

/* Writes the peer's address: `127.0.0.1:50000`, `unix:pid=123,uid=0`, or `unknown`.  Returns its
 * family; AF_UNSPEC: unknown. */
sa_family_t conn_peer(const struct conn *c, char text[static ADDRESS_TEXT_MAX]);

/* The local address; AF_UNSPEC: the client has disconnected.  At most one system call. */
struct sockaddr_storage conn_local_address(const struct conn *c);

/* Called by the worker: runs the service, flushes, throttles, decides the fate. */
void conn_run(struct conn *c);
/* Ends the service's part of the connection. */
void conn_close_service(struct conn *c);
