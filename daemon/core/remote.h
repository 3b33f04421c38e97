/* One-sided operations: a service reads and writes its client's memory, or lends it memory to read
 * and write by itself.  On engines that can (engine->remote); worker's thread only.
 *
 * The order in which a service asks is the order in which the client sees it: what has been put
 * into c->tx after remote_submit() arrives when the client's memory holds what was written. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "buf.h"

struct conn;
struct worker;

enum remote_kind {
	REMOTE_READ,
	REMOTE_WRITE,
	REMOTE_WRITE_IMMEDIATE, /* and takes one of the client's receives, to tell it; not over
				   iWARP */
	REMOTE_KIND_COUNT
};

/* Embedded in its owner's request, which keeps it until done() was called. */
struct remote {
	/* The owner's.  result: 0, or -ECANCELED: the connection ends, because the client refused
	 * this operation or for any other reason.  Once; before service->close(), and perhaps
	 * within remote_submit(). */
	void (*done)(struct remote *remote, int result);
	struct conn *conn;
	enum remote_kind kind;
	uint32_t key; /* the client's, of its memory at address */
	uint64_t address;
	uint32_t immediate; /* that the client receives, of REMOTE_WRITE_IMMEDIATE */
	struct bufq data;   /* where to, where from: not empty; left alone until done */

	/* The engine's. */
	struct remote *next;
	const struct view *unposted; /* of data, the first; NULL: all are with the device */
	uint64_t progress;           /* bytes before it */
};

void remote_submit(struct remote *remote);

/* Fills q, which is empty, with views of `bytes` to read into.  0, or -ENOBUFS when the pool is
 * exhausted (conn_starved() then has the service run again). */
int remote_room(struct worker *w, struct bufq *q, size_t bytes);

/* Memory that a client may read and write by itself, zeros at first.  It lives as long as the
 * connection does.  Not to be asked for in service->open(). */
struct region {
	uint8_t *base;
	size_t bytes;
	uint32_t key;
};

/* 0 or -errno: -ENOMEM when so much cannot be had, or not be locked. */
int conn_region(struct conn *c, size_t bytes, struct region *ret_region);

/* Memory that all connections of a worker and device share, whatever is in it, of
 * options.region_size bytes: of services with message().  What of a message exceeds its room lands
 * there, clients may read and write it, and messages are sent from it. */
void conn_spill(const struct conn *c, struct region *ret_region);
/* Sends a message of its first `bytes`, before what is in tx.  How many are now to be posted, this
 * one included; 0: it is too long, or those that wait have another length. */
unsigned conn_send_spill(struct conn *c, uint32_t bytes);
/* Called by engines: for service->message(). */
void conn_message(struct conn *c, const uint8_t *head, uint32_t bytes);

/* Called by engines: it is done; see done() for result. */
void remote_finish(struct remote *remote, int result);
