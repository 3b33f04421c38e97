/* NVMe/TCP's PDUs.  See nvme/wire/tcp_proto.h. */
#include "tcp_proto.h"

#include "bytes.h"
#include "crc32c.h"
#include "util.h"

/* Offsets in headers. */
enum {
	AT_TYPE = 0,
	AT_FLAGS = 1,
	AT_HLEN = 2,
	AT_PDO = 3,
	AT_PLEN = 4,
	AT_PFV = 8,
	AT_PDA = 10,
	AT_DGST = 11,
	AT_LIMIT = 12, /* MAXR2T, MAXH2CDATA */
	AT_CCCID = 8,
	AT_TTAG = 10,
	AT_DATAO = 12,
	AT_DATAL = 16,
	AT_FES = 8,
	AT_FEI = 10,
};

enum {
	PDA_MAX = 31,
	PDO_MAX = 128,
	DGST_HEADER = 1 << 0,
	DGST_DATA = 1 << 1,
};

static struct nvme_tcp_fault fault(enum nvme_tcp_fes fes, uint32_t fei)
{
	return (struct nvme_tcp_fault){ .fes = (uint8_t)fes, .fei = fei };
}

static struct nvme_tcp_fault bad_field(uint32_t offset)
{
	return fault(NVME_TCP_INVALID_FIELD, offset);
}

/* PDUs that a host may send, by type; hlen 0: not allowed. */
static const struct {
	uint8_t hlen;
	bool data;         /* data may follow */
	bool digest;       /* has a header digest, if negotiated */
	uint32_t plen_max; /* 0: no limit */
} kinds[] = {
	[NVME_TCP_ICREQ] = { NVME_TCP_IC, .plen_max = NVME_TCP_IC },
	[NVME_TCP_H2C_TERM] = { NVME_TCP_SHORT, .plen_max = NVME_TCP_TERM_MAX },
	[NVME_TCP_COMMAND] = { NVME_TCP_CMD, .data = true, .digest = true },
	[NVME_TCP_H2C_DATA] = { NVME_TCP_SHORT, .data = true, .digest = true },
};

/* Checks position and length of the data. */
static struct nvme_tcp_fault check_data(const uint8_t *common, const struct nvme_tcp_terms *terms,
					struct nvme_tcp_pdu *pdu)
{
	uint32_t plen = get_le32(common + AT_PLEN), pdo = common[AT_PDO];
	uint32_t digest = terms->data_digest ? NVME_TCP_DIGEST : 0;

	if (plen == pdu->header_bytes)
		return fault(NVME_TCP_OK, 0);
	if (pdo < pdu->header_bytes || pdo > PDO_MAX || pdo > plen)
		return bad_field(AT_PDO);
	if (!!(common[AT_FLAGS] & NVME_TCP_DDGST) != terms->data_digest)
		return bad_field(AT_FLAGS);
	if (plen - pdo <= digest)
		return bad_field(AT_PLEN);
	pdu->pad_bytes = pdo - pdu->header_bytes;
	pdu->data_bytes = plen - pdo - digest;
	return fault(NVME_TCP_OK, 0);
}

struct nvme_tcp_fault nvme_tcp_check_pdu(const uint8_t common[static NVME_TCP_COMMON],
					 const struct nvme_tcp_terms *terms,
					 struct nvme_tcp_pdu *ret)
{
	uint8_t type = common[AT_TYPE];
	uint32_t plen = get_le32(common + AT_PLEN);
	bool digest;

	if (type >= ARRAY_SIZE(kinds) || !kinds[type].hlen)
		return bad_field(AT_TYPE);
	if (common[AT_HLEN] != kinds[type].hlen)
		return bad_field(AT_HLEN);
	digest = kinds[type].digest && terms->header_digest;
	if (kinds[type].digest && !!(common[AT_FLAGS] & NVME_TCP_HDGST) != digest)
		return bad_field(AT_FLAGS);
	*ret = (struct nvme_tcp_pdu){
		.type = type,
		.header_bytes = (uint16_t)(kinds[type].hlen + (digest ? NVME_TCP_DIGEST : 0)),
		.last = common[AT_FLAGS] & NVME_TCP_LAST,
	};
	if (plen < ret->header_bytes || (kinds[type].plen_max && plen > kinds[type].plen_max))
		return bad_field(AT_PLEN);
	return kinds[type].data ? check_data(common, terms, ret) : fault(NVME_TCP_OK, 0);
}

bool nvme_tcp_header_is_intact(const uint8_t *header)
{
	return crc32c(0, header, header[AT_HLEN]) == get_le32(header + header[AT_HLEN]);
}

struct nvme_tcp_fault nvme_tcp_parse_icreq(const uint8_t header[static NVME_TCP_IC],
					   struct nvme_tcp_terms *terms)
{
	unsigned align = (header[AT_PDA] + 1U) * 4, bytes = NVME_TCP_SHORT;

	if (get_le16(header + AT_PFV) != 0)
		return bad_field(AT_PFV);
	if (header[AT_PDA] > PDA_MAX)
		return bad_field(AT_PDA);
	terms->header_digest = header[AT_DGST] & DGST_HEADER;
	terms->data_digest = header[AT_DGST] & DGST_DATA;
	bytes += terms->header_digest ? NVME_TCP_DIGEST : 0;
	terms->data_offset = (uint8_t)((bytes + align - 1) / align * align);
	return fault(NVME_TCP_OK, 0);
}

void nvme_tcp_parse_data(const uint8_t header[static NVME_TCP_SHORT], struct nvme_tcp_data *ret)
{
	*ret = (struct nvme_tcp_data){
		.cid = get_le16(header + AT_CCCID),
		.ttag = get_le16(header + AT_TTAG),
		.offset = get_le32(header + AT_DATAO),
		.length = get_le32(header + AT_DATAL),
	};
}

static void put_common(uint8_t *to, enum nvme_tcp_type type, unsigned hlen, size_t plen)
{
	memset(to, 0, hlen);
	to[AT_TYPE] = (uint8_t)type;
	to[AT_HLEN] = (uint8_t)hlen;
	put_le32(to + AT_PLEN, (uint32_t)plen);
}

/* Appends the header digest, if negotiated; returns the bytes of the header with it. */
static size_t add_header_digest(uint8_t *to, const struct nvme_tcp_terms *terms)
{
	size_t hlen = to[AT_HLEN];

	if (!terms->header_digest)
		return hlen;
	to[AT_FLAGS] |= NVME_TCP_HDGST;
	put_le32(to + hlen, crc32c(0, to, hlen));
	return hlen + NVME_TCP_DIGEST;
}

static size_t short_bytes(const struct nvme_tcp_terms *terms)
{
	return NVME_TCP_SHORT + (terms->header_digest ? NVME_TCP_DIGEST : 0);
}

static void put_data(uint8_t *to, const struct nvme_tcp_data *data)
{
	put_le16(to + AT_CCCID, data->cid);
	put_le16(to + AT_TTAG, data->ttag);
	put_le32(to + AT_DATAO, data->offset);
	put_le32(to + AT_DATAL, data->length);
}

size_t nvme_tcp_build_icresp(uint8_t to[static NVME_TCP_IC], const struct nvme_tcp_terms *terms)
{
	put_common(to, NVME_TCP_ICRESP, NVME_TCP_IC, NVME_TCP_IC);
	to[AT_DGST] = (uint8_t)((terms->header_digest ? DGST_HEADER : 0) |
				(terms->data_digest ? DGST_DATA : 0));
	put_le32(to + AT_LIMIT, terms->h2c_max);
	return NVME_TCP_IC;
}

size_t nvme_tcp_build_rsp(uint8_t to[static NVME_TCP_RSP_MAX], const struct nvme_tcp_terms *terms,
			  const struct nvme_cqe *cqe)
{
	put_common(to, NVME_TCP_RSP, NVME_TCP_SHORT, short_bytes(terms));
	nvme_build_cqe(to + NVME_TCP_COMMON, cqe);
	return add_header_digest(to, terms);
}

size_t nvme_tcp_build_r2t(uint8_t to[static NVME_TCP_RSP_MAX], const struct nvme_tcp_terms *terms,
			  const struct nvme_tcp_data *r2t)
{
	put_common(to, NVME_TCP_R2T, NVME_TCP_SHORT, short_bytes(terms));
	put_data(to, r2t);
	return add_header_digest(to, terms);
}

size_t nvme_tcp_build_data(uint8_t to[static NVME_TCP_DATA_MAX], const struct nvme_tcp_terms *terms,
			   const struct nvme_tcp_data *data, unsigned flags)
{
	size_t digest = terms->data_digest ? NVME_TCP_DIGEST : 0, bytes;

	put_common(to, NVME_TCP_C2H_DATA, NVME_TCP_SHORT,
		   terms->data_offset + data->length + digest);
	to[AT_FLAGS] = (uint8_t)(flags | (digest ? NVME_TCP_DDGST : 0));
	to[AT_PDO] = terms->data_offset;
	put_data(to, data);
	bytes = add_header_digest(to, terms);
	memset(to + bytes, 0, terms->data_offset - bytes);
	return terms->data_offset;
}

size_t nvme_tcp_build_term(uint8_t to[static NVME_TCP_TERM_MAX], const struct nvme_tcp_fault *why,
			   const uint8_t *header, size_t header_bytes)
{
	size_t bytes = MIN(header_bytes, (size_t)NVME_TCP_TERM_MAX - NVME_TCP_SHORT);

	put_common(to, NVME_TCP_C2H_TERM, NVME_TCP_SHORT, NVME_TCP_SHORT + bytes);
	put_le16(to + AT_FES, why->fes);
	put_le32(to + AT_FEI, why->fei);
	memcpy(to + NVME_TCP_SHORT, header, bytes);
	return NVME_TCP_SHORT + bytes;
}
