/* Service `nbd` on a memory export, without a kernel: the messages of a client at every split, and
 * the server's answers. */
#include "service_case.h"

#include <arpa/inet.h>
#include <endian.h>

#include "nbd/nbd.h"
#include "nbd/option_proto.h"
#include "store.h"

enum { SIZE = 4 * 1024 * 1024 };

extern const struct service service_nbd;
extern const struct store store_memory;

struct disk {
	struct export_options options;
	struct export export;
	struct mount *mount;
};

/* ---- Messages of a client ---- */

struct message {
	uint8_t *data;
	size_t bytes;
};

static void put(struct message *m, const void *data, size_t bytes)
{
	m->data = realloc(m->data, m->bytes + bytes + 1);
	assert_non_null(m->data);
	if (bytes)
		memcpy(m->data + m->bytes, data, bytes);
	m->bytes += bytes;
}

static void put16(struct message *m, uint16_t v)
{
	v = htobe16(v);
	put(m, &v, sizeof(v));
}

static void put32(struct message *m, uint32_t v)
{
	v = htobe32(v);
	put(m, &v, sizeof(v));
}

static void put64(struct message *m, uint64_t v)
{
	v = htobe64(v);
	put(m, &v, sizeof(v));
}

static void put_option(struct message *m, uint32_t option, const void *data, uint32_t bytes)
{
	put(m, "IHAVEOPT", 8);
	put32(m, option);
	put32(m, bytes);
	put(m, data, bytes);
}

static void put_go(struct message *m)
{
	put_option(m, NBD_OPT_GO, "\0\0\0\0\0\0", 6);
}

static void put_request(struct message *m, uint16_t flags, uint16_t type, uint64_t cookie,
			uint64_t offset, uint32_t length)
{
	put32(m, 0x25609513);
	put16(m, flags);
	put16(m, type);
	put64(m, cookie);
	put64(m, offset);
	put32(m, length);
}

static void put_pattern(struct message *m, size_t bytes, unsigned seed)
{
	CLEANUP(free_p) uint8_t *pattern = malloc(bytes);

	assert_non_null(pattern);
	for (size_t i = 0; i < bytes; i++)
		pattern[i] = (uint8_t)((i * 7 + seed) % 251 + 1);
	put(m, pattern, bytes);
}

static struct message hello(bool structured)
{
	struct message m = { 0 };

	put32(&m, 3);
	if (structured)
		put_option(&m, NBD_OPT_STRUCTURED_REPLY, NULL, 0);
	put_go(&m);
	return m;
}

/* ---- Messages of the server ---- */

struct ear {
	const struct service_case *t;
	size_t at;
};

static const uint8_t *hear(struct ear *e, size_t bytes)
{
	const uint8_t *p = e->t->out + e->at;

	assert_in_range(e->at + bytes, 0, e->t->out_bytes);
	e->at += bytes;
	return p;
}

static uint64_t hear_number(struct ear *e, size_t bytes)
{
	const uint8_t *p = hear(e, bytes);
	uint64_t v = 0;

	while (bytes--)
		v = v << 8 | *p++;
	return v;
}

/* The handshake's answers, up to and with the ACK of GO. */
static void hear_hello(struct ear *e)
{
	assert_memory_equal(hear(e, 16), "NBDMAGICIHAVEOPT", 16);
	assert_int_equal(hear_number(e, 2), 3);
	for (;;) {
		uint32_t option, type, length;
		size_t data;

		assert_true(hear_number(e, 8) == 0x3e889045565a9);
		option = (uint32_t)hear_number(e, 4);
		type = (uint32_t)hear_number(e, 4);
		length = (uint32_t)hear_number(e, 4);
		assert_false(type & 0x80000000);
		data = e->at;
		if (type == NBD_REP_INFO && hear_number(e, 2) == NBD_INFO_EXPORT)
			assert_int_equal(hear_number(e, 8), SIZE);
		e->at = data;
		hear(e, length);
		if (option == NBD_OPT_GO && type == NBD_REP_ACK)
			return;
	}
}

static void hear_simple(struct ear *e, uint64_t cookie, uint32_t error)
{
	assert_int_equal(hear_number(e, 4), 0x67446698);
	assert_int_equal(hear_number(e, 4), error);
	assert_int_equal(hear_number(e, 8), cookie);
}

static void hear_pattern(struct ear *e, size_t bytes, unsigned seed)
{
	const uint8_t *p = hear(e, bytes);

	for (size_t i = 0; i < bytes; i++)
		assert_int_equal(p[i], (i * 7 + seed) % 251 + 1);
}

/* ---- The server ---- */

static void disk_open(struct disk *d, struct service_case *t)
{
	struct reason reason;

	*d = (struct disk){ .options = { .size = SIZE, .queue_depth = 8 } };
	d->export = (struct export){ .name = "disk", .options = &d->options, .fd = -1 };
	assert_int_equal(store_memory.open(&d->export, &reason), 0);
	d->mount = calloc(1, sizeof(*d->mount));
	assert_non_null(d->mount);
	*d->mount = (struct mount){ .export = &d->export,
				    .store = &store_memory,
				    .worker = &t->worker };
	t->worker.mounts = d->mount;
	t->worker.mount_count = 1;
}

static void disk_close(struct disk *d)
{
	assert_int_equal(d->mount->in_flight, 0);
	store_memory.close(&d->export);
	free(d->mount);
}

/* A client sends m at splits that `seed` chooses (0: all at once), and reads the bytes after the
 * greeting. */
static struct service_case *serve(struct disk *d, const struct message *m, unsigned seed)
{
	struct service_case *t = case_new(&service_nbd, 64, 16384);

	disk_open(d, t);
	if (seed)
		case_input_random(t, m->data, m->bytes, seed);
	else
		case_input(t, m->data, m->bytes, m->bytes);
	return t;
}

TEST(written_data_is_read_back_at_every_split)
{
	struct message m = hello(false);

	put_request(&m, 0, NBD_CMD_WRITE, 1, 4096, 100000);
	put_pattern(&m, 100000, 5);
	put_request(&m, NBD_CMD_FLAG_FUA, NBD_CMD_WRITE, 2, 7, 3);
	put_pattern(&m, 3, 9);
	put_request(&m, 0, NBD_CMD_READ, 3, 4096, 100000);
	put_request(&m, 0, NBD_CMD_READ, 4, 7, 3);
	put_request(&m, 0, NBD_CMD_FLUSH, 5, 0, 0);
	for (unsigned seed = 0; seed < 20; seed++) {
		CLEANUP(disk_close) struct disk d;
		CLEANUP(case_free_p) struct service_case *t = serve(&d, &m, seed);
		struct ear e = { .t = t };

		assert_non_null(t->conn);
		hear_hello(&e);
		hear_simple(&e, 1, 0);
		hear_simple(&e, 2, 0);
		hear_simple(&e, 3, 0);
		hear_pattern(&e, 100000, 5);
		hear_simple(&e, 4, 0);
		hear_pattern(&e, 3, 9);
		hear_simple(&e, 5, 0);
		assert_int_equal(e.at, t->out_bytes);
	}
	free(m.data);
}

TEST(a_read_larger_than_the_pool_is_sent_in_order)
{
	struct message m = hello(false), read = { 0 };
	struct disk d;
	struct service_case *t;
	struct ear e;

	for (unsigned i = 0; i < 3; i++) {
		put_request(&m, 0, NBD_CMD_WRITE, i, i * 1000000, 1000000);
		put_pattern(&m, 1000000, i);
	}
	t = serve(&d, &m, 1);
	e = (struct ear){ .t = t };
	hear_hello(&e);
	for (unsigned i = 0; i < 3; i++)
		hear_simple(&e, i, 0);
	put_request(&read, 0, NBD_CMD_READ, 9, 0, 1000000);
	put_request(&read, 0, NBD_CMD_READ, 10, 0, 10);
	put_request(&read, 0, NBD_CMD_READ, 11, 0, 3000000);
	put_request(&read, 0, NBD_CMD_READ, 12, 1000000, 1000);
	t->room = 0;
	case_input(t, read.data, read.bytes, read.bytes);
	for (unsigned i = 0; i < 100000 && t->conn->tx.bytes; i++)
		case_take(t, 5000);
	hear_simple(&e, 9, 0);
	hear_pattern(&e, 1000000, 0);
	hear_simple(&e, 10, 0);
	hear_pattern(&e, 10, 0);
	hear_simple(&e, 11, 0);
	for (unsigned i = 0; i < 3; i++)
		hear_pattern(&e, 1000000, i);
	hear_simple(&e, 12, 0);
	hear_pattern(&e, 1000, 1);
	assert_int_equal(e.at, t->out_bytes);
	case_free(t);
	disk_close(&d);
	free(m.data);
	free(read.data);
}

TEST(a_read_that_waited_for_room_continues)
{
	struct message m = hello(true), read = { 0 };
	struct service_case *t = case_new(&service_nbd, 256, 16384);
	struct disk d;
	size_t before;

	disk_open(&d, t);
	memset(d.export.memory, 7, SIZE);
	case_input(t, m.data, m.bytes, m.bytes);
	put_request(&read, 0, NBD_CMD_READ, 1, 0, SIZE);
	t->room = 0;
	before = t->out_bytes;
	case_input(t, read.data, read.bytes, read.bytes);
	for (unsigned i = 0; i < 1000 && t->conn->tx.bytes; i++)
		case_take(t, 1000000);
	assert_in_range(t->out_bytes - before, SIZE, SIZE + SIZE / 100);
	case_free(t);
	disk_close(&d);
	free(m.data);
	free(read.data);
}

TEST(a_client_silent_within_a_message_is_closed_and_an_idle_one_is_not)
{
	const uint64_t second = NS_PER_S;
	struct message m = hello(false);

	put_request(&m, 0, NBD_CMD_WRITE, 1, 0, 1000);
	for (size_t bytes = 0; bytes <= m.bytes; bytes++) {
		CLEANUP(disk_close) struct disk d;
		CLEANUP(case_free_p) struct service_case *t = case_new(&service_nbd, 64, 16384);
		bool rests = bytes == m.bytes - 28; /* the handshake is over, nothing has begun */

		disk_open(&d, t);
		if (bytes)
			case_input(t, m.data, bytes, bytes);
		case_pass(t, 9 * second);
		assert_non_null(t->conn);
		case_pass(t, 22 * second);
		assert_int_equal(t->conn != NULL, rests);
		assert_int_equal(t->ends[CONN_END_PROTOCOL], !rests);
	}
	free(m.data);
}

/* The client sends m at `rate` bytes a second.  Returns the seconds after which it was closed, 0:
 * it was not. */
static unsigned drip(const struct message *m, size_t first, size_t rate)
{
	struct disk d;
	struct service_case *t = case_new(&service_nbd, 64, 16384);
	unsigned seconds = 0;
	bool ended;

	disk_open(&d, t);
	if (first)
		case_input(t, m->data, first, first);
	for (size_t at = first; at < m->bytes && t->conn; at += rate, seconds++) {
		case_input(t, m->data + at, MIN(rate, m->bytes - at), rate);
		case_pass(t, NS_PER_S);
	}
	ended = !t->conn;
	assert_int_equal(t->ends[CONN_END_PROTOCOL], ended);
	case_free(t);
	disk_close(&d);
	return ended ? seconds : 0;
}

TEST(a_dripping_client_is_closed_like_a_silent_one)
{
	struct message m = hello(false);
	size_t served = m.bytes;

	put_request(&m, 0, NBD_CMD_WRITE, 1, 0, 1000);
	put_pattern(&m, 1000, 1);
	assert_in_range(drip(&m, 0, 1), 10, 15); /* its flags, and then an option */
	assert_in_range(drip(&m, 4, 1), 10, 11);
	assert_in_range(drip(&m, served, 1), 30, 31);
	assert_in_range(drip(&m, served + 28, 1), 30, 31);
	assert_int_equal(drip(&m, served, 40), 0);
	free(m.data);
}

TEST(each_request_has_its_time)
{
	struct message m = hello(false);
	size_t served = m.bytes;

	for (unsigned i = 0; i < 50; i++) {
		put_request(&m, 0, NBD_CMD_WRITE, i, i ? 0 : SIZE, 100); /* the first is refused */
		put_pattern(&m, 100, i);
	}
	assert_int_equal(drip(&m, served, 77), 0); /* always within one */
	free(m.data);
}

TEST(a_long_payload_has_the_time_that_it_needs_and_no_more)
{
	enum { LENGTH = SIZE / 2 };

	for (unsigned refused = 0; refused < 2; refused++) {
		struct message m = hello(false);
		size_t served = m.bytes;

		put_request(&m, 0, NBD_CMD_WRITE, 1, refused * SIZE, LENGTH);
		put_pattern(&m, LENGTH, 1);
		assert_int_equal(drip(&m, served, BLOCK_PART_MAX / 25), 0);
		assert_in_range(drip(&m, served, BLOCK_PART_MAX / 40), 30, 31);
		free(m.data);
	}
}

TEST(a_refused_write_s_payload_is_dropped)
{
	struct message m = hello(false);

	put_request(&m, 0, NBD_CMD_WRITE, 1, SIZE - 10, 50000);
	put_pattern(&m, 50000, 1);
	put_request(&m, 0, 77, 2, 0, 0);
	put_request(&m, 0, NBD_CMD_READ, 3, UINT64_MAX - 5, 10);
	put_request(&m, 0, NBD_CMD_FLUSH, 4, 0, 0);
	put_request(&m, 0, NBD_CMD_DISC, 5, 0, 0);
	for (unsigned seed = 0; seed < 5; seed++) {
		CLEANUP(disk_close) struct disk d;
		CLEANUP(case_free_p) struct service_case *t = serve(&d, &m, seed);
		struct ear e = { .t = t };

		hear_hello(&e);
		hear_simple(&e, 1, NBD_ENOSPC);
		hear_simple(&e, 2, NBD_EINVAL);
		hear_simple(&e, 3, NBD_EINVAL);
		hear_simple(&e, 4, 0);
		assert_int_equal(e.at, t->out_bytes);
		assert_null(t->conn);
		assert_int_equal(t->ends[CONN_END_PEER], 1);
	}
	free(m.data);
}

TEST(a_refusal_follows_the_payload)
{
	struct message m = hello(false);
	struct disk d;
	struct service_case *t;
	size_t heard;

	put_request(&m, 0, NBD_CMD_WRITE, 1, SIZE - 10, 50000);
	put_pattern(&m, 50000, 1);
	t = serve(&d, &(struct message){ m.data, m.bytes - 1 }, 0);
	heard = t->out_bytes;
	case_input(t, m.data + m.bytes - 1, 1, 1);
	assert_int_equal(t->out_bytes, heard + 16);
	hear_simple(&(struct ear){ .t = t, .at = heard }, 1, NBD_ENOSPC);
	case_free(t);
	disk_close(&d);
	free(m.data);
}
