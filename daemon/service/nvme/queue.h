/* Service `nvme`: internal interface of its files.
 *
 * The way of a write over TCP, and the files that it passes: nvme.c, a connection's life;
 * nvme/tcp.c, PDUs (tcp_write_received()); nvme/command.c, commands and their parts
 * (nvme_submit_to_store()); block/, where a part may end, and its memory; core/io.h
 * (io_submit()); store/, a file for each store (file_uring_read_or_write(),
 * thread_read_or_write(), memory_read_or_write()).  Over RDMA nvme/rdma.c stands for tcp.c:
 * capsules as messages, data by one-sided operations. nvme/connect.c: Connect; nvme/admin.c:
 * commands of admin queues, properties; nvme/subsystem.c: which connections belong together.
 * Pure: nvme/wire/. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "block_part.h"
#include "conn.h"
#include "remote.h"
#include "store.h"
#include "subsystem.h"
#include "util.h"
#include "wire/proto.h"
#include "wire/tcp_proto.h"

enum {
	NVME_BLOCK = 4096,             /* bytes; the default */
	NVME_ADMIN_ENTRIES_MAX = 1024, /* of an admin queue */
	NVME_CAPSULE = 16384,          /* bytes of data behind an I/O command, over TCP */
	NVME_ADMIN_CAPSULE = 8192,     /* bytes of data behind an admin or Fabrics command */
	/* Maximum of a queue's commands with memory outside of the pool: 4 KiB each, or the data of
	 * an admin command.  No further command is taken until one of them ends.  As many more may
	 * have such memory while they wait for the next PDU of their data; a further one fails. */
	NVME_PAGES_MAX = 16,
};

/* Time limits for a host: for ICReq and Connect, and to close after an error
 * (HANDSHAKE); for the rest of a PDU; to enable its controller, and for silence of a
 * discovery controller without keep-alive. */
#define NVME_HANDSHAKE_NS ((uint64_t)10 * NS_PER_S)
#define NVME_PDU_NS       ((uint64_t)30 * NS_PER_S)
#define NVME_ENABLE_NS    ((uint64_t)120 * NS_PER_S)
/* How long a Connect waits: see NVME_WAIT. */
#define NVME_WAIT_NS ((uint64_t)20 * NS_PER_S)

/* Operations that are counted; indices of service->operations. */
#define NVME_OPERATIONS(X)                                                                         \
	X(read)                                                                                    \
	X(write)                                                                                   \
	X(flush)                                                                                   \
	X(write_zeroes)                                                                            \
	X(trim)                                                                                    \
	X(admin)                                                                                   \
	X(fabrics)                                                                                 \
	X(invalid)
enum nvme_operation {
#define X(name) NVME_OP_##name,
	NVME_OPERATIONS(X)
#undef X
};

/* The next step of a command.  Those after NVME_TODO are done by the queue as soon as there is
 * memory for it. */
enum nvme_step {
	NVME_RECEIVE, /* data of the host is awaited */
	NVME_IO,      /* a part is in flight at a store */
	NVME_HOLD, /* held: an AER until there is an event, a Connect until the old controller has
		      ended */
	NVME_TODO,
	NVME_ASK = NVME_TODO, /* ask the host for data */
	NVME_FILL,            /* get a part of the data for the host */
	NVME_SEND,            /* send that part */
	NVME_REPLY,
	NVME_STEP_COUNT
};

struct connect_data;
struct nvme_queue;
struct nvme_command;

enum { NVME_STARTED = 0xfffe }; /* instead of a status: the command ends later */

/* How commands of an opcode are served. */
struct nvme_verb {
	uint8_t opcode;
	uint8_t operation; /* enum nvme_operation */
	/* Checks the command: returns a status, sets d->length (data to or from
	 * the host) and d->io.mount. */
	uint16_t (*check)(struct nvme_command *d);
	/* Starts the command when the host's data is in d->page: the status with which it ends, or
	 * NVME_STARTED.  NULL: the data goes to the store as it arrives. */
	uint16_t (*start)(struct nvme_command *d);
};

/* The commands that a type of queue accepts; before Connect that is the only one. */
struct nvme_verbs {
	const struct nvme_verb *list;
	unsigned count;
};

STAILQ_HEAD(nvme_list, nvme_command);

/* A command that is being served, a part of it at a time. */
struct nvme_command {
	struct io io; /* request of the part in flight */
	struct nvme_queue *queue;
	struct nvme_command *next;       /* on the list of free or held ones */
	STAILQ_ENTRY(nvme_command) link; /* on `todo` */
	const struct nvme_verb *verb;
	struct nvme_sqe sqe;
	/* bytes, in the export: of the data or of the range to zero. */
	uint64_t offset;
	uint32_t length;                 /* bytes of data to or from the host */
	uint32_t done_bytes;             /* bytes of earlier parts */
	uint32_t got_bytes, asked_bytes; /* of the host's data: received, and asked for */
	struct bufq data;                /* memory of this part */
	/* malloc()ed data to or from the host that is not a store's; NULL: none. */
	uint8_t *page;
	uint32_t page_bytes; /* bytes in page; zeros follow */
	/* Bytes of a partial block in `page`: see receive_begin(). */
	uint32_t partial_bytes;
	uint64_t start_ns; /* when the command was complete, if timed, else 0 */
	uint64_t result;   /* of its completion */
	uint16_t status;   /* enum nvme_status */
	uint8_t step;      /* enum nvme_step */
	bool split;        /* `page` waits for the next PDU of the data */
	bool framed;       /* `data` has room for what precedes and follows it in a PDU */
	/* RDMA: the completion was sent before the data was known to have arrived. */
	bool replied;
	struct remote remote; /* RDMA: operation of the part in flight */
};

enum nvme_phase {
	NVME_PHASE_ICREQ,
	NVME_PHASE_CONNECT,
	NVME_PHASE_LIVE,
	NVME_PHASE_ENDING, /* after an error: input is ignored, nothing is sent */
};

/* Functions and sizes that differ between TCP and RDMA. */
struct nvme_transport {
	enum nvme_phase phase; /* the first phase of a connection */
	bool rdma;             /* data moves by one-sided operations */
	/* Bytes of data that a command capsule may carry. */
	uint32_t (*in_capsule)(const struct worker *w);
	/* I/O queues that the listener has memory for; NULL: as many as there may be. */
	unsigned (*queues)(const struct worker *w);
	/* Takes the next PDU or message from the input, or continues with it; false: nothing can be
	 * done until an operation ends, output is sent, or input arrives. */
	bool (*take)(struct nvme_queue *q);
	/* Handles the data that came with a command; drops it if d->status is an error. */
	void (*receive)(struct nvme_command *d, uint32_t bytes);
	/* By enum nvme_step: performs the step.  False: no memory for it now. */
	bool (*steps[NVME_STEP_COUNT])(struct nvme_command *d);
};
extern const struct nvme_transport nvme_tcp, nvme_rdma;

/* A connection, which is a queue of NVMe. */
struct nvme_queue {
	struct conn *conn;
	const struct nvme_transport *transport;
	struct nvme_member *member;
	enum nvme_phase phase;
	uint16_t sqsize, sqhd;
	bool no_flow_control;
	bool running;        /* within nvme_run(), which handles `todo` itself */
	bool drain_reported; /* an event has told the host of the drain */
	bool connect_waits;  /* its Connect waits, or did; alive_ns is its time limit */
	struct nvme_verbs verbs;

	struct nvme_command first; /* Connect */
	struct nvme_command *commands;
	unsigned command_count, used; /* used: those taken at least once */
	unsigned busy;                /* commands being served */
	unsigned pages;               /* commands that have a page */
	unsigned split;               /* of these, commands that are `split` */
	struct nvme_command *free;    /* used ones that are free */
	struct nvme_list todo;        /* in order of service */
	struct nvme_command *held;

	/* The PDU being received. */
	struct nvme_tcp_terms terms;
	uint8_t header[NVME_TCP_HEADER_MAX + NVME_TCP_DIGEST];
	unsigned header_have;
	struct nvme_tcp_pdu pdu;        /* valid once NVME_TCP_COMMON bytes have arrived */
	uint64_t drop_bytes;            /* bytes of input to be dropped */
	struct nvme_command *receiving; /* the command whose data is being received */
	/* Bytes of the PDU's data still to come, without the digest. */
	uint32_t data_left;
	uint32_t digest; /* digest of the data so far, unless intact */
	bool intact;     /* the digest of the whole PDU was verified while it was in the input */

	/* Times of CLOCK_MONOTONIC; 0: none. */
	uint64_t alive_ns; /* deadline for the host's next step or keep-alive */
	uint64_t pdu_ns;   /* deadline for the rest of the current PDU */
	uint64_t due_ns;   /* the earlier one, set as the connection's deadline */

	/* Only an admin queue has these. */
	uint64_t kato_ns;    /* keep-alive timeout; 0: none */
	uint32_t cc;         /* Controller Configuration */
	uint32_t event_mask; /* Asynchronous Event Configuration */
	/* The Discovery log's generation when the host last read it, or else when it connected. */
	uint64_t log_generation;
	/* An event has told the host that the log has changed since: there is no further one until
	 * the host reads it. */
	bool log_reported;
};

static inline struct nvme_queue *nvme_of(const struct conn *c)
{
	return c->state;
}

/* nvme/command.c */

/* Allocates `count` commands.  0 or -ENOMEM. */
int nvme_commands_init(struct nvme_queue *q, unsigned count);
void nvme_commands_free(struct nvme_queue *q);
/* NULL: all commands are in use. */
struct nvme_command *nvme_command_get(struct nvme_queue *q);
/* Starts a command whose sqe has been parsed.  capsule_bytes: data that came in the same PDU. */
void nvme_command_begin(struct nvme_command *d, uint32_t capsule_bytes);
/* Starts a command that is refused: it ends at once with the status. */
void nvme_command_refuse(struct nvme_command *d, uint16_t status);
/* Calls its verb's start(). */
void nvme_command_start(struct nvme_command *d);
/* The only function that changes a command's step. */
void nvme_command_set(struct nvme_command *d, enum nvme_step step);
static inline void nvme_command_end(struct nvme_command *d, uint16_t status)
{
	d->status = status;
	nvme_command_set(d, NVME_REPLY);
}
/* Gives the malloc()ed page to d, which frees it; false: it is NULL. */
bool nvme_page_take(struct nvme_command *d, uint8_t *page);
/* Allocates d->page; false: no memory. */
bool nvme_page_new(struct nvme_command *d, size_t bytes);
void nvme_page_free(struct nvme_command *d);
/* Marks a command whose page waits for the next PDU of its data, or no longer does. */
void nvme_page_split(struct nvme_command *d, bool split);
/* Must a command that needs a page wait?  Not for commands that are `split`: the PDUs with their
 * data may come after it. */
static inline bool nvme_pages_are_short(const struct nvme_queue *q)
{
	return q->pages - q->split >= NVME_PAGES_MAX;
}
struct nvme_cqe nvme_completion_of(const struct nvme_command *d);
/* The command's completion has been queued: counts the operation. */
void nvme_command_replied(struct nvme_command *d);
void nvme_command_put(struct nvme_command *d);
/* nvme_transport.steps[NVME_FILL]: gets a part of the data for the host. */
bool nvme_command_fill(struct nvme_command *d);
/* Performs the steps of all commands on `todo`, as far as there is memory. */
void nvme_commands_run(struct nvme_queue *q);
/* Allocates memory for a part of `bytes`, or less if the pool is short: whole units, possibly none.
 * framed: in one piece, if possible, with room for the rest of its PDU. */
void nvme_part_room(struct nvme_command *d, size_t bytes, bool framed);
/* Submits d->data, or a range without data, to the store. */
void nvme_submit_to_store(struct nvme_command *d, enum io_kind kind, uint64_t offset,
			  uint64_t length);

/* A namespace: an export as the host sees it. */
struct nvme_namespace nvme_namespace_of(const struct nvme_target *t, const struct export *e);
/* The data of the command that no part has taken yet.  Its unit is a logical block of the
 * namespace; 1 without an export. */
struct block_rest nvme_rest(const struct nvme_command *d);

extern const struct nvme_verbs nvme_io_verbs;
/* Data of d was written or dropped.  Chooses what d does next: receive the rest, ask for more,
 * reply, or start. */
void nvme_data_next(struct nvme_command *d);
/* Maximum of entries of a queue: the smallest queue-depth of the worker's exports. */
unsigned nvme_entries(const struct worker *w);

/* nvme/rdma.c */

/* service->connect */
int nvme_rdma_connect(const struct worker *w, struct connect_data *connect_data);
/* nvme_transport.in_capsule and .queues */
uint32_t nvme_rdma_in_capsule(const struct worker *w);
unsigned nvme_rdma_queues(const struct worker *w);

/* nvme/connect.c */

extern const struct nvme_verbs nvme_connect_verbs;
/* Retries a waiting Connect, or fails it if too_long. */
void nvme_connect_go_on(struct nvme_queue *q, bool too_long);

/* nvme/admin.c */

extern const struct nvme_verbs nvme_admin_verbs;
/* Ends an Asynchronous Event Request for each event that is due: a drain, which asks the host to
 * reconnect, and a change of the Discovery log, if the host has enabled that event. */
void nvme_admin_events(struct nvme_queue *q);
