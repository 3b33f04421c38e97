/* NVMe over RDMA: the connection manager's private data, and keyed SGL descriptors.  Pure;
 * any thread.  Source: NVM Express RDMA Transport Specification 1.0; statuses as Linux
 * 6.12 names them (include/linux/nvme-rdma.h). */
#pragma once
#include <stddef.h>

#include "proto.h"

enum {
	NVME_RDMA_REQUEST = 32, /* bytes of private data */
	NVME_RDMA_ACCEPT = 32,
	NVME_RDMA_REJECT = 4,
	NVME_RDMA_KEYED = 0x40,            /* type and subtype of an SGL descriptor: a key, */
	NVME_RDMA_KEYED_INVALIDATE = 0x4f, /* ... that is to be invalidated */
};

/* Reasons for which a queue is refused. */
enum nvme_rdma_status {
	NVME_RDMA_OK = 0,
	NVME_RDMA_LENGTH = 1,   /* wrong length of the private data */
	NVME_RDMA_FORMAT = 2,   /* wrong format of the private data */
	NVME_RDMA_QID = 3,      /* wrong queue number */
	NVME_RDMA_SENDS = 4,    /* HSQSIZE: commands of the host */
	NVME_RDMA_RECEIVES = 5, /* HRQSIZE: receives of the host */
	NVME_RDMA_RESOURCES = 6,
	NVME_RDMA_READS = 7, /* IRD: the host allows no RDMA reads */
};

struct nvme_rdma_request {
	uint16_t qid;
	uint32_t commands; /* commands that the host may have outstanding */
	uint16_t receives;
};

/* entries: maximum of a queue's entries: [0] admin queue, [1] I/O queues. */
enum nvme_rdma_status nvme_rdma_parse_request(const uint8_t *data, size_t bytes,
					      const uint32_t entries[static 2],
					      struct nvme_rdma_request *ret);
/* receives: number posted for the host. */
void nvme_rdma_build_accept(uint8_t to[static NVME_RDMA_ACCEPT], uint16_t receives);
void nvme_rdma_build_reject(uint8_t to[static NVME_RDMA_REJECT], enum nvme_rdma_status status);

/* Parses a command's SGL descriptor as RDMA uses it: a keyed one becomes NVME_SGL_TRANSPORT; an
 * unkeyed one for host memory is unsupported. */
void nvme_rdma_parse_sgl(const uint8_t sqe[static NVME_SQE], struct nvme_sgl *ret);
