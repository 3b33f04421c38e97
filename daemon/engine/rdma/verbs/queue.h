/* Engine `rdma`: a connection's states, its queue pair, its work requests.
 *
 * Receives are posted as long as the pool and backpressure allow, many by one call.  Sends are
 * collected in a chain, which one call posts as well; only its last request is signalled, and only
 * if chunks or the connection wait for its completion or the send queue is filling up. */
#pragma once
#include <netinet/in.h>
#include <sys/queue.h>

#include "connect_data.h"
#include "memory.h"
#include "remote.h"
#include "util.h"

struct conn;
struct rdma_pair;
struct region;
struct stats;

enum {
	RDMA_RNR_TIMER = 12, /* 0.64 ms: delay after which a client that found no receive retries */
	RDMA_PAIR_KEY = 0x11111111, /* Q_Key of a pair with datagrams, as perftest's */
	RDMA_CREDIT = 16,     /* messages that a client may always send, if the pool has room */
	RDMA_RECVS = 40,      /* receives posted for an active client; refilled below RDMA_CREDIT */
	RDMA_RECVS_MIN = 2,   /* a client that cannot get this many is refused */
	RDMA_RECVS_PART = 32, /* a client may have 1/32 of the pool's chunks for receives */
	RDMA_RECVS_DEEP = 3,  /* a client that only sends, over iWARP, may have 1/3 of them */
	RDMA_RECVS_CHAIN = 40, /* receives posted by one call */
	RDMA_CQ_PART = 64,     /* a client's receives may use 1/64 of the free completion queue */
	RDMA_UNSIGNALLED = 15, /* maximum of requests in a row without a signalled one */
	RDMA_SLOT_ALIGN = 64,  /* bytes: alignment of messages that share a chunk */
	RDMA_SIGNALLED = 8,    /* maximum of signalled requests in flight */
	RDMA_SGES_MAX = 64,    /* scatter/gather entries of one chain */
};

/* ---- States ---- */

/* The states of a connection, and what it owns in each:
 *
 *   NEW       an identifier.  The core does not know it.
 *   OPENING   a connection of the core, which waits for it (c->pending); perhaps a queue pair.
 *   ACCEPTED  a queue pair; the client's request was accepted.
 *   REFUSED   was OPENING: its client will be told no.   On e->ending: both are torn down
 *   ENDED     was ACCEPTED, or its client has left.      before the next wait.
 *   GONE      nothing: the core waits no more, and releases it. */
enum rdma_state {
	RDMA_NEW,
	RDMA_OPENING,
	RDMA_ACCEPTED,
	RDMA_REFUSED,
	RDMA_ENDED,
	RDMA_GONE,
	RDMA_STATE_COUNT
};

enum rdma_request_kind {
	RDMA_REQUEST_SEND,
	RDMA_REQUEST_READ,
	RDMA_REQUEST_WRITE,
	RDMA_REQUEST_COUNT
};

/* A signalled request, and the unsignalled ones of its lane before it,
 * which its completion covers. */
struct rdma_signalled {
	unsigned requests;
	unsigned of[RDMA_REQUEST_COUNT];
	unsigned remotes; /* number of remote operations that end with these requests */
	uint32_t bytes;   /* bytes of c->sending */
};

STAILQ_HEAD(rdma_remotes, remote);

enum rdma_lane_kind {
	RDMA_LANE_OUT, /* sends and writes */
	RDMA_LANE_IN,  /* reads */
	RDMA_LANE_COUNT
};

/* The requests of a send queue that complete in the order of their posting. */
struct rdma_lane {
	struct rdma_signalled signalled[RDMA_SIGNALLED]; /* a ring */
	unsigned signalled_first, signalled_count;
	struct rdma_signalled since; /* requests posted after the last signalled one */
	unsigned sends;              /* requests in the send queue */
	struct rdma_remotes remotes; /* wholly posted, in order of submission */
};

struct rdma_posted {
	struct chunk *chunk;
	uint8_t *data; /* where in the chunk */
	bool first;    /* the first of the receives posted by one call */
};

/* Messages to be sent from the scratch region.  All have the same length: a service that answers in
 * the client's length has to wait until those of another length have been posted. */
struct rdma_scratch_sends {
	uint32_t bytes; /* of each */
	unsigned count;
};

struct rdma_conn {
	enum rdma_state state; /* rdma_conn_become() changes it */
	struct conn *conn;     /* NULL: NEW */
	struct rdma_cm_id *id; /* NULL: GONE */
	/* Agreed on over a socket: the identifier only knows the route.  NULL: the connection is
	 * the connection manager's. */
	struct rdma_pair *pair;
	enum ibv_qp_type type; /* of its queue pair; always RC if pair is NULL */
	/* IBV_QPT_UD: the client's address handle and queue pair number; else NULL. */
	struct ibv_ah *pair_way;
	uint32_t pair_number;
	struct rdma_step *step; /* a thread makes a call for it: it is not torn down; NULL: none */
	struct rdma_device *device;
	const struct engine_device *port; /* its port; NULL: the worker's list of ports is full */
	struct rdma_conn *wanting_next, *ending_next;
	uint32_t number;            /* number of its queue pair (QPN) */
	unsigned entries;           /* entries of the completion queue reserved for it */
	struct rdma_posted *posted; /* a ring of posted_max: receives complete in order */
	unsigned posted_first, posted_count, posted_max;
	uint64_t posted_total; /* receives completed so far */
	uint64_t posted_alive; /* its value when a request was last sent */
	bool deep;             /* the client only sends: see RDMA_RECVS_DEEP */
	/* stopped: a receive has failed; used_up: rdma_queue_is_used_up() at that time. */
	bool stopped, used_up;
	unsigned credit;        /* receives guaranteed to the client */
	struct chunk *slots_in; /* the chunk that the next receives share; NULL: a new one */
	struct connect_data connect_data;
	struct rdma_lane lanes[RDMA_LANE_COUNT];
	struct rdma_scratch_sends scratch_sends;
	struct rdma_remotes unposted; /* in order of submission; the first may be posted in part */
	struct rdma_region *regions;
	uint32_t inline_max;
	bool wants_receives; /* on the list rdma.wanting */
	struct sockaddr_storage peer;
	uint8_t responder_resources, initiator_depth; /* as the client asked */
	bool reads;                                   /* device and client allow RDMA reads */
};

/* Changes the state: informs the core and maintains the lists as described above. */
void rdma_conn_become(struct rdma_conn *r, enum rdma_state state);

/* The connection has a queue pair to post to, or will have one soon. */
static inline bool rdma_conn_is_open(const struct rdma_conn *r)
{
	return r->state == RDMA_OPENING || r->state == RDMA_ACCEPTED;
}

/* The connection has something to post that is not in tx. */
static inline bool rdma_conn_has_unsent(const struct rdma_conn *r)
{
	return !STAILQ_EMPTY(&r->unposted) || r->scratch_sends.count > 0;
}

/* ---- Completion queue and queue pair ---- */

/* Entries of a worker's completion queue: enough for as many busy clients as `chunks` of the pool
 * admit, if the device allows so many.  rxe allows no more than RDMA_CQ_ENTRIES; cards allow
 * millions, but this was never run on one. */
static inline unsigned rdma_cq_entries(int max_cqe, uint32_t chunks)
{
	uint64_t wanted = (uint64_t)chunks / RDMA_RECVS_MIN * (RDMA_SENDS + RDMA_RECVS);

	return (unsigned)MIN(MAX(wanted, (uint64_t)RDMA_CQ_ENTRIES), (uint64_t)MAX(max_cqe, 1));
}

/* Chunks of the pool that a client with this connect_data needs at least. */
unsigned rdma_queue_chunks(const struct pool *p, const struct connect_data *connect_data);
/* Has the completion queue of the device room for such a client? */
bool rdma_queue_fits(const struct rdma_device *d, const struct connect_data *connect_data);
/* Makes a queue pair with as many receives as the pool allows.  0 or -errno; the caller calls
 * rdma_queue_close() in both cases. */
int rdma_queue_open(struct rdma_conn *r);
/* Drops the references of its requests.  The queue pair must be destroyed and
 * its completions handled before. */
void rdma_queue_close(struct rdma_conn *r);
void rdma_queue_count_error(struct stats *s, enum ibv_wc_status status);

/* ---- Receives ---- */

/* Posts the missing receives. */
void rdma_queue_refill(struct rdma_conn *r);
/* Puts r on the list of connections for which the next wait posts receives or requests. */
void rdma_queue_want_receives(struct rdma_conn *r);
/* For a connection that has ended: did the client send more messages than there were receives?
 * True if the oldest receive left is the first of a call, which then came too late, and no request
 * was sent since.  A client that sent exactly as many and disconnected looks the same. */
bool rdma_queue_is_used_up(const struct rdma_conn *r);
/* Handles the completion of a receive. */
void rdma_queue_received(struct rdma_conn *r, const struct ibv_wc *wc);

/* Did it receive bytes into a chunk?  The data of a write with immediate goes to a region. */
static inline bool rdma_wc_is_input(const struct ibv_wc *wc)
{
	return wc->status == IBV_WC_SUCCESS && wc->byte_len > 0 &&
	       wc->opcode != IBV_WC_RECV_RDMA_WITH_IMM;
}

/* ---- Sends ---- */

static inline enum rdma_lane_kind rdma_lane_of(enum rdma_request_kind kind)
{
	return kind == RDMA_REQUEST_READ ? RDMA_LANE_IN : RDMA_LANE_OUT;
}

/* Send requests that are posted together. */
struct rdma_send_chain {
	unsigned count, max;
	unsigned sge_count;
	unsigned messages; /* messages of c->tx among them */
	unsigned of[RDMA_REQUEST_COUNT];
	struct ibv_send_wr *last[RDMA_LANE_COUNT]; /* NULL: none of this lane */
	struct ibv_send_wr requests[RDMA_SENDS];
	struct ibv_sge sges[RDMA_SGES_MAX];
};

/* Empty, with room for as many requests as the send queue has. */
void rdma_send_chain_init(struct rdma_send_chain *chain, const struct rdma_conn *r);
static inline bool rdma_send_chain_has_room(const struct rdma_send_chain *chain)
{
	return chain->count < chain->max && chain->sge_count < RDMA_SGES_MAX;
}
/* Appends messages from the scratch region, as far as there is room; false: not all. */
bool rdma_send_chain_scratch(struct rdma_send_chain *chain, struct rdma_conn *r);
/* Appends messages of c->tx, as far as there is room; false: not all. */
bool rdma_send_chain_messages(struct rdma_send_chain *chain, struct rdma_conn *r);
/* Posts the chain, which is not empty.  all: the connection has nothing else to post. */
void rdma_send_chain_post(struct rdma_send_chain *chain, struct rdma_conn *r, bool all);
/* Accounts for the oldest signalled request of a lane, which has completed;
 * returns the requests covered. */
struct rdma_signalled rdma_queue_sent(struct rdma_conn *r, enum rdma_lane_kind kind);

/* ---- One-sided operations, and memory that clients read and write ---- */

/* Functions of struct engine. */
void rdma_remote_submit(struct remote *remote);
int rdma_region(struct conn *c, size_t bytes, struct region *ret_region);
void rdma_scratch_region(const struct conn *c, struct region *ret_region);
unsigned rdma_send_scratch(struct conn *c, uint32_t bytes);

/* To be called before the other functions. */
void rdma_remote_open(struct rdma_conn *r);
/* Adds unposted operations to the chain, as far as there is room; false: not all. */
bool rdma_remote_add(struct rdma_conn *r, struct rdma_send_chain *chain);
/* Ends the first `count` operations of a lane, which have completed. */
void rdma_remote_completed(struct rdma_lane *lane, unsigned count);
/* Ends all operations and frees the regions; the queue pair must be destroyed before. */
void rdma_remote_close(struct rdma_conn *r);
