/* Fuzzes a queue of an NVMe/TCP controller: see session.h.  The input's first bytes choose the
 * pieces, the digests, and which queue it is; with digests they are put right, or nothing would get
 * past them. */
#include "bytes.h"
#include "crc32c.h"
#include "nvme/queue.h"
#include "session.h"

enum { INPUT_MAX = 1 << 16 };
enum { DIGEST_HEADER = 1, DIGEST_DATA = 2, IO_QUEUE = 4, DIRECT = 8 };

extern const struct service service_nvme;

static void controller_init(struct session *s, uint8_t how)
{
	struct worker *w = &s->worker;
	struct reason reason;

	session_init(s, &service_nvme, 1);
	options_set(&w->options, &nvme_key_table, &(struct nvme_options){ .nqn = "nqn.fuzz" });
	w->pressure.free_lacked = UINT32_MAX;
	w->shared = service_nvme.shared_new(&w->options, "fuzz", &reason);
	if (!w->shared)
		abort();
	s->exports[0].align = how & DIRECT ? 512 : 1;
}

static void controller_fini(struct session *s)
{
	session_fini(s);
	service_nvme.shared_free(s->worker.shared);
}

/* ---- What a host says ---- */

static size_t put_command(uint8_t *to, uint8_t opcode, uint8_t fctype, const uint32_t cdw[3],
			  const uint8_t *data, uint32_t bytes, uint8_t how)
{
	size_t hdgst = how & DIGEST_HEADER ? NVME_TCP_DIGEST : 0, at = NVME_TCP_CMD + hdgst;
	size_t ddgst = bytes && (how & DIGEST_DATA) ? NVME_TCP_DIGEST : 0;

	memset(to, 0, at);
	to[0] = NVME_TCP_COMMAND;
	to[1] = (uint8_t)((hdgst ? NVME_TCP_HDGST : 0) | (ddgst ? NVME_TCP_DDGST : 0));
	to[2] = NVME_TCP_CMD;
	to[3] = bytes ? (uint8_t)at : 0;
	put_le32(to + 4, (uint32_t)(at + bytes + ddgst));
	to[8] = opcode;
	to[9] = 0x40;
	to[12] = fctype;
	put_le32(to + 8 + 32, bytes);
	to[8 + 39] = bytes ? NVME_SGL_CAPSULE : 0;
	for (size_t i = 0; i < 3; i++)
		put_le32(to + 8 + 40 + 4 * i, cdw[i]);
	if (hdgst)
		put_le32(to + NVME_TCP_CMD, crc32c(0, to, NVME_TCP_CMD));
	if (bytes)
		memcpy(to + at, data, bytes);
	if (ddgst)
		put_le32(to + at + bytes, crc32c(0, data, bytes));
	return at + bytes + ddgst;
}

/* A connection that has become a queue. */
static struct conn *queue_connect(struct session *s, uint16_t qid, uint16_t cntlid, uint8_t how)
{
	uint8_t to[4096] = { NVME_TCP_ICREQ, 0, NVME_TCP_IC, 0, NVME_TCP_IC, [11] = how & 3 };
	uint8_t data[NVME_CONNECT_DATA] = { 0 };
	size_t bytes = NVME_TCP_IC;
	struct conn *c;

	c = session_connect(s);
	put_le16(data + 16, cntlid);
	strcpy((char *)data + 256, "nqn.fuzz");
	strcpy((char *)data + 512, "nqn.host");
	bytes += put_command(to + bytes, NVME_FABRICS, NVME_CONNECT,
			     (uint32_t[]){ (uint32_t)qid << 16, 3, 0 }, data, sizeof(data), how);
	if (qid == 0)
		bytes += put_command(to + bytes, NVME_FABRICS, NVME_PROPERTY_SET,
				     (uint32_t[]){ 0, 0x14, 0x460001 }, NULL, 0, how);
	session_input(s, c, to, bytes, SIZE_MAX);
	assert(nvme_of(c)->phase == NVME_PHASE_LIVE && nvme_of(c)->busy == 0);
	return c;
}

/* Lengths that fit into what is left, and digests that are right. */
static void mend(uint8_t *data, size_t bytes, uint8_t how)
{
	while (bytes >= NVME_TCP_CMD + NVME_TCP_DIGEST) {
		size_t hlen = data[0] == NVME_TCP_COMMAND ? NVME_TCP_CMD : NVME_TCP_SHORT;
		size_t pdo = hlen + (how & DIGEST_HEADER ? NVME_TCP_DIGEST : 0), plen;
		size_t ddgst = how & DIGEST_DATA ? NVME_TCP_DIGEST : 0;

		plen = get_le32(data + 4) % (bytes + 1);
		data[1] = (uint8_t)((data[1] & ~3) | (how & DIGEST_HEADER ? 1 : 0));
		data[2] = (uint8_t)hlen;
		if (plen <= pdo + ddgst) {
			plen = pdo;
			data[3] = 0;
		} else {
			data[1] |= ddgst ? NVME_TCP_DDGST : 0;
			data[3] = (uint8_t)pdo;
			if (data[0] == NVME_TCP_COMMAND) {
				put_le32(data + 8 + 32, (uint32_t)(plen - pdo - ddgst));
				put_le64(data + 8 + 24, 0);
				data[8 + 39] = NVME_SGL_CAPSULE;
			}
		}
		if (plen > bytes)
			return;
		put_le32(data + 4, (uint32_t)plen);
		if (how & DIGEST_HEADER)
			put_le32(data + hlen, crc32c(0, data, hlen));
		if (plen > pdo && ddgst)
			put_le32(data + plen - ddgst, crc32c(0, data + pdo, plen - pdo - ddgst));
		data += plen;
		bytes -= plen;
	}
}

static uint64_t session_run(struct session *s, const uint8_t *data, size_t bytes, size_t piece,
			    uint8_t how)
{
	struct conn *admin, *c;

	controller_init(s, how);
	c = admin = queue_connect(s, 0, NVME_CNTLID_NEW, how);
	if (how & IO_QUEUE)
		c = queue_connect(s, 1, nvme_of(admin)->member->controller->cntlid, how);
	s->heard = 0;
	session_input(s, c, data, bytes, piece);
	s->ended = !s->queue;
	if (s->queue)
		conn_close(c, CONN_END_PEER);
	by_hand_turns(&s->worker);
	if (how & IO_QUEUE) {
		s->queue = admin;
		conn_close(admin, CONN_END_PEER);
		by_hand_turns(&s->worker);
	}
	controller_fini(s);
	return s->heard;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static struct session s;
	static uint8_t input[INPUT_MAX];
	uint8_t how;

	if (bytes < 2 || bytes - 2 > sizeof(input))
		return 0;
	how = data[1];
	memcpy(input, data + 2, bytes - 2);
	if (!(how & 16))
		mend(input, bytes - 2, how);
	/* The admin queue tells the controller's number, and logs what happened elsewhere.  A host
	 * that ends the connection hears no answer that was not sent when it said so.  Other
	 * differences have to come again: see fuzz_nbd.c. */
	for (unsigned attempt = 1;; attempt++) {
		uint64_t whole = session_run(&s, input, bytes - 2, SIZE_MAX, how);

		if (session_run(&s, input, bytes - 2, (size_t)data[0] % 64 + 1, how) == whole ||
		    !(how & IO_QUEUE) || s.ended)
			return 0;
		assert(attempt < 3);
	}
}
