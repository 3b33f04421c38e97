/* NVMe's formats: every field by its offset, against bytes written by hand. */
#include <errno.h>

#include "bytes.h"
#include "crc32c.h"
#include "nvme/wire/identify.h"
#include "nvme/wire/proto.h"
#include "nvme/wire/tcp_proto.h"
#include "unit.h"

/* ---- Commands ---- */

static struct nvme_sqe io(uint8_t opcode, uint64_t first, unsigned count, uint32_t length)
{
	return (struct nvme_sqe){ .opcode = opcode,
				  .flags = 0x40,
				  .sgl = { .length = length, .type = NVME_SGL_TRANSPORT },
				  .cdw10 = (uint32_t)first,
				  .cdw11 = (uint32_t)(first >> 32),
				  .cdw12 = count - 1 };
}

TEST(ranges_end_with_the_namespace)
{
	struct nvme_namespace n = { .blocks = 100, .block_shift = 12, .transfer_max = 65536 };
	static const struct {
		uint64_t first;
		unsigned count;
		uint16_t status;
	} cases[] = {
		{ 0, 1, 0 },
		{ 99, 1, 0 },
		{ 84, 16, 0 },
		{ 85, 16, NVME_LBA_RANGE | NVME_DNR },
		{ 100, 1, NVME_LBA_RANGE | NVME_DNR },
		{ UINT64_MAX, 1, NVME_LBA_RANGE | NVME_DNR },
		{ UINT64_MAX - 3, 16, NVME_LBA_RANGE | NVME_DNR },
		{ 0, 17, NVME_INVALID_FIELD | NVME_DNR },
	};
	struct nvme_range range;

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct nvme_sqe sqe =
			io(NVME_READ, cases[i].first, cases[i].count, cases[i].count * 4096);

		assert_int_equal(nvme_check_io(&sqe, &n, &range), cases[i].status);
		if (cases[i].status)
			continue;
		assert_true(range.offset == cases[i].first * 4096);
		assert_true(range.length == cases[i].count * 4096UL);
	}
}

/* Each is as the one before, but for what makes another reason come first. */
TEST(reasons_come_in_their_order)
{
	struct nvme_namespace n = {
		.blocks = 100, .block_shift = 9, .transfer_max = 65536, .read_only = true
	};
	struct nvme_sqe sqe = io(NVME_WRITE, 0, 1, 512);
	struct nvme_range range;

	assert_int_equal(nvme_check_io(&sqe, &n, &range), NVME_WRITE_PROTECTED | NVME_DNR);
	sqe.sgl.length = 511;
	assert_int_equal(nvme_check_io(&sqe, &n, &range), NVME_SGL_LENGTH_INVALID | NVME_DNR);
	n.transfer_max = 256;
	assert_int_equal(nvme_check_io(&sqe, &n, &range), NVME_INVALID_FIELD | NVME_DNR);
	n.blocks = 0;
	assert_int_equal(nvme_check_io(&sqe, &n, &range), NVME_LBA_RANGE | NVME_DNR);
	sqe.sgl.type = 0x40;
	assert_int_equal(nvme_check_io(&sqe, &n, &range), NVME_SGL_TYPE_INVALID | NVME_DNR);
	assert_int_equal(nvme_check_io(&sqe, NULL, &range), NVME_INVALID_NAMESPACE | NVME_DNR);
	sqe.flags = 0x41;
	assert_int_equal(nvme_check_io(&sqe, NULL, &range), NVME_INVALID_FIELD | NVME_DNR);
	sqe.opcode = 0x05;
	assert_int_equal(nvme_check_io(&sqe, NULL, &range), NVME_INVALID_OPCODE | NVME_DNR);
}

TEST(errors_of_stores_have_their_status)
{
	assert_int_equal(nvme_status_of(0, NVME_READ), NVME_SUCCESS);
	assert_int_equal(nvme_status_of(EIO, NVME_READ), NVME_READ_ERROR | NVME_DNR);
	assert_int_equal(nvme_status_of(EIO, NVME_FLUSH), NVME_WRITE_FAULT | NVME_DNR);
	assert_int_equal(nvme_status_of(ENOSPC, NVME_WRITE), NVME_CAPACITY | NVME_DNR);
	assert_int_equal(nvme_status_of(EROFS, NVME_WRITE), NVME_WRITE_PROTECTED | NVME_DNR);
	assert_int_equal(nvme_status_of(ENOMEM, NVME_WRITE), NVME_INTERRUPTED);
	assert_int_equal(nvme_status_of(EINVAL, NVME_WRITE), NVME_INTERNAL_ERROR | NVME_DNR);
}

/* ---- PDUs ---- */

static struct nvme_tcp_fault judge(uint8_t type, uint8_t flags, uint8_t hlen, uint8_t pdo,
				   uint32_t plen, bool header_digest, bool data_digest,
				   struct nvme_tcp_pdu *ret)
{
	uint8_t common[NVME_TCP_COMMON] = { type, flags, hlen, pdo };
	struct nvme_tcp_terms terms = { .header_digest = header_digest,
					.data_digest = data_digest };

	put_le32(common + 4, plen);
	return nvme_tcp_check_pdu(common, &terms, ret);
}

TEST(a_pdu_is_checked_by_its_header)
{
	static const struct {
		uint8_t type, flags, hlen, pdo;
		uint32_t plen;
		uint8_t digests; /* 1: of headers, 2: of data */
		uint8_t fes;
		uint32_t fei;
		uint32_t header, pad, data; /* if nothing is wrong */
	} cases[] = {
		{ NVME_TCP_ICREQ, 0, 128, 0, 128, 3, 0, 0, 128, 0, 0 },
		{ NVME_TCP_ICREQ, 0, 128, 0, 132, 0, 1, 4, 0, 0, 0 },
		{ NVME_TCP_COMMAND, 0, 72, 0, 72, 0, 0, 0, 72, 0, 0 },
		{ NVME_TCP_COMMAND, 0, 72, 72, 80, 0, 0, 0, 72, 0, 8 },
		{ NVME_TCP_COMMAND, 0, 72, 128, 130, 0, 0, 0, 72, 56, 2 },
		{ NVME_TCP_COMMAND, 0, 72, 129, 140, 0, 1, 3, 0, 0, 0 },
		{ NVME_TCP_COMMAND, 0, 72, 71, 80, 0, 1, 3, 0, 0, 0 },
		{ NVME_TCP_COMMAND, 0, 72, 80, 79, 0, 1, 3, 0, 0, 0 },
		{ NVME_TCP_COMMAND, 0, 72, 80, 80, 0, 1, 4, 0, 0, 0 },
		{ NVME_TCP_COMMAND, 0, 72, 0, 71, 0, 1, 4, 0, 0, 0 },
		{ NVME_TCP_COMMAND, 0, 24, 0, 72, 0, 1, 2, 0, 0, 0 },
		{ NVME_TCP_COMMAND, 1, 72, 0, 72, 0, 1, 1, 0, 0, 0 },
		{ NVME_TCP_COMMAND, 0, 72, 0, 76, 1, 1, 1, 0, 0, 0 },
		{ NVME_TCP_COMMAND, 1, 72, 0, 76, 1, 0, 0, 76, 0, 0 },
		{ NVME_TCP_COMMAND, 3, 72, 76, 84, 3, 0, 0, 76, 0, 4 },
		{ NVME_TCP_COMMAND, 3, 72, 76, 80, 3, 1, 4, 0, 0, 0 },
		{ NVME_TCP_COMMAND, 1, 72, 76, 84, 3, 1, 1, 0, 0, 0 },
		{ NVME_TCP_COMMAND, 2, 72, 72, 80, 0, 1, 1, 0, 0, 0 },
		{ NVME_TCP_H2C_DATA, 4, 24, 24, UINT32_MAX, 0, 0, 0, 24, 0, UINT32_MAX - 24 },
		{ NVME_TCP_H2C_TERM, 0, 24, 0, 24, 3, 0, 0, 24, 0, 0 },
		{ NVME_TCP_H2C_TERM, 0, 24, 0, 153, 3, 1, 4, 0, 0, 0 },
		{ NVME_TCP_R2T, 0, 24, 0, 24, 0, 1, 0, 0, 0, 0 },
		{ 8, 0, 24, 0, 24, 0, 1, 0, 0, 0, 0 },
		{ 255, 0, 24, 0, 24, 0, 1, 0, 0, 0, 0 },
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct nvme_tcp_pdu pdu;
		struct nvme_tcp_fault fault =
			judge(cases[i].type, cases[i].flags, cases[i].hlen, cases[i].pdo,
			      cases[i].plen, cases[i].digests & 1, cases[i].digests & 2, &pdu);

		assert_int_equal(fault.fes, cases[i].fes);
		assert_int_equal(fault.fei, cases[i].fei);
		if (fault.fes)
			continue;
		assert_int_equal(pdu.header_bytes, cases[i].header);
		assert_int_equal(pdu.pad_bytes, cases[i].pad);
		assert_int_equal(pdu.data_bytes, cases[i].data);
		assert_int_equal(pdu.last, !!(cases[i].flags & NVME_TCP_LAST));
	}
}

TEST(icreq_settles_the_terms)
{
	uint8_t header[NVME_TCP_IC] = { 0 }, reply[NVME_TCP_IC];
	struct nvme_tcp_terms terms;

	assert_int_equal(nvme_tcp_parse_icreq(header, &terms).fes, 0);
	assert_int_equal(terms.data_offset, 24);
	header[11] = 3;
	assert_int_equal(nvme_tcp_parse_icreq(header, &terms).fes, 0);
	assert_true(terms.header_digest && terms.data_digest);
	assert_int_equal(terms.data_offset, 28);
	header[10] = 31;
	assert_int_equal(nvme_tcp_parse_icreq(header, &terms).fes, 0);
	assert_int_equal(terms.data_offset, 128);
	terms.h2c_max = 0x80000;
	assert_int_equal(nvme_tcp_build_icresp(reply, &terms), 128);
	assert_int_equal(reply[0], 1);
	assert_int_equal(reply[2], 128);
	assert_int_equal(get_le32(reply + 4), 128);
	assert_int_equal(reply[10], 0);
	assert_int_equal(reply[11], 3);
	assert_int_equal(get_le32(reply + 12), 0x80000);
	header[10] = 32;
	assert_int_equal(nvme_tcp_parse_icreq(header, &terms).fei, 10);
	header[8] = 1;
	assert_int_equal(nvme_tcp_parse_icreq(header, &terms).fei, 8);
}

/* ---- Identify, and the Discovery log ---- */

/* OAES, AERL, KAS and CNTRLTYPE: what a host needs to be told of events. */
TEST(a_controller_tells_its_events)
{
	for (unsigned discovery = 0; discovery < 2; discovery++) {
		uint8_t page[NVME_PAGE] = { 0 };
		struct nvme_controller_info info = {
			.discovery = discovery, .serial = "", .firmware = "", .subnqn = "nqn.unit"
		};

		nvme_identify_controller(page, &info);
		assert_int_equal(get_le32(page + 92), discovery ? 0x80000000 : 0x100);
		assert_int_equal(page[111], discovery ? 2 : 1);
		assert_int_equal(page[259], 3);
		assert_true(get_le16(page + 320) > 0);
	}
}

TEST(an_entry_of_the_discovery_log_has_its_fields)
{
	static const struct {
		struct nvme_discovery d;
		uint8_t begin[12];
		uint8_t tsas[4];
	} cases[] = {
		{ { .id = 7 }, { 3, 1, 2, 4, 7, 0, 0xff, 0xff, 32, 0, 0, 0 }, { 0 } },
		{ { .id = 0x102, .ipv6 = true, .rdma = true },
		  { 1, 2, 2, 4, 2, 1, 0xff, 0xff, 32, 0, 0, 0 },
		  { 1, 1, 1, 0 } },
		{ { .id = 3, .self = true }, { 3, 1, 3, 4, 3, 0, 0xff, 0xff, 32, 0, 2, 0 }, { 0 } },
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint8_t entry[NVME_DISCOVERY_ENTRY] = { 0 };
		struct nvme_discovery d = cases[i].d;

		d.subnqn = "nqn.unit";
		d.address = "10.0.0.1";
		d.port = "4420";
		nvme_discovery_entry(entry, &d);
		assert_memory_equal(entry, cases[i].begin, sizeof(cases[i].begin));
		assert_memory_equal(entry + 32, "4420                            ", 32);
		assert_string_equal((const char *)entry + 256, "nqn.unit");
		assert_memory_equal(entry + 512, "10.0.0.1 ", 9);
		assert_memory_equal(entry + 768, cases[i].tsas, sizeof(cases[i].tsas));
	}
}

/* ---- Identities ---- */

TEST(identities_follow_from_names_alone)
{
	uint8_t one[NVME_UUID], other[NVME_UUID];
	char nqn[NVME_NQN_MAX], serial[NVME_SERIAL + 1];

	nvme_id_uuid("seed", 4, "disk", one);
	/* They may never change: hosts keep them. */
	static const uint8_t kept[NVME_UUID] = { 0x05, 0xdd, 0xff, 0x04, 0xcd, 0xcb, 0x80, 0x9a,
						 0xb4, 0xd3, 0xf0, 0xf7, 0x38, 0x57, 0xc5, 0x9d };
	assert_memory_equal(one, kept, sizeof(kept));
	assert_int_equal(one[6] >> 4, 8);
	assert_int_equal(one[8] >> 6, 2);
	nvme_id_uuid("seed", 4, "dis", other);
	assert_memory_not_equal(one, other, NVME_UUID);
	nvme_id_nqn(one, nqn);
	assert_int_equal(strlen(nqn), 32 + 36);
	nvme_id_serial(nqn, serial);
	assert_int_equal(strlen(serial), NVME_SERIAL);
}
