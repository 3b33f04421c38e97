/* PDUs of a host of NVMe/TCP: shared by the unit tests and the fuzz targets.  Each writes to `to`
 * and returns its bytes. */
#pragma once
#include <string.h>

#include "bytes.h"
#include "crc32c.h"
#include "nvme/wire/tcp_proto.h"

enum { HDGST = 1, DDGST = 2 }; /* digests, and the flags of a PDU that say so */

/* header: all of it but lengths, flags for digests and digests. */
static inline size_t host_pdu(uint8_t *to, uint8_t *header, uint8_t hlen, const void *data,
			      size_t bytes, unsigned digests)
{
	size_t at = hlen + (digests & HDGST ? NVME_TCP_DIGEST : 0U);
	size_t ddgst = bytes && (digests & DDGST) ? NVME_TCP_DIGEST : 0;

	header[1] |= (uint8_t)((digests & HDGST) | (ddgst ? DDGST : 0));
	header[2] = hlen;
	header[3] = bytes ? (uint8_t)at : 0;
	put_le32(header + 4, (uint32_t)(at + bytes + ddgst));
	memcpy(to, header, hlen);
	if (digests & HDGST)
		put_le32(to + hlen, crc32c(0, header, hlen));
	if (bytes)
		memcpy(to + at, data, bytes);
	if (ddgst)
		put_le32(to + at + bytes, crc32c(0, data, bytes));
	return at + bytes + ddgst;
}

/* A command whose `bytes` of data, if it has any, are in its capsule; length: bytes of the range
 * that it names. */
static inline size_t host_command(uint8_t *to, uint8_t opcode, uint8_t nsid, uint16_t cid,
				  const uint32_t cdw[3], const void *data, size_t bytes,
				  uint32_t length, unsigned digests)
{
	uint8_t header[NVME_TCP_CMD] = { NVME_TCP_COMMAND, [8] = opcode, [9] = 0x40, [12] = nsid };

	put_le16(header + 10, cid);
	put_le32(header + 40, bytes ? (uint32_t)bytes : length);
	header[47] = bytes ? NVME_SGL_CAPSULE : NVME_SGL_TRANSPORT;
	for (size_t i = 0; i < 3; i++)
		put_le32(header + 48 + 4 * i, cdw[i]);
	return host_pdu(to, header, sizeof(header), data, bytes, digests);
}

/* The host's first words to become a queue of subnqn, whose Connect has this cid, and to enable the
 * controller. */
static inline size_t host_connect(uint8_t *to, const char *subnqn, uint32_t kato_ms, uint16_t qid,
				  uint16_t cntlid, unsigned entries, uint16_t cid, unsigned digests)
{
	uint8_t data[NVME_CONNECT_DATA] = { 0 };
	const uint32_t connect[] = { (uint32_t)qid << 16, entries - 1, kato_ms };
	const uint32_t enable[] = { 0, 0x14, 0x460001 };
	size_t bytes = NVME_TCP_IC;

	memset(to, 0, NVME_TCP_IC);
	to[0] = NVME_TCP_ICREQ;
	to[2] = to[4] = NVME_TCP_IC;
	to[11] = (uint8_t)digests;
	put_le16(data + 16, cntlid);
	strcpy((char *)data + 256, subnqn);
	strcpy((char *)data + 512, "nqn.host");
	bytes += host_command(to + bytes, NVME_FABRICS, NVME_CONNECT, cid, connect, data,
			      sizeof(data), 0, digests);
	if (qid == 0)
		bytes += host_command(to + bytes, NVME_FABRICS, NVME_PROPERTY_SET, 1, enable, NULL,
				      0, 0, digests);
	return bytes;
}

static inline size_t host_data(uint8_t *to, uint16_t cid, uint16_t ttag, uint32_t offset,
			       const uint8_t *data, uint32_t bytes, bool last, unsigned digests)
{
	uint8_t header[NVME_TCP_SHORT] = { NVME_TCP_H2C_DATA, last ? NVME_TCP_LAST : 0 };

	put_le16(header + 8, cid);
	put_le16(header + 10, ttag);
	put_le32(header + 12, offset);
	put_le32(header + 16, bytes);
	return host_pdu(to, header, sizeof(header), data, bytes, digests);
}
