/* Fuzzes a queue of an NVMe/TCP controller: see session.h.  The input's first bytes choose the
 * pieces, the digests, and which queue it is; with digests they are put right, or nothing would get
 * past them. */
#include "../unit/daemon/nvme_host.h"
#include "nvme/queue.h"
#include "session.h"

enum { INPUT_MAX = 1 << 16 };
enum { IO_QUEUE = 4, DIRECT = 8 }; /* besides HDGST and DDGST */

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

/* A connection that has become a queue. */
static struct conn *queue_connect(struct session *s, uint16_t qid, uint16_t cntlid, uint8_t how)
{
	struct conn *c = session_connect(s);
	uint8_t to[4096];

	session_input(s, c, to, host_connect(to, "nqn.fuzz", 0, qid, cntlid, 4, 0, how & 3),
		      SIZE_MAX);
	assert(nvme_of(c)->phase == NVME_PHASE_LIVE && nvme_of(c)->busy == 0);
	return c;
}

/* Lengths that fit into what is left, and digests that are right. */
static void mend(uint8_t *data, size_t bytes, uint8_t how)
{
	while (bytes >= NVME_TCP_CMD + NVME_TCP_DIGEST) {
		size_t hlen = data[0] == NVME_TCP_COMMAND ? NVME_TCP_CMD : NVME_TCP_SHORT;
		size_t pdo = hlen + (how & HDGST ? NVME_TCP_DIGEST : 0), plen;
		size_t ddgst = how & DDGST ? NVME_TCP_DIGEST : 0;

		plen = get_le32(data + 4) % (bytes + 1);
		data[1] = (uint8_t)((data[1] & ~3) | (how & HDGST ? 1 : 0));
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
		if (how & HDGST)
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
