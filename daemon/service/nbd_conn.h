/* Service `nbd`: what its files share.
 *
 * nbd.c: a connection's life and the handshake; nbd_command.c: requests, their parts, their
 * replies; nbd_transfer.c: reads and writes; nbd_proto.c: what is on the wire. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "conn.h"
#include "nbd_option_proto.h"
#include "nbd_proto.h"
#include "store.h"
#include "util.h"

enum {
	NBD_PART_MAX = 512 * 1024,  /* bytes of one read or write of a store */
	NBD_HELD_MAX = 8192 * 1024, /* bytes a connection may hold */
	NBD_ALIGN = 64,             /* of the data of reads in memory, at least */
	NBD_ANSWER_MAX = 1024,      /* bytes: more than the answer to any option but LIST */
	NBD_BLOCK_PREFERRED = 4096, /* bytes */
};

/* How long a client may take for its next option, and for the rest of a request. */
#define NBD_HANDSHAKE_NS ((uint64_t)10 * NS_PER_S)
#define NBD_REQUEST_NS   ((uint64_t)30 * NS_PER_S)

enum { NBD_OPERATION_INVALID = IO_KIND_COUNT }; /* a command that is none */

enum nbd_phase {
	NBD_PHASE_GREETING,
	NBD_PHASE_FLAGS,
	NBD_PHASE_OPTIONS,
	NBD_PHASE_TRANSMISSION,
	NBD_PHASE_ENDING, /* requests under way are answered, then the connection ends */
};

/* States of a command; nbd_command_set() says which follows which. */
enum command_state {
	COMMAND_FREE,
	COMMAND_RECEIVING, /* a write: its payload is to come */
	COMMAND_DROPPING,  /* has failed: its answer follows the payload */
	COMMAND_STALLED,   /* waits for memory, or to be alone */
	COMMAND_IO,        /* its part is with the store */
	COMMAND_FINISHED,  /* that is done, or nothing is left to do: its answer is due */
	COMMAND_STATE_COUNT
};

TAILQ_HEAD(nbd_list, nbd_command);

/* A request that is being served, a part of it at a time. */
struct nbd_command {
	struct io io; /* of the part that is under way */
	struct conn *conn;
	TAILQ_ENTRY(nbd_command) link;
	enum command_state state;
	struct nbd_request request;
	uint64_t done_bytes; /* of the parts before */
	struct bufq data;    /* memory of this part */
	struct view *header; /* of its reply, where there is no room before data; NULL: there is */
	uint64_t start_ns;   /* when the request was complete, if it is timed, else 0 */
	int result;          /* of the part, 0 or -errno */
	uint32_t refusal;    /* the request cannot be carried out: enum nbd_error */
	const char *reason;  /* of the refusal, for a human */
	uint8_t operation;   /* enum io_kind, or NBD_OPERATION_INVALID */
	bool one_header;     /* of the reply: nothing else may come between its parts */
};

struct nbd_conn {
	enum nbd_phase phase;
	enum conn_end end; /* of NBD_PHASE_ENDING: why */
	uint32_t client_flags;
	struct nbd_terms terms;
	struct nbd_option option; /* if has_option: its data is to come */
	bool has_option;
	const struct mount *context; /* for which base:allocation was selected */
	struct mount *mount;         /* of the export that was chosen */
	uint64_t drop_bytes;         /* of input that nobody wants */
	uint8_t *begun;              /* see nbd_begin(); NULL: nothing is */
	size_t begun_bytes;

	struct nbd_command *commands;
	unsigned command_count, used; /* used: were taken, once at least */
	uint32_t arrived;             /* requests, in this run */
	uint64_t arrived_bytes;       /* that they are about */
	unsigned busy;                /* of these are not free */
	bool running;                 /* nbd_commands_run() is: it looks at what finishes */
	struct nbd_list in[COMMAND_STATE_COUNT]; /* those that are free, stalled, finished */
	struct nbd_command *alone;               /* no other may be under way */
	struct nbd_command *payload; /* to which the input belongs; NULL: to the next request */
};

static inline bool nbd_has(const struct nbd_conn *n, enum command_state state)
{
	return !TAILQ_EMPTY(&n->in[state]);
}

static inline struct nbd_conn *nbd_of(const struct conn *c)
{
	return c->state;
}

/* nbd_command.c */

/* Room for the export's queue-depth of commands.  0 or -ENOMEM. */
int nbd_commands_init(struct conn *c);
void nbd_commands_free(struct conn *c);

/* Answers what has finished, starts what has arrived. */
void nbd_commands_run(struct conn *c);

/* nbd.c */

/* Drops input that nobody wants; false: more of it is to come. */
bool nbd_drop(struct conn *c);

/* Input that has begun to arrive, at most `whole` bytes of it, moves from the input to n->begun:
 * memory of its own, so that a client who sends half of something and stops keeps nothing of the
 * pool. Where something is there, `whole` is as before.  0 or -ENOMEM. */
int nbd_begin(struct conn *c, size_t whole);
/* Reads the first bytes of n->begun and of the input behind it; together they have `bytes`. */
void nbd_begun_read(struct conn *c, void *to, size_t bytes);

/* Answers what is under way, and ends the connection. */
void nbd_end(struct conn *c, enum conn_end end);

/* The client owes input: it has so long for all of a step, or the next NBD_PART_MAX of it. */
void nbd_expect_input(struct conn *c, uint64_t timeout_ns);
