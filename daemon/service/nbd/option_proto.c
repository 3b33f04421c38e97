/* The handshake of NBD.  See nbd/option_proto.h. */
#include "option_proto.h"

#include <assert.h>
#include <errno.h>

#include "bytes.h"
#include "util.h"

#define MAGIC_GREETING     UINT64_C(0x4e42444d41474943) /* "NBDMAGIC" */
#define MAGIC_OPTION       UINT64_C(0x49484156454f5054) /* "IHAVEOPT" */
#define MAGIC_OPTION_REPLY UINT64_C(0x0003e889045565a9)

static const char context_allocation[] = "base:allocation";

/* ---- Parsing of options: "Option types" ---- */

/* The rest of an option's data. */
struct reader {
	const uint8_t *at;
	uint32_t left;
};

/* Returns a pointer to the next `bytes` and skips them; NULL: there are fewer. */
static const uint8_t *take(struct reader *r, uint32_t bytes)
{
	const uint8_t *at = r->at;

	if (bytes > r->left)
		return NULL;
	r->at += bytes;
	r->left -= bytes;
	return at;
}

static bool take32(struct reader *r, uint32_t *ret_value)
{
	const uint8_t *at = take(r, sizeof(*ret_value));

	if (at)
		*ret_value = get_be32(at);
	return at;
}

/* "Conventions": no NUL, at most 4096 bytes.  Whether it is UTF-8 does not matter here. */
static bool take_string(struct reader *r, uint32_t bytes, struct nbd_string *ret_string)
{
	const uint8_t *at = bytes <= NBD_NAME_MAX ? take(r, bytes) : NULL;

	if (!at || memchr(at, 0, bytes))
		return false;
	*ret_string = (struct nbd_string){ (const char *)at, bytes };
	return true;
}

static bool take_counted(struct reader *r, struct nbd_string *ret_string)
{
	uint32_t bytes;

	return take32(r, &bytes) && take_string(r, bytes, ret_string);
}

bool nbd_string_is(struct nbd_string string, const char *text)
{
	return string.bytes == strlen(text) && !memcmp(string.data, text, string.bytes);
}

static bool read_nothing(struct reader *r, struct nbd_option *o)
{
	(void)r;
	(void)o;
	return true;
}

/* Data of ABORT is to be ignored. */
static bool read_all(struct reader *r, struct nbd_option *o)
{
	(void)o;
	return take(r, r->left);
}

static bool read_name(struct reader *r, struct nbd_option *o)
{
	return take_string(r, r->left, &o->name);
}

/* All that there is to know of an export is sent without a request for it. */
static bool read_info(struct reader *r, struct nbd_option *o)
{
	const uint8_t *count;

	return take_counted(r, &o->name) && (count = take(r, 2)) && take(r, 2U * get_be16(count));
}

/* "Metadata querying": a query of another namespace or leaf finds nothing, and is no error.  A LIST
 * without queries asks for all contexts, and allows a wildcard. */
static bool read_contexts(struct reader *r, struct nbd_option *o)
{
	bool list = o->type == NBD_OPT_LIST_META_CONTEXT;
	struct nbd_string query;
	uint32_t count;

	if (!take_counted(r, &o->name) || !take32(r, &count))
		return false;
	o->allocation = list && count == 0;
	for (; count > 0 && take_counted(r, &query); count--)
		o->allocation |= nbd_string_is(query, context_allocation) ||
				 (list && nbd_string_is(query, "base:"));
	return count == 0;
}

static const struct option {
	const char *name;
	bool (*read)(struct reader *r, struct nbd_option *o); /* NULL: not supported */
	bool structured;                                      /* needs structured replies */
} options[] = {
	[NBD_OPT_EXPORT_NAME] = { "EXPORT_NAME", read_name, false },
	[NBD_OPT_ABORT] = { "ABORT", read_all, false },
	[NBD_OPT_LIST] = { "LIST", read_nothing, false },
	[NBD_OPT_STARTTLS] = { "STARTTLS", read_nothing, false },
	[NBD_OPT_INFO] = { "INFO", read_info, false },
	[NBD_OPT_GO] = { "GO", read_info, false },
	[NBD_OPT_STRUCTURED_REPLY] = { "STRUCTURED_REPLY", read_nothing, false },
	[NBD_OPT_LIST_META_CONTEXT] = { "LIST_META_CONTEXT", read_contexts, true },
	[NBD_OPT_SET_META_CONTEXT] = { "SET_META_CONTEXT", read_contexts, true },
};

/* NULL: unknown. */
static const struct option *option_find(uint32_t type)
{
	return type < ARRAY_SIZE(options) && options[type].name ? &options[type] : NULL;
}

int nbd_parse_client_flags(const uint8_t flags[static NBD_CLIENT_FLAGS], uint32_t *ret_flags)
{
	uint32_t value = get_be32(flags);

	if (value & ~(uint32_t)(NBD_FLAG_FIXED_NEWSTYLE | NBD_FLAG_NO_ZEROES))
		return -EPROTO;
	*ret_flags = value;
	return 0;
}

/* "FORCEDTLS mode": the NBD_REP_ERR_* for an option; 0: it may be used. */
static uint32_t tls_refusal(uint32_t type, enum nbd_tls tls)
{
	if (type == NBD_OPT_STARTTLS)
		return tls == NBD_TLS_REQUIRED ? 0
		       : tls == NBD_TLS_ON     ? NBD_REP_ERR_INVALID
					       : NBD_REP_ERR_UNSUP;
	return tls == NBD_TLS_REQUIRED && type != NBD_OPT_ABORT ? NBD_REP_ERR_TLS_REQD : 0;
}

int nbd_parse_option(const uint8_t header[static NBD_OPTION], enum nbd_tls tls,
		     struct nbd_option *ret_option)
{
	struct nbd_option o = { .type = get_be32(header + 8), .length = get_be32(header + 12) };
	const struct option *option = option_find(o.type);

	if (get_be64(header) != MAGIC_OPTION || o.length > NBD_DRAIN_MAX)
		return -EPROTO;
	o.refusal = tls_refusal(o.type, tls);
	if (!o.refusal && (!option || !option->read))
		o.refusal = NBD_REP_ERR_UNSUP;
	else if (!o.refusal && o.length > NBD_OPTION_MAX)
		o.refusal = NBD_REP_ERR_TOO_BIG;
	if (o.refusal && o.type == NBD_OPT_EXPORT_NAME)
		return -EPROTO;
	*ret_option = o;
	return 0;
}

uint32_t nbd_parse_option_data(const uint8_t *data, bool structured, struct nbd_option *o)
{
	const struct option *option = option_find(o->type);
	struct nbd_option read = { .type = o->type, .length = o->length, .name.data = "" };
	struct reader r = { o->length ? data : (const uint8_t *)"", o->length };

	assert(option && option->read && o->length <= NBD_OPTION_MAX);
	if (!option->read(&r, &read) || r.left > 0)
		return NBD_REP_ERR_INVALID;
	if (option->structured && !structured)
		return NBD_REP_ERR_INVALID;
	*o = read;
	return 0;
}

/* ---- Messages of the handshake ---- */

size_t nbd_build_greeting(uint8_t to[static NBD_GREETING])
{
	uint8_t *at = put_be64(put_be64(to, MAGIC_GREETING), MAGIC_OPTION);

	return (size_t)(put_be16(at, NBD_FLAG_FIXED_NEWSTYLE | NBD_FLAG_NO_ZEROES) - to);
}

/* A reply's header; `bytes` of data follow. */
static uint8_t *put_option_reply(uint8_t *to, uint32_t option, uint32_t rep, size_t bytes)
{
	return put_be32(put_be32(put_be32(put_be64(to, MAGIC_OPTION_REPLY), option), rep),
			(uint32_t)bytes);
}

size_t nbd_build_ack(uint8_t to[static NBD_OPTION_REPLY_MAX], uint32_t option)
{
	return (size_t)(put_option_reply(to, option, NBD_REP_ACK, 0) - to);
}

size_t nbd_build_option_error(uint8_t to[static NBD_OPTION_REPLY_MAX], uint32_t option,
			      uint32_t rep, const char *text)
{
	size_t bytes = text ? strnlen(text, NBD_TEXT_MAX) : 0;
	uint8_t *at = put_option_reply(to, option, rep, bytes);

	return (size_t)(put_text(at, text ? text : "", bytes) - to);
}

size_t nbd_build_server(uint8_t to[static NBD_OPTION_REPLY_MAX], const char *name)
{
	size_t bytes = strnlen(name, NBD_NAME_MAX);
	uint8_t *at = put_option_reply(to, NBD_OPT_LIST, NBD_REP_SERVER, 4 + bytes);

	return (size_t)(put_text(put_be32(at, (uint32_t)bytes), name, bytes) - to);
}

size_t nbd_build_info_export(uint8_t to[static NBD_OPTION_REPLY_MAX], uint32_t option,
			     uint64_t size, uint16_t flags)
{
	uint8_t *at = put_option_reply(to, option, NBD_REP_INFO, 2 + 8 + 2);

	return (size_t)(put_be16(put_be64(put_be16(at, NBD_INFO_EXPORT), size), flags) - to);
}

size_t nbd_build_info_block_size(uint8_t to[static NBD_OPTION_REPLY_MAX], uint32_t option,
				 uint32_t min, uint32_t preferred, uint32_t max)
{
	uint8_t *at = put_option_reply(to, option, NBD_REP_INFO, 2 + 4 + 4 + 4);

	at = put_be32(put_be16(at, NBD_INFO_BLOCK_SIZE), min);
	return (size_t)(put_be32(put_be32(at, preferred), max) - to);
}

size_t nbd_build_meta_context(uint8_t to[static NBD_OPTION_REPLY_MAX], uint32_t option)
{
	size_t bytes = sizeof(context_allocation) - 1;
	uint8_t *at = put_option_reply(to, option, NBD_REP_META_CONTEXT, 4 + bytes);

	/* In replies to LIST the ID is reserved. */
	at = put_be32(at, option == NBD_OPT_SET_META_CONTEXT ? NBD_CONTEXT_ALLOCATION : 0);
	return (size_t)(put_text(at, context_allocation, bytes) - to);
}

size_t nbd_build_export(uint8_t to[static NBD_EXPORT_REPLY_MAX], uint64_t size, uint16_t flags,
			uint32_t client_flags)
{
	size_t bytes = (size_t)(put_be16(put_be64(to, size), flags) - to);

	if (client_flags & NBD_FLAG_NO_ZEROES)
		return bytes;
	memset(to + bytes, 0, NBD_EXPORT_REPLY_MAX - bytes);
	return NBD_EXPORT_REPLY_MAX;
}
