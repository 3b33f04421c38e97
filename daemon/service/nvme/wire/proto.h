/* NVMe's commands and completions as a controller sees them, for any transport.  Pure: no I/O, no
 * allocation; any thread.
 *
 * Source: NVM Express Base Specification 2.0 and NVM Command Set Specification 1.0; field names are
 * theirs.  Behaviour of hosts: Linux 6.12, drivers/nvme/host, and SPDK 24.09. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NVME_QUEUES_MAX = 128 }; /* I/O queues of a controller: our limit, not the protocol's */

enum {
	/* Bytes. */
	NVME_SQE = 64,
	NVME_CQE = 16,
	NVME_CONNECT_DATA = 1024,
	NVME_NQN_MAX = 224, /* with its NUL */
	NVME_HOSTID = 16,
	NVME_DSM_RANGE = 16,
	NVME_DSM_RANGES_MAX = 256,

	NVME_CNTLID_NEW = 0xffff, /* Connect: make a controller */
};

enum nvme_opcode {
	/* Of I/O queues. */
	NVME_FLUSH = 0x00,
	NVME_WRITE = 0x01,
	NVME_READ = 0x02,
	NVME_WRITE_ZEROES = 0x08,
	NVME_DSM = 0x09,
	/* Of the admin queue. */
	NVME_GET_LOG = 0x02,
	NVME_IDENTIFY = 0x06,
	NVME_ABORT = 0x08,
	NVME_SET_FEATURES = 0x09,
	NVME_GET_FEATURES = 0x0a,
	NVME_AER = 0x0c, /* Asynchronous Event Request */
	NVME_KEEP_ALIVE = 0x18,
	/* Of both; the type of command is in nvme_sqe.fctype. */
	NVME_FABRICS = 0x7f,
};

enum nvme_fctype {
	NVME_PROPERTY_SET = 0x00,
	NVME_CONNECT = 0x01,
	NVME_PROPERTY_GET = 0x04,
};

/* Status Code Type << 8 | Status Code; with NVME_DNR (do not retry). */
enum nvme_status {
	NVME_SUCCESS = 0x000,
	NVME_INVALID_OPCODE = 0x001,
	NVME_INVALID_FIELD = 0x002,
	NVME_INTERNAL_ERROR = 0x006,
	NVME_INVALID_NAMESPACE = 0x00b,
	NVME_SEQUENCE_ERROR = 0x00c,
	NVME_SGL_LENGTH_INVALID = 0x00f,
	NVME_SGL_TYPE_INVALID = 0x011,
	NVME_SGL_OFFSET_INVALID = 0x016,
	NVME_KATO_INVALID = 0x01a,
	NVME_WRITE_PROTECTED = 0x020,
	NVME_INTERRUPTED = 0x021,
	NVME_TRANSPORT_ERROR = 0x022,
	NVME_LBA_RANGE = 0x080,
	NVME_CAPACITY = 0x081,
	NVME_AER_LIMIT = 0x105,
	NVME_INVALID_LOG_PAGE = 0x109,
	NVME_NOT_SAVEABLE = 0x10d,
	NVME_NOT_CHANGEABLE = 0x10e,
	NVME_CONNECT_FORMAT = 0x180,
	NVME_CONNECT_BUSY = 0x181,
	NVME_CONNECT_INVALID = 0x182,
	NVME_CONNECT_HOST = 0x184, /* the host may not */
	NVME_WRITE_FAULT = 0x280,
	NVME_READ_ERROR = 0x281,
	NVME_DNR = 0x4000,
};

/* Type << 4 | subtype of an SGL descriptor. */
enum nvme_sgl_type {
	NVME_SGL_NONE = 0x00,      /* unsupported */
	NVME_SGL_CAPSULE = 0x01,   /* the data follows the command */
	NVME_SGL_TRANSPORT = 0x5a, /* the transport moves it */
};

struct nvme_sgl {
	uint64_t address;
	uint32_t length; /* bytes */
	uint32_t key;    /* of the host's memory, over RDMA */
	bool invalidate; /* the completion is to invalidate the key */
	uint8_t type;    /* enum nvme_sgl_type, or any other value from the host */
};

/* Submission Queue Entry: a command. */
struct nvme_sqe {
	uint8_t opcode, flags, fctype;
	uint16_t cid;
	uint32_t nsid;
	struct nvme_sgl sgl;
	uint32_t cdw10, cdw11, cdw12, cdw13, cdw14, cdw15;
};

void nvme_parse_sqe(const uint8_t data[static NVME_SQE], struct nvme_sqe *ret);

/* The direction of a command's data, if it has any. */
enum nvme_direction { NVME_NO_DATA, NVME_TO_CONTROLLER, NVME_TO_HOST };
enum nvme_direction nvme_direction(const struct nvme_sqe *sqe);

/* Completion Queue Entry. */
struct nvme_cqe {
	uint64_t result; /* dwords 0 and 1 */
	uint16_t sqhd, sqid, cid;
	uint16_t status; /* enum nvme_status */
};

void nvme_build_cqe(uint8_t to[static NVME_CQE], const struct nvme_cqe *cqe);

/* ---- Connect ---- */

struct nvme_connect {
	uint16_t qid, sqsize; /* sqsize: one less than its entries */
	uint32_t kato_ms;
	bool no_flow_control; /* of the submission queue */
	uint8_t hostid[NVME_HOSTID];
	uint16_t cntlid;
	char subnqn[NVME_NQN_MAX], hostnqn[NVME_NQN_MAX];
};

/* For NVME_CONNECT_INVALID *ret_result, the completion's, is one of these plus the
 * offset of the invalid field. */
enum nvme_connect_field { NVME_IN_SQE = 0, NVME_IN_DATA = 1 << 16 };

/* Parses a Connect command with its NVME_CONNECT_DATA bytes of data.  NVME_SUCCESS or a
 * status: NQNs are UTF-8 (NVMe Base 2.0, 4.5), without characters that control a
 * terminal or hide others. */
uint16_t nvme_parse_connect(const struct nvme_sqe *sqe, const uint8_t *data,
			    struct nvme_connect *ret, uint64_t *ret_result);

/* ---- I/O ---- */

struct nvme_namespace {
	uint64_t blocks;
	uint8_t block_shift; /* a block has 1 << block_shift bytes */
	bool read_only;
	uint32_t transfer_max; /* bytes of one read or write */
};

/* A range of the export, in bytes. */
struct nvme_range {
	uint64_t offset, length;
};

/* Checks a command of an I/O queue; n is NULL if there is no such namespace.  NVME_SUCCESS, and the
 * range if the command has one, or a status. */
uint16_t nvme_check_io(const struct nvme_sqe *sqe, const struct nvme_namespace *n,
		       struct nvme_range *ret);

/* Range `index` of a Dataset Management command's data. */
uint16_t nvme_check_dsm(const uint8_t *data, unsigned index, const struct nvme_namespace *n,
			struct nvme_range *ret);

static inline unsigned nvme_dsm_ranges(const struct nvme_sqe *sqe)
{
	return (sqe->cdw10 & 0xff) + 1;
}

static inline bool nvme_dsm_deallocates(const struct nvme_sqe *sqe)
{
	return sqe->cdw11 & 1U << 2;
}

static inline bool nvme_is_fua(const struct nvme_sqe *sqe)
{
	return sqe->cdw12 & 1U << 30;
}

/* Write Zeroes: blocks may be deallocated. */
static inline bool nvme_may_deallocate(const struct nvme_sqe *sqe)
{
	return sqe->cdw12 & 1U << 25;
}

/* The status to send for a store's error (positive errno); opcode: of an I/O queue. */
uint16_t nvme_status_of(int error, uint8_t opcode);
