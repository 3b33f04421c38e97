/* Engine `rdma`: a worker's resources on each device, and waiting for completions.
 *
 *   verbs/   devices with their registered memory and completion queue; queue pairs and their work
 *            requests; one-sided operations; the connection manager
 *   .        the engine: connections, waiting, hot plug (rdma_engine.c)
 *
 * verbs/ may not include what is below it in this list, which the Makefile enforces, and no file
 * calls one that calls it (tools/check_circles.py).
 *
 * Worker's thread only, unless stated otherwise. */
#pragma once
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "engine.h"
#include "op.h"

struct rdma_cm;
struct rdma_conn;
struct rdma_device;
struct rdma_request;
struct rdma_region;
struct rdma_step;
struct worker;

enum {
	RDMA_SENDS = 32,   /* entries of a connection's send queue */
	RDMA_SGES = 8,     /* views of one read or write, or fewer as the device allows */
	RDMA_INLINE = 128, /* inline bytes asked for; the device may grant fewer */
	/* Entries of a worker's completion queue at least, if the device allows. */
	RDMA_CQ_ENTRIES = 32767,
	RDMA_POLL_MAX = 32, /* completions one poll takes */
	RDMA_PORTS_MAX = 4, /* ports of a device that are distinguished */
	/* Bytes of a request from which on siw sends without a copy: see rdma_device.sends_late. */
	RDMA_SENT_LATE = 4096,
};

/* The kind of a work request: the low bits of its wr_id.  The bits above are a pointer to its
 * struct rdma_conn. */
enum rdma_tag {
	RDMA_TAG_SEND,      /* of RDMA_LANE_OUT */
	RDMA_TAG_READ,      /* of RDMA_LANE_IN */
	RDMA_TAG_UNCOUNTED, /* signalled only for rdma_device.sends_late */
	RDMA_TAG_RECV,
	RDMA_TAG_COUNT,
	RDMA_TAG_MASK = 3,
};

/* Callbacks from verbs/ to the engine, which it cannot include. */
struct rdma_calls {
	/* The device is unplugged: ends its connections. */
	void (*gone)(struct rdma_device *d);
	/* By tag: handles a completion. */
	void (*completed[RDMA_TAG_COUNT])(struct rdma_conn *r, const struct ibv_wc *wc);
	/* A client asks to connect; takes ownership of the request. */
	void (*requested)(struct worker *w, struct rdma_request *request);
	/* An event of an identifier with this context. */
	void (*event)(void *context, enum rdma_cm_event_type type);
};

STAILQ_HEAD(rdma_steps, rdma_step);

/* A worker's engine_state. */
struct rdma {
	struct worker *worker;
	const struct rdma_calls *calls;
	int epoll_fd;
	struct rdma_cm *cm;
	struct rdma_device *devices;
	struct op hotplug_op;
	int hotplug_fd;
	/* Connections that need receives posted, linked by wanting_next. */
	struct rdma_conn *wanting;
	struct rdma_conn *ending; /* connections to be torn down, linked by ending_next */
	struct rdma_steps steps;  /* calls that wait for a thread */
	unsigned steps_running;   /* threads */
	unsigned unwatched;       /* turns since events other than completions were handled */
};

/* A worker's use of a device.  Made when the worker starts, or with the first connection over a
 * device that was plugged in later. */
struct rdma_device {
	struct rdma_device *next;
	struct worker *worker;
	struct ibv_context *verbs; /* owned by librdmacm, one per process */
	struct ibv_context **held; /* a reference that keeps verbs open: see rdma_let_go() */
	struct ibv_device_attr limits;
	struct ibv_pd *pd;
	struct ibv_mr *mr; /* registration of the worker's pool */
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	/* The scratch region: memory that all connections of a worker share and whose contents have
	 * no meaning.  The part of a message that exceeds its receive buffer goes there, large
	 * messages are sent from it, and clients may read and write it.  So messages of megabytes
	 * use no buffers of the pool.  NULL: the service needs none. */
	struct rdma_region *scratch;
	struct op event_op, async_op;
	struct engine_device *ports[RDMA_PORTS_MAX]; /* entries of worker->devices.list, by port
							number; NULL: not used yet */
	unsigned cq_size, cq_used;                   /* its entries, and how many are reserved */
	unsigned users;                 /* that refer to it: it is not freed meanwhile */
	unsigned read_sges, write_sges; /* views of one request */
	bool armed;                     /* the next completion raises an event */
	bool gone;                      /* unplugged */
	/* The device can invalidate a client's key by a message (send with invalidate). */
	bool invalidates;
	/* The device reads unsignalled sends from memory even after later completions. */
	bool sends_late;
	/* Its connections can read their clients' memory.  Over iWARP the peer writes the data of a
	 * read (RFC 5040): devices other than siw require that the pool is registered for writes of
	 * the peer, which it is not. */
	bool reads;
};

/* Runs op->done() whenever fd is readable.  0 or -errno. */
int rdma_watch(struct worker *w, int fd, struct op *op);

/* Handles completions of all devices; returns their number. */
unsigned rdma_poll(struct rdma *e);
/* Polls until the queue is empty, at most as often as it could have been filled. */
void rdma_device_drain(struct rdma_device *d);
/* Requests completion events of all devices.  Earlier completions raise none, so it polls once more
 * and returns their number.  Not 0 also if a device refuses: then the worker must not sleep. */
unsigned rdma_arm(struct rdma *e);

/* The worker's struct for the device, made if there is none; NULL with the reason. */
struct rdma_device *rdma_device_get(struct worker *w, struct ibv_context *verbs,
				    struct reason *reason);
/* The device was unplugged: ends its connections; d is freed when the last has left. */
void rdma_device_gone(struct rdma_device *d);
void rdma_device_sweep(struct rdma *e);
void rdma_device_free(struct rdma_device *d);
/* Reserves entries of the completion queue: 0, or -ENOSPC. */
int rdma_device_reserve(struct rdma_device *d, unsigned entries);
void rdma_device_unreserve(struct rdma_device *d, unsigned entries);
/* The entry of port `number` in worker->devices.list; NULL: too many ports. */
const struct engine_device *rdma_device_port(struct rdma_device *d, unsigned number);

/* The addresses of all ports of the device, which the caller frees; their number, or -errno.  Any
 * thread. */
ssize_t rdma_gid_table(struct ibv_context *verbs, struct ibv_gid_entry **ret_entries);
/* The device's RoCE v2 entry of that GID, 16 bytes, at a port (0: at any).  0; -EADDRNOTAVAIL:
 * there is none; any other -errno: the table cannot be read. */
int rdma_gid_find(struct ibv_context *verbs, unsigned port, const void *gid,
		  struct ibv_gid_entry *ret_entry);

/* "RoCE", "iWARP", "InfiniBand".  Any thread. */
const char *rdma_transport(const struct ibv_device *device, uint8_t link_layer);
/* -errno, with the reason why this host has no devices.  Any thread. */
int rdma_no_devices(struct reason *reason);

/* Releases a reference to an open device (may be NULL), and closes unplugged devices to which there
 * is no reference any more. */
void rdma_let_go(struct ibv_context **held);

#define RDMA_MANAGER "/dev/infiniband/rdma_cm"
#define RDMA_MEMLOCK_FIX                                                                           \
	"LimitMEMLOCK=infinity in the unit (ulimit -l unlimited), or lower `buffers` or "          \
	"`buffer-size`"
#define RDMA_ACCESS_FIX                                                                            \
	"/dev/infiniband must be there (modprobe -a ib_uverbs rdma_ucm), readable and writable "   \
	"(in the unit: nbserved-rdma.conf, which has DeviceAllow=; else a udev rule)"
#define RDMA_BY_HAND                                                                               \
	"load its driver, or make a software device: modprobe -a rdma_rxe ib_uverbs rdma_ucm; "    \
	"rdma link add rxe0 type rxe netdev eth0 (RoCE; siw: iWARP; eth0 has the address)"
