/* NBD's requests and replies as a server sees them.  Pure: no I/O, no allocation; any thread.
 *
 * Source: doc/proto.md of https://github.com/NetworkBlockDevice/nbd, whose sections are named in
 * quotes.  Behaviour of clients was observed with libnbd 1.14 and 1.22, and qemu 7.2 and 10.0. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	NBD_NAME_MAX = 4096, /* bytes of any string: "Conventions" */
	NBD_TEXT_MAX = 256,  /* bytes of a text for humans; longer ones are cut */
	/* Bytes of a READ or WRITE; the maximum that is advertised, and the default that applies to
	 * clients without that information ("Block size constraints"). */
	NBD_PAYLOAD_MAX = 64 << 20,
	/* Bytes of refused payload that are skipped; more ends the connection. */
	NBD_DRAIN_MAX = 64 << 20,

	NBD_CONTEXT_ALLOCATION = 1, /* the metadata context ID of base:allocation */

	/* Bytes of messages. */
	NBD_REQUEST = 28, /* a header; payload follows a WRITE */
	NBD_DATA_HEADER_MAX = 20 + 8,
	NBD_REPLY_MAX = 20 + 4 + 2 + NBD_TEXT_MAX, /* a reply without data */
	NBD_STATUS_HEADER = 20 + 4,                /* bytes before extents */
	NBD_STATUS_EXTENT = 8,
};

/* "Transmission flags" */
enum nbd_flag {
	NBD_FLAG_HAS_FLAGS = 1 << 0,
	NBD_FLAG_READ_ONLY = 1 << 1,
	NBD_FLAG_SEND_FLUSH = 1 << 2,
	NBD_FLAG_SEND_FUA = 1 << 3,
	NBD_FLAG_ROTATIONAL = 1 << 4,
	NBD_FLAG_SEND_TRIM = 1 << 5,
	NBD_FLAG_SEND_WRITE_ZEROES = 1 << 6,
	NBD_FLAG_CAN_MULTI_CONN = 1 << 8,
};

/* "Request types" */
enum nbd_cmd {
	NBD_CMD_READ = 0,
	NBD_CMD_WRITE = 1,
	NBD_CMD_DISC = 2,
	NBD_CMD_FLUSH = 3,
	NBD_CMD_TRIM = 4,
	NBD_CMD_WRITE_ZEROES = 6,
	NBD_CMD_BLOCK_STATUS = 7,
};

/* "Command flags" */
enum nbd_cmd_flag {
	NBD_CMD_FLAG_FUA = 1 << 0,
	NBD_CMD_FLAG_NO_HOLE = 1 << 1,
	NBD_CMD_FLAG_REQ_ONE = 1 << 3,
};

/* "Structured reply types" */
enum nbd_reply_type {
	NBD_REPLY_TYPE_NONE = 0,
	NBD_REPLY_TYPE_OFFSET_DATA = 1,
	NBD_REPLY_TYPE_BLOCK_STATUS = 5,
	NBD_REPLY_TYPE_ERROR = 0x8001,
};

enum { NBD_REPLY_FLAG_DONE = 1 << 0 };

/* Flags of an extent of base:allocation: "Metadata querying". */
enum nbd_state { NBD_STATE_HOLE = 1 << 0, NBD_STATE_ZERO = 1 << 1 };

/* "Error values" */
enum nbd_error {
	NBD_EPERM = 1,
	NBD_EIO = 5,
	NBD_ENOMEM = 12,
	NBD_EINVAL = 22,
	NBD_ENOSPC = 28,
	NBD_ENOTSUP = 95,
	NBD_ESHUTDOWN = 108,
};

/* ---- Requests ---- */

/* The negotiated terms, against which requests are checked. */
struct nbd_terms {
	uint64_t size;      /* bytes of the export */
	uint32_t block_min; /* offsets and lengths are multiples of it; a power of two */
	uint16_t flags;     /* enum nbd_flag, as they were sent to the client */
	bool structured;    /* replies are: the option STRUCTURED_REPLY */
	bool block_status;  /* base:allocation was selected for this export */
};

struct nbd_request {
	uint16_t flags, type; /* enum nbd_cmd_flag, enum nbd_cmd */
	uint32_t payload;     /* bytes of payload behind the header, also of a refused request */
	uint64_t cookie, offset, length;
};

/* A header.  0, or -EPROTO: wrong magic, or payload of more than NBD_DRAIN_MAX; the connection must
 * end. */
int nbd_parse_request(const uint8_t header[static NBD_REQUEST], struct nbd_request *ret_request);

/* 0, or the enum nbd_error to answer with after r->payload bytes were skipped, and *ret_reason for
 * a human.  0 means that the request can be carried out as it is: its flags are all known and
 * allowed, offset and length lie in the export, and READ and WRITE are of at most
 * NBD_PAYLOAD_MAX.  DISC, which has no answer, always passes. */
uint32_t nbd_check_request(const struct nbd_request *r, const struct nbd_terms *terms,
			   const char **ret_reason);

/* The error for the client (enum nbd_error) of a result, 0 or -errno. */
uint32_t nbd_error_of(int result);

/* ---- Replies, structured or simple.  All return the bytes they wrote. ---- */

/* Builds a reply without data, or the last chunk of a reply.  error: enum nbd_error, 0: success.
 * text: explains the error to a human, or NULL. */
size_t nbd_build_reply(uint8_t to[static NBD_REPLY_MAX], bool structured,
		       const struct nbd_request *r, uint32_t error, const char *text);

/* The header of `length` > 0 bytes of a READ from `offset` of the export.  last: no further chunk
 * follows, so no later error can be reported.  A simple reply has only one piece with all of the
 * data. */
size_t nbd_build_data(uint8_t to[static NBD_DATA_HEADER_MAX], bool structured,
		      const struct nbd_request *r, uint64_t offset, uint32_t length, bool last);

struct nbd_extent {
	uint64_t length; /* bytes, > 0 */
	uint32_t state;  /* enum nbd_state */
};

/* The reply to a BLOCK_STATUS: count > 0 extents from r->offset on.  It contains as many of them as
 * r->flags and lengths of 32 bits allow.  `to` has room for NBD_STATUS_HEADER + count *
 * NBD_STATUS_EXTENT bytes. */
size_t nbd_build_block_status(uint8_t *to, const struct nbd_request *r,
			      const struct nbd_extent *extents, unsigned count);
