/* Identify, Get Log Page, and identities.  See nvme/wire/identify.h. */
#include "identify.h"

#include <stdio.h>

#include "bytes.h"
#include "util.h"

/* Text without NUL, padded with spaces. */
static void put_padded(uint8_t *to, size_t bytes, const char *text)
{
	for (size_t i = 0; i < bytes; i++)
		to[i] = (uint8_t)(*text ? *text++ : ' ');
}

/* ---- Identify ---- */

/* Fields that only a controller with namespaces has. */
static void put_io_controller(uint8_t *page, const struct nvme_controller_info *i)
{
	/* CMIC: several controllers, else Linux accepts only one; perhaps several ports. */
	page[76] = (uint8_t)(1 << 1 | (i->ports ? 1 << 0 : 0));
	page[111] = 1;               /* CNTRLTYPE */
	page[261] = 1 << 1 | 1 << 2; /* LPA: effects log, offsets */
	page[512] = NVME_SQES << 4 | NVME_SQES;
	page[513] = NVME_CQES << 4 | NVME_CQES;
	put_le32(page + 516, i->namespaces);
	put_le16(page + 520, 1 << 2 | 1 << 3); /* ONCS: DSM, Write Zeroes */
	page[525] = 1 << 2 | 1;                /* VWC: a volatile write cache; no broadcast flush */
	put_le32(page + 1792, (NVME_SQE + i->in_capsule) / 16); /* IOCCSZ */
}

void nvme_identify_controller(uint8_t page[static NVME_PAGE], const struct nvme_controller_info *i)
{
	put_padded(page + 4, 20, i->serial);
	put_padded(page + 24, 40, "nbserved");
	put_padded(page + 64, 8, i->firmware);
	page[72] = 6; /* RAB */
	page[77] = i->mdts;
	put_le16(page + 78, i->cntlid); /* Linux: that of Connect */
	put_le32(page + 80, NVME_VERSION);
	put_le32(page + 92, nvme_oaes(i->discovery));
	put_le32(page + 96, 1 << 0 | 1 << 6); /* CTRATT: 128-bit host id, any command keeps alive */
	page[111] = 2;                        /* CNTRLTYPE: discovery */
	page[258] = 3;                        /* ACL */
	page[259] = NVME_AER_MAX - 1;         /* AERL */
	page[260] = 1 << 0 | 1 << 1;          /* FRMW: one slot, read-only */
	page[261] = 1 << 2;
	put_le16(page + 320, 10); /* KAS: in units of 100 ms; Linux: not 0 */
	put_le16(page + 514, i->entries);
	/* SGLS: over RDMA keyed, and in the capsule by an offset, which Linux's host asks for; over
	 * TCP the transport's own, and in the capsule from its beginning on. */
	put_le32(page + 536, 1 << 0 | (i->rdma ? 1 << 2 | 1 << 20 : 1 << 21));
	memcpy(page + 768, i->subnqn, strlen(i->subnqn));
	put_le32(page + 1792, NVME_SQE / 16); /* IOCCSZ, IORCSZ; Linux: at least 4 and 1 */
	put_le32(page + 1796, NVME_CQE / 16);
	page[1803] = 1; /* MSDBD */
	if (!i->discovery)
		put_io_controller(page, i);
}

void nvme_identify_namespace(uint8_t page[static NVME_PAGE], const struct nvme_namespace_info *n)
{
	for (size_t at = 0; at < 24; at += 8)
		put_le64(page + at, n->namespace.blocks); /* NSZE, NCAP, NUSE */
	page[30] = 1;                                     /* NMIC: of several controllers */
	page[33] = n->reads_zeros ? 1 << 0 | 1 << 3 : 0;  /* DLFEAT */
	page[99] = n->namespace.read_only;                /* NSATTR */
	memcpy(page + 104, n->uuid, NVME_UUID);           /* NGUID */
	page[130] = n->namespace.block_shift;             /* LBAF0: LBADS */
}

void nvme_identify_independent(uint8_t page[static NVME_PAGE], const struct nvme_namespace_info *n)
{
	page[0] = n->rotational ? 1 << 4 : 0; /* NSFEAT */
	page[1] = 1;                          /* NMIC */
	page[8] = n->namespace.read_only;     /* NSATTR */
	page[14] = 1;                         /* NSTAT: ready */
}

static uint8_t *put_descriptor(uint8_t *to, uint8_t type, const uint8_t *id, uint8_t bytes)
{
	to[0] = type;
	to[1] = bytes;
	memcpy(to + 4, id, bytes);
	return to + 4 + bytes;
}

void nvme_identify_descriptors(uint8_t page[static NVME_PAGE], const struct nvme_namespace_info *n)
{
	static const uint8_t nvm = 0;
	uint8_t *at = put_descriptor(page, 3, n->uuid, NVME_UUID); /* UUID */

	at = put_descriptor(at, 2, n->uuid, NVME_UUID); /* NGUID */
	put_descriptor(at, 4, &nvm, 1);                 /* CSI */
}

void nvme_identify_active(uint8_t page[static NVME_PAGE], uint32_t after, uint32_t count)
{
	for (size_t at = 0; at < NVME_PAGE && after < count; at += 4)
		put_le32(page + at, ++after);
}

/* One Write Zeroes may cover as many blocks as NLB can express; one Dataset Management 4 GiB, so
 * that a slow file system does not exceed a host's timeout. */
void nvme_identify_nvm(uint8_t page[static NVME_PAGE], uint8_t block_shift)
{
	page[1] = (uint8_t)(16 + block_shift - 12); /* WZSL: log2 of pages of 4 KiB */
	put_le32(page + 4, (uint32_t)((4ULL << 30) >> block_shift)); /* DMRSL */
}

/* ---- Logs ---- */

static void put_units(uint8_t *to, uint64_t bytes)
{
	put_le64(to, bytes / 512000 + (bytes % 512000 != 0)); /* in units of 1000 * 512 bytes */
}

size_t nvme_log_smart(uint8_t page[static NVME_PAGE], const struct nvme_smart *smart)
{
	page[3] = 100; /* spare, and its threshold: per cent */
	page[4] = 10;
	put_units(page + 32, smart->bytes_read);
	put_units(page + 48, smart->bytes_written);
	put_le64(page + 64, smart->reads);
	put_le64(page + 80, smart->writes);
	return 512;
}

size_t nvme_log_firmware(uint8_t page[static NVME_PAGE], const char *firmware)
{
	page[0] = 1; /* AFI: slot 1 is active */
	put_padded(page + 8, 8, firmware);
	return 512;
}

size_t nvme_log_effects(uint8_t page[static NVME_PAGE])
{
	enum { SUPPORTED = 1 << 0, CHANGES_DATA = 1 << 1, IO = 1024 };
	static const uint8_t admin[] = { NVME_GET_LOG,      NVME_IDENTIFY,     NVME_ABORT,
					 NVME_SET_FEATURES, NVME_GET_FEATURES, NVME_AER,
					 NVME_KEEP_ALIVE };
	static const uint8_t changing[] = { NVME_WRITE, NVME_WRITE_ZEROES, NVME_DSM };

	for (size_t i = 0; i < sizeof(admin); i++)
		put_le32(page + 4 * (size_t)admin[i], SUPPORTED);
	put_le32(page + IO + 4 * NVME_FLUSH, SUPPORTED);
	put_le32(page + IO + 4 * NVME_READ, SUPPORTED);
	for (size_t i = 0; i < sizeof(changing); i++)
		put_le32(page + IO + 4 * (size_t)changing[i], SUPPORTED | CHANGES_DATA);
	return NVME_PAGE;
}

void nvme_discovery_entry(uint8_t entry[static NVME_DISCOVERY_ENTRY],
			  const struct nvme_discovery *d)
{
	entry[0] = d->rdma ? 1 : 3; /* TRTYPE: RDMA, TCP */
	entry[1] = d->ipv6 ? 2 : 1; /* ADRFAM */
	entry[2] = d->self ? 3 : 2; /* SUBTYPE: the current Discovery subsystem, an NVM subsystem */
	/* TREQ: flow control of queues can be off; a secure channel is required, or no matter. */
	entry[3] = (uint8_t)(1 << 2 | d->tls);
	put_le16(entry + 4, d->id); /* PORTID */
	put_le16(entry + 6, NVME_CNTLID_NEW);
	put_le16(entry + 8, NVME_ADMIN_ENTRIES_MIN);
	put_le16(entry + 10, d->self ? 1 << 1 : 0); /* EFLAGS: EPCSD */
	put_padded(entry + 32, 32, d->port);
	memcpy(entry + 256, d->subnqn, strlen(d->subnqn));
	put_padded(entry + 512, 256, d->address);
	if (d->rdma) /* TSAS: connected, of no particular provider, by RDMA's connection manager */
		memset(entry + 768, 1, 3);
	else
		entry[768] = d->tls ? 2 : 0; /* SECTYPE: TLS 1.3, none */
}

void nvme_discovery_header(uint8_t header[static NVME_DISCOVERY_ENTRY], uint64_t generation,
			   unsigned ports)
{
	put_le64(header, generation);
	put_le64(header + 8, ports); /* NUMREC */
}

/* ---- Identities ---- */

/* FNV-1a, with the finalizer of MurmurHash3, as FNV leaves the upper bits of short texts alike. */
static uint64_t hash(uint64_t h, const void *data, size_t bytes)
{
	const uint8_t *at = data;

	for (size_t i = 0; i < bytes; i++)
		h = (h ^ at[i]) * UINT64_C(0x100000001b3);
	return h;
}

static uint64_t finish(uint64_t h)
{
	h = (h ^ h >> 33) * UINT64_C(0xff51afd7ed558ccd);
	h = (h ^ h >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
	return h ^ h >> 33;
}

void nvme_id_uuid(const void *seed, size_t bytes, const char *name, uint8_t ret[static NVME_UUID])
{
	static const uint64_t bases[] = { UINT64_C(0xcbf29ce484222325),
					  UINT64_C(0x6c62272e07bb0142) };

	for (unsigned i = 0; i < 2; i++) {
		uint64_t h = hash(bases[i], seed, bytes);

		h = hash(h, name, strlen(name) + 1);
		h = hash(h, "", 1); /* for a second name, which there was */
		put_le64(ret + 8 * (size_t)i, finish(h));
	}
	ret[6] = (uint8_t)(0x80 | (ret[6] & 0x0f));
	ret[8] = (uint8_t)(0x80 | (ret[8] & 0x3f));
}

void nvme_id_nqn(const uint8_t uuid[static NVME_UUID], char ret[static NVME_NQN_MAX])
{
	size_t at = (size_t)snprintf(ret, NVME_NQN_MAX, "nqn.2014-08.org.nvmexpress:uuid:");

	for (unsigned i = 0; i < NVME_UUID; i++)
		at += (size_t)snprintf(ret + at, NVME_NQN_MAX - at, "%s%02x",
				       i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
}

void nvme_id_serial(const char *nqn, char ret[static NVME_SERIAL + 1])
{
	uint8_t uuid[NVME_UUID];

	nvme_id_uuid("serial", 6, nqn, uuid);
	for (size_t i = 0; i < NVME_SERIAL / 2; i++)
		snprintf(ret + 2 * i, 3, "%02x", uuid[i]);
}
