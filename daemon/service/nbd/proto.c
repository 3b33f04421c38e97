/* Requests and replies of NBD.  See nbd/proto.h. */
#include "proto.h"

#include <assert.h>
#include <errno.h>

#include "bytes.h"
#include "util.h"

#define MAGIC_REQUEST          UINT32_C(0x25609513)
#define MAGIC_REQUEST_EXTENDED UINT32_C(0x21e41c71)
#define MAGIC_REPLY_SIMPLE     UINT32_C(0x67446698)
#define MAGIC_REPLY_STRUCTURED UINT32_C(0x668e33ef)
#define MAGIC_REPLY_EXTENDED   UINT32_C(0x6e8a278c)

/* ---- Requests: "Request types" ---- */

/* A WRITE has payload whatever its flags are: qemu's client (10.0) sends extended WRITEs without
 * PAYLOAD_LEN. */
static uint64_t payload(const struct nbd_request *r, enum nbd_mode mode)
{
	if (r->type == NBD_CMD_WRITE ||
	    (mode == NBD_EXTENDED && (r->flags & NBD_CMD_FLAG_PAYLOAD_LEN)))
		return r->length;
	return 0;
}

int nbd_parse_request(const uint8_t *header, enum nbd_mode mode, struct nbd_request *ret_request)
{
	bool extended = mode == NBD_EXTENDED;
	struct nbd_request r = {
		.flags = get_be16(header + 4),
		.type = get_be16(header + 6),
		.cookie = get_be64(header + 8),
		.offset = get_be64(header + 16),
		.length = extended ? get_be64(header + 24) : get_be32(header + 24),
	};

	if (get_be32(header) != (extended ? MAGIC_REQUEST_EXTENDED : MAGIC_REQUEST))
		return -EPROTO;
	if (payload(&r, mode) > NBD_DRAIN_MAX)
		return -EPROTO;
	r.payload = (uint32_t)payload(&r, mode);
	*ret_request = r;
	return 0;
}

static const struct command {
	bool writes;
	bool sized;        /* limited to NBD_PAYLOAD_MAX */
	uint16_t feature;  /* enum nbd_flag that must have been advertised */
	uint16_t flags;    /* allowed enum nbd_cmd_flag, besides FUA, which is always allowed */
	uint16_t past_end; /* error for a range beyond the export; 0: the command has no range */
} commands[] = {
	[NBD_CMD_READ] = { false, true, 0, NBD_CMD_FLAG_DF, NBD_EINVAL },
	[NBD_CMD_WRITE] = { true, true, 0, NBD_CMD_FLAG_PAYLOAD_LEN, NBD_ENOSPC },
	[NBD_CMD_DISC] = { false, false, 0, 0, 0 },
	[NBD_CMD_FLUSH] = { false, false, NBD_FLAG_SEND_FLUSH, 0, 0 },
	[NBD_CMD_TRIM] = { true, false, NBD_FLAG_SEND_TRIM, 0, NBD_EINVAL },
	[NBD_CMD_CACHE] = { false, false, NBD_FLAG_SEND_CACHE, 0, NBD_EINVAL },
	[NBD_CMD_WRITE_ZEROES] = { true, false, NBD_FLAG_SEND_WRITE_ZEROES,
				   NBD_CMD_FLAG_NO_HOLE | NBD_CMD_FLAG_FAST_ZERO, NBD_ENOSPC },
	[NBD_CMD_BLOCK_STATUS] = { false, false, 0, NBD_CMD_FLAG_REQ_ONE, NBD_EINVAL },
};

/* NULL: unknown. */
static const struct command *command_find(uint16_t type)
{
	return type < ARRAY_SIZE(commands) ? &commands[type] : NULL;
}

/* Command flags that were not negotiated. */
static uint16_t flags_missing(const struct nbd_terms *t)
{
	static const struct {
		uint16_t flag, feature;
	} features[] = {
		{ NBD_CMD_FLAG_FUA, NBD_FLAG_SEND_FUA },
		{ NBD_CMD_FLAG_DF, NBD_FLAG_SEND_DF },
		{ NBD_CMD_FLAG_FAST_ZERO, NBD_FLAG_SEND_FAST_ZERO },
	};
	unsigned missing = 0;

	if (t->mode == NBD_SIMPLE)
		missing |= NBD_CMD_FLAG_DF;
	if (t->mode != NBD_EXTENDED)
		missing |= NBD_CMD_FLAG_PAYLOAD_LEN;
	for (unsigned i = 0; i < ARRAY_SIZE(features); i++)
		if (!(t->flags & features[i].feature))
			missing |= features[i].flag;
	return (uint16_t)missing;
}

static uint32_t refuse(uint32_t error, const char *reason, const char **ret_reason)
{
	*ret_reason = reason;
	return error;
}

/* "Block size constraints" */
static uint32_t check_range(const struct nbd_request *r, const struct command *c,
			    const struct nbd_terms *t, const char **ret_reason)
{
	if (r->length == 0)
		return refuse(NBD_EINVAL, "a length of 0", ret_reason);
	if (r->length > t->size || r->offset > t->size - r->length)
		return refuse(c->past_end, "it reaches past the end of the export", ret_reason);
	if ((r->offset | r->length) & (t->block_min - 1))
		return refuse(NBD_EINVAL, "it is not aligned to the minimum block size",
			      ret_reason);
	if (!c->sized || r->length <= NBD_PAYLOAD_MAX)
		return 0;
	return refuse(r->flags & NBD_CMD_FLAG_DF ? NBD_EOVERFLOW : NBD_EINVAL,
		      "it is longer than the maximum block size", ret_reason);
}

uint32_t nbd_check_request(const struct nbd_request *r, const struct nbd_terms *terms,
			   const char **ret_reason)
{
	const struct command *c = command_find(r->type);

	if (r->type == NBD_CMD_DISC)
		return 0;
	if (!c)
		return refuse(NBD_EINVAL, "unknown command", ret_reason);
	if (c->writes && (terms->flags & NBD_FLAG_READ_ONLY))
		return refuse(NBD_EPERM, "the export is read-only", ret_reason);
	if ((terms->flags & c->feature) != c->feature)
		return refuse(NBD_EINVAL, "the export does not offer this command", ret_reason);
	if (r->flags & (~(c->flags | NBD_CMD_FLAG_FUA) | flags_missing(terms)))
		return refuse(NBD_EINVAL, "the command does not have such a flag", ret_reason);
	if (r->type == NBD_CMD_BLOCK_STATUS && (!terms->block_status || terms->mode == NBD_SIMPLE))
		return refuse(NBD_EINVAL, "no metadata context was selected", ret_reason);
	if (c->past_end)
		return check_range(r, c, terms, ret_reason);
	if (r->offset != 0 || r->length != 0)
		return refuse(NBD_EINVAL, "offset and length are reserved", ret_reason);
	return 0;
}

/* "Error values" */
uint32_t nbd_error_of(int result)
{
	static const struct {
		int number;
		uint32_t error;
	} errors[] = {
		{ 0, 0 },
		{ EPERM, NBD_EPERM },
		{ EROFS, NBD_EPERM },
		{ ENOMEM, NBD_ENOMEM },
		{ EINVAL, NBD_EINVAL },
		{ ENOSPC, NBD_ENOSPC },
		{ EDQUOT, NBD_ENOSPC },
		{ EFBIG, NBD_ENOSPC },
		{ EOVERFLOW, NBD_EOVERFLOW },
		{ EOPNOTSUPP, NBD_ENOTSUP },
		{ ESHUTDOWN, NBD_ESHUTDOWN },
	};

	for (unsigned i = 0; i < ARRAY_SIZE(errors); i++)
		if (errors[i].number == -result)
			return errors[i].error;
	return NBD_EIO;
}

/* ---- Replies: "Structured reply types" ---- */

static uint8_t *put_simple(uint8_t *to, const struct nbd_request *r, uint32_t error)
{
	return put_be64(put_be32(put_be32(to, MAGIC_REPLY_SIMPLE), error), r->cookie);
}

/* Writes a chunk's header, for `bytes` of payload.  An extended header
 * repeats the request's offset. */
static uint8_t *put_chunk(uint8_t *to, enum nbd_mode mode, const struct nbd_request *r,
			  enum nbd_reply_type type, bool last, uint32_t bytes)
{
	bool extended = mode == NBD_EXTENDED;
	uint8_t *at = put_be32(to, extended ? MAGIC_REPLY_EXTENDED : MAGIC_REPLY_STRUCTURED);

	at = put_be16(put_be16(at, last ? NBD_REPLY_FLAG_DONE : 0), (uint16_t)type);
	at = put_be64(at, r->cookie);
	return extended ? put_be64(put_be64(at, r->offset), bytes) : put_be32(at, bytes);
}

size_t nbd_build_reply(uint8_t to[static NBD_REPLY_MAX], enum nbd_mode mode,
		       const struct nbd_request *r, uint32_t error, const char *text)
{
	uint16_t bytes = text ? (uint16_t)strnlen(text, NBD_TEXT_MAX) : 0;
	uint8_t *at;

	if (mode == NBD_SIMPLE)
		return (size_t)(put_simple(to, r, error) - to);
	if (error == 0)
		return (size_t)(put_chunk(to, mode, r, NBD_REPLY_TYPE_NONE, true, 0) - to);
	at = put_chunk(to, mode, r, NBD_REPLY_TYPE_ERROR, true, 4U + 2 + bytes);
	at = put_be16(put_be32(at, error), bytes);
	return (size_t)(put_text(at, text ? text : "", bytes) - to);
}

size_t nbd_build_data(uint8_t to[static NBD_CHUNK_MAX], enum nbd_mode mode,
		      const struct nbd_request *r, uint64_t offset, uint32_t length, bool last)
{
	uint8_t *at;

	assert(length > 0 && length <= NBD_PAYLOAD_MAX);
	if (mode == NBD_SIMPLE) {
		assert(offset == r->offset && length == r->length && last);
		return (size_t)(put_simple(to, r, 0) - to);
	}
	at = put_chunk(to, mode, r, NBD_REPLY_TYPE_OFFSET_DATA, last, 8 + length);
	return (size_t)(put_be64(at, offset) - to);
}

size_t nbd_build_hole(uint8_t to[static NBD_CHUNK_MAX], enum nbd_mode mode,
		      const struct nbd_request *r, uint64_t offset, uint32_t length, bool last)
{
	uint8_t *at;

	assert(length > 0 && mode != NBD_SIMPLE && !(r->flags & NBD_CMD_FLAG_DF));
	at = put_chunk(to, mode, r, NBD_REPLY_TYPE_OFFSET_HOLE, last, 8 + 4);
	return (size_t)(put_be32(put_be64(at, offset), length) - to);
}

/* The maximum length of an extent: no limit, unless only one extent is asked for or lengths have 32
 * bits.  The limit is a multiple of any block size. */
static uint64_t extent_limit(enum nbd_mode mode, const struct nbd_request *r)
{
	uint64_t limit = mode == NBD_EXTENDED ? UINT64_MAX : UINT32_MAX & ~UINT32_C(0xffff);

	return r->flags & NBD_CMD_FLAG_REQ_ONE ? MIN(limit, r->length) : limit;
}

static uint8_t *put_extent(uint8_t *to, enum nbd_mode mode, uint64_t length, uint32_t state)
{
	return mode == NBD_EXTENDED ? put_be64(put_be64(to, length), state)
				    : put_be32(put_be32(to, (uint32_t)length), state);
}

/* Writes the extents of an NBD BLOCK_STATUS reply, and returns their end.  The specification lets
 * only the last extent reach beyond the end of the request. */
static uint8_t *put_extents(uint8_t *to, enum nbd_mode mode, const struct nbd_request *r,
			    const struct nbd_extent *extents, unsigned count)
{
	uint64_t limit = extent_limit(mode, r), covered = 0, length;
	unsigned i = 0, at;

	do {
		at = i;
		length = extents[i++].length;
		while (i < count && extents[i].state == extents[at].state)
			length += extents[i++].length;
		to = put_extent(to, mode, MIN(length, limit), extents[at].state);
		covered += length;
	} while (i < count && covered < r->length && length <= limit &&
		 !(r->flags & NBD_CMD_FLAG_REQ_ONE));
	return to;
}

size_t nbd_build_block_status(uint8_t *to, enum nbd_mode mode, const struct nbd_request *r,
			      const struct nbd_extent *extents, unsigned count)
{
	bool extended = mode == NBD_EXTENDED;
	/* Written first, as the header contains its length. */
	uint8_t *payload = to + (extended ? 32 : 20);
	uint8_t *id_end = put_be32(payload, NBD_CONTEXT_ALLOCATION);
	uint8_t *first = extended ? id_end + 4 : id_end, *end;

	assert(count > 0 && mode != NBD_SIMPLE);
	end = put_extents(first, mode, r, extents, count);
	if (extended)
		put_be32(id_end, (uint32_t)((end - first) / NBD_STATUS_EXTENT_MAX));
	put_chunk(to, mode, r,
		  extended ? NBD_REPLY_TYPE_BLOCK_STATUS_EXT : NBD_REPLY_TYPE_BLOCK_STATUS, true,
		  (uint32_t)(end - payload));
	return (size_t)(end - to);
}
