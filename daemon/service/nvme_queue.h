/* Service `nvme`: what its files share.
 *
 * nvme.c: a connection's life; nvme_tcp.c: PDUs; nvme_receive.c: data in them; nvme_rdma.c:
 * capsules as messages, data by one-sided operations; nvme_command.c: commands, their parts, those
 * of I/O queues; nvme_admin.c: those of admin queues, and Fabrics'; nvme_subsystem.c: which
 * connections belong together.  Pure: nvme_proto.c, nvme_tcp_proto.c, nvme_rdma_proto.c,
 * nvme_identify.c, nvme_id.c. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conn.h"
#include "nvme_proto.h"
#include "nvme_subsystem.h"
#include "nvme_tcp_proto.h"
#include "remote.h"
#include "store.h"
#include "util.h"

enum {
	NVME_PART_MAX = 512 * 1024,    /* bytes of one read or write of a store */
	NVME_HELD_MAX = 8192 * 1024,   /* bytes a connection may hold */
	NVME_ALIGN = 64,               /* of the data of reads in memory, at least */
	NVME_BLOCK = 4096,             /* bytes, if nothing else is said */
	NVME_ADMIN_ENTRIES_MAX = 1024, /* of an admin queue */
	NVME_ADMIN_CAPSULE = 8192,     /* bytes of data behind an admin or Fabrics command */
};

/* How long a host may take to begin, for the rest of a PDU, to enable its controller, and to close
 * after an error; and a discovery controller without keep-alive. */
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
	NVME_RECEIVE, /* data of the host is to come */
	NVME_IO,      /* a part of it is with a store */
	NVME_HOLD,    /* until an event: AER, a Connect that waits */
	NVME_TODO,
	NVME_ASK = NVME_TODO, /* the host is to be asked for data */
	NVME_FILL,            /* a part of the data for the host is to be had */
	NVME_SEND,            /* ... and is there */
	NVME_REPLY,
	NVME_STEP_COUNT
};

struct greeting;
struct nvme_queue;
struct nvme_command;

/* How commands of an opcode are served. */
struct nvme_verb {
	uint8_t opcode;
	uint8_t operation; /* enum nvme_operation */
	/* May it be served?  A status; sets length, of data to or from the host, and io.mount. */
	uint16_t (*check)(struct nvme_command *d);
	/* The data of the host is in `page`; NULL: it goes to the store as it comes. */
	void (*start)(struct nvme_command *d);
};

/* A command that is being served, a part of it at a time. */
struct nvme_command {
	struct io io; /* of the part that is under way */
	struct nvme_queue *queue;
	struct nvme_command *next; /* on one of the lists */
	const struct nvme_verb *verb;
	struct nvme_sqe sqe;
	uint64_t offset;                 /* in the export: of the data, or of what is zeroed */
	uint32_t length;                 /* bytes of data to or from the host */
	uint32_t done_bytes;             /* of them, in the parts before */
	uint32_t got_bytes, asked_bytes; /* of the host's: have come, and may come */
	struct bufq data;                /* memory of this part */
	uint8_t *page;                   /* data to or from the host that no store has, allocated */
	uint32_t page_bytes;             /* zeros follow these */
	uint32_t begun_bytes;            /* of a block in `page`: see receive_begin() */
	uint64_t start_ns;               /* when it was complete, if it is timed, else 0 */
	uint64_t result;                 /* of its completion */
	uint16_t status;                 /* enum nvme_status */
	uint8_t step;                    /* enum nvme_step */
	bool framed;          /* `data` has room for what precedes and follows it in a PDU */
	bool replied;         /* over RDMA: before its data was known to be there */
	struct remote remote; /* over RDMA: of the part that is under way */
};

enum nvme_phase {
	NVME_PHASE_ICREQ,
	NVME_PHASE_CONNECT,
	NVME_PHASE_LIVE,
	NVME_PHASE_ENDING, /* after an error: nothing is heard or said any more */
};

/* A transport of commands and their data: TCP or RDMA. */
struct nvme_transport {
	enum nvme_phase phase; /* in which a connection begins */
	/* Takes what comes next from the input, or goes on with it; false: nothing can be done
	 * until something is done, is sent, or arrives. */
	bool (*take)(struct nvme_queue *q);
	/* Data that came with a command, which has a status if nobody wants it. */
	void (*receive)(struct nvme_command *d, uint32_t bytes);
	/* By enum nvme_step, what is to do; each false when there is no memory for it now. */
	bool (*steps[NVME_STEP_COUNT])(struct nvme_command *d);
};
extern const struct nvme_transport nvme_tcp, nvme_rdma;

/* A connection. */
struct nvme_queue {
	struct conn *conn;
	const struct nvme_transport *transport;
	struct nvme_member *member;
	enum nvme_phase phase;
	uint16_t sqsize, sqhd;
	bool no_flow_control;
	bool running;                  /* nvme_run() is: it looks at `todo` */
	bool told;                     /* the host was, of a drain */
	bool waits;                    /* its Connect does, or did: alive_ns says for how long */
	const struct nvme_verb *verbs; /* of its kind */
	unsigned verb_count;

	struct nvme_command first; /* Connect */
	struct nvme_command *commands;
	unsigned command_count, used;      /* used: were taken, once at least */
	unsigned busy;                     /* are being served */
	struct nvme_command *free;         /* were used */
	struct nvme_command *todo, **last; /* in this order */
	struct nvme_command *held;

	/* The PDU that comes. */
	struct nvme_tcp_terms terms;
	uint8_t header[NVME_TCP_HEADER_MAX + NVME_TCP_DIGEST];
	unsigned header_have;
	struct nvme_tcp_pdu pdu;        /* once NVME_TCP_COMMON bytes are there */
	uint64_t drop_bytes;            /* of input that nobody wants */
	struct nvme_command *receiving; /* its data is what comes now */
	uint32_t data_left;             /* of the PDU, without its digest */
	uint32_t digest;                /* of what came of it */

	/* Times of CLOCK_MONOTONIC; 0: none. */
	uint64_t alive_ns; /* by then the host has to have gone on, or said that it is alive */
	uint64_t pdu_ns;   /* by then the PDU that has begun has to be here */
	uint64_t due_ns;   /* the earlier of them: the connection's deadline */

	/* Only an admin queue has these. */
	uint64_t kato_ns;    /* 0: the host need not say that it is alive */
	uint32_t cc;         /* Controller Configuration */
	uint32_t event_mask; /* Asynchronous Event Configuration */
};

static inline struct nvme_queue *nvme_of(const struct conn *c)
{
	return c->state;
}

/* nvme_command.c */

/* Room for `count` commands.  0 or -ENOMEM. */
int nvme_commands_init(struct nvme_queue *q, unsigned count);
void nvme_commands_free(struct nvme_queue *q);
/* NULL: there is no room for one more now. */
struct nvme_command *nvme_command_get(struct nvme_queue *q);
/* A command whose sqe is there.  In the PDU came capsule_bytes of data. */
void nvme_command_begin(struct nvme_command *d, uint32_t capsule_bytes);
/* Begins a command that is refused: it ends at once, with the status. */
void nvme_command_refuse(struct nvme_command *d, uint16_t status);
/* The one function that changes what a command waits for. */
void nvme_command_set(struct nvme_command *d, enum nvme_step step);
static inline void nvme_command_end(struct nvme_command *d, uint16_t status)
{
	d->status = status;
	nvme_command_set(d, NVME_REPLY);
}
struct nvme_cqe nvme_completion_of(const struct nvme_command *d);
/* The host will hear, or has heard, all of it: counts it. */
void nvme_command_replied(struct nvme_command *d);
void nvme_command_put(struct nvme_command *d);
/* nvme_transport.steps: a part of the data for the host is to be had. */
bool nvme_command_fill(struct nvme_command *d);
/* Does what is to do, as far as there is memory. */
void nvme_commands_run(struct nvme_queue *q);
/* Memory for a part of `bytes`, as much as there is.  framed: in one piece, if it can be, with room
 * for the rest of its PDU. */
void nvme_part_room(struct nvme_command *d, size_t bytes, bool framed);
/* Hands `data`, or the range of what has none, to the store. */
void nvme_part_submit(struct nvme_command *d, enum io_kind kind, uint64_t offset, uint64_t length);
/* Commands in flight hold as much as the connection may: no more are read until one ends, which
 * runs the service again. */
bool nvme_is_full(const struct conn *c);

/* A namespace: an export as the host sees it. */
struct nvme_namespace nvme_namespace_of(const struct nvme_target *t, const struct export *e);

extern const struct nvme_verb nvme_io_verbs[];
extern const unsigned nvme_io_verb_count;

/* nvme_receive.c */

/* Data of a host, q->data_left bytes of a PDU, is for command d. */
void nvme_receive(struct nvme_command *d, uint32_t bytes);
/* Takes what has come of it; false: nothing can be done now. */
bool nvme_receive_go_on(struct nvme_queue *q);
/* A part is written, or has failed. */
void nvme_receive_written(struct nvme_command *d, int result);
/* More of the data cannot come before some of it is written. */
bool nvme_is_held_up(const struct conn *c);

/* nvme_tcp.c */

/* Ends the connection, and says why. */
void nvme_tcp_fail(struct nvme_queue *q, enum nvme_tcp_fes fes, uint32_t fei);

/* nvme_rdma.c */

/* service->greet */
int nvme_rdma_greet(const struct worker *w, struct greeting *greeting);
/* Bytes of data that may follow a command. */
uint32_t nvme_rdma_in_capsule(const struct worker *w);
/* I/O queues that the listener has memory for. */
unsigned nvme_rdma_queues(const struct worker *w);

/* nvme_connect.c */

extern const struct nvme_verb nvme_connect_verb;
/* A Connect that waits is tried again, or has waited for too long. */
void nvme_connect_go_on(struct nvme_queue *q, bool too_long);
/* The most entries that a queue may have: as few as any export of the worker allows. */
unsigned nvme_entries(const struct worker *w);
/* Fabrics commands of an admin queue. */
uint16_t nvme_property_check(struct nvme_command *d);
void nvme_property_start(struct nvme_command *d);

/* nvme_admin.c */

extern const struct nvme_verb nvme_admin_verbs[];
extern const unsigned nvme_admin_verb_count;
/* The worker drains: the host is told to come back, to another. */
void nvme_admin_drain(struct nvme_queue *q);
