/* Fuzzes the reader of HTTP requests: whole, and in pieces that the input chooses, the same
 * requests come out, and what it says of them holds. */
#include "fuzz.h"
#include "http/proto.h"
#include "util.h"

/* A hash of everything that was read of a stream. */
struct digest {
	uint64_t value;
	int status; /* that ended it; 0: none */
};

static void digest_add(struct digest *d, uint64_t value)
{
	d->value = (d->value ^ value) * UINT64_C(0x100000001b3);
}

static void check_head(const struct http_parser *p, struct digest *d)
{
	uint64_t size;

	assert(p->method <= HTTP_UNKNOWN && p->minor <= 1);
	assert(!(p->chunked && p->length) && p->length <= HTTP_BODY_MAX);
	assert(!p->chunked || p->minor == 1);
	assert(p->path_bytes > 0 && p->path_bytes <= HTTP_PATH_MAX + 1);
	assert(p->path[0] == '/');
	for (unsigned i = 0; i < MIN(p->path_bytes, (unsigned)HTTP_PATH_MAX); i++) {
		assert(p->path[i] > ' ' && p->path[i] < 0x7f && p->path[i] != '?');
		digest_add(d, (uint8_t)p->path[i]);
	}
	if (http_parse_size(p->path, MIN(p->path_bytes, (size_t)HTTP_PATH_MAX), &size) == 0)
		assert(size <= HTTP_BODY_MAX);
	digest_add(d, p->length);
	digest_add(d, (uint64_t)p->method << 8 | p->minor << 4 | p->chunked << 2 | p->keep_alive);
	digest_add(d, p->expect_continue);
}

/* One stream of requests and their bodies, as the service reads it, `piece` bytes at a time. */
static struct digest read_stream(const uint8_t *data, size_t bytes, size_t piece)
{
	enum { HEAD, BODY, CHUNK } what = HEAD;
	struct digest d = { 0 };
	struct http_parser p;
	uint64_t left = 0;

	http_parser_init(&p);
	for (size_t at = 0, used; at < bytes; at += used) {
		size_t n = MIN(piece, bytes - at);
		int rc;

		if (what == BODY) {
			used = (size_t)MIN(left, (uint64_t)n);
			left -= used;
			digest_add(&d, used > 0 ? data[at] : 0);
			for (size_t i = 1; i < used; i++)
				digest_add(&d, data[at + i]);
			if (left == 0 && !p.chunked)
				http_parser_init(&p);
			if (left == 0)
				what = p.chunked ? CHUNK : HEAD;
			continue;
		}
		rc = what == HEAD ? http_parse_head(&p, data + at, n, &used)
				  : http_parse_chunk(&p, data + at, n, &used);
		assert(used > 0 && used <= n && (rc != HTTP_MORE || used == n));
		if (rc >= HTTP_STATUS) {
			assert(rc < 600);
			d.status = rc;
			break;
		}
		if (rc == HTTP_OK) {
			check_head(&p, &d);
			left = p.length;
			what = p.chunked ? CHUNK : left ? BODY : HEAD;
		} else if (rc == HTTP_DATA) {
			assert(p.left > 0 && p.length <= HTTP_BODY_MAX);
			left = p.left;
			what = BODY;
		}
		if (rc == HTTP_END || (rc == HTTP_OK && what == HEAD)) {
			digest_add(&d, UINT64_C(0xe2d));
			http_parser_init(&p);
			what = HEAD;
		}
	}
	return d;
}

/* The first byte says how long the pieces are. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct digest whole, pieces;

	if (bytes == 0)
		return 0;
	whole = read_stream(data + 1, bytes - 1, SIZE_MAX);
	pieces = read_stream(data + 1, bytes - 1, (size_t)data[0] % 32 + 1);
	assert(whole.status == pieces.status && whole.value == pieces.value);
	return 0;
}
