/* A host of the service `nvme` over TCP, by its PDUs. */
#pragma once
#include "nvme_case.h"

#include "nvme_host.h"

/* ---- PDUs of a host ---- */

struct message {
	uint8_t data[256 * 1024];
	size_t bytes;
	unsigned digests;
};

static inline uint8_t *message_end(struct message *m, size_t bytes)
{
	assert_true(m->bytes + bytes + 1024 <= sizeof(m->data));
	return m->data + m->bytes;
}

static inline void put_command(struct message *m, uint8_t opcode, uint8_t nsid, uint16_t cid,
			       const uint32_t cdw[3], const void *data, size_t bytes,
			       uint32_t length)
{
	m->bytes += host_command(message_end(m, bytes), opcode, nsid, cid, cdw, data, bytes, length,
				 m->digests);
}

static inline void put_connect_to(struct message *m, const char *subnqn, uint32_t kato_ms,
				  uint16_t qid, uint16_t cntlid, unsigned entries)
{
	m->bytes += host_connect(message_end(m, 2 * NVME_CONNECT_DATA), subnqn, kato_ms, qid,
				 cntlid, entries, 0, m->digests);
}

static inline void put_connect(struct message *m, uint16_t qid, uint16_t cntlid, unsigned entries)
{
	put_connect_to(m, "nqn.unit", 0, qid, cntlid, entries);
}

static inline void put_h2c(struct message *m, uint16_t cid, uint16_t ttag, uint32_t offset,
			   const uint8_t *data, uint32_t bytes, bool last)
{
	m->bytes +=
		host_data(message_end(m, bytes), cid, ttag, offset, data, bytes, last, m->digests);
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
