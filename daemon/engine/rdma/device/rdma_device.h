/* Engine `rdma`, level 1: what a worker has of each device, and of the kernel to wait for them.
 *
 * Level by level, each includes only those above it in this list, and the Makefile sees to that:
 *
 *   device/     registered memory, completion queue, ports; chunks lent to a device
 *   queue/      a connection's states, its queue pair and work requests
 *   transfer/   receives that connections share; one-sided operations
 *   cm/         the connection manager: listening, who wants to connect, to which worker
 *   .           the engines: connections (rdma_conn.c), datagrams (rdma_ud*.c), and what both have
 *
 * A worker's thread only, unless said. */
#pragma once
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine.h"
#include "op.h"

struct rdma_cm;
struct rdma_conn;
struct rdma_device;
struct rdma_request;
struct rdma_small;
struct rdma_spill;
struct rdma_ud;
struct worker;

enum {
	RDMA_SENDS = 32,         /* a connection's send queue */
	RDMA_SGES = 8,           /* views that one read or write covers, if the device can */
	RDMA_INLINE = 128,       /* bytes asked for; the device grants as many or fewer */
	RDMA_CQ_ENTRIES = 32767, /* of a worker's completion queue, if the device has them */
	RDMA_NUMBERS = 512,      /* buckets: whose a queue pair is */
	RDMA_POLL_MAX = 32,      /* completions one poll takes */
	RDMA_PORTS_MAX = 4,      /* of a device that are told apart */
};

/* Kind of a request: the low bits of its number.  The bits above are a pointer to the struct named
 * here. */
enum rdma_tag {
	RDMA_TAG_SEND,          /* struct rdma_conn */
	RDMA_TAG_RECV,          /* struct rdma_conn */
	RDMA_TAG_SHARED,        /* struct chunk: a shared receive */
	RDMA_TAG_DATAGRAM,      /* struct chunk: received as a datagram */
	RDMA_TAG_DATAGRAM_SENT, /* struct rdma_ud */
	RDMA_TAG_COUNT,
	RDMA_TAG_MASK = 7,
};

/* Callbacks from a device to its engine, which the levels below cannot include. */
struct rdma_mode {
	enum rdma_port_space space;
	/* The device has been opened, or is about to be closed.  0 or -errno with the reason. */
	int (*opened)(struct rdma_device *d, struct reason *reason);
	void (*closing)(struct rdma_device *d);
	/* Has this port what `qp-type` asks for?  0 or -errno with the reason. */
	int (*serves)(struct rdma_device *d, unsigned port, struct reason *reason);
	/* The device is unplugged: ends its connections. */
	void (*gone)(struct rdma_device *d);
	/* A completion of each kind; `of` is what the tag says. */
	void (*completed[RDMA_TAG_COUNT])(struct rdma_device *d, void *of, const struct ibv_wc *wc);
	/* A client wants to connect; takes the request over. */
	void (*requested)(struct worker *w, struct rdma_request *request);
	/* An event of the connection that is its identifier's context. */
	void (*event)(struct rdma_conn *r, enum rdma_cm_event_type type);
	/* Before each wait, while no completion is looked at: frees what has ended. */
	void (*tend)(struct worker *w);
	/* Posts receives: before the worker sleeps, and after each poll before anything is done
	 * with what came. */
	void (*feed)(struct worker *w);
};

/* A worker's engine_state. */
struct rdma {
	struct worker *worker;
	const struct rdma_mode *mode;
	int epoll_fd;
	struct rdma_cm *cm;
	struct rdma_device *devices;
	struct op hotplug_op;
	int hotplug_fd;
	unsigned lent_max;         /* chunks that may be lent to all devices */
	struct rdma_conn *wanting; /* receives to be posted: linked by wanting_next */
	struct rdma_conn *ending;  /* are to be torn down */
	unsigned unwatched;        /* turns since other events than completions were looked at */
};

/* Made when the worker starts, or with the first connection of a device plugged in later. */
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
	struct rdma_shared *shared; /* receives; NULL: each connection has its own */
	struct rdma_small *small;   /* NULL: none */
	struct rdma_spill *spill;   /* NULL: the service wants none */
	struct rdma_ud *uds;        /* queue pairs for datagrams, one for each port in use */
	struct op event_op, async_op;
	struct engine_device
		*ports[RDMA_PORTS_MAX]; /* of the worker's, by number; NULL: not used yet */
	unsigned cq_size, cq_used;      /* entries; those that are promised to somebody */
	unsigned users;                 /* connections that name it */
	unsigned sends_max;             /* of a connection's queue */
	uint32_t inline_wanted;         /* bytes */
	unsigned read_sges, write_sges; /* views of one request */
	bool armed;                     /* the next completion makes an event */
	bool gone;                      /* unplugged */
	bool invalidates;               /* a client's key, with a message */
};

/* op->done() whenever fd is readable.  0 or -errno. */
int rdma_watch(struct worker *w, int fd, struct op *op);

/* Handles what has completed; how many. */
unsigned rdma_device_poll(struct rdma_device *d);
/* rdma_device_poll() of all devices. */
unsigned rdma_poll(struct rdma *e);
/* Until there is nothing more: as often as the queue could have been filled, at the most. */
void rdma_device_drain(struct rdma_device *d);
/* Asks for events.  What completed before makes none, so it looks again; how many, or more than
 * none if a device refuses: then nobody may sleep. */
unsigned rdma_arm(struct rdma *e);

/* The worker's share of a device, NULL with the reason. */
struct rdma_device *rdma_device_get(struct worker *w, struct ibv_context *verbs,
				    struct reason *reason);
/* Between these it is not freed. */
void rdma_device_use(struct rdma_device *d);
void rdma_device_leave(struct rdma_device *d);
/* The device is unplugged: ends its connections, and is freed when the last has left. */
void rdma_device_gone(struct rdma_device *d);
void rdma_device_sweep(struct rdma *e);
void rdma_device_free(struct rdma_device *d);
/* Room for so many completions: 0, or -ENOSPC. */
int rdma_device_reserve(struct rdma_device *d, unsigned entries);
void rdma_device_unreserve(struct rdma_device *d, unsigned entries);
/* How status names port `number` of it; NULL: it does not. */
const struct engine_device *rdma_device_port(struct rdma_device *d, unsigned number);
/* rc: -errno, with what could not be had of this device, why, and what to do. */
int rdma_device_refuse(const struct rdma_device *d, int rc, const char *what, const char *mend,
		       struct reason *reason);

/* "RoCE", "iWARP", "InfiniBand".  Any thread. */
const char *rdma_transport(const struct ibv_device *device, uint8_t link_layer);
/* -errno and why this host has no devices.  Any thread. */
int rdma_no_devices(struct reason *reason);

/* rdma_hold.c */
/* Until rdma_let_go() nobody closes this device, even if it is unplugged.  NULL: no memory. */
struct ibv_context **rdma_hold(struct ibv_context *verbs);
/* held may be NULL: closes those that nobody holds and that are unplugged. */
void rdma_let_go(struct ibv_context **held);

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
