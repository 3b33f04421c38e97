/* Fuzzes what an NBD client says, from its flags to its requests: what is accepted keeps to the
 * rules, and every reply has the bytes that its header names. */
#include "bytes.h"
#include "fuzz.h"
#include "nbd/option_proto.h"
#include "util.h"

struct stream {
	const uint8_t *at;
	size_t left;
};

/* The next `bytes`, or NULL. */
static const uint8_t *next(struct stream *s, size_t bytes)
{
	const uint8_t *at = s->at;

	if (bytes > s->left)
		return NULL;
	s->at += bytes;
	s->left -= bytes;
	return at;
}

/* ---- Options ---- */

static void check_option_reply(const uint8_t *reply, size_t bytes, uint32_t option)
{
	assert(bytes >= 20 && bytes <= NBD_OPTION_REPLY_MAX);
	assert(get_be32(reply + 8) == option && get_be32(reply + 16) == bytes - 20);
}

static void check_option(const struct nbd_option *o, const uint8_t *data)
{
	char name[NBD_NAME_MAX + 1];
	uint8_t reply[NBD_OPTION_REPLY_MAX];

	assert(o->name.bytes <= NBD_NAME_MAX && o->name.bytes <= o->length);
	if (o->name.bytes)
		assert((const uint8_t *)o->name.data >= data &&
		       (const uint8_t *)o->name.data + o->name.bytes <= data + o->length);
	memcpy(name, o->name.data, o->name.bytes);
	name[o->name.bytes] = 0;
	assert(strlen(name) == o->name.bytes && nbd_string_is(o->name, name));
	check_option_reply(reply, nbd_build_server(reply, name), NBD_OPT_LIST);
	check_option_reply(reply, nbd_build_option_error(reply, o->type, NBD_REP_ERR_UNKNOWN, name),
			   o->type);
	check_option_reply(reply, nbd_build_ack(reply, o->type), o->type);
	if (o->allocation)
		check_option_reply(reply, nbd_build_meta_context(reply, o->type), o->type);
}

/* Applies an option to the terms; returns the option that ends the handshake, 0: it goes on, -1:
 * the end. */
static int take_option(struct stream *s, struct nbd_terms *terms)
{
	const uint8_t *header = next(s, NBD_OPTION), *data;
	struct nbd_option o, without;

	if (!header || nbd_parse_option(header, NBD_TLS_ABSENT, &o) < 0)
		return -1;
	/* Where TLS is required nothing but its begin and the end is answered in clear. */
	if (nbd_parse_option(header, NBD_TLS_REQUIRED, &without) == 0)
		assert(without.refusal == NBD_REP_ERR_TLS_REQD || o.type == NBD_OPT_STARTTLS ||
		       o.type == NBD_OPT_ABORT);
	assert(o.length <= NBD_DRAIN_MAX && (o.refusal || o.length <= NBD_OPTION_MAX));
	data = next(s, o.length);
	if (!data)
		return -1;
	if (o.refusal || nbd_parse_option_data(data, terms->structured, &o) != 0)
		return o.type == NBD_OPT_EXPORT_NAME ? -1 : 0;
	check_option(&o, data);
	if (o.type == NBD_OPT_STRUCTURED_REPLY)
		terms->structured = true;
	else if (o.type == NBD_OPT_SET_META_CONTEXT)
		terms->block_status = o.allocation;
	assert(!terms->block_status || terms->structured);
	return o.type == NBD_OPT_GO || o.type == NBD_OPT_EXPORT_NAME ? (int)o.type : 0;
}

/* ---- Requests ---- */

/* A chunk, or a simple reply; `more` bytes of data belong to it. */
static void check_reply(const uint8_t *reply, size_t bytes, bool structured,
			const struct nbd_request *r, size_t more)
{
	size_t header = structured ? 20 : 16;

	assert(bytes >= header && get_be64(reply + 8) == r->cookie);
	if (structured)
		assert(get_be32(reply + 16) == bytes - header + more);
	else
		assert(bytes == header);
}

static void check_read(const struct nbd_request *r, bool structured)
{
	uint8_t header[NBD_DATA_HEADER_MAX];
	uint32_t length = (uint32_t)r->length, half = length / 2;

	check_reply(header, nbd_build_data(header, structured, r, r->offset, length, true),
		    structured, r, length);
	if (!structured || half == 0)
		return;
	check_reply(header, nbd_build_data(header, true, r, r->offset + half, half, false), true, r,
		    half);
}

/* Of arbitrary extents, those that are said keep to the request. */
static void check_status(const struct nbd_request *r)
{
	enum { COUNT = 8 };
	struct nbd_extent extents[COUNT];
	size_t room = NBD_STATUS_HEADER + COUNT * NBD_STATUS_EXTENT, bytes;
	uint8_t *reply = malloc(room);
	size_t header = NBD_STATUS_HEADER, each = NBD_STATUS_EXTENT;
	uint64_t covered = 0, seed = r->cookie;

	assert(reply);
	for (unsigned i = 0; i < COUNT; i++, seed = seed >> 7 | seed << 57)
		extents[i] = (struct nbd_extent){ 1 + (seed & (UINT64_MAX >> (seed % 60 + 4))),
						  (uint32_t)(seed >> 60) & 3 };
	bytes = nbd_build_block_status(reply, r, extents, COUNT);
	check_reply(reply, bytes, true, r, 0);
	assert(bytes > header && bytes <= room && (bytes - header) % each == 0);
	if (r->flags & NBD_CMD_FLAG_REQ_ONE)
		assert(bytes == header + each);
	for (size_t at = header; at < bytes; at += each) {
		uint64_t length = get_be32(reply + at);

		assert(length > 0 && covered < r->length);
		covered += length;
	}
	if (r->flags & NBD_CMD_FLAG_REQ_ONE)
		assert(covered <= r->length);
	free(reply);
}

static void check_request(const struct nbd_request *r, const struct nbd_terms *t)
{
	const char *reason = NULL;
	uint32_t error = nbd_check_request(r, t, &reason);
	uint8_t reply[NBD_REPLY_MAX];
	size_t bytes = nbd_build_reply(reply, t->structured, r, error, reason);

	assert((error != 0) == (reason != NULL));
	check_reply(reply, bytes, t->structured, r, 0);
	if (error)
		return;
	assert(r->type <= NBD_CMD_BLOCK_STATUS);
	if (r->type == NBD_CMD_DISC)
		return;
	assert(r->payload == (r->type == NBD_CMD_WRITE ? r->length : 0));
	assert(r->offset <= t->size && r->length <= t->size - r->offset);
	assert(r->offset % t->block_min == 0 && r->length % t->block_min == 0);
	assert((r->length == 0) == (r->type == NBD_CMD_FLUSH));
	if (r->type == NBD_CMD_READ || r->type == NBD_CMD_WRITE)
		assert(r->length <= NBD_PAYLOAD_MAX);
	if (r->type == NBD_CMD_READ)
		check_read(r, t->structured);
	if (r->type == NBD_CMD_BLOCK_STATUS)
		check_status(r);
	if (r->type == NBD_CMD_WRITE || r->type == NBD_CMD_TRIM || r->type == NBD_CMD_WRITE_ZEROES)
		assert(!(t->flags & NBD_FLAG_READ_ONLY));
}

static void take_requests(struct stream s, const struct nbd_terms *t)
{
	const uint8_t *header;
	struct nbd_request r;

	while ((header = next(&s, NBD_REQUEST)) && nbd_parse_request(header, &r) == 0) {
		assert(r.payload <= NBD_DRAIN_MAX);
		check_request(&r, t);
		if (r.type == NBD_CMD_DISC || !next(&s, r.payload))
			return;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static const struct nbd_terms exports[] = {
		{ .size = 1 << 20, .block_min = 1, .flags = 0xdff & ~NBD_FLAG_READ_ONLY },
		{ .size = UINT64_C(1) << 62,
		  .block_min = 512,
		  .flags = 0xdff & ~NBD_FLAG_READ_ONLY },
		{ .size = 1 << 20, .block_min = 1, .flags = 0xdff },
		{ .size = 0, .block_min = 1, .flags = NBD_FLAG_HAS_FLAGS },
	};
	struct stream s = { data, bytes };
	const uint8_t *flags = next(&s, NBD_CLIENT_FLAGS);
	struct nbd_terms terms = { .structured = false };
	uint32_t client_flags;
	int end = 0;

	if (!flags || nbd_parse_client_flags(flags, &client_flags) < 0)
		return 0;
	while (end == 0)
		end = take_option(&s, &terms);
	for (unsigned i = 0; i < ARRAY_SIZE(exports) && end > 0; i++) {
		struct nbd_terms t = exports[i];

		t.structured = terms.structured;
		t.block_status = terms.block_status;
		take_requests(s, &t);
	}
	return 0;
}
