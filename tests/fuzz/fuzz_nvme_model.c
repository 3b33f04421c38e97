/* Fuzzes NVMe/TCP with I/O queues of a host that keeps to the protocol: see disk_model.h.  The
 * first byte of the input chooses the digests. */
#include "disk_model.h"

#include "bytes.h"
#include "crc32c.h"
#include "nvme/queue.h"

extern const struct service service_nvme;

enum { HEADER_DIGEST = 1, DATA_DIGEST = 2, TRANSFER_MAX = 64 * 1024 };

static unsigned digests;
static uint8_t payload[DISK_SIZE];

/* ---- Of a host ---- */

static void say_digest(struct stream *s, const uint8_t *data, size_t bytes, bool wanted)
{
	uint8_t digest[NVME_TCP_DIGEST];

	put_le32(digest, crc32c(0, data, bytes));
	stream_put(s, digest, wanted ? sizeof(digest) : 0);
}

/* header: all of it but lengths and flags for digests. */
static void say_pdu(struct stream *s, uint8_t *header, uint8_t hlen, const uint8_t *data,
		    size_t bytes)
{
	bool hdgst = digests & HEADER_DIGEST, ddgst = bytes && (digests & DATA_DIGEST);
	size_t at = hlen + (hdgst ? NVME_TCP_DIGEST : 0U);

	header[1] |= (uint8_t)((hdgst ? NVME_TCP_HDGST : 0) | (ddgst ? NVME_TCP_DDGST : 0));
	header[2] = hlen;
	header[3] = bytes ? (uint8_t)at : 0;
	put_le32(header + 4, (uint32_t)(at + bytes + (ddgst ? NVME_TCP_DIGEST : 0)));
	stream_put(s, header, hlen);
	say_digest(s, header, hlen, hdgst);
	if (bytes)
		stream_put(s, data, bytes);
	say_digest(s, data, bytes, ddgst);
}

/* in_capsule: its data follows; else `bytes` are those that it moves. */
static void say_command(struct stream *s, uint8_t opcode, uint32_t nsid, uint16_t cid,
			const uint32_t cdw[3], const uint8_t *in_capsule, uint32_t bytes)
{
	uint8_t header[NVME_TCP_CMD] = { NVME_TCP_COMMAND, [8] = opcode, [9] = 0x40 };

	put_le16(header + 10, cid);
	put_le32(header + 12, nsid);
	put_le32(header + 40, bytes);
	header[47] = bytes ? in_capsule ? NVME_SGL_CAPSULE : NVME_SGL_TRANSPORT : 0;
	for (size_t i = 0; i < 3; i++)
		put_le32(header + 48 + 4 * i, cdw[i]);
	say_pdu(s, header, sizeof(header), in_capsule, in_capsule ? bytes : 0);
}

static void say_connect(struct stream *s, uint16_t qid, uint16_t cntlid)
{
	uint8_t data[NVME_CONNECT_DATA] = { 0 };
	uint8_t ic[NVME_TCP_IC] = { NVME_TCP_ICREQ, [2] = NVME_TCP_IC, [4] = NVME_TCP_IC };

	ic[11] = (uint8_t)digests;
	stream_put(s, ic, sizeof(ic));
	put_le16(data + 16, cntlid);
	strcpy((char *)data + 256, "nqn.fuzz");
	strcpy((char *)data + 512, "nqn.host");
	say_command(s, NVME_FABRICS, NVME_CONNECT, DISK_TAGS,
		    (uint32_t[]){ (uint32_t)qid << 16, DISK_TAGS - 1, 0 }, data, sizeof(data));
}

static void protocol_ask(struct disk *d, struct client *c, unsigned tag)
{
	static const uint8_t opcodes[] = { [IO_read] = NVME_READ,
					   [IO_write] = NVME_WRITE,
					   [IO_trim] = NVME_DSM,
					   [IO_write_zeroes] = NVME_WRITE_ZEROES };
	const struct asked *a = &c->asked[tag];
	uint32_t block = a->offset / DISK_BLOCK, blocks = a->length / DISK_BLOCK;
	uint32_t cdw[3] = { block, 0, blocks - 1 }, bytes = a->length;
	const uint8_t *in_capsule = NULL;
	uint8_t range[NVME_DSM_RANGE] = { 0 };

	if (a->kind == IO_write && a->length <= NVME_CAPSULE && choose(d->in, 2)) {
		disk_write(payload, a, a->offset, a->offset + a->length);
		in_capsule = payload + a->offset;
	}
	if (a->kind == IO_write_zeroes)
		bytes = 0;
	if (a->kind == IO_trim) {
		put_le32(range + 4, blocks);
		put_le64(range + 8, block);
		memcpy(cdw, (uint32_t[]){ 0, 4, 0 }, sizeof(cdw));
		in_capsule = range;
		bytes = sizeof(range);
	}
	say_command(&c->says, opcodes[a->kind], 1, (uint16_t)tag, cdw, in_capsule, bytes);
}

/* Answers an R2T, in as many PDUs as the input chooses. */
static void say_data(struct disk *d, struct client *c, const uint8_t *r2t)
{
	uint16_t tag = get_le16(r2t + 8);
	uint32_t from = get_le32(r2t + 12), end = from + get_le32(r2t + 16), n;
	const struct asked *a = &c->asked[MIN(tag, DISK_TAGS - 1)];

	assert(tag < DISK_TAGS && a->flying && a->kind == IO_write);
	assert(from < end && end <= a->length);
	disk_write(payload, a, a->offset + from, a->offset + end);
	for (; from < end; from += n) {
		uint8_t header[NVME_TCP_SHORT] = { NVME_TCP_H2C_DATA };

		n = choose(d->in, 4) == 1 ? 1000 : TRANSFER_MAX;
		n = MIN(n, end - from);
		header[1] = from + n == end ? NVME_TCP_LAST : 0;
		memcpy(header + 8, r2t + 8, 4); /* the command, and its tag */
		put_le32(header + 12, from);
		put_le32(header + 16, n);
		say_pdu(&c->says, header, sizeof(header), payload + a->offset + from, n);
	}
}

/* ---- Of the controller ---- */

static void hear_data(struct disk *d, struct client *c, const uint8_t *pdu, size_t bytes)
{
	uint16_t tag = get_le16(pdu + 8);
	uint32_t offset = get_le32(pdu + 12), length = get_le32(pdu + 16);
	size_t ddgst = digests & DATA_DIGEST ? NVME_TCP_DIGEST : 0;
	const uint8_t *data = pdu + pdu[3];

	assert(tag < DISK_TAGS && pdu[3] + length + ddgst == bytes);
	assert(!ddgst || crc32c(0, data, length) == get_le32(data + length));
	client_heard(d, c, tag, c->asked[tag].offset + offset, data, length);
	assert(!(pdu[1] & NVME_TCP_LAST) == (c->asked[tag].heard < c->asked[tag].length));
}

static void hear_completion(struct disk *d, struct client *c, const uint8_t *pdu)
{
	uint16_t tag = get_le16(pdu + 20);

	assert(get_le16(pdu + 22) >> 1 == NVME_SUCCESS);
	if (tag == DISK_TAGS)
		c->settled++; /* Connect */
	else
		client_answered(d, c, tag);
}

static size_t protocol_hear(struct disk *d, struct client *c, const uint8_t *data, size_t bytes)
{
	size_t whole = bytes < NVME_TCP_COMMON ? NVME_TCP_COMMON : get_le32(data + 4);

	if (bytes < whole)
		return 0;
	assert(data[0] == NVME_TCP_ICRESP || !(digests & HEADER_DIGEST) ||
	       nvme_tcp_header_is_intact(data));
	switch (data[0]) {
	case NVME_TCP_ICRESP:
		assert(get_le32(data + 12) >= TRANSFER_MAX);
		break;
	case NVME_TCP_RSP:
		hear_completion(d, c, data);
		break;
	case NVME_TCP_R2T:
		say_data(d, c, data);
		break;
	default:
		assert(data[0] == NVME_TCP_C2H_DATA);
		hear_data(d, c, data, whole);
	}
	return whole;
}

/* ---- The scene ---- */

static struct conn *connect_admin(struct disk *d)
{
	static struct stream s;
	struct conn *c;

	s.begin = s.end = 0;
	say_connect(&s, 0, NVME_CNTLID_NEW);
	say_command(&s, NVME_FABRICS, NVME_PROPERTY_SET, 0, (uint32_t[]){ 0, 0x14, 0x460001 }, NULL,
		    0);
	conn_new(&d->worker, -1);
	c = d->worker.conns;
	by_hand_input(c, s.data, s.end);
	return c;
}

static void connect_queue(struct disk *d, struct client *c, uint16_t qid, uint16_t cntlid)
{
	conn_new(&d->worker, -1);
	c->conn = d->worker.conns;
	say_connect(&c->says, qid, cntlid);
	client_say(d, c, DISK_CHUNK);
	assert(c->settled == 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static struct disk d;
	struct fuzz_input in = { data, bytes };
	struct worker *w = &d.worker;
	struct reason reason;
	struct conn *admin;

	digests = choose(&in, 4);
	disk_init(&d, &in, &service_nvme);
	options_set(&w->options, &nvme_key_table, &(struct nvme_options){ .nqn = "nqn.fuzz" });
	w->shared = service_nvme.shared_new(&w->options, "fuzz", &reason);
	if (!w->shared)
		abort();
	admin = connect_admin(&d);
	for (unsigned i = 0; i < DISK_CLIENTS; i++)
		connect_queue(&d, &d.clients[i], (uint16_t)(i + 1),
			      nvme_of(admin)->member->controller->cntlid);
	while (in.bytes > 0)
		disk_step(&d, DISK_BLOCK, TRANSFER_MAX);
	disk_drain(&d);
	for (unsigned i = 0; i < DISK_CLIENTS; i++)
		client_cut(&d, &d.clients[i]);
	conn_close(admin, CONN_END_PEER);
	by_hand_turns(w);
	disk_fini(&d);
	service_nvme.shared_free(w->shared);
	return 0;
}
