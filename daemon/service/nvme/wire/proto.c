/* NVMe's commands and completions.  See nvme/wire/proto.h. */
#include "proto.h"

#include <errno.h>

#include "bytes.h"
#include "printable.h"
#include "util.h"

enum {
	FLAGS_FUSE = 0x03,
	FLAGS_PSDT = 0xc0,
	PSDT_SGL = 0x40,
	CATTR_NO_FLOW_CONTROL = 1 << 2,
	/* Of Connect's data. */
	CONNECT_CNTLID = 16,
	CONNECT_SUBNQN = 256,
	CONNECT_HOSTNQN = 512,
};

void nvme_parse_sqe(const uint8_t data[static NVME_SQE], struct nvme_sqe *ret)
{
	*ret = (struct nvme_sqe){
		.opcode = data[0],
		.flags = data[1],
		.cid = get_le16(data + 2),
		.fctype = data[4],
		.nsid = get_le32(data + 4),
		.sgl = { .address = get_le64(data + 24),
			 .length = get_le32(data + 32),
			 .type = data[39] },
		.cdw10 = get_le32(data + 40),
		.cdw11 = get_le32(data + 44),
		.cdw12 = get_le32(data + 48),
		.cdw13 = get_le32(data + 52),
		.cdw14 = get_le32(data + 56),
		.cdw15 = get_le32(data + 60),
	};
}

enum nvme_direction nvme_direction(const struct nvme_sqe *sqe)
{
	static const enum nvme_direction by_bits[] = { NVME_NO_DATA, NVME_TO_CONTROLLER,
						       NVME_TO_HOST, NVME_TO_HOST };

	return by_bits[(sqe->opcode == NVME_FABRICS ? sqe->fctype : sqe->opcode) & 3];
}

void nvme_build_cqe(uint8_t to[static NVME_CQE], const struct nvme_cqe *cqe)
{
	put_le64(to, cqe->result);
	put_le16(to + 8, cqe->sqhd);
	put_le16(to + 10, cqe->sqid);
	put_le16(to + 12, cqe->cid);
	put_le16(to + 14, (uint16_t)(cqe->status << 1)); /* bit 0: the phase, of PCIe only */
}

/* ---- Connect ---- */

static bool is_printable(const char *text)
{
	bool printable = true;

	while (*text && printable)
		text += printable_next(text, &printable);
	return printable;
}

static uint16_t take_nqn(const uint8_t *data, unsigned offset, char ret[static NVME_NQN_MAX],
			 uint64_t *ret_result)
{
	*ret_result = offset | NVME_IN_DATA;
	if (!memchr(data + offset, '\0', NVME_NQN_MAX))
		return NVME_CONNECT_INVALID | NVME_DNR;
	memcpy(ret, data + offset, NVME_NQN_MAX);
	return is_printable(ret) ? NVME_SUCCESS : NVME_CONNECT_INVALID | NVME_DNR;
}

uint16_t nvme_parse_connect(const struct nvme_sqe *sqe, const uint8_t *data,
			    struct nvme_connect *ret, uint64_t *ret_result)
{
	uint16_t status;

	*ret_result = 0;
	*ret = (struct nvme_connect){
		.qid = (uint16_t)(sqe->cdw10 >> 16),
		.sqsize = (uint16_t)sqe->cdw11,
		.no_flow_control = (sqe->cdw11 >> 16) & CATTR_NO_FLOW_CONTROL,
		.kato_ms = sqe->cdw12,
		.cntlid = get_le16(data + CONNECT_CNTLID),
	};
	if ((sqe->cdw10 & 0xffff) != 0)
		return NVME_CONNECT_FORMAT | NVME_DNR;
	memcpy(ret->hostid, data, NVME_HOSTID);
	status = take_nqn(data, CONNECT_SUBNQN, ret->subnqn, ret_result);
	if (!status)
		status = take_nqn(data, CONNECT_HOSTNQN, ret->hostnqn, ret_result);
	return status;
}

/* ---- I/O ---- */

static bool is_out_of_range(uint64_t first, uint64_t count, uint64_t blocks)
{
	return first > blocks || count > blocks - first;
}

/* Checks SLBA and NLB, and computes the range. */
static uint16_t check_range(const struct nvme_sqe *sqe, const struct nvme_namespace *n,
			    struct nvme_range *ret)
{
	uint64_t first = (uint64_t)sqe->cdw11 << 32 | sqe->cdw10;
	uint64_t count = (sqe->cdw12 & 0xffff) + 1ULL;

	if (is_out_of_range(first, count, n->blocks))
		return NVME_LBA_RANGE | NVME_DNR;
	ret->offset = first << n->block_shift;
	ret->length = count << n->block_shift;
	return NVME_SUCCESS;
}

static uint16_t check_transfer(const struct nvme_sqe *sqe, const struct nvme_namespace *n,
			       struct nvme_range *ret)
{
	uint16_t status = check_range(sqe, n, ret);

	if (status)
		return status;
	if (ret->length > n->transfer_max)
		return NVME_INVALID_FIELD | NVME_DNR;
	return ret->length == sqe->sgl.length ? NVME_SUCCESS : NVME_SGL_LENGTH_INVALID | NVME_DNR;
}

/* Checks the data length of Dataset Management.  It may be longer than its ranges: Linux always
 * sends 256 of them. */
static uint16_t check_ranges(const struct nvme_sqe *sqe)
{
	return sqe->sgl.length >= nvme_dsm_ranges(sqe) * NVME_DSM_RANGE &&
			       sqe->sgl.length <= NVME_DSM_RANGES_MAX * NVME_DSM_RANGE
		       ? NVME_SUCCESS
		       : NVME_SGL_LENGTH_INVALID | NVME_DNR;
}

static bool has_data_sgl(const struct nvme_sqe *sqe)
{
	return sqe->sgl.type == NVME_SGL_CAPSULE || sqe->sgl.type == NVME_SGL_TRANSPORT;
}

static bool is_io(uint8_t opcode)
{
	return opcode == NVME_FLUSH || opcode == NVME_WRITE || opcode == NVME_READ ||
	       opcode == NVME_WRITE_ZEROES || opcode == NVME_DSM;
}

uint16_t nvme_check_io(const struct nvme_sqe *sqe, const struct nvme_namespace *n,
		       struct nvme_range *ret)
{
	uint16_t status = NVME_SUCCESS;

	*ret = (struct nvme_range){ 0 };
	if (!is_io(sqe->opcode))
		return NVME_INVALID_OPCODE | NVME_DNR;
	if ((sqe->flags & (FLAGS_PSDT | FLAGS_FUSE)) != PSDT_SGL)
		return NVME_INVALID_FIELD | NVME_DNR;
	if (!n)
		return NVME_INVALID_NAMESPACE | NVME_DNR;
	if (nvme_direction(sqe) != NVME_NO_DATA && !has_data_sgl(sqe))
		return NVME_SGL_TYPE_INVALID | NVME_DNR;
	if (sqe->opcode == NVME_READ || sqe->opcode == NVME_WRITE)
		status = check_transfer(sqe, n, ret);
	else if (sqe->opcode == NVME_WRITE_ZEROES)
		status = check_range(sqe, n, ret);
	else if (sqe->opcode == NVME_DSM)
		status = check_ranges(sqe);
	if (!status && n->read_only && sqe->opcode != NVME_READ && sqe->opcode != NVME_FLUSH)
		status = NVME_WRITE_PROTECTED | NVME_DNR;
	return status;
}

uint16_t nvme_check_dsm(const uint8_t *data, unsigned index, const struct nvme_namespace *n,
			struct nvme_range *ret)
{
	const uint8_t *range = data + (size_t)index * NVME_DSM_RANGE;
	uint64_t count = get_le32(range + 4), first = get_le64(range + 8);

	if (is_out_of_range(first, count, n->blocks))
		return NVME_LBA_RANGE | NVME_DNR;
	ret->offset = first << n->block_shift;
	ret->length = count << n->block_shift;
	return NVME_SUCCESS;
}

/* DNR (do not retry) is not set for errors that may be temporary; for others it is, or Linux would
 * retry five times. */
uint16_t nvme_status_of(int error, uint8_t opcode)
{
	switch (error) {
	case 0:
		return NVME_SUCCESS;
	case EIO:
		return (opcode == NVME_READ ? NVME_READ_ERROR : NVME_WRITE_FAULT) | NVME_DNR;
	case ENOSPC:
	case EDQUOT:
	case EFBIG:
		return NVME_CAPACITY | NVME_DNR;
	case EROFS:
	case EPERM:
		return NVME_WRITE_PROTECTED | NVME_DNR;
	case ENOMEM:
	case EAGAIN:
	case EBUSY:
	case ECANCELED:
		return NVME_INTERRUPTED;
	default:
		return NVME_INTERNAL_ERROR | NVME_DNR;
	}
}
