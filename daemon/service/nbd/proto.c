/* Requests and replies of NBD.  See nbd/proto.h. */
#include "proto.h"

#include <assert.h>
#include <errno.h>

#include "bytes.h"
#include "util.h"

#define MAGIC_REQUEST          UINT32_C(0x25609513)
#define MAGIC_REPLY_SIMPLE     UINT32_C(0x67446698)
#define MAGIC_REPLY_STRUCTURED UINT32_C(0x668e33ef)

/* ---- Requests: "Request types" ---- */

int nbd_parse_request(const uint8_t header[static NBD_REQUEST], struct nbd_request *ret_request)
{
	struct nbd_request r = {
		.flags = get_be16(header + 4),
		.type = get_be16(header + 6),
		.cookie = get_be64(header + 8),
		.offset = get_be64(header + 16),
		.length = get_be32(header + 24),
	};

	if (get_be32(header) != MAGIC_REQUEST)
		return -EPROTO;
	if (r.type == NBD_CMD_WRITE)
		r.payload = (uint32_t)r.length;
	if (r.payload > NBD_DRAIN_MAX)
		return -EPROTO;
	*ret_request = r;
	return 0;
}

static const struct command {
	bool writes;
	bool sized;        /* limited to NBD_PAYLOAD_MAX */
	uint16_t flags;    /* allowed enum nbd_cmd_flag, besides FUA, which is always allowed */
	uint16_t past_end; /* error for a range beyond the export; 0: the command has no range */
} commands[] = {
	[NBD_CMD_READ] = { false, true, 0, NBD_EINVAL },
	[NBD_CMD_WRITE] = { true, true, 0, NBD_ENOSPC },
	[NBD_CMD_DISC] = { false, false, 0, 0 },
	[NBD_CMD_FLUSH] = { false, false, 0, 0 },
	[NBD_CMD_TRIM] = { true, false, 0, NBD_EINVAL },
	[NBD_CMD_WRITE_ZEROES] = { true, false, NBD_CMD_FLAG_NO_HOLE, NBD_ENOSPC },
	[NBD_CMD_BLOCK_STATUS] = { false, false, NBD_CMD_FLAG_REQ_ONE, NBD_EINVAL },
};
enum { CMD_CACHE = 5 /* not served: a gap in the table */ };

/* NULL: unknown. */
static const struct command *command_find(uint16_t type)
{
	return type < ARRAY_SIZE(commands) && type != CMD_CACHE ? &commands[type] : NULL;
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
	return refuse(NBD_EINVAL, "it is longer than the maximum block size", ret_reason);
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
	if (r->flags & ~(c->flags | NBD_CMD_FLAG_FUA))
		return refuse(NBD_EINVAL, "the command does not have such a flag", ret_reason);
	if (r->type == NBD_CMD_BLOCK_STATUS && (!terms->block_status || !terms->structured))
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

/* Writes a chunk's header, for `bytes` of payload. */
static uint8_t *put_chunk(uint8_t *to, const struct nbd_request *r, enum nbd_reply_type type,
			  bool last, uint32_t bytes)
{
	uint8_t *at = put_be32(to, MAGIC_REPLY_STRUCTURED);

	at = put_be16(put_be16(at, last ? NBD_REPLY_FLAG_DONE : 0), (uint16_t)type);
	return put_be32(put_be64(at, r->cookie), bytes);
}

size_t nbd_build_reply(uint8_t to[static NBD_REPLY_MAX], bool structured,
		       const struct nbd_request *r, uint32_t error, const char *text)
{
	uint16_t bytes = text ? (uint16_t)strnlen(text, NBD_TEXT_MAX) : 0;
	uint8_t *at;

	if (!structured)
		return (size_t)(put_simple(to, r, error) - to);
	if (error == 0)
		return (size_t)(put_chunk(to, r, NBD_REPLY_TYPE_NONE, true, 0) - to);
	at = put_chunk(to, r, NBD_REPLY_TYPE_ERROR, true, 4U + 2 + bytes);
	at = put_be16(put_be32(at, error), bytes);
	return (size_t)(put_text(at, text ? text : "", bytes) - to);
}

size_t nbd_build_data(uint8_t to[static NBD_DATA_HEADER_MAX], bool structured,
		      const struct nbd_request *r, uint64_t offset, uint32_t length, bool last)
{
	uint8_t *at;

	assert(length > 0 && length <= NBD_PAYLOAD_MAX);
	if (!structured) {
		assert(offset == r->offset && length == r->length && last);
		return (size_t)(put_simple(to, r, 0) - to);
	}
	at = put_chunk(to, r, NBD_REPLY_TYPE_OFFSET_DATA, last, 8 + length);
	return (size_t)(put_be64(at, offset) - to);
}

/* Writes the extents of a BLOCK_STATUS reply, and returns their end.  Lengths have 32 bits; the
 * limit is a multiple of any block size.  The specification lets only the last extent reach beyond
 * the end of the request, and none does if one extent is asked for. */
static uint8_t *put_extents(uint8_t *to, const struct nbd_request *r,
			    const struct nbd_extent *extents, unsigned count)
{
	bool one = r->flags & NBD_CMD_FLAG_REQ_ONE;
	uint64_t limit = one ? r->length : UINT32_MAX & ~UINT32_C(0xffff), covered = 0, length;
	unsigned i = 0, at;

	do {
		at = i;
		length = extents[i++].length;
		while (i < count && extents[i].state == extents[at].state)
			length += extents[i++].length;
		to = put_be32(put_be32(to, (uint32_t)MIN(length, limit)), extents[at].state);
		covered += length;
	} while (i < count && covered < r->length && length <= limit && !one);
	return to;
}

size_t nbd_build_block_status(uint8_t *to, const struct nbd_request *r,
			      const struct nbd_extent *extents, unsigned count)
{
	/* Written first, as the header contains its length. */
	uint8_t *payload = to + NBD_STATUS_HEADER - 4, *end;

	assert(count > 0);
	end = put_extents(put_be32(payload, NBD_CONTEXT_ALLOCATION), r, extents, count);
	put_chunk(to, r, NBD_REPLY_TYPE_BLOCK_STATUS, true, (uint32_t)(end - payload));
	return (size_t)(end - to);
}
