/* Service `nvme` over messages and one-sided operations, without a device: what a connect gets or
 * is refused for, and which memory of the host its commands touch. */
#include "nvme_case.h"

#include "connect_data.h"
#include "nvme/wire/rdma_proto.h"
#include "unit.h"

enum { CHUNKS = 128, ENTRIES = 8, KEY = 0x01020304 };

static uint8_t host[SIZE]; /* the memory of the host */

static void disk_open(struct disk *d, uint32_t align)
{
	disk_new(d, CHUNKS, align, ENTRIES);
	/* The queue that case_new() has made is one over TCP. */
	conn_close(d->t->conn, CONN_END_PEER);
	case_turns(d->t);
	d->t->worker.engine = &case_remote_engine;
	case_connect(d->t);
}

static void disk_close(struct disk *d)
{
	struct worker *w = &d->t->worker;

	if (d->admin) {
		if (d->t->conn)
			conn_close(d->t->conn, CONN_END_PEER);
		case_turns(d->t);
		while (d->t->remote_count > 0)
			case_remote(d->t, -ECANCELED);
		d->t->conn = d->admin;
	}
	assert_int_equal(d->mount.in_flight, 0);
	while (w->conns) {
		conn_close(w->conns, CONN_END_DRAIN);
		case_turns(d->t);
	}
	assert_true(w->pool.free_count >= CHUNKS - 1); /* the one that replies are written into */
	d->t->conn = NULL;
	disk_free(d);
}

/* ---- Capsules of a host ---- */

/* Where a command's data is: with it (type NVME_SGL_CAPSULE), or in `host` behind a key. */
struct where {
	uint8_t type;
	uint32_t at, length;
};

static void send_command(struct disk *d, uint8_t opcode, uint8_t nsid, uint16_t cid,
			 const uint32_t cdw[3], struct where where, size_t capsule)
{
	uint8_t message[CHUNK] = { opcode, 0x40, [4] = nsid };

	put_le16(message + 2, cid);
	put_le32(message + 32, where.length);
	message[39] = where.type;
	if (where.type == NVME_SGL_CAPSULE) {
		put_le64(message + 24, where.at);
	} else if (where.type) {
		put_le64(message + 24, (uintptr_t)host + where.at);
		message[34] = (uint8_t)(where.length >> 16);
		put_le32(message + 35, KEY);
	}
	for (size_t i = 0; i < 3; i++)
		put_le32(message + 40 + 4 * i, cdw[i]);
	memcpy(message + NVME_SQE, host, capsule);
	case_input(d->t, message, NVME_SQE + capsule, NVME_SQE + capsule);
}

static struct where keyed(uint32_t at, uint32_t length)
{
	return (struct where){ NVME_RDMA_KEYED, at, length };
}

static void send_connect(struct disk *d, uint16_t qid, uint16_t cntlid)
{
	memset(host, 0, NVME_CONNECT_DATA);
	put_le16(host + 16, cntlid);
	strcpy((char *)host + 256, "nqn.unit");
	strcpy((char *)host + 512, "nqn.host");
	send_command(d, NVME_FABRICS, NVME_CONNECT, 0,
		     (uint32_t[]){ (uint32_t)qid << 16, ENTRIES - 1, 0 },
		     keyed(0, NVME_CONNECT_DATA), 0);
	assert_int_equal(d->t->remotes[0]->kind, REMOTE_READ);
	assert_int_equal(d->t->remotes[0]->key, KEY);
	case_remote(d->t, 0);
}

/* The last completion that was sent: of cid, with this status. */
static void hear(const struct disk *d, uint16_t cid, uint16_t status)
{
	const uint8_t *cqe = d->t->out + d->t->out_bytes - NVME_CQE;

	assert_true(d->t->out_bytes >= NVME_CQE);
	assert_int_equal(get_le16(cqe + 12), cid);
	assert_int_equal(get_le16(cqe + 14) >> 1, status);
}

/* t->conn is an I/O queue from now on. */
static void io_queue(struct disk *d)
{
	struct worker *w = &d->t->worker;

	send_connect(d, 0, NVME_CNTLID_NEW);
	hear(d, 0, NVME_SUCCESS);
	send_command(d, NVME_FABRICS, NVME_PROPERTY_SET, 1, (uint32_t[]){ 0, 0x14, 0x460001 },
		     keyed(0, 0), 0);
	hear(d, 1, NVME_SUCCESS);
	d->admin = d->t->conn;
	conn_new(w, -1);
	d->t->conn = w->conns;
	case_turns(d->t);
	send_connect(d, 1, nvme_of(d->admin)->member->controller->cntlid);
	hear(d, 0, NVME_SUCCESS);
	d->t->out_bytes = 0;
}

/* ---- A queue's beginning ---- */

TEST(a_queue_is_promised_what_it_asks_for_or_refused)
{
	static const struct {
		uint16_t recfmt, qid, receives, commands; /* one less is said */
		size_t bytes;
		unsigned reads, status;
	} cases[] = {
		{ 0, 0, 32, 31, 32, 4, NVME_RDMA_OK },
		{ 0, 1, ENTRIES, ENTRIES - 1, 56, 1, NVME_RDMA_OK },
		{ 0, 0, 32, 31, 31, 4, NVME_RDMA_LENGTH },
		{ 1, 0, 32, 31, 32, 4, NVME_RDMA_FORMAT },
		{ 0, NVME_QUEUES_MAX + 1, 32, 31, 32, 4, NVME_RDMA_QID },
		{ 0, 0, 32, 0, 32, 4, NVME_RDMA_SENDS },
		{ 0, 0, 32, 128, 32, 4, NVME_RDMA_SENDS },
		{ 0, 1, 32, ENTRIES, 32, 4, NVME_RDMA_SENDS },
		{ 0, 0, 0, 31, 32, 4, NVME_RDMA_RECEIVES },
		{ 0, 0, 32, 31, 32, 0, NVME_RDMA_READS },
	};
	struct connect_data nobody = { 0 };
	CLEANUP(disk_close) struct disk d;

	disk_open(&d, 1);
	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		uint8_t said[56] = { 0 };
		struct connect_data g = { .data = said,
					  .data_bytes = cases[i].bytes,
					  .reads = cases[i].reads };
		int rc;

		put_le16(said, cases[i].recfmt);
		put_le16(said + 2, cases[i].qid);
		put_le16(said + 4, cases[i].receives);
		put_le16(said + 6, cases[i].commands);
		rc = nvme_rdma_connect(&d.t->worker, &g);
		assert_int_equal(rc, cases[i].status ? -EPROTO : 0);
		if (cases[i].status) {
			assert_int_equal(g.reply_bytes, NVME_RDMA_REJECT);
			assert_int_equal(get_le16(g.reply + 2), cases[i].status);
			continue;
		}
		assert_int_equal(g.receives, cases[i].commands + 1);
		assert_int_equal(g.message_max, NVME_SQE + (cases[i].qid ? 4096 : 0));
		assert_int_equal(g.reply_bytes, NVME_RDMA_ACCEPT);
		assert_int_equal(get_le16(g.reply + 2), g.receives);
	}
	assert_int_equal(nvme_rdma_connect(&d.t->worker, &nobody), -EPROTO);
	assert_int_equal(get_le16(nobody.reply + 2), NVME_RDMA_RESOURCES);
}

TEST(memory_decides_on_capsules_and_queues)
{
	CLEANUP(disk_close) struct disk d;
	struct worker *w;

	disk_open(&d, 1);
	w = &d.t->worker;
	assert_int_equal(nvme_rdma_in_capsule(w), 4096);
	/* A queue of 8 capsules, three in a chunk, and one chunk for what is half taken. */
	assert_int_equal(nvme_rdma_queues(w), (w->pool.free_count - w->pool.keep) / 3);
	w->team.count = 2;
	assert_int_equal(nvme_rdma_queues(w), (w->pool.free_count - w->pool.keep) / 3 * 2);
	w->pool.chunk_size = 1024;
	assert_int_equal(nvme_rdma_in_capsule(w), 960);
	w->pool.chunk_size = CHUNK;
}

/* ---- Commands ---- */

TEST(data_moves_between_export_and_host)
{
	for (uint32_t align = 1; align <= 4096; align += 4095) {
		uint8_t *memory;
		CLEANUP(disk_close) struct disk d;

		disk_open(&d, align);
		memory = d.export.memory;
		io_queue(&d);
		for (size_t i = 0; i < 2 * 65536; i++)
			host[i] = (uint8_t)(i * 7 % 251);
		/* With the command; no other memory is touched. */
		send_command(&d, NVME_WRITE, 1, 5, (uint32_t[]){ 1, 0, 0 },
			     (struct where){ NVME_SGL_CAPSULE, 0, 4096 }, 4096);
		assert_int_equal(d.t->remote_count, 0);
		hear(&d, 5, NVME_SUCCESS);
		assert_memory_equal(memory + 4096, host, 4096);
		/* Fetched. */
		send_command(&d, NVME_WRITE, 1, 6, (uint32_t[]){ 2, 0, 31 }, keyed(0, 2 * 65536),
			     0);
		while (d.t->remote_count > 0)
			case_remote(d.t, 0);
		hear(&d, 6, NVME_SUCCESS);
		assert_memory_equal(memory + 8192, host, 2 * 65536);
		/* Read: the completion does not wait for the writes before it. */
		d.t->out_bytes = 0;
		send_command(&d, NVME_READ, 1, 7, (uint32_t[]){ 2, 0, 3 }, keyed(SIZE / 2, 16384),
			     0);
		assert_int_equal(d.t->remote_count, 1);
		assert_int_equal(d.t->remotes[0]->kind, REMOTE_WRITE);
		hear(&d, 7, NVME_SUCCESS);
		case_remote(d.t, 0);
		assert_int_equal(d.t->out_bytes, NVME_CQE);
		assert_memory_equal(host + SIZE / 2, memory + 8192, 16384);
	}
}

TEST(an_invalid_capsule_gets_its_status)
{
	static const struct {
		struct where where;
		size_t capsule;
		uint16_t status;
	} cases[] = {
		{ { NVME_SGL_CAPSULE, 0, 8192 }, 4096, NVME_SGL_OFFSET_INVALID | NVME_DNR },
		{ { NVME_SGL_CAPSULE, 16, 4096 }, 4096, NVME_SGL_OFFSET_INVALID | NVME_DNR },
		{ { NVME_SGL_CAPSULE, 0, 2048 }, 4096, NVME_SGL_LENGTH_INVALID | NVME_DNR },
		{ { NVME_RDMA_KEYED, 0, 8192 }, 0, NVME_SGL_LENGTH_INVALID | NVME_DNR },
		/* TCP's. */
		{ { NVME_SGL_TRANSPORT, 0, 4096 }, 0, NVME_SGL_TYPE_INVALID | NVME_DNR },
	};
	CLEANUP(disk_close) struct disk d;

	disk_open(&d, 1);
	io_queue(&d);
	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		send_command(&d, NVME_WRITE, 1, (uint16_t)i, (uint32_t[]){ 0, 0, 0 },
			     cases[i].where, cases[i].capsule);
		assert_int_equal(d.t->remote_count, 0);
		hear(&d, (uint16_t)i, cases[i].status);
	}
	/* The queue is as it was. */
	send_command(&d, NVME_FLUSH, 1, 9, (uint32_t[]){ 0, 0, 0 }, keyed(0, 0), 0);
	hear(&d, 9, NVME_SUCCESS);
	/* Half a command ends it. */
	case_input(d.t, host, NVME_SQE - 1, NVME_SQE - 1);
	assert_int_equal(d.t->ends[CONN_END_PROTOCOL], 1);
}

/* A list's memory is counted before the next command is taken, not when its data has come. */
TEST(a_list_is_counted_before_it_is_fetched)
{
	CLEANUP(disk_close) struct disk d;

	disk_open(&d, 1);
	io_queue(&d);
	memset(host, 0, 4096);
	for (uint16_t i = 0; i < 3; i++) {
		send_command(&d, NVME_DSM, 1, i, (uint32_t[]){ 0, 4, 0 }, keyed(0, 16), 0);
		assert_int_equal(nvme_of(d.t->conn)->pages, i + 1);
	}
	while (d.t->remote_count > 0)
		case_remote(d.t, 0);
	assert_int_equal(nvme_of(d.t->conn)->pages, 0);
	/* With the command, at an offset: block 1. */
	memset(d.export.memory, 1, 8192);
	host[16 + 4] = host[16 + 8] = 1;
	send_command(&d, NVME_DSM, 1, 5, (uint32_t[]){ 0, 4, 0 },
		     (struct where){ NVME_SGL_CAPSULE, 16, 16 }, 32);
	hear(&d, 5, NVME_SUCCESS);
	assert_int_equal(((uint8_t *)d.export.memory)[4095], 1);
	assert_int_equal(((uint8_t *)d.export.memory)[4096], 0);
}

/* The host refuses its memory, or has gone: the chunks of operations in flight are released. */
TEST(a_queue_ends_amid_transfers)
{
	static const uint8_t opcodes[] = { NVME_WRITE, NVME_READ };

	for (unsigned i = 0; i < 2 * ARRAY_SIZE(opcodes); i++) {
		CLEANUP(disk_close) struct disk d;

		disk_open(&d, i < 2 ? 1 : 4096);
		io_queue(&d);
		send_command(&d, opcodes[i % 2], 1, 3, (uint32_t[]){ 0, 0, 15 }, keyed(0, 65536),
			     0);
		send_command(&d, opcodes[i % 2], 1, 4, (uint32_t[]){ 16, 0, 15 }, keyed(0, 65536),
			     0);
		assert_int_equal(d.t->remote_count, 2);
		conn_close(d.t->conn, CONN_END_PROTOCOL);
		while (d.t->remote_count > 0)
			case_remote(d.t, -ECANCELED);
	}
}
