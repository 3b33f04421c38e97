/* Fuzzes what is judged of a PDU and of a command: nothing waits beyond what a PDU may be, and
 * what is let through lies within the namespace. */
#include "fuzz.h"
#include "nvme/wire/proto.h"
#include "nvme/wire/rdma_proto.h"
#include "nvme/wire/tcp_proto.h"

static void judge(const uint8_t *data, uint8_t digests)
{
	struct nvme_tcp_terms terms = { .header_digest = digests & 1, .data_digest = digests & 2 };
	struct nvme_tcp_pdu pdu;
	uint32_t plen;

	if (nvme_tcp_check_pdu(data, &terms, &pdu).fes)
		return;
	memcpy(&plen, data + 4, sizeof(plen));
	assert(pdu.header_bytes >= NVME_TCP_SHORT);
	assert(pdu.header_bytes <= NVME_TCP_HEADER_MAX + NVME_TCP_DIGEST);
	assert(pdu.pad_bytes <= NVME_TCP_DATA_MAX);
	if (pdu.data_bytes)
		assert((uint64_t)pdu.header_bytes + pdu.pad_bytes + pdu.data_bytes +
			       (terms.data_digest ? NVME_TCP_DIGEST : 0) ==
		       plen);
	else
		assert(pdu.header_bytes == plen || pdu.type == NVME_TCP_H2C_TERM);
}

static void check(const uint8_t *data, const uint8_t *more, const struct nvme_namespace *n)
{
	struct nvme_range range;
	struct nvme_sqe sqe;

	nvme_parse_sqe(data, &sqe);
	if (nvme_check_io(&sqe, n, &range) == NVME_SUCCESS) {
		assert(range.offset <= n->blocks << n->block_shift);
		assert(range.length <= (n->blocks << n->block_shift) - range.offset);
		assert(sqe.opcode == NVME_FLUSH || sqe.opcode == NVME_READ || !n->read_only);
		if (sqe.opcode == NVME_READ || sqe.opcode == NVME_WRITE)
			assert(range.length == sqe.sgl.length && range.length <= n->transfer_max);
	}
	if (nvme_check_dsm(more, 0, n, &range) == NVME_SUCCESS)
		assert(range.length <= (n->blocks << n->block_shift) - range.offset);
}

/* Private data of any length, and a descriptor as it is over RDMA. */
static void greet(const uint8_t *data, size_t bytes)
{
	static const uint32_t entries[] = { 32, 128 };
	struct nvme_rdma_request request;
	struct nvme_sgl sgl;

	if (nvme_rdma_parse_request(data, bytes, entries, &request) == NVME_RDMA_OK)
		assert(request.commands >= 2 && request.commands <= entries[request.qid != 0] &&
		       request.receives > 0);
	if (bytes < NVME_SQE)
		return;
	nvme_rdma_parse_sgl(data, &sgl);
	assert(sgl.type != NVME_SGL_TRANSPORT || sgl.length <= 0xffffff);
	assert(!sgl.invalidate || (sgl.type == NVME_SGL_TRANSPORT && sgl.length > 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static uint8_t connect[NVME_CONNECT_DATA];
	struct nvme_namespace n = { .blocks = 1000, .block_shift = 9, .transfer_max = 65536 };
	struct nvme_connect parsed;
	struct nvme_sqe sqe;
	uint64_t result;

	greet(data, bytes);
	if (bytes < 1 + NVME_SQE + NVME_DSM_RANGE)
		return 0;
	n.read_only = data[0] & 4;
	judge(data + 1, data[0]);
	check(data + 1, data + 1 + NVME_SQE, &n);
	memset(connect, 0, sizeof(connect));
	memcpy(connect, data, bytes < sizeof(connect) ? bytes : sizeof(connect));
	nvme_parse_sqe(data + 1, &sqe);
	if (nvme_parse_connect(&sqe, connect, &parsed, &result) == NVME_SUCCESS)
		assert(strlen(parsed.subnqn) < NVME_NQN_MAX &&
		       strlen(parsed.hostnqn) < NVME_NQN_MAX);
	return 0;
}
