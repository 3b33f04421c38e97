/* Fuzzes NBD with clients that keep to the protocol, in each form of requests and replies: see
 * disk_model.h.  The first byte of the input chooses the form. */
#include "disk_model.h"

#include "bytes.h"
#include "nbd/option_proto.h"
#include "nbd/proto.h"

extern const struct service service_nbd;

static bool structured;

/* ---- Of a client ---- */

static void say(struct client *c, uint64_t value, unsigned bytes)
{
	uint8_t be[8];

	put_be64(be, value);
	stream_put(&c->says, be + 8 - bytes, bytes);
}

static void say_option(struct client *c, uint32_t option, uint32_t bytes)
{
	static const uint8_t zeros[8];

	stream_put(&c->says, "IHAVEOPT", 8);
	say(c, option, 4);
	say(c, bytes, 4);
	stream_put(&c->says, zeros, bytes);
}

static void say_hello(struct client *c)
{
	say(c, 3, 4);
	if (structured)
		say_option(c, NBD_OPT_STRUCTURED_REPLY, 0);
	say_option(c, NBD_OPT_GO, 6);
}

static void protocol_ask(struct disk *d, struct client *c, unsigned tag)
{
	static const uint8_t types[] = { [IO_read] = NBD_CMD_READ,
					 [IO_write] = NBD_CMD_WRITE,
					 [IO_trim] = NBD_CMD_TRIM,
					 [IO_write_zeroes] = NBD_CMD_WRITE_ZEROES };
	const struct asked *a = &c->asked[tag];
	static uint8_t payload[DISK_SIZE];

	(void)d;
	say(c, 0x25609513, 4);
	say(c, 0, 2);
	say(c, types[a->kind], 2);
	say(c, tag, 8);
	say(c, a->offset, 8);
	say(c, a->length, 4);
	if (a->kind == IO_write) {
		disk_write(payload, a, a->offset, a->offset + a->length);
		stream_put(&c->says, payload + a->offset, a->length);
	}
}

/* ---- Of the server ---- */

/* The greeting, and what options are answered, up to the ACK of GO. */
static size_t hear_hello(struct client *c, const uint8_t *data, size_t bytes)
{
	size_t whole = c->settled ? 20 : 18;

	if (bytes < whole)
		return 0;
	if (!c->settled) {
		c->settled = 1;
		return whole;
	}
	whole += get_be32(data + 16);
	assert(get_be32(data + 12) < 0x80000000);
	if (bytes >= whole && get_be32(data + 8) == NBD_OPT_GO &&
	    get_be32(data + 12) == NBD_REP_ACK)
		c->settled = 2;
	return bytes >= whole ? whole : 0;
}

static size_t hear_simple(struct disk *d, struct client *c, const uint8_t *data, size_t bytes)
{
	uint64_t tag = bytes < 16 ? 0 : get_be64(data + 8);
	const struct asked *a = &c->asked[tag];
	uint32_t length;

	if (bytes < 16)
		return 0;
	assert(get_be32(data) == 0x67446698 && get_be32(data + 4) == 0 && tag < DISK_TAGS);
	length = a->kind == IO_read ? a->length : 0;
	if (bytes < 16 + length)
		return 0;
	if (length)
		client_heard(d, c, (unsigned)tag, a->offset, data + 16, length);
	client_answered(d, c, (unsigned)tag);
	return 16 + length;
}

static size_t hear_chunk(struct disk *d, struct client *c, const uint8_t *data, size_t bytes)
{
	size_t header = 20, length;
	uint16_t type;
	unsigned tag;

	if (bytes < header)
		return 0;
	length = get_be32(data + 16);
	if (bytes < header + length)
		return 0;
	assert(get_be32(data) == 0x668e33ef);
	type = get_be16(data + 6);
	tag = (unsigned)MIN(get_be64(data + 8), (uint64_t)DISK_TAGS);
	if (type == NBD_REPLY_TYPE_OFFSET_DATA)
		client_heard(d, c, tag, get_be64(data + header), data + header + 8,
			     (uint32_t)length - 8);
	else
		assert(type == NBD_REPLY_TYPE_NONE && length == 0);
	if (get_be16(data + 4) & NBD_REPLY_FLAG_DONE)
		client_answered(d, c, tag);
	return header + length;
}

static size_t protocol_hear(struct disk *d, struct client *c, const uint8_t *data, size_t bytes)
{
	if (c->settled < 2)
		return hear_hello(c, data, bytes);
	return structured ? hear_chunk(d, c, data, bytes) : hear_simple(d, c, data, bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static struct disk d;
	struct fuzz_input in = { data, bytes };

	structured = choose(&in, 2);
	disk_init(&d, &in, &service_nbd);
	for (unsigned i = 0; i < DISK_CLIENTS; i++) {
		conn_new(&d.worker, -1);
		d.clients[i].conn = d.worker.conns;
		say_hello(&d.clients[i]);
	}
	by_hand_turns(&d.worker);
	while (in.bytes > 0)
		disk_step(&d, 1, DISK_SIZE);
	disk_drain(&d);
	disk_fini(&d);
	return 0;
}
