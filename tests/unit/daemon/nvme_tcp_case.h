/* A host of the service `nvme` over TCP, by its PDUs. */
#pragma once
#include "nvme_case.h"

#include "crc32c.h"
#include "nvme/wire/tcp_proto.h"

enum { HDGST = 1, DDGST = 2 };

/* ---- PDUs of a host ---- */

struct message {
	uint8_t data[256 * 1024];
	size_t bytes;
	unsigned digests;
};

static inline void put(struct message *m, const void *data, size_t bytes)
{
	assert_true(m->bytes + bytes <= sizeof(m->data));
	memcpy(m->data + m->bytes, data, bytes);
	m->bytes += bytes;
}

/* header: all of it but lengths, flags for digests and digests. */
static inline void put_pdu(struct message *m, uint8_t *header, uint8_t hlen, const void *data,
			   size_t bytes)
{
	size_t at = hlen + (m->digests & HDGST ? 4U : 0);
	uint8_t digest[4];

	header[1] |= (uint8_t)((m->digests & HDGST) | (bytes ? m->digests & DDGST : 0));
	header[2] = hlen;
	header[3] = bytes ? (uint8_t)at : 0;
	put_le32(header + 4, (uint32_t)(at + bytes + (bytes && (m->digests & DDGST) ? 4 : 0)));
	put(m, header, hlen);
	put_le32(digest, crc32c(0, header, hlen));
	put(m, digest, m->digests & HDGST ? 4 : 0);
	if (bytes)
		put(m, data, bytes);
	put_le32(digest, crc32c(0, data, bytes));
	put(m, digest, bytes && (m->digests & DDGST) ? 4 : 0);
}

static inline void put_icreq(struct message *m)
{
	uint8_t ic[128] = { NVME_TCP_ICREQ, [2] = 128, [4] = 128, [11] = (uint8_t)m->digests };

	put(m, ic, sizeof(ic));
}

/* A command whose data, if it has any, is in its capsule; length: bytes of the range that it
 * names. */
static inline void put_command(struct message *m, uint8_t opcode, uint8_t nsid, uint16_t cid,
			       const uint32_t cdw[3], const void *data, size_t bytes,
			       uint32_t length)
{
	uint8_t header[72] = { NVME_TCP_COMMAND, [8] = opcode, [9] = 0x40, [12] = nsid };

	put_le16(header + 10, cid);
	put_le32(header + 40, bytes ? (uint32_t)bytes : length);
	header[47] = bytes ? NVME_SGL_CAPSULE : NVME_SGL_TRANSPORT;
	for (size_t i = 0; i < 3; i++)
		put_le32(header + 48 + 4 * i, cdw[i]);
	put_pdu(m, header, sizeof(header), data, bytes);
}

/* The host's first words to become a queue of subnqn, and to enable the controller. */
static inline void put_connect_to(struct message *m, const char *subnqn, uint32_t kato_ms,
				  uint16_t qid, uint16_t cntlid, unsigned entries)
{
	uint8_t data[1024] = { 0 };

	put_icreq(m);
	put_le16(data + 16, cntlid);
	strcpy((char *)data + 256, subnqn);
	strcpy((char *)data + 512, "nqn.host");
	put_command(m, NVME_FABRICS, NVME_CONNECT, 0,
		    (uint32_t[]){ (uint32_t)qid << 16, entries - 1, kato_ms }, data, sizeof(data),
		    0);
	if (qid == 0)
		put_command(m, NVME_FABRICS, NVME_PROPERTY_SET, 1,
			    (uint32_t[]){ 0, 0x14, 0x460001 }, NULL, 0, 0);
}

static inline void put_connect(struct message *m, uint16_t qid, uint16_t cntlid, unsigned entries)
{
	put_connect_to(m, "nqn.unit", 0, qid, cntlid, entries);
}

static inline void put_h2c(struct message *m, uint16_t cid, uint16_t ttag, uint32_t offset,
			   const uint8_t *data, uint32_t bytes, bool last)
{
	uint8_t header[24] = { NVME_TCP_H2C_DATA, last ? NVME_TCP_LAST : 0 };

	put_le16(header + 8, cid);
	put_le16(header + 10, ttag);
	put_le32(header + 12, offset);
	put_le32(header + 16, bytes);
	put_pdu(m, header, sizeof(header), data, bytes);
}

/* ---- PDUs of the controller ---- */

struct heard {
	uint8_t type, flags;
	uint16_t cid, ttag, status;
	uint64_t result;
	uint32_t offset, length;
	const uint8_t *data;
};

/* The PDU at *at, of which the digests are right. */
static inline struct heard hear(const struct disk *d, size_t *at, unsigned digests)
{
	const uint8_t *p = d->t->out + *at;
	uint32_t plen = get_le32(p + 4), pdo = p[3];
	struct heard h = { .type = p[0], .flags = p[1] };

	assert_in_range(*at + plen, 0, d->t->out_bytes);
	*at += plen;
	if (h.type == NVME_TCP_ICRESP)
		return h;
	if (digests & HDGST)
		assert_true(nvme_tcp_header_is_intact(p));
	if (h.type == NVME_TCP_RSP) {
		h.result = get_le64(p + 8);
		h.cid = get_le16(p + 20);
		h.status = (uint16_t)(get_le16(p + 22) >> 1);
		return h;
	}
	h.cid = get_le16(p + 8);
	h.ttag = get_le16(p + 10);
	h.offset = get_le32(p + 12);
	h.length = get_le32(p + 16);
	h.data = p + pdo;
	if (h.type == NVME_TCP_C2H_DATA && (digests & DDGST))
		assert_int_equal(crc32c(0, h.data, h.length), get_le32(h.data + h.length));
	return h;
}

static inline void hear_success(const struct disk *d, size_t *at, unsigned digests, uint16_t cid)
{
	struct heard h = hear(d, at, digests);

	assert_int_equal(h.type, NVME_TCP_RSP);
	assert_int_equal(h.cid, cid);
	assert_int_equal(h.status, NVME_SUCCESS);
}

/* ---- The scene ---- */

/* A controller's admin queue is t->conn, unless another one was made after it. */
static inline void disk_open(struct disk *d, uint32_t chunks, uint32_t align)
{
	disk_new(d, chunks, align, 32);
}

static inline void disk_close(struct disk *d)
{
	assert_int_equal(d->mount.in_flight, 0);
	disk_free(d);
}

/* The admin queue sends m, `piece` bytes a turn; 0: at random. */
static inline void say(struct disk *d, const struct message *m, size_t piece)
{
	if (piece)
		case_input(d->t, m->data, m->bytes, piece);
	else
		case_input_random(d->t, m->data, m->bytes, 7);
}

/* Time passes, and the deadline if it is over. */
static inline void pass(struct disk *d, uint64_t ns)
{
	struct conn *c = d->t->conn;

	d->t->worker.turn.now_ns += ns;
	if (c->due.ns && d->t->worker.turn.now_ns >= c->due.ns) {
		c->due.ns = 0;
		c->flags |= CONN_DUE;
		conn_ready(c);
	}
	case_turns(d->t);
}
