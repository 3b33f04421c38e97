/* Engine `io_uring`: internal interface of its files.
 *
 * uring.c: connections and receiving; uring_send.c: sending, with and without a copy;
 * uring_setup.c: the ring of provided buffers, and which features this kernel has; uring_zcrx.c:
 * the same engine with zero-copy receive. */
#pragma once
#include <liburing.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "bufq.h"
#include "conn.h"
#include "engine.h"
#include "ring.h"
#include "worker.h"

enum {
	URING_BUF_GROUP = 0,
	URING_POSTED_BYTES =
		1024 *
		1024, /* bytes posted at first with incremental buffers; fits into the cache */
	URING_LEFT =
		4, /* with min_left: the part of a chunk, a quarter, in which no receive begins */
	URING_MUCH = 128 * 1024, /* bytes, better received by a bundle than chunk by chunk */
	URING_IOV = 64,          /* views one send may carry */
	URING_SILENT_MAX = 8,    /* sends in a small batch: see uring_send.c, "Quiet sends" */
};

enum uring_conn_flags {
	URING_RECV_ARMED = CONN_ENGINE << 0,
	URING_SEND_WAIT = CONN_ENGINE << 1,   /* the next send waits for room instead of failing */
	URING_RESET_ARMED = CONN_ENGINE << 2, /* a poll for the peer's reset is armed */
	URING_COPIED = CONN_ENGINE << 3,      /* its socket does not support zero-copy sends */
	/* It receives its share of a turn at a time: see uring_limit_receives(). */
	URING_LIMITED = CONN_ENGINE << 4,
	URING_END_SEEN = CONN_ENGINE << 5, /* its poll has reported the peer's FIN or reset */
};

/* Does the socket have input, by the last completion or call? */
enum uring_input { URING_INPUT_UNKNOWN, URING_INPUT_NONE, URING_INPUT_WAITS };

/* A send of several views or without a copy.  It owns the data that must live until the last
 * completion of the send. */
struct uring_send {
	struct op op;
	struct conn *conn;
	struct uring_send *next; /* free list */
	struct bufq views;       /* views that the kernel still reads (zero copy) */
	struct msghdr msg;
	struct iovec iov[URING_IOV];
};

/* A quiet send that is still in the submission queue. */
struct uring_quiet {
	struct conn *conn;
	struct io_uring_sqe *sqe;
	struct op *op;
};

struct uring {
	struct ring ring; /* must be first: see ring_of() */
	uint64_t sent_ns; /* when the kernel had taken the sends of the last timed turn */
	struct io_uring_buf_ring *buf_ring; /* NULL: each receive has a chunk of its own */
	unsigned buf_entries, buf_mask;
	uint16_t *posted_at; /* by a posted chunk's id: its index in the ring */
	unsigned posted_max;
	/* The first of the sends that ring.quiet counts, up to URING_SILENT_MAX. */
	struct uring_quiet quiet[URING_SILENT_MAX];
	bool ordered; /* receives are reported in the order in which they filled buffers */
	bool incremental, bundle, multishot, zero_copy; /* the first two need that order */
	uint64_t zero_copy_min; /* with zero_copy: bytes of a send from which on it avoids a copy */
	/* With zero_copy: sends may lock their memory until the peer has acknowledged it, without a
	 * limit on locked memory.  False: sends copy, and are counted as copied. */
	bool locks_freely;
	/* Multishot receives are bundles, where requests are long.  For each bundle the
	 * kernel lists as many chunks as any receive before needed, and ends a receive
	 * that has listed all posted chunks (Linux 6.18): with short requests each receive
	 * would have to be armed again. */
	bool multishot_bundle;
	/* First requests and outputs by plain calls, see uring_sends_by_call() and uring_open() */
	bool eager_io;
	bool local; /* a listening socket is a Unix socket */
	/* URING_SILENT_MAX, or 0: this kernel cannot suppress completions of sends. */
	unsigned silent_max;
	struct uring_send *send_free;
	struct uring_zcrx *zcrx; /* of uring_zcrx.c; NULL: it receives into the pool */
};
static_assert(offsetof(struct uring, ring) == 0, "ring_of() expects it there");

/* uring.c */
int uring_open(struct conn *c);
void uring_recv_stop(struct conn *c);
void uring_close(struct conn *c);

/* uring_setup.c */
int uring_init(struct worker *w, struct reason *reason);
void uring_fini(struct worker *w);
void uring_refill(struct worker *w);

/* uring_send.c */
void uring_wait(struct worker *w, bool block);

/* Submits the sends of a timed turn, and takes the time. */
static inline void uring_submit_and_time(struct uring *u)
{
	ring_submit(&u->ring); /* when this returns, the kernel has taken the sends */
	u->sent_ns = ring_queued(&u->ring) ? 0 : clock_ns();
}
void uring_flush(struct conn *c);
void uring_send_init(struct conn *c);

/* c's send was queued as a quiet one, but now its completion is needed: the next wait() then
 * returns after one completion instead of after those of all sends. */
static inline void uring_need_completion(struct conn *c)
{
	struct uring *u = c->worker->engine_state;

	if (c->sending.bytes)
		u->ring.quiet = 0;
}
