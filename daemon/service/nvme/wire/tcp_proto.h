/* NVMe/TCP: PDUs, which carry commands, completions and data over a stream.  Pure: no I/O, no
 * allocation; any thread.
 *
 * Source: NVM Express TCP Transport Specification 1.0; sections are named in quotes.  A PDU is a
 * header of `hlen` bytes, perhaps a digest of it, padding up to `pdo`, data, perhaps a digest of
 * that; `plen` bytes in all. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto.h"

enum {
	/* Bytes of headers. */
	NVME_TCP_COMMON = 8, /* with which all begin */
	NVME_TCP_IC = 128,
	NVME_TCP_CMD = 72,
	NVME_TCP_SHORT = 24, /* all others */
	NVME_TCP_DIGEST = 4,
	NVME_TCP_HEADER_MAX = NVME_TCP_IC,
	NVME_TCP_TERM_MAX = 152,
	NVME_TCP_RSP_MAX = NVME_TCP_SHORT + NVME_TCP_DIGEST,
	NVME_TCP_DATA_MAX = 128, /* bytes before data, with padding */

	NVME_TCP_DISCOVERY_PORT = 8009,
};

enum nvme_tcp_type {
	NVME_TCP_ICREQ = 0x00,
	NVME_TCP_ICRESP = 0x01,
	NVME_TCP_H2C_TERM = 0x02,
	NVME_TCP_C2H_TERM = 0x03,
	NVME_TCP_COMMAND = 0x04,
	NVME_TCP_RSP = 0x05,
	NVME_TCP_H2C_DATA = 0x06,
	NVME_TCP_C2H_DATA = 0x07,
	NVME_TCP_R2T = 0x09,
};

enum nvme_tcp_flag {
	NVME_TCP_HDGST = 1 << 0,
	NVME_TCP_DDGST = 1 << 1,
	NVME_TCP_LAST = 1 << 2,
	NVME_TCP_SUCCESS = 1 << 3, /* no completion follows */
};

/* "Fatal Error Status" */
enum nvme_tcp_fes {
	NVME_TCP_OK = 0,
	NVME_TCP_INVALID_FIELD = 1, /* FEI: its offset in the header */
	NVME_TCP_SEQUENCE = 2,
	NVME_TCP_HEADER_DIGEST = 3,
	NVME_TCP_OUT_OF_RANGE = 4,
	NVME_TCP_LIMIT = 5,
	NVME_TCP_UNSUPPORTED = 6, /* FEI: its offset */
};

/* The reason why a connection has to end. */
struct nvme_tcp_fault {
	uint8_t fes; /* enum nvme_tcp_fes; NVME_TCP_OK: none */
	uint32_t fei;
};

/* The terms that ICReq and ICResp have negotiated. */
struct nvme_tcp_terms {
	bool header_digest, data_digest;
	uint8_t data_offset; /* where data begins in a PDU to the host */
	uint32_t h2c_max;    /* maximum data bytes in a PDU of the host; a multiple of 4 */
};

/* A PDU from a host, by its first NVME_TCP_COMMON bytes. */
struct nvme_tcp_pdu {
	uint8_t type;
	uint16_t header_bytes; /* with its digest */
	uint32_t pad_bytes;    /* between header and data */
	uint32_t data_bytes;   /* without their digest */
	bool last;             /* NVME_TCP_LAST */
};

/* Checks a PDU by its common header, so that an invalid length is detected before
 * waiting for that many bytes. */
struct nvme_tcp_fault nvme_tcp_check_pdu(const uint8_t common[static NVME_TCP_COMMON],
					 const struct nvme_tcp_terms *terms,
					 struct nvme_tcp_pdu *ret);

/* Is the digest after the `hlen` bytes at header correct? */
bool nvme_tcp_header_is_intact(const uint8_t *header);

/* Parses an ICReq; fills all of *terms but h2c_max. */
struct nvme_tcp_fault nvme_tcp_parse_icreq(const uint8_t header[static NVME_TCP_IC],
					   struct nvme_tcp_terms *terms);

/* A data PDU of a host, decoded. */
struct nvme_tcp_data {
	uint16_t cid, ttag;
	uint32_t offset, length;
};
void nvme_tcp_parse_data(const uint8_t header[static NVME_TCP_SHORT], struct nvme_tcp_data *ret);

/* Each writes a PDU, or what precedes its data, with the header's digest; returns its bytes. */
size_t nvme_tcp_build_icresp(uint8_t to[static NVME_TCP_IC], const struct nvme_tcp_terms *terms);
size_t nvme_tcp_build_rsp(uint8_t to[static NVME_TCP_RSP_MAX], const struct nvme_tcp_terms *terms,
			  const struct nvme_cqe *cqe);
size_t nvme_tcp_build_r2t(uint8_t to[static NVME_TCP_RSP_MAX], const struct nvme_tcp_terms *terms,
			  const struct nvme_tcp_data *r2t);
/* flags: NVME_TCP_LAST, NVME_TCP_SUCCESS.  Returns terms->data_offset. */
size_t nvme_tcp_build_data(uint8_t to[static NVME_TCP_DATA_MAX], const struct nvme_tcp_terms *terms,
			   const struct nvme_tcp_data *data, unsigned flags);
/* header: the invalid header, header_bytes long. */
size_t nvme_tcp_build_term(uint8_t to[static NVME_TCP_TERM_MAX], const struct nvme_tcp_fault *why,
			   const uint8_t *header, size_t header_bytes);
