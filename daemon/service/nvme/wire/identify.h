/* A controller's description of itself and its namespaces: Identify and Get Log Page.  Pure; any
 * thread.  Sources: see nvme/wire/proto.h; requirements of Linux are noted beside the fields.
 *
 * All functions fill pages that are zeroed before. */
#pragma once
#include "proto.h"

enum {
	NVME_UUID = 16,            /* bytes */
	NVME_SERIAL = 16,          /* characters */
	NVME_PAGE = 4096,          /* bytes of an Identify, and of the longest log page */
	NVME_VERSION = 0x00010400, /* 1.4: later versions require much more, 1.2 has no UUIDs */
	NVME_AER_MAX = 4,
	NVME_ADMIN_ENTRIES_MIN = 32,
	NVME_SQES = 6, /* log2 of NVME_SQE, NVME_CQE */
	NVME_CQES = 4,
};

/* Events that a host may ask for.  Of a Discovery controller: Discovery Log Page Change
 * Notifications.  Of another one: Namespace Attribute Notices, which are never sent; but Linux
 * sends an AER, which the event of a drain needs, only if some event is supported. */
#define NVME_OAES_DISCOVERY  UINT32_C(0x80000000)
#define NVME_OAES_NAMESPACES UINT32_C(0x100)
static inline uint32_t nvme_oaes(bool discovery)
{
	return discovery ? NVME_OAES_DISCOVERY : NVME_OAES_NAMESPACES;
}

#define NVME_DISCOVERY_NQN "nqn.2014-08.org.nvmexpress.discovery"

enum nvme_cns {
	NVME_CNS_NAMESPACE = 0x00,
	NVME_CNS_CONTROLLER = 0x01,
	NVME_CNS_ACTIVE = 0x02,
	NVME_CNS_DESCRIPTORS = 0x03,
	NVME_CNS_CSI_CONTROLLER = 0x06,
	NVME_CNS_INDEPENDENT = 0x08,
};

enum nvme_log {
	NVME_LOG_ERROR = 0x01,
	NVME_LOG_SMART = 0x02,
	NVME_LOG_FIRMWARE = 0x03,
	NVME_LOG_EFFECTS = 0x05,
	NVME_LOG_DISCOVERY = 0x70,
};

struct nvme_controller_info {
	bool discovery;
	uint16_t cntlid;
	const char *serial, *firmware, *subnqn;
	uint8_t mdts;     /* log2 of the largest transfer in pages of 4 KiB */
	uint16_t entries; /* entries of a queue */
	uint32_t namespaces;
	uint32_t in_capsule; /* bytes of data that may follow an I/O command */
	bool ports;          /* the subsystem has several */
	bool rdma;
};
void nvme_identify_controller(uint8_t page[static NVME_PAGE], const struct nvme_controller_info *i);

struct nvme_namespace_info {
	struct nvme_namespace namespace;
	uint8_t uuid[NVME_UUID];
	bool reads_zeros; /* deallocated blocks read as zeros */
	bool rotational;
};
void nvme_identify_namespace(uint8_t page[static NVME_PAGE], const struct nvme_namespace_info *n);
void nvme_identify_independent(uint8_t page[static NVME_PAGE], const struct nvme_namespace_info *n);
void nvme_identify_descriptors(uint8_t page[static NVME_PAGE], const struct nvme_namespace_info *n);

/* The list of namespaces, those of 1..count that are larger than `after`. */
void nvme_identify_active(uint8_t page[static NVME_PAGE], uint32_t after, uint32_t count);

/* Limits of the NVM command set, for blocks of 1 << block_shift bytes. */
void nvme_identify_nvm(uint8_t page[static NVME_PAGE], uint8_t block_shift);

/* ---- Logs; each function returns the number of bytes ---- */

struct nvme_smart {
	uint64_t bytes_read, bytes_written, reads, writes;
};
size_t nvme_log_smart(uint8_t page[static NVME_PAGE], const struct nvme_smart *smart);
size_t nvme_log_firmware(uint8_t page[static NVME_PAGE], const char *firmware);
size_t nvme_log_effects(uint8_t page[static NVME_PAGE]);

/* The Discovery log: a header, then an entry for each port. */
enum { NVME_DISCOVERY_ENTRY = 1024 }; /* bytes, of the header as well */

/* A port: where a subsystem can be reached. */
struct nvme_discovery {
	uint16_t id;
	const char *subnqn, *address, *port; /* address, port: in numbers */
	bool ipv6;
	bool rdma;
	bool tls;  /* of TCP */
	bool self; /* the Discovery subsystem that the host asks, which keeps persistent connections
		    */
};
void nvme_discovery_entry(uint8_t entry[static NVME_DISCOVERY_ENTRY],
			  const struct nvme_discovery *d);
void nvme_discovery_header(uint8_t header[static NVME_DISCOVERY_ENTRY], uint64_t generation,
			   unsigned ports);

/* ---- Identities of a subsystem and of its namespaces, made from names ----
 *
 * They must never change, as hosts store them (/dev/disk/by-id), and must be unique: Linux takes
 * namespaces with the same identity for two paths to one disk, or refuses the second. */

/* A UUID (RFC 9562, version 8) of `bytes` at seed and a name. */
void nvme_id_uuid(const void *seed, size_t bytes, const char *name, uint8_t ret[static NVME_UUID]);

/* "nqn.2014-08.org.nvmexpress:uuid:...": Base Specification, "NVMe Qualified Names". */
void nvme_id_nqn(const uint8_t uuid[static NVME_UUID], char ret[static NVME_NQN_MAX]);

/* The subsystem's serial number, with a NUL. */
void nvme_id_serial(const char *nqn, char ret[static NVME_SERIAL + 1]);
