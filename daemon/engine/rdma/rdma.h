/* Engine `rdma`: what its files share.  A worker's thread only, unless said.
 *
 *   rdma.c          the engine: sleeping, polling, devices
 *   rdma_device.c   its share of a device: registered memory, completion queue, ports
 *   rdma_cm.c       connections come and go: the connection manager's events
 *   rdma_queue.c    work requests of a connection: receives, sends, completions
 *   rdma_shared.c   receives that connections share
 *   rdma_small.c    small messages that are not inline
 *   rdma_ud*.c      datagrams
 *   rdma_remote.c   one-sided operations, and memory that clients read and write
 *   rdma_hotplug.c  devices that are unplugged, and come back
 *   rdma_doctor.c   --doctor */
#pragma once
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine.h"
#include "mailbox.h"
#include "op.h"

struct chunk;
struct conn;
struct pool;
struct rdma_region;
struct rdma_small;
struct rdma_ud;
struct region;
struct remote;
struct stats;
struct view;
struct worker;

enum {
	RDMA_CREDIT = 16,     /* messages that a client may always send, if the pool is roomy */
	RDMA_RECVS = 40,      /* receives posted to one that uses them; refilled below its credit */
	RDMA_RECVS_MIN = 2,   /* with fewer none is let in */
	RDMA_RECVS_PART = 32, /* of the pool that can be received into: one client's */
	RDMA_HELD = 24,       /* messages that anybody may hold of receives that are shared */
	RDMA_SENDS = 32,      /* the send queue */
	RDMA_UNSIGNALLED = 15,   /* requests, at the most; the next is signalled */
	RDMA_SIGNALLED = 8,      /* signalled and not completed, at the most */
	RDMA_SGES = 8,           /* views that one read or write covers, if the device can */
	RDMA_SGES_MAX = 64,      /* of requests that are posted together */
	RDMA_INLINE = 128,       /* bytes asked for; the device grants as many or fewer */
	RDMA_CQ_ENTRIES = 32767, /* of a worker's completion queue, if the device has them */
	RDMA_SHARED_MAX = 1024,  /* receives that are shared */
	RDMA_CHAIN_MAX = 64,     /* of them posted by one call: when so many are missing */
	RDMA_NUMBERS = 512,      /* buckets: whose a queue pair is */
	RDMA_EVENTS_MAX = 64,    /* taken at a time */
	RDMA_POLL_MAX = 32,      /* completions one poll takes */
	RDMA_PORTS_MAX = 4,      /* of a device that are told apart */
	RDMA_REJECT_MAX = 128,   /* bytes of the reason that a client gets; InfiniBand takes 148 */
	RDMA_BACKLOG = 1024,
	RDMA_RNR_TIMER = 12, /* 0.64 ms: how soon a client tries again that found no receive */
	RDMA_RNR_RETRY = 7,  /* the client's: for ever */
	RDMA_RETRY = 7,      /* the client's, of lost packets */
};

/* What completed: the low bits of a request's number.  Above them: whose it is. */
enum rdma_tag {
	RDMA_TAG_SEND,          /* struct rdma_conn */
	RDMA_TAG_RECV,          /* struct rdma_conn */
	RDMA_TAG_SHARED,        /* struct chunk: a shared receive */
	RDMA_TAG_DATAGRAM,      /* struct chunk: received as a datagram */
	RDMA_TAG_DATAGRAM_SENT, /* struct rdma_ud */
	RDMA_TAG_MASK = 7,
};

/* Chunks that a device may fill in any order. */
struct rdma_lent {
	bool *is; /* by the chunk's id */
	unsigned count, max;
};

/* What one call posts of them. */
struct rdma_chain {
	struct ibv_recv_wr requests[RDMA_CHAIN_MAX];
	struct ibv_sge sges[RDMA_CHAIN_MAX];
};

/* What a worker has of one device: made with its first connection there. */
struct rdma_device {
	struct rdma_device *next;
	struct worker *worker;
	struct ibv_context *verbs; /* librdmacm's, of the process */
	struct ibv_context **held; /* keeps it open: see rdma_hold() */
	struct ibv_device_attr limits;
	struct ibv_pd *pd;
	struct ibv_mr *mr; /* the worker's pool */
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_srq *srq;      /* NULL: each connection has receives of its own */
	struct rdma_small *small; /* NULL: none */
	struct rdma_lent lent;    /* to the srq */
	struct rdma_conn *by_number[RDMA_NUMBERS];
	struct rdma_ud *uds; /* queue pairs for datagrams, one for each port in use */
	struct op event_op, async_op;
	struct engine_device
		*ports[RDMA_PORTS_MAX]; /* of the worker's, by number; NULL: not used yet */
	unsigned cq_size, cq_used;      /* entries; those that connections may need */
	unsigned conns;
	unsigned sends_max;             /* of a connection's queue */
	uint32_t inline_wanted;         /* bytes */
	unsigned read_sges, write_sges; /* views of one request */
	bool armed;                     /* the next completion makes an event */
	bool gone;                      /* unplugged */
};

enum rdma_request { RDMA_REQUEST_SEND, RDMA_REQUEST_READ, RDMA_REQUEST_WRITE, RDMA_REQUEST_COUNT };

/* A signalled request completes all that were posted before it, too. */
struct rdma_signalled {
	unsigned requests;
	unsigned of[RDMA_REQUEST_COUNT];
	unsigned remotes; /* operations of which these are the last requests */
	uint32_t bytes;   /* of c->sending */
};

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

struct rdma_conn {
	struct conn *conn; /* NULL before open() */
	struct rdma_cm_id *id;
	struct rdma_device *device;
	const struct engine_device *port; /* of it; NULL: a worker remembers only so many */
	struct rdma_conn *hungry_next, *ending_next, *number_next;
	uint32_t number;                  /* of its queue pair */
	struct chunk *posted[RDMA_RECVS]; /* a ring: receives complete in order */
	unsigned posted_first, posted_count, posted_max;
	unsigned credit;                                 /* receives that it may rely on */
	struct rdma_signalled signalled[RDMA_SIGNALLED]; /* likewise */
	unsigned signalled_first, signalled_count;
	struct rdma_signalled since;            /* posted after the last signalled one */
	unsigned sends;                         /* in the send queue */
	unsigned sends_first;                   /* of them, in: */
	uint16_t small[RDMA_SENDS];             /* a ring: slots of small messages */
	struct remote *remotes, **remotes_tail; /* in the order in which they were asked for */
	struct remote *remote_unposted;         /* of them, the first */
	struct rdma_region *regions;
	uint32_t inline_max;
	bool hungry, ending; /* on the list */
	bool accepted;
	struct sockaddr_storage peer;
	uint8_t responder_resources, initiator_depth; /* what the client asked for */
	uint8_t reads_max; /* of ours that may be under way; 0: the client allows none */
};

struct rdma {
	struct worker *worker;
	int epoll_fd;
	struct rdma_event_channel *channel;
	struct op channel_op, hotplug_op, retry_op;
	int hotplug_fd, retry_fd;
	struct rdma_cm_id **listeners; /* of w->endpoints */
	struct rdma_device *devices;
	struct rdma_conn *hungry; /* want receives posted */
	struct rdma_conn *ending; /* their queue pairs are to be destroyed */
	unsigned unwatched;       /* turns since other events than completions were looked at */
	unsigned next_worker;     /* of the team */
	bool listening;           /* on w->endpoints */
};

/* rdma_hotplug.c */
void rdma_hotplug_open(struct rdma *e);
void rdma_hotplug_close(struct rdma *e);
/* Until rdma_let_go() nobody closes this device, even if it is unplugged.  NULL: no memory. */
struct ibv_context **rdma_hold(struct ibv_context *verbs);
void rdma_let_go(struct ibv_context **held);
/* One of w->endpoints went with its device: tries to have it again. */
void rdma_address_lost(struct rdma *e);

/* rdma_shared.c */
/* At most so many may be lent, or fewer: its share of the pool.  0 or -ENOMEM; nothing is lent yet.
 */
int rdma_lent_open(struct rdma_lent *lent, const struct worker *w, unsigned most);
void rdma_lent_close(struct rdma_lent *lent, struct pool *p);
/* The device is done with it.  False: it was already. */
bool rdma_lent_back(struct rdma_lent *lent, struct pool *p, struct chunk *k);
/* It is done with all of them. */
void rdma_lent_forget(struct rdma_lent *lent, struct pool *p);
/* Takes chunks as far as the pool allows; how many, counted as posted. */
unsigned rdma_lent_chain(struct rdma_lent *lent, struct worker *w, const struct rdma_device *d,
			 struct rdma_chain *chain, enum rdma_tag tag);
int rdma_shared_open(struct rdma_device *d, struct reason *reason);
void rdma_shared_close(struct rdma_device *d);
void rdma_shared_feed(struct rdma_device *d);
/* Between these its receives find r by r->number. */
void rdma_shared_add(struct rdma_conn *r);
void rdma_shared_remove(struct rdma_conn *r);
void rdma_shared_received(struct rdma_device *d, struct chunk *k, const struct ibv_wc *wc);

/* rdma_small.c */
/* Without memory for them it does without. */
void rdma_small_open(struct rdma_device *d);
void rdma_small_close(struct rdma_device *d);
/* Copies v, for the at-th request from the first that is in the send queue.  False: too large, or
 * no slot is free. */
bool rdma_small_add(struct rdma_conn *r, unsigned at, const struct view *v,
		    struct ibv_sge *ret_sge);
/* The first `requests` of the send queue are done. */
void rdma_small_done(struct rdma_conn *r, unsigned requests);

#define RDMA_MANAGER "/dev/infiniband/rdma_cm"
#define RDMA_MEMLOCK_MEND                                                                          \
	"LimitMEMLOCK=infinity in the unit (ulimit -l unlimited), or lower `buffers` or "          \
	"`buffer-size`"
#define RDMA_ACCESS_MEND                                                                           \
	"/dev/infiniband must be there (modprobe -a ib_uverbs rdma_ucm), readable and writable "   \
	"(in the unit: nbserved-rdma.conf, which has DeviceAllow=; else a udev rule)"
#define RDMA_BY_HAND                                                                               \
	"load its driver, or make a software device: modprobe -a rdma_rxe ib_uverbs rdma_ucm; "    \
	"rdma link add rxe0 type rxe netdev eth0 (RoCE; siw: iWARP; eth0 has the address)"

/* rdma_doctor.c */
void rdma_examine(engine_found *found, void *context);

/* rdma.c */
int rdma_watch(struct worker *w, int fd, struct op *op);
/* Handles what has completed; how many. */
unsigned rdma_device_poll(struct rdma_device *d);
unsigned rdma_poll(struct rdma *e);

/* rdma_device.c */
/* "RoCE", "iWARP", "InfiniBand". */
const char *rdma_transport(const struct ibv_device *device, uint8_t link_layer);
/* The worker's share of a device, NULL with the reason. */
struct rdma_device *rdma_device_get(struct worker *w, struct ibv_context *verbs,
				    struct reason *reason);
unsigned rdma_count_devices(void);
/* -errno and why there are none. */
int rdma_no_devices(struct reason *reason);
/* Has this port what `qp-type` asks for?  -errno with the reason. */
int rdma_device_serves(struct rdma_device *d, unsigned port, struct reason *reason);
/* One of its connections has ended. */
void rdma_device_put(struct rdma_device *d);
/* Frees those that are unplugged and have no connection any more. */
void rdma_device_sweep(struct rdma *e);
void rdma_device_free(struct rdma_device *d);
/* How status names port `number` of it; NULL: it does not. */
const struct engine_device *rdma_device_port(struct rdma_device *d, unsigned number);
/* Ends its connections; it is freed with the last of them. */
void rdma_device_gone(struct rdma_device *d);

/* rdma_cm.c */
int rdma_cm_bind(struct worker *w, struct reason *reason);
void rdma_cm_unbind(struct worker *w);
void rdma_cm_accept(struct worker *w, bool on);
/* Binds what was lost with a device; true: nothing is missing any more. */
bool rdma_cm_listen_again(struct worker *w);
void rdma_cm_event(struct op *op, int res, uint32_t flags);
int rdma_cm_open(struct conn *c);
/* Its queue pair is destroyed before the next wait; may be called twice. */
void rdma_cm_end(struct conn *c);
void rdma_cm_end_all(struct worker *w);
/* Says why to who wants to connect, and frees r. */
void rdma_cm_drop(struct rdma_conn *r, const char *why);
/* That conn_admit() returned rc, in words. */
const char *rdma_cm_refusal(const struct worker *w, int rc);

/* rdma_queue.c */
/* How many receives it may have, as the pool is now. */
void rdma_queue_size(struct rdma_conn *r, const struct pool *p);
int rdma_queue_open(struct rdma_conn *r);
/* A queue pair of id, or of none, with as many inline bytes as the device grants.  0 or -errno. */
int rdma_queue_create(struct rdma_device *d, struct rdma_cm_id *id,
		      const struct ibv_qp_init_attr *attr, uint32_t *ret_inline,
		      struct ibv_qp **ret_qp);
void rdma_queue_count_error(struct stats *s, enum ibv_wc_status status);
void rdma_queue_close(struct rdma_conn *r);
void rdma_queue_feed(struct rdma_conn *r);
void rdma_queue_hungry(struct rdma_conn *r);
void rdma_queue_flush(struct conn *c);
void rdma_queue_failed(struct rdma_conn *r, enum ibv_wc_status status);
void rdma_queue_completed(struct rdma_conn *r, const struct ibv_wc *wc, bool is_receive);

/* Did it bring bytes into its chunk?  A write with immediate went to a region. */
static inline bool rdma_wc_is_input(const struct ibv_wc *wc)
{
	return wc->status == IBV_WC_SUCCESS && wc->byte_len > 0 &&
	       wc->opcode != IBV_WC_RECV_RDMA_WITH_IMM;
}

static inline bool rdma_is_open(const struct rdma_conn *r)
{
	return r->id && !r->ending;
}

static inline bool rdma_send_chain_has_room(const struct rdma_send_chain *chain)
{
	return chain->count < chain->max && chain->sge_count < RDMA_SGES_MAX;
}
/* Both need room.  A request, without views and opcode. */
struct ibv_send_wr *rdma_send_chain_add(struct rdma_send_chain *chain, struct rdma_conn *r,
					enum rdma_request kind);
void rdma_send_chain_view(struct rdma_send_chain *chain, struct ibv_send_wr *wr,
			  const struct rdma_device *d, const struct view *v);

/* rdma_remote.c */
void rdma_remote_submit(struct remote *remote);
/* Adds what was asked for and is not posted; false: as much of it as there is room for. */
bool rdma_remote_add(struct rdma_conn *r, struct rdma_send_chain *chain);
/* The first `count` are done. */
void rdma_remote_completed(struct rdma_conn *r, unsigned count);
/* The queue pair is destroyed. */
void rdma_remote_close(struct rdma_conn *r);
int rdma_region(struct conn *c, size_t bytes, struct region *ret_region);
