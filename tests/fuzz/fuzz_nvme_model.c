/* Fuzzes NVMe/TCP with I/O queues of a host that keeps to the protocol: see disk_model.h.  The
 * first byte of the input chooses the digests. */
#include "disk_model.h"

#include "../unit/daemon/nvme_host.h"
#include "nvme/queue.h"

extern const struct service service_nvme;

enum { TRANSFER_MAX = 64 * 1024 };

static unsigned digests;
static uint8_t payload[DISK_SIZE];

/* ---- Of a host ---- */

static uint8_t said[TRANSFER_MAX + 256]; /* a PDU, before it is in a stream */

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
	stream_put(&c->says, said,
		   host_command(said, opcodes[a->kind], 1, (uint16_t)tag, cdw, in_capsule,
				in_capsule ? bytes : 0, bytes, digests));
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
		n = choose(d->in, 4) == 1 ? 1000 : TRANSFER_MAX;
		n = MIN(n, end - from);
		stream_put(&c->says, said,
			   host_data(said, tag, get_le16(r2t + 10), from,
				     payload + a->offset + from, n, from + n == end, digests));
	}
}

/* ---- Of the controller ---- */

static void hear_data(struct disk *d, struct client *c, const uint8_t *pdu, size_t bytes)
{
	uint16_t tag = get_le16(pdu + 8);
	uint32_t offset = get_le32(pdu + 12), length = get_le32(pdu + 16);
	size_t ddgst = digests & DDGST ? NVME_TCP_DIGEST : 0;
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
	assert(data[0] == NVME_TCP_ICRESP || !(digests & HDGST) || nvme_tcp_header_is_intact(data));
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
	size_t bytes = host_connect(said, "nqn.fuzz", 0, 0, NVME_CNTLID_NEW, DISK_TAGS, DISK_TAGS,
				    digests);
	struct conn *c;

	conn_new(&d->worker, -1);
	c = d->worker.conns;
	by_hand_input(c, said, bytes);
	return c;
}

static void connect_queue(struct disk *d, struct client *c, uint16_t qid, uint16_t cntlid)
{
	conn_new(&d->worker, -1);
	c->conn = d->worker.conns;
	stream_put(&c->says, said,
		   host_connect(said, "nqn.fuzz", 0, qid, cntlid, DISK_TAGS, DISK_TAGS, digests));
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
