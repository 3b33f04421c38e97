/* Service `nbd`: internal interface of its files.
 *
 * Each file calls only those after it. nbd.c: a connection's life and the handshake. nbd/command.c:
 * requests from their header to their reply, and partial messages. nbd/proto.c, nbd/option_proto.c:
 * the wire format, without I/O. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "block_part.h"
#include "conn.h"
#include "option_proto.h"
#include "proto.h"
#include "store.h"
#include "util.h"

enum {
	NBD_ANSWER_MAX = 1024,      /* bytes: upper bound of the answer to any option but LIST */
	NBD_BLOCK_PREFERRED = 4096, /* bytes */
};

/* Time limits: for a client's next option, and for the rest of an incomplete request. */
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

/* States of a command; command_set() in nbd/command.c says which follows which. */
enum command_state {
	COMMAND_FREE,
	COMMAND_TAKEN,     /* its request is being checked */
	COMMAND_RECEIVING, /* a write whose payload is awaited */
	COMMAND_DROPPING,  /* failed: answered after the rest of the payload has been dropped */
	COMMAND_STALLED,   /* waits for the next turn, for memory, or until no other command is in
			      flight */
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
};

struct nbd_conn {
	enum nbd_phase phase;
	enum conn_end end; /* in NBD_PHASE_ENDING: the reason */
	uint32_t client_flags;
	enum nbd_tls tls;
	struct nbd_terms terms;
	struct nbd_option option; /* if has_option: the option whose data is awaited */
	bool has_option;
	const struct mount *context; /* the export for which base:allocation was selected */
	struct mount *mount;         /* the export that was chosen */
	uint64_t drop_bytes;         /* bytes of input that are to be dropped */
	uint8_t *partial;            /* a partial message: see nbd_save_partial(); NULL: none */
	size_t partial_bytes;

	struct nbd_command *commands;
	unsigned command_count, used; /* used: those taken at least once */
	uint32_t arrived;             /* requests that arrived in this run */
	uint64_t arrived_bytes;       /* the bytes that these requests read or write */
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

/* Drops drop_bytes of input.  False: some of them have not arrived yet. */
bool nbd_drop(struct conn *c);

/* Moves a partial message of at most `whole` bytes from the input to n->partial, which is allocated
 * by malloc().  So a client that sends half of a message and stops holds no memory of the pool. May
 * be repeated with the same `whole` until the message is complete. 0 or -ENOMEM. */
int nbd_save_partial(struct conn *c, size_t whole);
/* Reads `bytes` from n->partial and then from the input; together they have that many. */
void nbd_read_partial(struct conn *c, void *to, size_t bytes);

/* Answers requests in flight, then ends the connection. */
void nbd_end(struct conn *c, enum conn_end end);

/* Sets the deadline for the rest of a message; long data must bring BLOCK_PART_MAX bytes until
 * then. */
void nbd_expect_input(struct conn *c, uint64_t timeout_ns);

/* Answers finished commands and starts requests that have arrived. */
void nbd_commands_run(struct conn *c);
