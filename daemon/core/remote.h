/* One-sided operations (RDMA): a service reads and writes its client's memory, or gives the client
 * access to memory of the worker.  Only on engines with engine->remote; worker's thread only.
 *
 * Operations take effect in the order of submission: when a message that was put into c->tx after
 * remote_submit() arrives, the client's memory already holds the data written. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "bufq.h"

struct conn;
struct worker;

enum remote_kind { REMOTE_READ, REMOTE_WRITE, REMOTE_KIND_COUNT };

/* Embedded in its owner's request, which must stay valid until done() is called. */
struct remote {
	/* Set by the owner, called once, before service->close() and possibly within
	 * remote_submit().  result: 0, or -ECANCELED: the connection is ending, because the
	 * client's side refused this operation or for any other reason. */
	void (*done)(struct remote *remote, int result);
	struct conn *conn;
	enum remote_kind kind;
	uint32_t key; /* the client's key of its memory at address */
	uint64_t address;
	struct bufq data; /* local memory, not empty; must not change until done() */

	/* Used by the engine only. */
	STAILQ_ENTRY(remote) link;
	const struct view *unposted; /* first view of data that is not posted yet; NULL: all are */
	uint64_t progress;           /* bytes of data posted before it */
};

void remote_submit(struct remote *remote);

/* Fills q, which is empty, with views of `bytes` to read into.  0, or -ENOBUFS when the pool is
 * exhausted: call conn_wait_for_memory() to be run again. */
int remote_room(struct worker *w, struct bufq *q, size_t bytes);

/* Memory that a client may read and write by itself; zeroed at first.  The engine owns it and frees
 * it with the connection.  Not available yet in service->open(). */
struct region {
	uint8_t *base;
	size_t bytes;
	uint32_t key;
};

/* 0 or -errno; -ENOMEM: that much memory cannot be allocated or locked. */
int remote_region(struct conn *c, size_t bytes, struct region *ret_region);

/* For services with message(): memory of options.region_size bytes that all connections of a worker
 * and device share, so its contents have no meaning.  The part of a message beyond its receive
 * buffer is written there, clients may read and write it, and remote_send_scratch() sends from it.
 */
void remote_scratch_region(const struct conn *c, struct region *ret_region);
/* Sends the first `bytes` of that memory as a message, before the messages in tx.  Returns how many
 * such messages are not posted yet, this one included.  0: refused, because it is too long or the
 * waiting messages have another length. */
unsigned remote_send_scratch(struct conn *c, uint32_t bytes);
/* Called by engines: passes a message to service->message(). */
void remote_message(struct conn *c, const uint8_t *head, uint32_t bytes);

/* Called by engines: ends the operation; result as for done(). */
void remote_finish(struct remote *remote, int result);
