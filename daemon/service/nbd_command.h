/* Service `nbd`: a command, and what its kinds have in common; nbd_transfer.c has those that carry
 * payload. */
#pragma once
#include "nbd_conn.h"

/* nbd_command.c */

/* Commands in flight hold as much as the connection may: no more are read until one ends, which
 * runs the service again. */
bool nbd_is_full(const struct conn *c);
/* To be called when the command's request has arrived, with all of its payload. */
void nbd_command_arrived(struct nbd_command *d);
/* The command has failed, which the client hears when nothing is left to come of its payload:
 * clients take an earlier reply for one to a request that they have never made (seen with libnbd
 * 1.14). */
void nbd_command_fail(struct nbd_command *d, uint32_t error, const char *reason,
		      uint64_t payload_left);
/* The one way from state to state.  A finished one has the connection run, a free one holds
 * nothing.
 */
void nbd_command_set(struct nbd_command *d, enum command_state state);
/* Sends a reply without payload; false: there is no memory for it now. */
bool nbd_command_reply(struct nbd_command *d, uint32_t error, const char *text);
void nbd_part_drop(struct nbd_command *d);
void nbd_part_iov(struct nbd_command *d);
/* Memory for `bytes`, behind room for `head` of them or with it in d->header, as much as there is
 * in blocks of the store: a small part shares a chunk with others, a large one has chunks of its
 * own. Without memory nothing is held. */
void nbd_part_room(struct nbd_command *d, size_t head, size_t bytes);
void nbd_part_submit(struct nbd_command *d, enum io_kind kind, uint64_t bytes);

static inline uint64_t nbd_command_left(const struct nbd_command *d)
{
	return d->request.length - d->done_bytes;
}

/* nbd_transfer.c */

void nbd_read_start(struct nbd_command *d);
/* A part of a read is there. */
bool nbd_read_answer(struct nbd_command *d);
/* Hands what has arrived of the payload to the store; false: nothing can be done now. */
bool nbd_write_go_on(struct nbd_command *d);
/* A part of a write is done, or has failed. */
bool nbd_write_answer(struct nbd_command *d);
