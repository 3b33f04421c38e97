/* Engine `io_uring`: what its files share.
 *
 * uring.c: connections and receiving; uring_send.c: sending, with and without a copy;
 * uring_setup.c: the ring of provided buffers, registered files, and which features this kernel
 * has. */
#pragma once
#include <liburing.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "buf.h"
#include "conn.h"
#include "engine.h"
#include "ring.h"
#include "worker.h"

enum {
	URING_BUF_GROUP = 0,
	URING_LENT_BYTES =
		1024 * 1024,         /* lent at first, with incremental buffers: fits the cache */
	URING_FILES_MAX = 16 * 1024, /* registered sockets; connections beyond go without */
	URING_IOV = 32,              /* views one send may carry */
	URING_SILENT_MAX = 8,        /* sends of a small batch */
	URING_NO_SLOT = UINT32_MAX,
};

enum uring_conn_flags {
	URING_RECV_ARMED = CONN_ENGINE << 0,
	URING_SEND_WAIT = CONN_ENGINE << 1,   /* the next send waits for room instead of failing */
	URING_RESET_ARMED = CONN_ENGINE << 2, /* a poll for the peer's reset is armed */
	URING_COPIED = CONN_ENGINE << 3,      /* its socket cannot send without a copy */
	URING_METERED = CONN_ENGINE << 4,     /* receives its share of a turn at a time */
	URING_END_SEEN = CONN_ENGINE << 5,    /* its poll has seen the peer's end */
};

/* A send of several views, or without a copy: what must live until its last completion. */
struct uring_send {
	struct op op;
	struct conn *conn;
	struct uring_send *next; /* free list */
	struct bufq lent;        /* what the kernel still reads (zero copy) */
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
	struct ring ring; /* first: see ring_of() */
	uint64_t sent_ns; /* when the sends of the last timed turn were with the kernel */
	struct io_uring_buf_ring *buf_ring; /* NULL: each receive has a chunk of its own */
	unsigned buf_entries, buf_mask;
	uint16_t buf_head, buf_tail; /* of order[] */
	uint16_t *order;             /* ids of the lent chunks, oldest first */
	unsigned lent_max;
	struct uring_quiet quiet[URING_SILENT_MAX]; /* the first of ring.quiet */
	uint32_t shared_bytes; /* of a chunk that several receives may share; 0: one has it all */
	bool incremental, bundle, multishot, zero_copy;
	bool local;          /* connections may come over a Unix socket */
	unsigned silent_max; /* URING_SILENT_MAX, or 0: this kernel completes each send */
	uint32_t *slots;     /* stack of free registered-file slots */
	unsigned slot_count, slots_total;
	struct uring_send *send_free;
};
static_assert(offsetof(struct uring, ring) == 0, "ring_of() expects it there");

/* uring_setup.c */
int uring_init(struct worker *w, struct reason *reason);
void uring_fini(struct worker *w);
void uring_refill(struct worker *w);

/* uring_send.c */
void uring_wait(struct worker *w, bool block);
void uring_flush(struct conn *c);
void uring_send_init(struct conn *c);

/* c's send was queued as one that nobody waits for; now somebody does: the next wait() returns for
 * a single completion instead of the whole batch. */
static inline void uring_need_completion(struct conn *c)
{
	struct uring *u = c->worker->engine_state;

	if (c->sending.bytes)
		u->ring.quiet = 0;
}

/* Names c's socket in a submission: by its registered slot where it has one. */
static inline void uring_fd(const struct conn *c, struct io_uring_sqe *sqe)
{
	if (c->slot == URING_NO_SLOT)
		return;
	sqe->fd = (int)c->slot;
	sqe->flags |= IOSQE_FIXED_FILE;
}
