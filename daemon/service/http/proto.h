/* Parser of HTTP/1.x requests (RFC 9110, RFC 9112), byte by byte.  Pure: no allocation, no I/O; any
 * split of the input gives the same result.
 *
 * Why not a library: Debian 12 has http-parser (llhttp only inside Node.js), whose authors archived
 * it in 2022, and which takes bare LF, obs-fold, space before a colon, `gzip, chunked`, chunked in
 * HTTP/1.0 and `5 x` as a chunk's size: a strict server must refuse all of these, and a caller of
 * the library cannot detect them. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	HTTP_HEAD_MAX = 8192,   /* bytes of a request line and its fields, and of trailers */
	HTTP_TARGET_MAX = 4096, /* bytes of a request target */
	HTTP_FIELDS_MAX = 100,  /* fields of a request, its trailers included */
	HTTP_METHOD_MAX = 16,
	HTTP_PATH_MAX = 64, /* bytes of a target that are kept; no resource has a longer name */
	HTTP_WORD_MAX = 24, /* bytes of the longest field name or value that the server knows */
};

/* Bytes of a body, in either direction; more is refused. */
#define HTTP_BODY_MAX (UINT64_C(1) << 40)

/* HTTP_OTHER: known, and allowed for no resource here; HTTP_UNKNOWN: of no standard (RFC
 * 9110, 9.1). */
enum http_method { HTTP_GET, HTTP_HEAD, HTTP_POST, HTTP_OTHER, HTTP_UNKNOWN };

enum http_result {
	HTTP_MORE = 0, /* needs more bytes */
	HTTP_DATA = 1, /* `left` bytes of a chunk follow */
	HTTP_END = 2,  /* the body has ended */
	HTTP_OK = 200, /* the head is complete */
	/* This and larger: an error status; the rest of the stream cannot be parsed. */
	HTTP_STATUS = 400
};

struct http_parser {
	/* Results, valid when a head is complete. */
	uint64_t length; /* of the body; 0 if chunked */
	uint8_t method;  /* enum http_method */
	uint8_t minor;   /* HTTP/1.minor: 0 or 1 */
	bool chunked;
	bool keep_alive;
	bool expect_continue;
	uint8_t path_bytes;
	char path[HTTP_PATH_MAX]; /* without the query; not terminated */

	/* State of the body. */
	uint64_t left; /* bytes of the current chunk */

	/* Private. */
	uint8_t state, field, hosts, word_bytes, fields;
	bool empty_line, trailer, major_unknown, in_query;
	bool has_length, has_coding, coding_unknown, coding_chunked, coding_misplaced;
	bool connection_close, connection_keep;
	uint16_t head_bytes, part_bytes;
	char word[HTTP_WORD_MAX];
};

/* Ready for the first request, or for the next one. */
void http_parser_init(struct http_parser *p);

/* A request has begun and its head is not complete. */
bool http_parser_in_head(const struct http_parser *p);

/* Parses a head.  Returns HTTP_MORE (all bytes were consumed), HTTP_OK or an error status.
 * *ret_used: bytes consumed, including the last one that was parsed. */
int http_parse_head(struct http_parser *p, const uint8_t *data, size_t bytes, size_t *ret_used);

/* Parses the framing between the data of a chunked body.  HTTP_MORE, HTTP_DATA, HTTP_END or an
 * error status.  After HTTP_DATA the caller takes p->left bytes off its input and calls again. */
int http_parse_chunk(struct http_parser *p, const uint8_t *data, size_t bytes, size_t *ret_used);

/* Decimal digits with an optional K, M, G or T (powers of 1024).  0, or -EINVAL: something else, or
 * more than HTTP_BODY_MAX. */
int http_parse_size(const char *text, size_t bytes, uint64_t *ret_size);
