/* Service `nbd`: internal interface of its files.
 *
 * From the top down, each calls only those after it.  nbd.c: a connection's life and the handshake;
 * nbd/requests.c: requests, from their header to their reply; nbd/transfer.c: data of reads and
 * writes; nbd/command.c: a command's states and parts, and input that is dropped, or is kept
 * outside the pool.  Pure: nbd/proto.c, nbd/option_proto.c. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "block.h"
#include "conn.h"
#include "option_proto.h"
#include "proto.h"
#include "store.h"
#include "util.h"

enum {
	NBD_ANSWER_MAX = 1024,      /* bytes: upper bound of the answer to any option but LIST */
	NBD_BLOCK_PREFERRED = 4096, /* bytes */
};

/* Time limits for a client's next option, and for the rest of a request. */
#define NBD_HANDSHAKE_NS ((uint64_t)10 * NS_PER_S)
#define NBD_REQUEST_NS   ((uint64_t)30 * NS_PER_S)

enum { NBD_OPERATION_INVALID = IO_KIND_COUNT }; /* a request of unknown type */

enum nbd_phase {
	NBD_PHASE_GREETING,
	NBD_PHASE_FLAGS,
	NBD_PHASE_OPTIONS,
	NBD_PHASE_TRANSMISSION,
	NBD_PHASE_ENDING, /* requests in flight are answered, then the connection ends */
};

/* States of a command; nbd_command_set() says which follows which. */
enum command_state {
	COMMAND_FREE,
	COMMAND_TAKEN,     /* its request is being judged */
	COMMAND_RECEIVING, /* a write whose payload is awaited */
	COMMAND_DROPPING,  /* failed: answered after the rest of the payload has been dropped */
	COMMAND_STALLED,   /* waits for its turn, for memory, or until no other command is in flight
			    */
	COMMAND_IO,        /* its part is in flight at the store */
	COMMAND_FINISHED,  /* the part is done, or nothing is left to do: its answer is due */
	COMMAND_STATE_COUNT
};

TAILQ_HEAD(nbd_list, nbd_command);

/* A request that is being served, a part of it at a time. */
struct nbd_command {
	struct io io; /* request of the part in flight */
	struct conn *conn;
	TAILQ_ENTRY(nbd_command) link;
	enum command_state state;
	struct nbd_request request;
	uint64_t done_bytes; /* bytes of earlier parts */
	struct bufq data;    /* memory of this part */
	struct view *header; /* room for the reply's header; NULL: it is before data */
	uint64_t start_ns;   /* when the request was complete, if it is timed, else 0 */
	int result;          /* of the part, 0 or -errno */
	uint32_t refusal;    /* enum nbd_error, if the request cannot be carried out */
	const char *reason;  /* of the refusal, for a human */
	uint8_t operation;   /* enum io_kind, or NBD_OPERATION_INVALID */
	/* The reply has one header: no other reply may be sent between its parts. */
	bool one_header;
};

struct nbd_conn {
	enum nbd_phase phase;
	enum conn_end end; /* in NBD_PHASE_ENDING: why */
	uint32_t client_flags;
	enum nbd_tls tls;
	struct nbd_terms terms;
	struct nbd_option option; /* if has_option: the option whose data is awaited */
	bool has_option;
	const struct mount *context; /* the export for which base:allocation was selected */
	struct mount *mount;         /* the export that was chosen */
	uint64_t drop_bytes;         /* bytes of input that are to be dropped */
	uint8_t *begun;              /* see nbd_begin(); NULL: none */
	size_t begun_bytes;

	struct nbd_command *commands;
	unsigned command_count, used; /* used: those taken at least once */
	uint32_t arrived;             /* requests that arrived in this run */
	uint64_t arrived_bytes;       /* that they are about */
	unsigned busy;                /* commands that are not free */
	/* Within nbd_commands_run(), which handles finished commands itself. */
	bool running;
	struct nbd_list in[COMMAND_STATE_COUNT]; /* lists of the free, stalled and finished ones */
	/* The command that must be the only busy one; NULL: none. */
	struct nbd_command *alone;
	/* The command whose payload is next in the input; NULL: a request header is. */
	struct nbd_command *payload;
};

static inline bool nbd_has(const struct nbd_conn *n, enum command_state state)
{
	return !TAILQ_EMPTY(&n->in[state]);
}

static inline struct nbd_conn *nbd_of(const struct conn *c)
{
	return c->state;
}

/* nbd/command.c */

/* Allocates as many commands as the export's queue-depth.  0 or -ENOMEM. */
int nbd_commands_init(struct conn *c);
void nbd_commands_free(struct conn *c);

/* Drops drop_bytes of input; false: more of them are to come. */
bool nbd_drop(struct conn *c);

/* Moves a partly received message (at most `whole` bytes) from the input to n->begun, which is
 * malloc()ed, so that a client that sends half of a message and stops holds no pool memory.  May be
 * repeated with the same `whole` until the message is complete.  0 or -ENOMEM. */
int nbd_begin(struct conn *c, size_t whole);
/* Reads `bytes` from n->begun and then from the input; together they have that many. */
void nbd_begun_read(struct conn *c, void *to, size_t bytes);

/* Answers requests in flight, then ends the connection. */
void nbd_end(struct conn *c, enum conn_end end);

/* Sets the deadline for the rest of a step, or the next BLOCK_PART_MAX bytes of it. */
void nbd_expect_input(struct conn *c, uint64_t timeout_ns);

/* Takes a free command, which counts as busy from then on; NULL: queue-depth commands are busy. */
struct nbd_command *nbd_command_get(struct conn *c);
/* To be called when the command's request has arrived, with all of its payload. */
void nbd_command_arrived(struct nbd_command *d);
/* The command has failed.  The reply is sent only after the rest of its payload,
 * payload_left bytes, has been received and dropped: clients cannot handle an earlier one
 * (seen with libnbd 1.14). */
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

/* nbd/requests.c */

/* Answers finished commands and starts requests that have arrived. */
void nbd_commands_run(struct conn *c);
