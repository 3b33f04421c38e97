/* Zero-copy receive of a ring: registering the area, and giving its pages back.  See ring_zcrx.h.
 *
 * The structs are the kernel's (include/uapi/linux/io_uring/), with the fields that are used here:
 * liburing has them from 2.13 on. */
#include "ring_zcrx.h"

#include <assert.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "ring.h"
#include "ring_keys.h"

enum {
	ZCRX_NODEV = 2, /* zcrx_register.flags, and a bit of zcrx_query.register_flags */
	ZCRX_USER_MEMORY = 1,
	ZCRX_COUNTS = 2, /* a bit of zcrx_query.features, with ZCRX_COUNT_COPIES */
	ZCRX_COUNT_COPIES = 1,
	ZCRX_FLUSH = 0,
	ZCRX_QUERY = 1,
	ZCRX_HEAD_MAX = 4096,     /* bytes in front of the refill queue's entries, at most */
	ZCRX_ENTRIES_MAX = 32768, /* the kernel's */
};

struct zcrx_area {
	uint64_t address, bytes;
	uint64_t ret_token;
	uint64_t zero[3];
};
static_assert(sizeof(struct zcrx_area) == 48, "it is the kernel's");

struct zcrx_region {
	uint64_t address, bytes;
	uint32_t flags, id;
	uint64_t zero[5];
};
static_assert(sizeof(struct zcrx_region) == 64, "it is the kernel's");

struct zcrx_register {
	uint32_t interface, queue;
	uint32_t entries;
	uint32_t flags;
	uint64_t area, region;                    /* addresses of the two structs */
	uint32_t ret_head, ret_tail, ret_entries; /* offsets in the region */
	uint32_t zero[5];
	uint32_t ret_id;
	uint32_t page_bytes;
	uint64_t events, more[2];
};
static_assert(sizeof(struct zcrx_register) == 96, "it is the kernel's");

/* Where the kernel counts what it copies. */
struct zcrx_events {
	uint64_t data;
	uint32_t types, flags;
	uint64_t counts; /* offset in the region */
	uint64_t zero[9];
};
static_assert(sizeof(struct zcrx_events) == 96, "it is the kernel's");

struct zcrx_counts {
	uint64_t copies, bytes;
};

struct zcrx_control {
	uint32_t id, operation;
	uint64_t zero[8];
};
static_assert(sizeof(struct zcrx_control) == 72, "it is the kernel's");

struct zcrx_query {
	uint64_t register_flags, area_flags;
	uint32_t controls, features, head_bytes, head_align;
	uint64_t zero;
};

struct zcrx_query_head {
	uint64_t next, data;
	uint32_t query, bytes;
	int32_t result;
	uint32_t zero[3];
};
static_assert(sizeof(struct zcrx_query_head) == 40, "it is the kernel's");

/* ---- Set-up ---- */

static bool zcrx_has_device(const struct worker *w)
{
	return ring_zero_copy_receive(&w->options).mode == ZERO_COPY_DEVICE;
}

int ring_zcrx_probe(const struct worker *w, struct reason *reason)
{
	struct zcrx_query query = { 0 };
	struct zcrx_query_head head = { .data = (uint64_t)(uintptr_t)&query,
					.query = ZCRX_QUERY,
					.bytes = sizeof(query) };
	long rc = syscall(__NR_io_uring_register, -1, NB_REGISTER_QUERY, &head, 0);

	if (rc == 0 && head.result == 0 &&
	    (zcrx_has_device(w) ? query.features & ZCRX_COUNTS : query.register_flags & ZCRX_NODEV))
		return 0;
	return reason_set(reason, -EOPNOTSUPP,
			  "this kernel has no zero-copy receive, or not all of it; use "
			  "zero-copy-receive = no, or a newer kernel (Linux 7.3 has it)");
}

/* Errors that a device adds to those of both modes. */
static const struct {
	int error;
	const char *what;
} zcrx_device_refusals[] = {
	{ ENODEV,
	  "there is no such interface; look at `ip link`, and name one of this network namespace" },
	{ EOPNOTSUPP,
	  "the driver of this interface cannot; use one that can, as mlx5, bnxt, gve and fbnic "
	  "may, or zero-copy-receive = copy" },
	{ ERANGE, "the interface has no such receive queue; `ethtool -l` tells how many it has" },
	{ EINVAL, "the interface does not split headers from data; "
		  "`ethtool -G INTERFACE tcp-data-split on hds-thresh 0`" },
	{ EEXIST,
	  "another listener or an XDP program uses the queue; stop it, or reload again when the "
	  "listener that was replaced has drained" },
	{ EBUSY, "an AF_XDP socket has the queue; stop its program" },
};

static const char *zcrx_device_refusal(const struct worker *w, int error)
{
	for (size_t i = 0; zcrx_has_device(w) && i < ARRAY_SIZE(zcrx_device_refusals); i++)
		if (zcrx_device_refusals[i].error == -error)
			return zcrx_device_refusals[i].what;
	return NULL;
}

static int zcrx_refused(const struct ring *r, int error, struct reason *reason)
{
	const struct zero_copy_receive key = ring_zero_copy_receive(&r->worker->options);
	const char *what = zcrx_device_refusal(r->worker, error);

	if (what)
		return reason_set(reason, error, "zero-copy-receive = %s:%u: %s", key.interface,
				  key.queue, what);
	switch (-error) {
	case EPERM:
		return reason_set(reason, error,
				  "zero-copy receive needs CAP_NET_ADMIN, in the host's first user "
				  "namespace; use zero-copy-receive = no, or in the unit "
				  "AmbientCapabilities=CAP_NET_ADMIN with "
				  "CapabilityBoundingSet=CAP_NET_ADMIN");
	case ENOMEM:
		return reason_set(
			reason, error,
			"no memory, or no locked memory, for the %zu KiB of zero-copy-receive; "
			"raise it with LimitMEMLOCK= of the unit or `ulimit -l`, or lower "
			"`buffers`",
			r->zcrx->area_bytes / 1024);
	default:
		return reason_set(reason, error,
				  "the kernel refuses an area for zero-copy receive: %s; use "
				  "zero-copy-receive = no",
				  strerror(-error));
	}
}

static void *zcrx_map(size_t bytes)
{
	void *memory =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

static int zcrx_register(struct ring *r, struct ring_zcrx *z)
{
	struct zcrx_area area = { .address = (uint64_t)(uintptr_t)z->area, .bytes = z->area_bytes };
	struct zcrx_region region = { .address = (uint64_t)(uintptr_t)z->region,
				      .bytes = z->region_bytes,
				      .flags = ZCRX_USER_MEMORY };
	struct zcrx_events events = { .flags = ZCRX_COUNT_COPIES,
				      .counts = z->region_bytes - sizeof(struct zcrx_counts) };
	struct zcrx_register reg = { .entries = z->entries,
				     .area = (uint64_t)(uintptr_t)&area,
				     .region = (uint64_t)(uintptr_t)&region };
	const struct zero_copy_receive key = ring_zero_copy_receive(&r->worker->options);
	int rc;

	if (zcrx_has_device(r->worker)) {
		reg.interface = if_nametoindex(key.interface);
		reg.queue = key.queue;
		reg.events = (uint64_t)(uintptr_t)&events;
		if (reg.interface == 0)
			return -ENODEV;
		z->copied = &((const struct zcrx_counts *)(const void *)(z->region + events.counts))
				     ->bytes;
	} else {
		reg.flags = ZCRX_NODEV;
	}
	rc = ring_register(r, NB_REGISTER_ZCRX_IFQ, &reg, 1);
	if (rc < 0)
		return rc;
	z->page_bytes = reg.page_bytes;
	z->id = reg.ret_id;
	z->token = area.ret_token;
	z->entries = reg.entries;
	z->head = (const unsigned *)(const void *)(z->region + reg.ret_head);
	z->shared_tail = (unsigned *)(void *)(z->region + reg.ret_tail);
	z->queue = (struct ring_zcrx_entry *)(void *)(z->region + reg.ret_entries);
	return 0;
}

int ring_zcrx_open(struct ring *r, struct reason *reason)
{
	size_t area_bytes = ring_area_bytes(&r->worker->options),
	       page = (size_t)sysconf(_SC_PAGESIZE);
	unsigned entries = (unsigned)MIN(area_bytes / 4096, ZCRX_ENTRIES_MAX);
	struct ring_zcrx *z;
	int rc;

	r->zcrx = z = calloc(1, sizeof(*z));
	if (!z)
		return reason_set(reason, -ENOMEM, "io_uring: no memory");
	z->entries = entries;
	z->area_bytes = area_bytes;
	z->region_bytes = (ZCRX_HEAD_MAX + entries * sizeof(struct ring_zcrx_entry) +
			   sizeof(struct zcrx_counts) + page - 1) &
			  ~(page - 1);
	z->area = zcrx_map(z->area_bytes);
	z->region = zcrx_map(z->region_bytes);
	rc = z->area && z->region ? zcrx_register(r, z) : -ENOMEM;
	return rc < 0 ? zcrx_refused(r, rc, reason) : 0;
}

void ring_zcrx_close(struct ring *r)
{
	struct ring_zcrx *z = r->zcrx;

	if (!z)
		return;
	if (z->area)
		munmap(z->area, z->area_bytes);
	if (z->region)
		munmap(z->region, z->region_bytes);
	free(z);
	r->zcrx = NULL;
}

/* ---- Reaping ---- */

/* A completion of 32 bytes has two slots, which never wrap around: the kernel puts a
 * filler before it instead.  Such a completion is reaped whole even where the bound of a
 * turn lies between its slots. */
bool ring_reap_mixed(struct ring *r)
{
	struct io_uring_cq *cq = &r->io.cq;
	unsigned head = *cq->khead, tail = io_uring_smp_load_acquire(cq->ktail);
	unsigned end = head + MIN(tail - head, (unsigned)WORKER_TURN_MAX);

	while ((int)(end - head) > 0) {
		const struct io_uring_cqe *cqe = &cq->cqes[head & cq->ring_mask];
		struct op *op = io_uring_cqe_get_data(cqe);

		head++;
		if (cqe->flags & NB_CQE_F_32) {
			head++;
			memcpy(&r->zcrx->offset, cqe + 1, sizeof(r->zcrx->offset));
			r->zcrx->offset &= (UINT64_C(1) << RING_ZCRX_AREA_SHIFT) - 1;
		}
		if (likely(op != NULL && !(cqe->flags & NB_CQE_F_SKIP)))
			op->done(op, cqe->res, cqe->flags);
	}
	io_uring_smp_store_release(cq->khead, head);
	return head != tail ||
	       (__atomic_load_n(r->sq_flags, __ATOMIC_RELAXED) & IORING_SQ_CQ_OVERFLOW);
}

/* ---- Giving back ---- */

void ring_zcrx_flush(struct ring *r)
{
	struct zcrx_control control = { .id = r->zcrx->id, .operation = ZCRX_FLUSH };

	stat_add(r->worker->stats.sys_other, 1);
	(void)ring_register(r, NB_REGISTER_ZCRX_CTRL, &control, 0);
}

void ring_zcrx_give(struct ring *r, uint64_t offset)
{
	struct ring_zcrx *z = r->zcrx;

	if (unlikely(z->tail - io_uring_smp_load_acquire(z->head) >= z->entries))
		ring_zcrx_flush(r);
	z->queue[z->tail & (z->entries - 1)] =
		(struct ring_zcrx_entry){ .offset = offset | z->token };
	io_uring_smp_store_release(z->shared_tail, ++z->tail);
}
