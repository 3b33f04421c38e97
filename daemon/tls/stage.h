/* The stage between a listener's service and its engine: its parts.  Private to tls/.
 *
 * Engines and the core see records: what they receive is in c->rx, and what they send in c->tx.
 * Only while the service runs is c->rx the contents of records, and what it appends to c->tx is
 * sealed as soon as it returns, so that backpressure, limits and the sending need to know nothing
 * of TLS.
 *
 * tls.c runs on the main thread, the other files on the workers; each calls only those before it:
 * wire.c, handshake.c, stage.c, tls.c. */
#pragma once
#include <pthread.h>

#include "conn.h"
#include "library.h"

#define STAGE_HANDSHAKE_NS (10 * (uint64_t)NS_PER_S) /* the whole handshake */

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
	const struct tls_library *library;
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
	size_t flight;       /* bytes that the handshake has brought */
	unsigned controls;   /* records without data since the last one with data */
	bool clear;          /* TLS has not begun */
	bool shaking;        /* in the worker's list of handshakes */
	bool established;    /* the handshake is done */
	bool failed;         /* nothing more is opened or sealed */
	bool more;           /* records may be left that can be opened */
	bool starved;        /* the handshake waits for memory */
	bool closed;         /* the client has sent close_notify */
	bool truncated;      /* its FIN came without */
	bool ends, ended;    /* close_notify is to be sent; was sent */
	bool watching, last; /* CONN_WATCH_TX is ours; CONN_LAST waits for the sealing */
};

static inline struct tls_stage *stage_of(const struct worker *w)
{
	return container_of(w->service, struct tls_stage, service);
}

static inline const struct tls_library *library_of(const struct stage_conn *t)
{
	return stage_of(t->conn->worker)->library;
}

static inline struct stage_worker *worker_part(const struct worker *w)
{
	return &stage_of(w)->workers[w->index];
}

/* wire.c */
extern const struct tls_wire stage_wire; /* its context is a struct stage_conn */
/* *chunk with room for at least `least` bytes: as it is, emptied if no view uses it, or a new one.
 * NULL: the pool is exhausted. */
struct chunk *chunk_with_room(struct pool *p, struct chunk **chunk, uint32_t least);
/* Appends the next `bytes` bytes of the chunk, behind its used ones, to q. */
void chunk_append(struct pool *p, struct bufq *q, struct chunk *k, size_t bytes);

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

/* stage.c: sets the functions of s->service. */
void stage_wrap(struct tls_stage *s);
