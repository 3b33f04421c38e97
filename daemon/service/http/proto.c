/* The parser of HTTP/1.x requests: one state per byte.  Pure; any thread.  See http/proto.h. */
#include "proto.h"

#include <errno.h>
#include <string.h>

#include "util.h"

enum state {
	START,
	START_LF,
	METHOD,
	TARGET,
	VERSION,
	LINE_LF,
	FIELD,
	NAME,
	VALUE,
	VALUE_LF,
	END_LF,
	CHUNK_START,
	CHUNK_SIZE,
	CHUNK_LF,
	DATA_CR,
	DATA_LF,
};

/* Fields that this server evaluates. */
enum field { OTHER, HOST, LENGTH, CODING, CONNECTION, EXPECT };

/* Character classes: bits for the places where a byte may occur. */
enum { IS_TOKEN = 1, IS_TARGET = 2, IS_VALUE = 4, IS_HEX = 8 };

#define CHAR_CLASS(c)                                                                              \
	(((c) == '!' || ((c) >= '#' && (c) <= '\'') || (c) == '*' || (c) == '+' || (c) == '-' ||   \
			  (c) == '.' || ((c) >= '0' && (c) <= '9') ||                              \
			  ((c) >= 'A' && (c) <= 'Z') || ((c) >= '^' && (c) <= 'z') ||              \
			  (c) == '|' || (c) == '~'                                                 \
		  ? IS_TOKEN                                                                       \
		  : 0) |                                                                           \
	 ((c) > ' ' && (c) < 0x7f && (c) != '#' ? IS_TARGET : 0) |                                 \
	 ((c) == '\t' || ((c) >= ' ' && (c) != 0x7f) ? IS_VALUE : 0) |                             \
	 (((c) >= '0' && (c) <= '9') || ((c) >= 'A' && (c) <= 'F') || ((c) >= 'a' && (c) <= 'f')   \
		  ? IS_HEX                                                                         \
		  : 0))
#define CLASS4(c)  CHAR_CLASS(c), CHAR_CLASS((c) + 1), CHAR_CLASS((c) + 2), CHAR_CLASS((c) + 3)
#define CLASS16(c) CLASS4(c), CLASS4((c) + 4), CLASS4((c) + 8), CLASS4((c) + 12)
#define CLASS64(c) CLASS16(c), CLASS16((c) + 16), CLASS16((c) + 32), CLASS16((c) + 48)
static const uint8_t classes[256] = { CLASS64(0), CLASS64(64), CLASS64(128), CLASS64(192) };

static inline bool is(uint8_t byte, uint8_t class)
{
	return classes[byte] & class;
}

void http_parser_init(struct http_parser *p)
{
	memset(p, 0, offsetof(struct http_parser, word));
}

bool http_parser_in_head(const struct http_parser *p)
{
	return p->state != START && p->state < CHUNK_START;
}

/* ---- Words: the beginning of a name or value, in lower case; a longer one matches nothing ---- */

static void word_add(struct http_parser *p, uint8_t byte)
{
	if (p->word_bytes < HTTP_WORD_MAX)
		p->word[p->word_bytes] = (char)(byte >= 'A' && byte <= 'Z' ? byte | 0x20 : byte);
	if (p->word_bytes <= HTTP_WORD_MAX)
		p->word_bytes++;
}

static bool is_white(uint8_t byte)
{
	return byte == ' ' || byte == '\t';
}

static bool word_ends_white(const struct http_parser *p)
{
	return p->word_bytes > 0 && p->word_bytes <= HTTP_WORD_MAX &&
	       is_white((uint8_t)p->word[p->word_bytes - 1]);
}

static bool word_is(const struct http_parser *p, const char *text)
{
	return p->word_bytes == strlen(text) && !memcmp(p->word, text, p->word_bytes);
}

/* ---- Fields ---- */

/* A field's name is complete. 0, or an error status. */
static int field_begin(struct http_parser *p)
{
	static const char *const names[] = { [HOST] = "host",
					     [LENGTH] = "content-length",
					     [CODING] = "transfer-encoding",
					     [CONNECTION] = "connection",
					     [EXPECT] = "expect" };

	p->field = OTHER;
	/* Fields of a trailer are ignored. */
	for (unsigned i = HOST; i < ARRAY_SIZE(names) && !p->trailer; i++)
		if (word_is(p, names[i]))
			p->field = (uint8_t)i;
	if (p->field == HOST)
		p->hosts++;
	p->word_bytes = 0;
	return p->fields++ < HTTP_FIELDS_MAX ? 0 : 431;
}

/* One name of `Connection: close, keep-alive`. */
static void field_option(struct http_parser *p)
{
	p->word_bytes -= word_ends_white(p);
	if (word_is(p, "close"))
		p->connection_close = true;
	else if (word_is(p, "keep-alive"))
		p->connection_keep = true;
	p->word_bytes = 0;
}

/* One name of `Transfer-Encoding: gzip, chunked`; empty ones are ignored (RFC 9110, 5.6.1). */
static void field_coding(struct http_parser *p)
{
	p->word_bytes -= word_ends_white(p);
	if (p->word_bytes == 0)
		return;
	p->coding_misplaced |= p->coding_chunked; /* behind `chunked`, or `chunked` twice */
	if (word_is(p, "chunked"))
		p->coding_chunked = true;
	else
		p->coding_unknown = true;
	p->word_bytes = 0;
}

/* Content-Length: digits only, and only one field.  Two lengths that differ would allow request
 * smuggling (RFC 9112, 6.3). */
static int field_length(struct http_parser *p)
{
	if (p->has_length || p->word_bytes == 0 || p->word_bytes > HTTP_WORD_MAX)
		return 400;
	for (unsigned i = 0; i < p->word_bytes; i++) {
		if (p->word[i] < '0' || p->word[i] > '9')
			return 400;
		if (p->length <= HTTP_BODY_MAX) /* saturates above the maximum */
			p->length = p->length * 10 + (uint64_t)(p->word[i] - '0');
	}
	p->has_length = true;
	return 0;
}

/* Called when a field's value is complete.  0, or an error status. */
static int field_end(struct http_parser *p)
{
	p->word_bytes -= word_ends_white(p);
	switch ((enum field)p->field) {
	case OTHER:
	case HOST: /* see head_end() */
		break;
	case LENGTH:
		return field_length(p);
	case CODING:
		field_coding(p);
		p->has_coding = true;
		break;
	case CONNECTION:
		field_option(p);
		break;
	case EXPECT:
		p->expect_continue |= word_is(p, "100-continue");
		break;
	}
	return 0;
}

/* Leading white space is dropped, and later white space counts as one byte: there may be more of it
 * than fits into a word. */
static void field_value(struct http_parser *p, uint8_t byte)
{
	if (p->field <= HOST)
		return;
	if (p->field == CONNECTION && byte == ',')
		field_option(p);
	else if (p->field == CODING && byte == ',')
		field_coding(p);
	else if (!is_white(byte) || !(p->word_bytes == 0 || word_ends_white(p)))
		word_add(p, byte);
}

/* ---- The request line ---- */

static void method_end(struct http_parser *p)
{
	static const struct {
		const char *name;
		enum http_method method;
	} methods[] = {
		{ "GET", HTTP_GET },       { "HEAD", HTTP_HEAD },   { "POST", HTTP_POST },
		{ "OPTIONS", HTTP_OTHER }, { "PUT", HTTP_OTHER },   { "DELETE", HTTP_OTHER },
		{ "CONNECT", HTTP_OTHER }, { "TRACE", HTTP_OTHER }, { "PATCH", HTTP_OTHER },
	};

	unsigned i = 0;

	while (i < ARRAY_SIZE(methods) && !word_is(p, methods[i].name))
		i++;
	p->method = i < ARRAY_SIZE(methods) ? (uint8_t)methods[i].method : HTTP_UNKNOWN;
	p->word_bytes = 0;
}

static void path_add(struct http_parser *p, uint8_t byte)
{
	if (p->path_bytes < HTTP_PATH_MAX)
		p->path[p->path_bytes] = (char)byte;
	if (p->path_bytes <= HTTP_PATH_MAX)
		p->path_bytes++; /* HTTP_PATH_MAX + 1: too long for any resource */
}

/* The asterisk-form and the absolute-form, which proxies are sent, are refused. */
static int target_byte(struct http_parser *p, uint8_t byte)
{
	p->in_query |= byte == '?';
	if (!p->in_query)
		path_add(p, byte);
	return p->path[0] == '/' ? 0 : 400;
}

/* "HTTP/1.1"; a byte at a time. */
static int version_byte(struct http_parser *p, uint8_t byte)
{
	static const char form[] = "HTTP/x.x\r";
	unsigned at = p->part_bytes++;

	if (form[at] != 'x')
		return byte == (uint8_t)form[at] ? 0 : 400;
	if (byte < '0' || byte > '9')
		return 400;
	if (at == 5)
		p->major_unknown = byte != '1';
	else
		p->minor = byte > '0';
	return 0;
}

/* One byte of the request line; 0 or an error status. */
static int line_byte(struct http_parser *p, uint8_t byte)
{
	int rc = 0;

	switch ((enum state)p->state) {
	case START:
		if (byte == '\r' && !p->empty_line) { /* RFC 9112, 2.2: ignore one */
			p->empty_line = true;
			p->state = START_LF;
			return 0;
		}
		p->state = METHOD;
		/* fall through */
	case METHOD:
		if (byte == ' ' && p->word_bytes > 0) {
			method_end(p);
			p->state = TARGET;
			return 0;
		}
		if (!is(byte, IS_TOKEN))
			return 400;
		if (p->word_bytes == HTTP_METHOD_MAX)
			return 501;
		p->word[p->word_bytes++] = (char)byte; /* not lowered: methods are case-sensitive */
		return 0;
	case TARGET:
		if (byte == ' ') {
			p->part_bytes = 0;
			p->state = VERSION;
			return p->path_bytes > 0 ? 0 : 400;
		}
		if (!is(byte, IS_TARGET))
			return 400;
		return p->part_bytes++ < HTTP_TARGET_MAX ? target_byte(p, byte) : 414;
	case VERSION:
		rc = version_byte(p, byte);
		if (byte == '\r')
			p->state = LINE_LF;
		return rc == 0 && byte == '\r' && p->major_unknown ? 505 : rc;
	default: /* START_LF, LINE_LF */
		p->state = p->state == START_LF ? START : FIELD;
		return byte == '\n' ? 0 : 400;
	}
}

/* ---- Heads and trailers ---- */

static int head_end(struct http_parser *p)
{
	if (p->trailer)
		return HTTP_END;
	if (p->minor ? p->hosts != 1 : p->hosts > 1)
		return 400;
	if (p->has_coding && (p->has_length || p->minor == 0))
		return 400;
	if (p->has_coding && (!p->coding_chunked || p->coding_misplaced))
		return 400; /* the end of the body cannot be found (RFC 9112, 6.3) */
	if (p->coding_unknown)
		return 501;
	if (p->length > HTTP_BODY_MAX)
		return 413;
	p->chunked = p->has_coding;
	p->keep_alive = !p->connection_close && (p->minor || p->connection_keep);
	p->part_bytes = 0;
	p->state = CHUNK_START;
	return HTTP_OK;
}

/* One byte of the fields; 0, HTTP_OK, HTTP_END or an error status.  A line that begins with white
 * space would continue the last one (obs-fold): it is refused, as no name begins so. */
static int field_byte(struct http_parser *p, uint8_t byte)
{
	switch ((enum state)p->state) {
	case FIELD:
		if (byte == '\r') {
			p->state = END_LF;
			return 0;
		}
		p->word_bytes = 0;
		p->state = NAME;
		/* fall through */
	case NAME:
		if (byte == ':' && p->word_bytes > 0) {
			p->state = VALUE;
			return field_begin(p);
		}
		word_add(p, byte);
		return is(byte, IS_TOKEN) ? 0 : 400;
	case VALUE:
		if (byte == '\r') {
			p->state = VALUE_LF;
			return 0;
		}
		field_value(p, byte);
		return is(byte, IS_VALUE) ? 0 : 400;
	case VALUE_LF:
		p->state = FIELD;
		return byte == '\n' ? field_end(p) : 400;
	default: /* END_LF */
		return byte == '\n' ? head_end(p) : 400;
	}
}

/* Fast path: consumes bytes of a name or a value that change no state.  Returns how many. */
static inline size_t field_bytes(struct http_parser *p, const uint8_t *data, size_t bytes)
{
	size_t n = 0;

	if (p->state == NAME)
		while (n < bytes && is(data[n], IS_TOKEN))
			word_add(p, data[n++]);
	else if (p->state == VALUE && p->field <= HOST)
		while (n < bytes && is(data[n], IS_VALUE))
			n++;
	return n;
}

int http_parse_head(struct http_parser *p, const uint8_t *data, size_t bytes, size_t *ret_used)
{
	size_t most = MIN(bytes, (size_t)(HTTP_HEAD_MAX - p->head_bytes)), at = 0;
	int rc = HTTP_MORE;

	while (at < most && rc == HTTP_MORE && p->state < FIELD)
		rc = line_byte(p, data[at++]);
	while (at < most && rc == HTTP_MORE) {
		at += field_bytes(p, data + at, most - at);
		if (at < most)
			rc = field_byte(p, data[at++]);
	}
	p->head_bytes = (uint16_t)(p->head_bytes + at);
	if (rc == HTTP_MORE && p->head_bytes == HTTP_HEAD_MAX)
		rc = 431;
	*ret_used = at;
	return rc;
}

/* ---- Framing of a chunked body ---- */

static int size_byte(struct http_parser *p, uint8_t byte)
{
	uint64_t digit = byte <= '9' ? byte - (uint64_t)'0' : (byte | 0x20U) - (uint64_t)'a' + 10;

	if (!is(byte, IS_HEX) || ++p->part_bytes > 16)
		return 400;
	p->left = p->left << 4 | digit;
	p->state = CHUNK_SIZE;
	return p->left > HTTP_BODY_MAX ? 413 : 0;
}

/* Called when the line with a chunk's size is complete. */
static int size_end(struct http_parser *p)
{
	p->part_bytes = 0;
	p->head_bytes = 0;
	if (p->left == 0) {
		p->trailer = true;
		p->state = FIELD;
		return HTTP_MORE;
	}
	p->state = DATA_CR;
	p->length += p->left;
	return p->length > HTTP_BODY_MAX ? 413 : HTTP_DATA;
}

static int chunk_byte(struct http_parser *p, uint8_t byte)
{
	switch ((enum state)p->state) {
	case CHUNK_START:
		p->left = 0;
		return size_byte(p, byte);
	case CHUNK_SIZE:
		if (byte != '\r') /* extensions are refused */
			return size_byte(p, byte);
		p->state = CHUNK_LF;
		return 0;
	case CHUNK_LF:
		return byte == '\n' ? size_end(p) : 400;
	case DATA_CR:
		p->state = DATA_LF;
		return byte == '\r' ? 0 : 400;
	case DATA_LF:
		p->state = CHUNK_START;
		return byte == '\n' ? 0 : 400;
	default:
		return ++p->head_bytes < HTTP_HEAD_MAX ? field_byte(p, byte) : 431;
	}
}

int http_parse_chunk(struct http_parser *p, const uint8_t *data, size_t bytes, size_t *ret_used)
{
	size_t at = 0;
	int rc = HTTP_MORE;

	while (at < bytes && rc == HTTP_MORE)
		rc = chunk_byte(p, data[at++]);
	*ret_used = at;
	return rc;
}

/* ---- Sizes in paths ---- */

int http_parse_size(const char *text, size_t bytes, uint64_t *ret_size)
{
	static const char units[] = "KMGT";
	const char *unit = bytes > 1 ? memchr(units, text[bytes - 1], sizeof(units) - 1) : NULL;
	uint64_t size = 0;
	unsigned shift;

	if (unit)
		bytes--;
	if (bytes == 0)
		return -EINVAL;
	for (size_t i = 0; i < bytes; i++) {
		if (text[i] < '0' || text[i] > '9')
			return -EINVAL;
		size = size * 10 + (uint64_t)(text[i] - '0');
		if (size > HTTP_BODY_MAX)
			return -EINVAL;
	}
	shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;
	if (size > HTTP_BODY_MAX >> shift)
		return -EINVAL;
	*ret_size = size << shift;
	return 0;
}
