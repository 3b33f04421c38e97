/* Service `nvme` on a memory export, without a kernel: the commands of a host at every split and in
 * small pools, and the controller's answers. */
#include "nvme_tcp_case.h"

#include "unit.h"

/* A host may ask for events just when the worker begins to drain. */
TEST(a_request_for_events_in_a_drain_is_answered)
{
	struct message m = { 0 };
	struct heard h;
	CLEANUP(disk_close) struct disk d;

	disk_open(&d, 16, 1);
	put_connect(&m, 0, NVME_CNTLID_NEW, 8);
	say(&d, &m, SIZE);
	d.t->worker.drain.on = true;
	conn_ready(d.t->conn);
	case_turns(d.t);
	m.bytes = d.t->out_bytes = 0;
	put_command(&m, NVME_AER, 0, 3, (uint32_t[]){ 0, 0, 0 }, NULL, 0, 0);
	say(&d, &m, SIZE);
	h = hear(&d, &(size_t){ 0 }, 0);
	assert_int_equal(h.cid, 3);
	assert_int_equal(h.result, 0x00010300);
}

/* An I/O queue of the admin queue's controller: it is t->conn from now on. */
static struct conn *io_queue(struct disk *d, unsigned digests)
{
	struct conn *admin = d->t->conn;
	struct message m = { .digests = digests };

	put_connect(&m, 0, NVME_CNTLID_NEW, 8);
	say(d, &m, SIZE);
	conn_new(&d->t->worker, -1);
	d->t->conn = d->t->worker.conns;
	case_turns(d->t);
	m.bytes = 0;
	put_connect(&m, 1, nvme_of(admin)->member->controller->cntlid, nvme_entries(&d->t->worker));
	say(d, &m, SIZE);
	assert_int_equal(nvme_of(d->t->conn)->phase, NVME_PHASE_LIVE);
	d->t->out_bytes = 0;
	return admin;
}

static void io_queue_close(struct disk *d, struct conn *admin)
{
	conn_close(d->t->conn, CONN_END_PEER);
	case_turns(d->t);
	d->t->conn = admin;
	disk_close(d);
}

static void fill(uint8_t *data, size_t bytes, unsigned seed)
{
	for (size_t i = 0; i < bytes; i++)
		data[i] = (uint8_t)((i * 7 + seed) % 251);
}

/* In capsules, and asked for; PDUs of sizes that no block has, to a store that needs blocks. */
TEST(data_arrives_at_every_split)
{
	enum { BYTES = 16 * 4096 };
	static const size_t pieces[] = { SIZE, 13, 4096, 0 };
	static const uint32_t sizes[] = { BYTES, 4096, 1000, 4100 };
	static uint8_t data[BYTES];

	for (unsigned i = 0; i < 2 * 4 * 4 * 4; i++) {
		unsigned digests = i % 4, align = i / 4 % 2 ? 4096 : 1;
		uint32_t size = sizes[i / 8 % 4];
		struct message m = { .digests = digests };
		struct conn *admin;
		struct heard h;
		struct disk d;
		size_t at = 0;

		fill(data, sizeof(data), i);
		disk_open(&d, 64, align);
		admin = io_queue(&d, digests);
		put_command(&m, NVME_WRITE, 1, 7, (uint32_t[]){ 0, 0, 1 }, data, 8192, 0);
		put_command(&m, NVME_WRITE, 1, 9, (uint32_t[]){ 4, 0, BYTES / 4096 - 1 }, NULL, 0,
			    BYTES);
		say(&d, &m, pieces[i / 32]);
		hear_success(&d, &at, digests, 7);
		for (uint32_t done = 0, most; done < BYTES; done += most) {
			h = hear(&d, &at, digests);
			assert_int_equal(h.type, NVME_TCP_R2T);
			assert_int_equal(h.cid, 9);
			assert_int_equal(h.offset, done);
			most = h.length;
			m.bytes = 0;
			for (uint32_t n, sent = 0; sent < most; sent += n) {
				n = MIN(size, most - sent);
				put_h2c(&m, 9, h.ttag, done + sent, data + done + sent, n,
					sent + n == most);
			}
			say(&d, &m, pieces[i / 32]);
		}
		hear_success(&d, &at, digests, 9);
		assert_memory_equal(d.export.memory, data, 8192);
		assert_memory_equal((uint8_t *)d.export.memory + 4 * 4096L, data, BYTES);
		m.bytes = 0;
		put_command(&m, NVME_READ, 1, 11, (uint32_t[]){ 4, 0, BYTES / 4096 - 1 }, NULL, 0,
			    BYTES);
		say(&d, &m, pieces[i / 32]);
		for (uint32_t done = 0; done < BYTES; done += h.length) {
			h = hear(&d, &at, digests);
			assert_int_equal(h.type, NVME_TCP_C2H_DATA);
			assert_int_equal(h.offset, done);
			assert_memory_equal(h.data, data + done, h.length);
			assert_int_equal(!!(h.flags & NVME_TCP_LAST), done + h.length == BYTES);
		}
		hear_success(&d, &at, digests, 11);
		assert_int_equal(at, d.t->out_bytes);
		io_queue_close(&d, admin);
	}
}

TEST(a_client_that_makes_no_progress_is_closed)
{
	struct message m = { 0 };

	put_connect(&m, 0, NVME_CNTLID_NEW, 8);
	for (size_t bytes = 0; bytes <= m.bytes; bytes += bytes < 128 ? 32 : 71) {
		CLEANUP(disk_close) struct disk d;

		disk_open(&d, 16, 1);
		if (bytes)
			case_input(d.t, m.data, bytes, bytes);
		pass(&d, 9 * (uint64_t)NS_PER_S);
		assert_non_null(d.t->conn);
		pass(&d, 200 * (uint64_t)NS_PER_S);
		assert_null(d.t->conn);
	}
}

/* Each PDU has its own time: a host that sends the rest of one and the begin of the next stays. */
TEST(a_pdu_has_its_own_time)
{
	struct message m = { 0 };
	struct conn *admin;
	CLEANUP(disk_close) struct disk d;

	disk_open(&d, 16, 1);
	admin = io_queue(&d, 0);
	for (unsigned i = 0; i < 3; i++)
		put_command(&m, NVME_FLUSH, 1, (uint16_t)(7 + i), (uint32_t[]){ 0, 0, 0 }, NULL, 0,
			    0);
	case_input(d.t, m.data, 30, 30);
	for (unsigned i = 1; i <= 8; i++) {
		pass(&d, 20 * (uint64_t)NS_PER_S);
		assert_non_null(d.t->conn);
		case_input(d.t, m.data + 30 + 72 * ((i - 1) % 2), 72, 72);
	}
	pass(&d, 31 * (uint64_t)NS_PER_S);
	assert_null(d.t->conn);
	d.t->conn = admin;
}

static struct io *late; /* a request of the store that has not ended */

static void late_submit(struct io *io)
{
	late = io;
}

static const struct store store_late = { .name = "late", .submit = late_submit };

/* A host owes nothing while its write is there, but waits behind a read whose output it has not
 * taken. */
TEST(a_write_that_is_there_is_not_awaited)
{
	static uint8_t data[4096];
	struct message m = { 0 };
	struct chunk *taken[64];
	unsigned count = 0;
	struct conn *admin;
	struct disk d;
	size_t at = 0;

	disk_open(&d, ARRAY_SIZE(taken), 1);
	admin = io_queue(&d, 0);
	while (d.t->worker.pool.free_count > 8) /* reads are small */
		taken[count++] = chunk_get(&d.t->worker.pool);
	d.mount.store = &store_late;
	put_command(&m, NVME_READ, 1, 7, (uint32_t[]){ 0, 0, 1 }, NULL, 0, 8192);
	put_command(&m, NVME_WRITE, 1, 8, (uint32_t[]){ 4, 0, 0 }, data, sizeof(data), 0);
	case_input(d.t, m.data, m.bytes - 4000, m.bytes);
	assert_int_equal(late->length, 4096);
	d.t->room = 0;
	io_finish(late, 0);
	case_turns(d.t);
	case_input(d.t, m.data + m.bytes - 4000, 4000, 4000);
	d.mount.store = &store_memory;
	pass(&d, 31 * (uint64_t)NS_PER_S);
	assert_non_null(d.t->conn);
	case_take(d.t, SIZE_MAX);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(hear(&d, &at, 0).type, NVME_TCP_C2H_DATA);
	hear_success(&d, &at, 0, 7);
	hear_success(&d, &at, 0, 8);
	while (count > 0)
		chunk_put(&d.t->worker.pool, taken[--count]);
	io_queue_close(&d, admin);
}

/* A queue that has sent the reason of an error to a host that does not read ends with its
 * controller. */
TEST(a_queue_that_ends_does_not_hold_up_its_controller)
{
	static const uint8_t wrong[8] = { 0x77, 0, 8, 0, 8 };
	struct conn *admin, *io;
	struct message m = { 0 };
	CLEANUP(disk_close) struct disk d;

	disk_open(&d, 16, 1);
	admin = io_queue(&d, 0);
	io = d.t->conn;
	case_input(d.t, wrong, sizeof(wrong), sizeof(wrong));
	assert_int_equal(nvme_of(io)->phase, NVME_PHASE_ENDING);
	d.t->conn = admin;
	put_command(&m, NVME_FABRICS, NVME_PROPERTY_SET, 5, (uint32_t[]){ 0, 0x14, 0x460000 }, NULL,
		    0, 0);
	say(&d, &m, SIZE);
	mailbox_run(&d.t->worker.mailbox);
	case_turns(d.t);
	assert_int_equal(nvme_queue_count(nvme_of(admin)->member->controller), 0);
	assert_int_equal(nvme_state(nvme_of(admin)->member->controller), NVME_DISABLED);
	assert_true(nvme_of(admin)->alive_ns > 0); /* to be enabled again, or to go */
}

/* Lists of ranges to trim are memory beside the pool, from their first byte on.  A host that leaves
 * them unfinished has a few, and is to send the others again. */
TEST(lists_in_memory_are_few)
{
	enum { COUNT = NVME_PAGES_MAX + 4, BYTES = 4096 };
	static uint8_t list[BYTES];
	struct message m = { 0 }, half = { 0 }, rest = { 0 };
	struct conn *admin;
	struct disk d;
	struct heard h;
	size_t at = 0;

	disk_open(&d, 64, 1);
	admin = io_queue(&d, 0);
	for (unsigned i = 0; i < COUNT; i++)
		put_command(&m, NVME_DSM, 1, (uint16_t)i, (uint32_t[]){ 255, 4, 0 }, NULL, 0,
			    BYTES);
	say(&d, &m, SIZE);
	for (unsigned i = 0; i < COUNT; i++) {
		h = hear(&d, &at, 0);
		assert_int_equal(h.type, NVME_TCP_R2T);
		put_h2c(&half, h.cid, h.ttag, 0, list, BYTES / 2, false);
		put_h2c(&rest, h.cid, h.ttag, BYTES / 2, list, BYTES / 2, true);
	}
	assert_int_equal(nvme_of(d.t->conn)->pages, 0); /* before their data arrives */
	say(&d, &half, SIZE);
	assert_int_equal(nvme_of(d.t->conn)->pages, NVME_PAGES_MAX);
	say(&d, &rest, SIZE);
	for (unsigned i = 0; i < COUNT; i++) {
		h = hear(&d, &at, 0);
		assert_int_equal(h.type, NVME_TCP_RSP);
		assert_int_equal(h.cid, i);
		assert_int_equal(h.status, i < NVME_PAGES_MAX ? NVME_SUCCESS : NVME_INTERRUPTED);
	}
	assert_int_equal(nvme_of(d.t->conn)->pages, 0);
	io_queue_close(&d, admin);
}

/* A Connect that time may cure is refused so that the host tries again. */
TEST(a_connect_may_come_again)
{
	struct message m = { 0 };
	struct heard h;
	CLEANUP(disk_close) struct disk d;
	size_t at = 0;

	disk_open(&d, 16, 1);
	d.t->worker.drain.on = true;
	put_connect(&m, 0, NVME_CNTLID_NEW, 8);
	say(&d, &m, SIZE);
	assert_int_equal(hear(&d, &at, 0).type, NVME_TCP_ICRESP);
	h = hear(&d, &at, 0);
	assert_int_equal(h.status, NVME_CONNECT_BUSY);
	assert_int_equal(hear(&d, &at, 0).status, NVME_SEQUENCE_ERROR | NVME_DNR);
}
