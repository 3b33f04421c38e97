/* Service `nbd`: commands, and code shared by all types; nbd/transfer.c: data of reads and
 * writes. */
#pragma once
#include "nbd.h"

/* nbd/command.c */

/* A free command; NULL: queue-depth commands are being served. */
struct nbd_command *nbd_command_get(struct conn *c);
/* To be called when the command's request has arrived, with all of its payload. */
void nbd_command_arrived(struct nbd_command *d);
/* The command has failed.  The reply is sent only after the rest of its payload, payload_left
 * bytes, has been received and dropped: clients cannot handle an earlier one (seen with libnbd
 * 1.14). */
void nbd_command_fail(struct nbd_command *d, uint32_t error, const char *reason,
		      uint64_t payload_left);
/* The only function that changes the state.  COMMAND_FINISHED has the connection run; a
 * COMMAND_FREE one holds no memory. */
void nbd_command_set(struct nbd_command *d, enum command_state state);
/* Sends a reply without payload; false: there is no memory for it now. */
bool nbd_command_reply(struct nbd_command *d, uint32_t error, const char *text);
void nbd_part_drop(struct nbd_command *d);
void nbd_part_iov(struct nbd_command *d);
/* Allocates d->data: up to `bytes`, in whole blocks of the store, as much as the pool has, with
 * room for a header of `head` bytes before it, or in d->header.  A small part shares a chunk with
 * others, a large one has its own chunks.  Holds nothing if the pool is exhausted. */
void nbd_part_room(struct nbd_command *d, size_t head, size_t bytes);
void nbd_part_submit(struct nbd_command *d, enum io_kind kind, uint64_t bytes);

static inline uint64_t nbd_command_left(const struct nbd_command *d)
{
	return d->request.length - d->done_bytes;
}

/* nbd/transfer.c */

void nbd_read_start(struct nbd_command *d);
/* A part of a read has been read: sends it.  False: no memory for the reply now. */
bool nbd_read_answer(struct nbd_command *d);
/* Hands payload that has arrived to the store; false: nothing can be done now. */
bool nbd_write_go_on(struct nbd_command *d);
/* A part of a write is done or has failed.  False: no memory for the reply now. */
bool nbd_write_answer(struct nbd_command *d);
