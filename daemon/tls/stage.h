/* The stage between a listener's service and its engine: its parts.  Private to tls/.
 *
 * Engines and the core see records: what they receive is in c->rx, and what they send in
 * c->tx.  Only while the service runs is c->rx the contents of records, and what it appends
 * to c->tx is sealed as soon as it returns, so that backpressure, limits and the sending
 * need to know nothing of TLS.
 *
 * With TLS in the kernel the library does the handshake, and the kernel then gets the keys of
 * one direction or both (stage_kernel.c).  From then on c->tx, or both queues, belong to the
 * service, and engine and kernel do the rest.  The service does not run before the kernel has
 * all keys that the mode gives it, so the library never seals or opens data of a direction
 * that becomes the kernel's.
 *
 * tls.c runs on the main thread, the other files on the workers; each calls only those before it:
 * kernel.c, wire.c, handshake.c, stage_kernel.c, stage.c, tls.c. */
#pragma once
#include <pthread.h>

#include "conn.h"
#include "kernel.h"
#include "library.h"

#define STAGE_HANDSHAKE_NS (10 * (uint64_t)NS_PER_S) /* the whole handshake */
enum { STAGE_FLIGHT = 32 * 1024 };                   /* bytes that a client may send in it */

struct stage_conn;

/* A worker's part. */
struct stage_worker {
	/* Chunks of the pool that contents and records are written to, which connections share;
	 * NULL: none yet. */
	struct chunk *opened, *sealed;
	uint64_t turn;                   /* the last one with a step */
	unsigned steps;                  /* of that turn */
	struct stage_conn *first, *last; /* connections in a handshake, the oldest first */
	unsigned count;                  /* how many */
	uint8_t joined[TLS_RECORD_MAX];  /* small views that become one record */
} __attribute__((aligned(CACHE_LINE)));

struct tls_stage {
	struct service service; /* the stage's */
	const struct service *inner;
	unsigned kernel; /* directions whose records are the kernel's, a mask */
	unsigned cipher; /* index in tls_ciphers */
	struct stage_worker *workers;
	/* Taken by workers once for each connection, and by a reload. */
	pthread_mutex_t lock;
	struct tls_context *context;
	struct tls_certificate certificate;
	bool made, next_made; /* the certificate was made here */
	/* Prepared by a reload; NULL: none. */
	struct tls_context *next;
	struct tls_certificate next_certificate;
};

struct stage_conn {
	struct conn *conn;
	struct tls_session *session; /* NULL: the client has sent nothing yet */
	struct bufq in;              /* while the stage runs: records not opened yet */
	struct bufq left;            /* between runs: contents that the service has left */
	struct bufq plain;           /* output that is not sealed yet, as memory was short */
	struct stage_conn *next, *prev;
	size_t flight;     /* bytes that the handshake has brought */
	unsigned controls; /* records without data since the last one with data */
	bool clear;        /* TLS has not begun */
	bool shaking;      /* in the worker's list of handshakes */
	bool established;  /* the handshake is done */
	bool failed;       /* nothing more is opened or sealed */
	bool more;         /* records may be left that can be opened */
	bool starved;      /* the handshake waits for memory */
	bool closed;       /* the client has sent close_notify */
	bool truncated;    /* its FIN came without a close_notify */
	bool ends, ended;  /* close_notify is to be sent; was sent */
	bool watching;     /* the stage, not the service, has set CONN_WATCH_TX */
	/* The service has set CONN_LAST, which the core must not see before all output is sealed,
	 * or before the end. */
	bool last;
	/* With TLS in the kernel: */
	uint8_t kernel; /* the directions that the kernel handles, a mask */
	/* The client has asked the server to change its keys, which the kernel cannot do. */
	bool asked;
	bool control;       /* a receive has met a record without data */
	unsigned tries;     /* attempts to send close_notify */
	uint64_t opened_in; /* c->bytes_in up to which all is counted, or was the handshake's */
	struct timer retry; /* of close_notify; I/O of c is in flight while it is armed */
};

static inline struct tls_stage *stage_of(const struct worker *w)
{
	return container_of(w->service, struct tls_stage, service);
}

static inline struct stage_worker *worker_part(const struct worker *w)
{
	return &stage_of(w)->workers[w->index];
}

/* CONN_WATCH_TX for the stage's own purpose, until the service runs next. */
static inline void stage_watch(struct stage_conn *t)
{
	if (t->conn->flags & CONN_WATCH_TX)
		return;
	t->conn->flags |= CONN_WATCH_TX;
	t->watching = true;
}

/* Does the stage receive by itself?  Not in the first run: if something has arrived,
 * the engine runs c again. */
static inline bool stage_receives(const struct conn *c)
{
	return (c->flags & (CONN_RAW | CONN_FRESH | CONN_EOF)) == CONN_RAW;
}

/* wire.c */
extern const struct tls_wire stage_wire; /* its context is a struct stage_conn */
/* *chunk with room for at least `least` bytes: as it is, emptied if no view uses it, or a new one.
 * NULL: the pool is exhausted. */
struct chunk *chunk_with_room(struct pool *p, struct chunk **chunk, uint32_t least);
/* Appends the next `bytes` bytes of the chunk, behind its used ones, to q. */
void chunk_append(struct pool *p, struct bufq *q, struct chunk *k, size_t bytes);

/* For connections with CONN_RAW: receives.  0: there is nothing now, or c ends. */
size_t raw_receive(struct conn *c, void *to, size_t bytes);

/* handshake.c */
/* May the worker make another step in this turn?  If not, c runs again in the next. */
bool stage_may_step(struct conn *c);
/* Continues the handshake; true: it is done. */
bool stage_handshake(struct stage_conn *t);
/* The connection leaves the list of handshakes. */
void stage_leave_handshake(struct stage_conn *t);
/* The session is over: an alert that the library has written is the last output. */
void stage_fail(struct stage_conn *t, const char *why);
void stage_log(const struct stage_conn *t, const char *why);

/* stage_kernel.c */
/* Gives the kernel the keys of a session whose handshake is done.  False: not all of them yet, and
 * c runs again when it may, or the connection ends. */
bool kernel_takes_over(struct stage_conn *t);
/* The record that a receive has met: NULL if it was close_notify, else why the session is over. */
const char *kernel_control(struct stage_conn *t);
/* Has the kernel send close_notify behind all output, and send both before c can end.  False: not
 * yet, and c runs again when it may. */
bool kernel_ends(struct stage_conn *t);

/* stage.c: sets the functions of s->service. */
void stage_wrap(struct tls_stage *s);
