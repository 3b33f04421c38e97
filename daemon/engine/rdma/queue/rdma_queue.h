/* Engine `rdma`, level 2: a connection's states, its queue pair, its work requests.
 *
 * Receives are posted as long as the pool and backpressure allow, many by one call.  What is to be
 * sent is put into a chain, which one call posts as well; only its last request asks for a
 * completion, and only if chunks wait for it, somebody does, or the send queue fills. */
#pragma once
#include <netinet/in.h>

#include "greeting.h"
#include "rdma_device.h"
#include "rdma_small.h"

struct chunk;
struct conn;
struct pool;
struct rdma_region;
struct remote;
struct stats;
struct view;

enum {
	RDMA_CREDIT = 16,     /* messages that a client may always send, if the pool is roomy */
	RDMA_RECVS = 40,      /* receives posted to one that uses them; refilled below its credit */
	RDMA_RECVS_MIN = 2,   /* with fewer none is let in */
	RDMA_RECVS_PART = 32, /* of the pool that can be received into: one client's */
	RDMA_RECVS_DEEP = 3,  /* the same of one that only sends, over iWARP */
	RDMA_RECVS_CHAIN = 40, /* posted by one call */
	RDMA_CQ_PART = 64,     /* of the completion queue that is left: one client's receives */
	RDMA_UNSIGNALLED = 15, /* requests, at the most; the next is signalled */
	RDMA_SLOT_ALIGN = 64,  /* of messages that share a chunk */
	RDMA_SIGNALLED = 8,    /* signalled and not completed, at the most */
	RDMA_SGES_MAX = 64,    /* of requests that are posted together */
};

/* ---- States ---- */

/* The only states of a connection, and what it has in each:
 *
 *   NEW       an identifier.  The core does not know it.
 *   OPENING   a connection of the core, which waits for it (c->pending); perhaps a queue pair.
 *   ACCEPTED  a queue pair, whose client was told to go on.
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

/* A signalled request completes all that were posted before it, too. */
struct rdma_signalled {
	unsigned requests;
	unsigned of[RDMA_REQUEST_COUNT];
	unsigned remotes; /* operations of which these are the last requests */
	uint32_t bytes;   /* of c->sending */
};

struct rdma_posted {
	struct chunk *chunk;
	uint8_t *data; /* in it */
	bool first;    /* of those that one call posted */
};

/* Messages of whatever is in the spill, which are to be sent: of one length, for who answers with
 * the length that he got waits until all of one are gone. */
struct rdma_spills {
	uint32_t bytes; /* of each */
	unsigned count;
};

struct rdma_conn {
	enum rdma_state state; /* rdma_conn_become() changes it */
	struct conn *conn;     /* NULL: NEW */
	struct rdma_cm_id *id; /* NULL: GONE */
	struct rdma_device *device;
	const struct engine_device *port; /* of it; NULL: a worker remembers only so many */
	struct rdma_conn *wanting_next, *ending_next, *number_next;
	uint32_t number;            /* of its queue pair */
	unsigned entries;           /* of the completion queue that it was promised */
	struct rdma_posted *posted; /* a ring of posted_max: receives complete in order */
	unsigned posted_first, posted_count, posted_max;
	uint64_t posted_total;  /* receives, so far */
	uint64_t posted_alive;  /* of them, when a request was last sent */
	bool deep;              /* it only sends: see RDMA_RECVS_DEEP */
	bool stopped, used_up;  /* a receive has failed; then: rdma_queue_is_used_up() */
	unsigned credit;        /* receives that it may rely on */
	struct chunk *slots_in; /* that the next receives are in; NULL: in one more */
	struct greeting greeting;
	struct rdma_signalled signalled[RDMA_SIGNALLED]; /* likewise */
	unsigned signalled_first, signalled_count;
	struct rdma_signalled since; /* posted after the last signalled one */
	unsigned sends;              /* in the send queue */
	struct rdma_slots slots;
	struct rdma_spills spills;
	struct remote *remotes, **remotes_tail; /* in the order in which they were asked for */
	struct remote *remote_unposted;         /* of them, the first */
	struct rdma_region *regions;
	uint32_t inline_max;
	bool wants_receives; /* on the list of its engine */
	struct sockaddr_storage peer;
	uint8_t responder_resources, initiator_depth; /* as the client asked */
	uint8_t reads_max; /* of ours that may be under way; 0: the client allows none */
};

/* Moves it on; the core is told, and the lists are kept, as the states say. */
void rdma_conn_become(struct rdma_conn *r, enum rdma_state state);

/* The connection has a queue pair to post to, or will have one soon. */
static inline bool rdma_conn_is_open(const struct rdma_conn *r)
{
	return r->state == RDMA_OPENING || r->state == RDMA_ACCEPTED;
}

/* The connection has something to post that is not in tx. */
static inline bool rdma_conn_owes(const struct rdma_conn *r)
{
	return r->remote_unposted || r->spills.count > 0;
}

/* ---- Queue pair ---- */

/* Chunks of the pool that a client with this greeting needs at least. */
unsigned rdma_queue_chunks(const struct pool *p, const struct greeting *greeting);
/* Makes one with as many receives as the pool allows; srq: those of others instead.  On failure
 * rdma_queue_close() is called all the same.  0 or -errno. */
int rdma_queue_open(struct rdma_conn *r, struct ibv_srq *srq);
/* Drops what its requests named; the queue pair is destroyed, and its completions were taken. */
void rdma_queue_close(struct rdma_conn *r);
/* A queue pair of id, or of none, with as many inline bytes as the device grants.  0 or -errno. */
int rdma_queue_create(struct rdma_device *d, struct rdma_cm_id *id,
		      const struct ibv_qp_init_attr *attr, uint32_t *ret_inline,
		      struct ibv_qp **ret_qp);
void rdma_queue_count_error(struct stats *s, enum ibv_wc_status status);

/* ---- Receives ---- */

/* Posts what is missing of them; of those that are shared, nothing. */
void rdma_queue_feed(struct rdma_conn *r);
/* Wants to be fed, or has something to post: soon. */
void rdma_queue_want_receives(struct rdma_conn *r);
/* The connection has ended.  Had its messages used up all that was posted until then?  The oldest
 * receive that is left is the first of a call, which came too late, and nothing could be sent
 * since.  A client that sent just as many, and left, looks the same. */
bool rdma_queue_is_used_up(const struct rdma_conn *r);
/* A receive of its own has completed. */
void rdma_queue_received(struct rdma_conn *r, const struct ibv_wc *wc);

/* Did it bring bytes into its chunk?  A write with immediate went to a region. */
static inline bool rdma_wc_is_input(const struct ibv_wc *wc)
{
	return wc->status == IBV_WC_SUCCESS && wc->byte_len > 0 &&
	       wc->opcode != IBV_WC_RECV_RDMA_WITH_IMM;
}

/* ---- Sends ---- */

/* Requests that are posted together. */
struct rdma_send_chain {
	unsigned count, max;
	unsigned sge_count;
	unsigned messages; /* of c->tx */
	unsigned remotes;  /* operations that are wholly posted with it */
	unsigned of[RDMA_REQUEST_COUNT];
	struct ibv_send_wr requests[RDMA_SENDS];
	struct ibv_sge sges[RDMA_SGES_MAX];
};

/* Empty, with room for as many requests as the send queue has. */
void rdma_send_chain_init(struct rdma_send_chain *chain, const struct rdma_conn *r);
static inline bool rdma_send_chain_has_room(const struct rdma_send_chain *chain)
{
	return chain->count < chain->max && chain->sge_count < RDMA_SGES_MAX;
}
/* Appends a request, without views and opcode; needs room, as the next function does. */
struct ibv_send_wr *rdma_send_chain_add(struct rdma_send_chain *chain, struct rdma_conn *r,
					enum rdma_request_kind kind);
void rdma_send_chain_view(struct rdma_send_chain *chain, struct ibv_send_wr *wr,
			  const struct rdma_device *d, const struct view *v);
/* Messages from the spill, likewise. */
bool rdma_send_chain_spills(struct rdma_send_chain *chain, struct rdma_conn *r);
/* Messages of c->tx, as far as there is room for them; false: not all. */
bool rdma_send_chain_messages(struct rdma_send_chain *chain, struct rdma_conn *r);
/* Posts the chain, which is not empty; all: then the connection has nothing left
 * to post. */
void rdma_send_chain_post(struct rdma_send_chain *chain, struct rdma_conn *r, bool all);
/* Counts a signalled request that has completed; returns the requests it stands for. */
struct rdma_signalled rdma_queue_sent(struct rdma_conn *r);
