/* NBD's handshake (fixed newstyle) as a server sees it: flags, options, their replies.  Pure: no
 * I/O, no allocation; any thread.
 *
 * Source: as in nbd/proto.h; "Flag fields", "Option types", "Option reply types". */
#pragma once
#include "proto.h"

enum {
	NBD_OPTION_MAX = 8 * 1024, /* bytes of an option's data: two long strings */

	/* Bytes of messages. */
	NBD_GREETING = 18,
	NBD_CLIENT_FLAGS = 4,
	NBD_OPTION = 16,                              /* a header; data follows */
	NBD_SERVER_REPLY = 20 + 4,                    /* bytes before a name in a LIST */
	NBD_OPTION_REPLY_MAX = 20 + 4 + NBD_NAME_MAX, /* the longest that is written */
	NBD_EXPORT_REPLY_MAX = 8 + 2 + 124,           /* to EXPORT_NAME */
};

/* The same bits in both directions. */
enum nbd_handshake_flag {
	NBD_FLAG_FIXED_NEWSTYLE = 1 << 0,
	NBD_FLAG_NO_ZEROES = 1 << 1, /* no 124 zeros after the answer to EXPORT_NAME */
};

enum nbd_opt {
	NBD_OPT_EXPORT_NAME = 1,
	NBD_OPT_ABORT = 2,
	NBD_OPT_LIST = 3,
	NBD_OPT_STARTTLS = 5,
	NBD_OPT_INFO = 6,
	NBD_OPT_GO = 7,
	NBD_OPT_STRUCTURED_REPLY = 8,
	NBD_OPT_LIST_META_CONTEXT = 9,
	NBD_OPT_SET_META_CONTEXT = 10,
};

enum nbd_rep {
	NBD_REP_ACK = 1,
	NBD_REP_SERVER = 2,
	NBD_REP_INFO = 3,
	NBD_REP_META_CONTEXT = 4,
	NBD_REP_ERR_UNSUP = 0x80000001,
	NBD_REP_ERR_INVALID = 0x80000003,
	NBD_REP_ERR_PLATFORM = 0x80000004,
	NBD_REP_ERR_TLS_REQD = 0x80000005,
	NBD_REP_ERR_UNKNOWN = 0x80000006,
	NBD_REP_ERR_TOO_BIG = 0x80000009,
};

enum nbd_info {
	NBD_INFO_EXPORT = 0,
	NBD_INFO_BLOCK_SIZE = 3,
};

/* ---- Messages of the client in the handshake ---- */

/* A piece of the message that it was read from; contains no NUL and is not terminated. */
struct nbd_string {
	const char *data;
	uint32_t bytes;
};

bool nbd_string_is(struct nbd_string string, const char *text);

/* *ret_flags: bits of enum nbd_handshake_flag.  0, or -EPROTO: there are unknown ones, and the
 * connection must end. */
int nbd_parse_client_flags(const uint8_t flags[static NBD_CLIENT_FLAGS], uint32_t *ret_flags);

struct nbd_option {
	uint32_t type;    /* enum nbd_opt, or anything else */
	uint32_t length;  /* bytes of its data */
	uint32_t refusal; /* NBD_REP_ERR_* of the reply, sent after the data was skipped; 0:
			     accepted */

	/* Parsed from the option's data, as far as its type has these fields. */
	struct nbd_string name; /* of the export; "": the default one */
	bool allocation;        /* *_META_CONTEXT finds base:allocation */
};

/* State of TLS on a connection; where the server has TLS clients must use it ("FORCEDTLS"). */
enum nbd_tls { NBD_TLS_ABSENT, NBD_TLS_REQUIRED, NBD_TLS_ON };

/* An option's header.  0, or -EPROTO: the connection must end, because the header is invalid, or
 * the data is too long to skip, or an EXPORT_NAME, for which there is no error reply, is refused.
 * An accepted option has at most NBD_OPTION_MAX bytes of data, for nbd_parse_option_data(). */
int nbd_parse_option(const uint8_t header[static NBD_OPTION], enum nbd_tls tls,
		     struct nbd_option *ret_option);

/* An option's data, all o->length bytes; o->name then points into them.  structured: replies are,
 * as negotiated so far.  0, or the NBD_REP_ERR_* to answer with, except to EXPORT_NAME: the
 * connection must end instead. A SET_META_CONTEXT replaces what an earlier one selected, even if it
 * fails. */
uint32_t nbd_parse_option_data(const uint8_t *data, bool structured, struct nbd_option *o);

/* ---- Messages of the server in the handshake.  All return the number of bytes written. ---- */

size_t nbd_build_greeting(uint8_t to[static NBD_GREETING]);

/* ACK, which has no data. */
size_t nbd_build_ack(uint8_t to[static NBD_OPTION_REPLY_MAX], uint32_t option);

/* rep: NBD_REP_ERR_*; text: for a human, or NULL. */
size_t nbd_build_option_error(uint8_t to[static NBD_OPTION_REPLY_MAX], uint32_t option,
			      uint32_t rep, const char *text);

/* One export of a LIST. */
size_t nbd_build_server(uint8_t to[static NBD_OPTION_REPLY_MAX], const char *name);

/* For INFO and GO.  flags: enum nbd_flag. */
size_t nbd_build_info_export(uint8_t to[static NBD_OPTION_REPLY_MAX], uint32_t option,
			     uint64_t size, uint16_t flags);
size_t nbd_build_info_block_size(uint8_t to[static NBD_OPTION_REPLY_MAX], uint32_t option,
				 uint32_t min, uint32_t preferred, uint32_t max);

/* base:allocation, for LIST_META_CONTEXT and SET_META_CONTEXT. */
size_t nbd_build_meta_context(uint8_t to[static NBD_OPTION_REPLY_MAX], uint32_t option);

/* The answer to EXPORT_NAME.  client_flags: enum nbd_handshake_flag. */
size_t nbd_build_export(uint8_t to[static NBD_EXPORT_REPLY_MAX], uint64_t size, uint16_t flags,
			uint32_t client_flags);
