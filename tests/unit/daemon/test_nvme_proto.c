/* NVMe's formats: every field by its offset, against bytes written by hand. */
#include <errno.h>

#include "bytes.h"
#include "crc32c.h"
#include "nvme/wire/identify.h"
#include "nvme/wire/proto.h"
#include "nvme/wire/tcp_proto.h"
#include "unit.h"

/* ---- Commands ---- */

TEST(a_command_is_where_its_fields_are)
{
	uint8_t data[NVME_SQE];
	struct nvme_sqe s;

	for (unsigned i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i + 1);
	nvme_parse_sqe(data, &s);
	assert_int_equal(s.opcode, 1);
	assert_int_equal(s.flags, 2);
	assert_int_equal(s.cid, 0x0403);
	assert_int_equal(s.nsid, 0x08070605);
	assert_int_equal(s.fctype, 5);
	assert_true(s.sgl.address == UINT64_C(0x201f1e1d1c1b1a19));
	assert_int_equal(s.sgl.length, 0x24232221);
	assert_int_equal(s.sgl.type, 40);
	assert_int_equal(s.cdw10, 0x2c2b2a29);
	assert_int_equal(s.cdw11, 0x302f2e2d);
	assert_int_equal(s.cdw12, 0x34333231);
	assert_int_equal(s.cdw13, 0x38373635);
	assert_int_equal(s.cdw14, 0x3c3b3a39);
	assert_int_equal(s.cdw15, 0x403f3e3d);
}

TEST(a_completion_is_sixteen_bytes)
{
	static const uint8_t wanted[NVME_CQE] = { 8,    7,    6,    5,    4,    3,    2,    1,
						  0x34, 0x12, 0x78, 0x56, 0xcd, 0xab, 0x00, 0x81 };
	struct nvme_cqe cqe = { .result = UINT64_C(0x0102030405060708),
				.sqhd = 0x1234,
				.sqid = 0x5678,
				.cid = 0xabcd,
				.status = NVME_LBA_RANGE | NVME_DNR };
	uint8_t data[NVME_CQE];

	nvme_build_cqe(data, &cqe);
	assert_memory_equal(data, wanted, sizeof(data));
}

TEST(the_opcode_tells_which_way_data_goes)
{
	assert_int_equal(nvme_direction(&(struct nvme_sqe){ .opcode = NVME_READ }), NVME_TO_HOST);
	assert_int_equal(nvme_direction(&(struct nvme_sqe){ .opcode = NVME_WRITE }),
			 NVME_TO_CONTROLLER);
	assert_int_equal(nvme_direction(&(struct nvme_sqe){ .opcode = NVME_DSM }),
			 NVME_TO_CONTROLLER);
	assert_int_equal(nvme_direction(&(struct nvme_sqe){ .opcode = NVME_FLUSH }), NVME_NO_DATA);
	assert_int_equal(nvme_direction(&(struct nvme_sqe){ .opcode = NVME_IDENTIFY }),
			 NVME_TO_HOST);
	assert_int_equal(nvme_direction(&(struct nvme_sqe){ .opcode = NVME_FABRICS,
							    .fctype = NVME_CONNECT }),
			 NVME_TO_CONTROLLER);
	assert_int_equal(nvme_direction(&(struct nvme_sqe){ .opcode = NVME_FABRICS,
							    .fctype = NVME_PROPERTY_GET }),
			 NVME_NO_DATA);
}

TEST(connect_names_host_and_subsystem)
{
	struct nvme_sqe sqe = { .cdw10 = 7 << 16, .cdw11 = 4 << 16 | 31, .cdw12 = 5000 };
	uint8_t data[NVME_CONNECT_DATA] = { [0] = 0xaa, [15] = 0xbb, [16] = 0x34, [17] = 0x12 };
	struct nvme_connect c;
	uint64_t result;

	memcpy(data + 256, "nqn.a", 6);
	memcpy(data + 512, "nqn.b", 6);
	assert_int_equal(nvme_parse_connect(&sqe, data, &c, &result), NVME_SUCCESS);
	assert_int_equal(c.qid, 7);
	assert_int_equal(c.sqsize, 31);
	assert_true(c.no_flow_control);
	assert_int_equal(c.kato_ms, 5000);
	assert_int_equal(c.cntlid, 0x1234);
	assert_int_equal(c.hostid[0], 0xaa);
	assert_int_equal(c.hostid[15], 0xbb);
	assert_string_equal(c.subnqn, "nqn.a");
	assert_string_equal(c.hostnqn, "nqn.b");
	memset(data + 512, 'x', 224);
	assert_int_equal(nvme_parse_connect(&sqe, data, &c, &result),
			 NVME_CONNECT_INVALID | NVME_DNR);
	assert_int_equal(result, 1 << 16 | 512);
	sqe.cdw10 |= 1;
	assert_int_equal(nvme_parse_connect(&sqe, data, &c, &result),
			 NVME_CONNECT_FORMAT | NVME_DNR);
}

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
	return nvme_tcp_judge(common, &terms, ret);
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

TEST(sent_pdus_have_their_digests_and_offsets)
{
	struct nvme_tcp_terms terms = { .header_digest = true,
					.data_digest = true,
					.data_offset = 32 };
	struct nvme_tcp_data data = { .cid = 0x1234, .ttag = 0x56, .offset = 4096, .length = 512 };
	struct nvme_tcp_fault fault = { .fes = 6, .fei = 32 };
	uint8_t to[NVME_TCP_TERM_MAX], header[128] = { 9, 8, 7 };

	memset(to, 0xee, sizeof(to));
	assert_int_equal(nvme_tcp_build_data(to, &terms, &data, NVME_TCP_LAST | NVME_TCP_SUCCESS),
			 32);
	assert_int_equal(to[0], NVME_TCP_C2H_DATA);
	assert_int_equal(to[1], 15);
	assert_int_equal(to[2], 24);
	assert_int_equal(to[3], 32);
	assert_int_equal(get_le32(to + 4), 32 + 512 + 4);
	assert_int_equal(get_le16(to + 8), 0x1234);
	assert_int_equal(get_le32(to + 12), 4096);
	assert_int_equal(get_le32(to + 16), 512);
	assert_int_equal(get_le32(to + 20), 0);
	assert_int_equal(get_le32(to + 24), crc32c(0, to, 24));
	assert_int_equal(get_le32(to + 28), 0);
	assert_true(nvme_tcp_header_is_intact(to));
	to[9] ^= 1;
	assert_false(nvme_tcp_header_is_intact(to));
	assert_int_equal(nvme_tcp_build_r2t(to, &terms, &data), 28);
	assert_int_equal(to[0], NVME_TCP_R2T);
	assert_int_equal(to[1], NVME_TCP_HDGST);
	assert_int_equal(get_le16(to + 10), 0x56);
	assert_int_equal(get_le32(to + 4), 28);
	terms.header_digest = false;
	assert_int_equal(nvme_tcp_build_rsp(to, &terms, &(struct nvme_cqe){ .cid = 7 }), 24);
	assert_int_equal(to[0], NVME_TCP_RSP);
	assert_int_equal(to[1], 0);
	assert_int_equal(get_le16(to + 20), 7);
	assert_int_equal(nvme_tcp_build_term(to, &fault, header, sizeof(header)), 152);
	assert_int_equal(to[0], NVME_TCP_C2H_TERM);
	assert_int_equal(get_le32(to + 4), 152);
	assert_int_equal(get_le16(to + 8), 6);
	assert_int_equal(get_le32(to + 10), 32);
	assert_memory_equal(to + 24, header, 128);
}

/* ---- Identities ---- */

TEST(identities_follow_from_names_alone)
{
	uint8_t one[NVME_UUID], other[NVME_UUID];
	char nqn[NVME_NQN_MAX], serial[NVME_SERIAL + 1];

	nvme_id_uuid("seed", 4, "disk", "", one);
	/* They may never change: hosts keep them. */
	static const uint8_t kept[NVME_UUID] = { 0x05, 0xdd, 0xff, 0x04, 0xcd, 0xcb, 0x80, 0x9a,
						 0xb4, 0xd3, 0xf0, 0xf7, 0x38, 0x57, 0xc5, 0x9d };
	assert_memory_equal(one, kept, sizeof(kept));
	assert_int_equal(one[6] >> 4, 8);
	assert_int_equal(one[8] >> 6, 2);
	nvme_id_uuid("seed", 4, "disk", "x", other);
	assert_memory_not_equal(one, other, NVME_UUID);
	nvme_id_uuid("seed", 4, "dis", "k", other);
	assert_memory_not_equal(one, other, NVME_UUID);
	nvme_id_nqn(one, nqn);
	assert_int_equal(strlen(nqn), 32 + 36);
	nvme_id_serial(nqn, serial);
	assert_int_equal(strlen(serial), NVME_SERIAL);
}

TEST(a_controller_says_what_linux_demands)
{
	uint8_t page[NVME_PAGE] = { 0 };
	struct nvme_controller_info info = {
		.cntlid = 0x1234,
		.serial = "serial",
		.firmware = "1.0",
		.subnqn = "nqn.a",
		.mdts = 7,
		.entries = 128,
		.namespaces = 3,
		.in_capsule = 16384,
		.write_cache = true,
	};

	nvme_identify_controller(page, &info);
	assert_memory_equal(page + 4, "serial              nbserved  ", 30);
	assert_memory_equal(page + 64, "1.0     ", 8);
	assert_int_equal(page[76], 2);
	assert_int_equal(page[77], 7);
	assert_int_equal(get_le16(page + 78), 0x1234);
	assert_int_equal(get_le32(page + 80), 0x10400);
	assert_int_equal(get_le32(page + 92), 0x100);
	assert_int_equal(get_le32(page + 96), 0x41);
	assert_int_equal(page[111], 1);
	assert_int_equal(page[259], 3);
	assert_int_equal(page[261], 6);
	assert_int_equal(get_le16(page + 320), 10);
	assert_int_equal(page[512], 0x66);
	assert_int_equal(page[513], 0x44);
	assert_int_equal(get_le16(page + 514), 128);
	assert_int_equal(get_le32(page + 516), 3);
	assert_int_equal(get_le16(page + 520), 0x0c);
	assert_int_equal(page[525], 5);
	assert_int_equal(get_le32(page + 536), 0x200001);
	assert_string_equal((const char *)page + 768, "nqn.a");
	assert_int_equal(get_le32(page + 1792), (64 + 16384) / 16);
	assert_int_equal(get_le32(page + 1796), 1);
	assert_int_equal(get_le16(page + 1800), 0);
	assert_int_equal(page[1803], 1);
	memset(page, 0, sizeof(page));
	info.discovery = true;
	nvme_identify_controller(page, &info);
	assert_int_equal(page[111], 2);
	assert_int_equal(get_le32(page + 92), 0);
	assert_int_equal(get_le32(page + 516), 0);
	assert_int_equal(get_le32(page + 1792), 4);
	assert_int_equal(get_le32(page + 536), 0x200001);
}

TEST(a_namespace_reports_its_size_and_identifiers)
{
	uint8_t page[NVME_PAGE] = { 0 };
	struct nvme_namespace_info n = {
		.namespace = { .blocks = 0x123456789, .block_shift = 9, .read_only = true },
		.uuid = { 1, 2, 3 },
		.reads_zeros = true,
	};

	nvme_identify_namespace(page, &n);
	for (size_t at = 0; at < 24; at += 8)
		assert_true(get_le64(page + at) == 0x123456789);
	assert_int_equal(page[25], 0);
	assert_int_equal(page[30], 1);
	assert_int_equal(page[33], 9);
	assert_int_equal(page[99], 1);
	assert_memory_equal(page + 104, n.uuid, NVME_UUID);
	assert_int_equal(get_le32(page + 128), 9 << 16);
	memset(page, 0, sizeof(page));
	nvme_identify_descriptors(page, &n);
	assert_memory_equal(page, ((uint8_t[]){ 3, 16, 0, 0, 1, 2, 3 }), 7);
	assert_memory_equal(page + 20, ((uint8_t[]){ 2, 16, 0, 0, 1, 2, 3 }), 7);
	assert_memory_equal(page + 40, ((uint8_t[]){ 4, 1, 0, 0, 0, 0 }), 6);
	memset(page, 0, sizeof(page));
	nvme_identify_active(page, 1, 3);
	assert_memory_equal(page, ((uint8_t[]){ 2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0 }), 12);
	memset(page, 0, sizeof(page));
	nvme_identify_nvm(page, 9);
	assert_int_equal(page[1], 13);
	assert_int_equal(get_le32(page + 4), 8 << 20);
}

TEST(logs)
{
	uint8_t page[NVME_PAGE] = { 0 };
	struct nvme_discovery d = {
		.id = 1, .subnqn = "nqn.a", .address = "10.0.0.1", .port = "4420"
	};

	assert_int_equal(nvme_log_smart(page, &(struct nvme_smart){ 512001, 1, 2, 3 }), 512);
	assert_int_equal(page[3], 100);
	assert_int_equal(get_le64(page + 32), 2);
	assert_int_equal(get_le64(page + 48), 1);
	assert_int_equal(get_le64(page + 64), 2);
	assert_int_equal(get_le64(page + 80), 3);
	memset(page, 0, sizeof(page));
	nvme_discovery_entry(page + 1024, &d);
	nvme_discovery_header(page, 5, 1);
	assert_int_equal(get_le64(page), 5);
	assert_int_equal(get_le64(page + 8), 1);
	assert_memory_equal(page + 1024, ((uint8_t[]){ 3, 1, 2, 4, 1, 0, 0xff, 0xff, 32, 0 }), 10);
	assert_memory_equal(page + 1024 + 32, "4420  ", 6);
	assert_string_equal((char *)page + 1024 + 256, "nqn.a");
	assert_memory_equal(page + 1024 + 512, "10.0.0.1  ", 10);
}
