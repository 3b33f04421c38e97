/* Private data and keyed descriptors.  See nvme/wire/rdma_proto.h. */
#include "rdma_proto.h"

#include "bytes.h"

enum nvme_rdma_status nvme_rdma_parse_request(const uint8_t *data, size_t bytes,
					      const uint32_t entries[static 2],
					      struct nvme_rdma_request *ret)
{
	if (bytes < NVME_RDMA_REQUEST)
		return NVME_RDMA_LENGTH;
	if (get_le16(data) != 0)
		return NVME_RDMA_FORMAT;
	*ret = (struct nvme_rdma_request){
		.qid = get_le16(data + 2),
		.receives = get_le16(data + 4),
		.commands = get_le16(data + 6) + 1U, /* zero-based */
	};
	if (ret->qid > NVME_QUEUES_MAX)
		return NVME_RDMA_QID;
	if (ret->commands < 2 || ret->commands > entries[ret->qid != 0])
		return NVME_RDMA_SENDS;
	return ret->receives == 0 ? NVME_RDMA_RECEIVES : NVME_RDMA_OK;
}

void nvme_rdma_build_accept(uint8_t to[static NVME_RDMA_ACCEPT], uint16_t receives)
{
	memset(to, 0, NVME_RDMA_ACCEPT);
	put_le16(to + 2, receives); /* CRQSIZE */
}

void nvme_rdma_build_reject(uint8_t to[static NVME_RDMA_REJECT], enum nvme_rdma_status status)
{
	put_le16(to, 0);
	put_le16(to + 2, (uint16_t)status);
}

void nvme_rdma_parse_sgl(const uint8_t sqe[static NVME_SQE], struct nvme_sgl *ret)
{
	const uint8_t *sgl = sqe + 24;

	*ret = (struct nvme_sgl){
		.address = get_le64(sgl),
		.length = get_le32(sgl + 8),
		.type = sgl[15] == NVME_SGL_TRANSPORT ? NVME_SGL_NONE : sgl[15],
	};
	if (sgl[15] != NVME_RDMA_KEYED && sgl[15] != NVME_RDMA_KEYED_INVALIDATE)
		return;
	ret->length &= 0xffffff;
	ret->key = get_le32(sgl + 11);
	ret->invalidate = sgl[15] == NVME_RDMA_KEYED_INVALIDATE && ret->length > 0;
	ret->type = NVME_SGL_TRANSPORT;
}
