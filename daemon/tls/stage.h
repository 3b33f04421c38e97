/* The stage between a listener's service and its engine: its parts.  Private to tls/.
 *
 * Engines and the core see records: what they receive is in c->rx, and what they send in
 * c->tx.  Only while the service runs is c->rx the contents of records, and what it appends
 * to c->tx is sealed as soon as it returns, so that backpressure, limits and the sending
 * need to know nothing of TLS.
 *
 * With TLS in the kernel the library does the handshake, and the kernel then gets the keys of
 * one direction or both.  From then on c->tx, or both queues, belong to the
 * service, and engine and kernel do the rest.  The service does not run before the kernel has
 * all keys that the mode gives it, so the library never seals or opens data of a direction
 * that becomes the kernel's.
 *
 * tls.c runs on the main thread, stage.c and kernel.c on the workers. */
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
	unsigned controls; /* OpenSSL's results without data in a row: two for KeyUpdate */
	char *identity;    /* see service->identity */
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

/* stage.c: sets the functions of s->service. */
void stage_wrap(struct tls_stage *s);
