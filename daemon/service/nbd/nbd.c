/* Service `nbd`: exports over the NBD protocol.  A connection's begin, handshake and end; requests
 * are in nbd/command.c. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nbd.h"

/* ---- Handshake ---- */

static void nbd_write(struct conn *c, const uint8_t *data, size_t bytes)
{
	/* cannot fail as a rule: nbd_next_option() has checked that there is room */
	if (conn_write(c, data, bytes) < 0)
		conn_close(c, CONN_END_ERROR);
}

static void nbd_ack(struct conn *c, const struct nbd_option *o)
{
	uint8_t reply[NBD_OPTION_REPLY_MAX];

	nbd_write(c, reply, nbd_build_ack(reply, o->type));
}

static void nbd_refuse(struct conn *c, const struct nbd_option *o, uint32_t rep, const char *text)
{
	uint8_t reply[NBD_OPTION_REPLY_MAX];

	nbd_write(c, reply, nbd_build_option_error(reply, o->type, rep, text));
}

static void nbd_refuse_name(struct conn *c, const struct nbd_option *o)
{
	nbd_refuse(c, o, NBD_REP_ERR_UNKNOWN,
		   "no export has that name; the option LIST returns all names");
}

/* The export of that name, or the first; NULL when there is none. */
static struct mount *nbd_find(const struct conn *c, struct nbd_string name)
{
	struct worker *w = c->worker;

	for (unsigned i = 0; i < w->mount_count; i++)
		if (name.bytes == 0 || nbd_string_is(name, w->mounts[i].export->name))
			return &w->mounts[i];
	return NULL;
}

static uint16_t nbd_flags(const struct export *e)
{
	unsigned flags = NBD_FLAG_HAS_FLAGS | NBD_FLAG_SEND_FLUSH | NBD_FLAG_SEND_FUA |
			 NBD_FLAG_CAN_MULTI_CONN;

	if (e->read_only)
		flags |= NBD_FLAG_READ_ONLY;
	else
		flags |= NBD_FLAG_SEND_TRIM | NBD_FLAG_SEND_WRITE_ZEROES;
	if (e->rotational)
		flags |= NBD_FLAG_ROTATIONAL;
	return (uint16_t)flags;
}

/* The handshake has succeeded: starts the transmission phase with mount m. */
static void nbd_serve(struct conn *c, struct mount *m)
{
	struct nbd_conn *n = nbd_of(c);

	n->mount = m;
	n->terms.size = m->export->size;
	n->terms.block_min = m->export->align;
	n->terms.flags = nbd_flags(m->export);
	n->terms.block_status = n->context == m;
	n->phase = NBD_PHASE_TRANSMISSION;
	if (nbd_commands_init(c) < 0)
		conn_close(c, CONN_END_ERROR);
}

static void nbd_do_export_name(struct conn *c, const struct nbd_option *o)
{
	struct mount *m = nbd_find(c, o->name);
	uint8_t reply[NBD_EXPORT_REPLY_MAX];

	if (!m || atomic_load(&m->export->failed)) {
		nbd_end(c, CONN_END_PROTOCOL); /* the protocol has no error reply here */
		return;
	}
	nbd_write(c, reply,
		  nbd_build_export(reply, m->export->size, nbd_flags(m->export),
				   nbd_of(c)->client_flags));
	nbd_serve(c, m);
}

static void nbd_do_abort(struct conn *c, const struct nbd_option *o)
{
	nbd_ack(c, o);
	nbd_end(c, CONN_END_PEER);
}

static void nbd_do_list(struct conn *c, const struct nbd_option *o)
{
	const struct worker *w = c->worker;
	uint8_t reply[NBD_OPTION_REPLY_MAX];

	for (unsigned i = 0; i < w->mount_count; i++)
		nbd_write(c, reply, nbd_build_server(reply, w->mounts[i].export->name));
	nbd_ack(c, o);
}

/* Block sizes are sent even without a request: a client that does not know them might send requests
 * for parts of a block, which are refused. */
static void nbd_write_infos(struct conn *c, const struct nbd_option *o, const struct export *e)
{
	uint8_t reply[NBD_OPTION_REPLY_MAX];

	nbd_write(c, reply, nbd_build_info_export(reply, o->type, e->size, nbd_flags(e)));
	nbd_write(c, reply,
		  nbd_build_info_block_size(reply, o->type, e->align,
					    MAX(e->align, NBD_BLOCK_PREFERRED), NBD_PAYLOAD_MAX));
}

static void nbd_do_info(struct conn *c, const struct nbd_option *o)
{
	struct mount *m = nbd_find(c, o->name);

	if (!m) {
		nbd_refuse_name(c, o);
		return;
	}
	if (atomic_load(&m->export->failed)) {
		nbd_refuse(c, o, NBD_REP_ERR_PLATFORM,
			   "a flush of this export failed: it must be opened again");
		return;
	}
	nbd_write_infos(c, o, m->export);
	nbd_ack(c, o);
	if (o->type == NBD_OPT_GO)
		nbd_serve(c, m);
}

static void nbd_do_structured_reply(struct conn *c, const struct nbd_option *o)
{
	nbd_of(c)->terms.structured = true;
	nbd_ack(c, o);
}

static void nbd_do_meta_context(struct conn *c, const struct nbd_option *o)
{
	struct mount *m = nbd_find(c, o->name);
	uint8_t reply[NBD_OPTION_REPLY_MAX];

	if (!m) {
		nbd_refuse_name(c, o);
		return;
	}
	if (o->type == NBD_OPT_SET_META_CONTEXT && o->allocation)
		nbd_of(c)->context = m;
	if (o->allocation)
		nbd_write(c, reply, nbd_build_meta_context(reply, o->type));
	nbd_ack(c, o);
}

/* STARTTLS. Input behind the option was sent without encryption, perhaps by an attacker on the
 * path.  Parsed after the TLS handshake it would be taken for the client's (CVE-2021-3716), so it
 * ends the connection.  Earlier options have left no state: all of them were refused. */
static void nbd_do_starttls(struct conn *c, const struct nbd_option *o)
{
	struct nbd_conn *n = nbd_of(c);

	if (c->rx.bytes > 0) {
		nbd_end(c, CONN_END_PROTOCOL);
		return;
	}
	nbd_ack(c, o);
	n->tls = NBD_TLS_ON;
	c->worker->service->secure(c);
}

/* By option type; nbd_parse_option_data() has refused all others. */
static void (*const nbd_options[])(struct conn *c, const struct nbd_option *o) = {
	[NBD_OPT_EXPORT_NAME] = nbd_do_export_name,
	[NBD_OPT_ABORT] = nbd_do_abort,
	[NBD_OPT_LIST] = nbd_do_list,
	[NBD_OPT_STARTTLS] = nbd_do_starttls,
	[NBD_OPT_INFO] = nbd_do_info,
	[NBD_OPT_GO] = nbd_do_info,
	[NBD_OPT_STRUCTURED_REPLY] = nbd_do_structured_reply,
	[NBD_OPT_LIST_META_CONTEXT] = nbd_do_meta_context,
	[NBD_OPT_SET_META_CONTEXT] = nbd_do_meta_context,
};

/* Answers an option whose data has arrived or was skipped. */
static void nbd_do_option(struct conn *c, struct nbd_option *o)
{
	uint8_t data[NBD_OPTION_MAX];
	uint32_t refusal = o->refusal;

	if (o->type == NBD_OPT_SET_META_CONTEXT)
		nbd_of(c)->context = NULL; /* reset even if the option is refused */
	if (!refusal) {
		nbd_read_partial(c, data, o->length);
		refusal = nbd_parse_option_data(data, nbd_of(c)->terms.structured, o);
	}
	if (refusal && o->type == NBD_OPT_EXPORT_NAME)
		nbd_end(c, CONN_END_PROTOCOL);
	else if (refusal)
		nbd_refuse(c, o, refusal, NULL);
	else
		nbd_options[o->type](c, o);
	nbd_of(c)->has_option = false;
}

/* Is there memory to answer the option?  In a small pool the kernel may hold most chunks for long.
 */
static bool nbd_has_room(const struct conn *c, const struct nbd_option *o)
{
	const struct worker *w = c->worker;
	uint64_t bytes = NBD_ANSWER_MAX;

	for (unsigned i = 0; o->type == NBD_OPT_LIST && i < w->mount_count; i++)
		bytes += NBD_SERVER_REPLY + strlen(w->mounts[i].export->name);
	return (uint64_t)w->pool.free_count * w->pool.chunk_size >= bytes;
}

/* One step of the handshake; false: it needs more input, or memory. */
static bool nbd_next_option(struct conn *c)
{
	struct nbd_conn *n = nbd_of(c);
	uint8_t header[NBD_OPTION];

	if (!n->has_option && c->rx.bytes >= sizeof(header)) {
		bufq_read(&c->worker->pool, &c->rx, header, sizeof(header));
		if (nbd_parse_option(header, n->tls, &n->option) < 0) {
			nbd_end(c, CONN_END_PROTOCOL);
			return true;
		}
		n->has_option = true;
		n->drop_bytes = n->option.refusal ? n->option.length : 0;
	}
	if (n->has_option && !n->option.refusal && nbd_save_partial(c, n->option.length) < 0) {
		conn_close(c, CONN_END_ERROR);
		return false;
	}
	if (!n->has_option || !nbd_drop(c) ||
	    (!n->option.refusal && n->partial_bytes < n->option.length)) {
		nbd_expect_input(c, NBD_HANDSHAKE_NS);
		return false;
	}
	conn_set_deadline(c, 0);
	if (conn_has_unsent(c)) {
		/* Answers wait until the client has read the earlier ones. */
		c->flags |= CONN_WATCH_TX;
		return false;
	}
	if (!nbd_has_room(c, &n->option)) {
		conn_wait_for_memory(c);
		return false;
	}
	nbd_do_option(c, &n->option);
	return !(c->flags & CONN_CLOSING);
}

static bool nbd_greet(struct conn *c)
{
	uint8_t greeting[NBD_GREETING];

	if (!conn_try_write(c, greeting, nbd_build_greeting(greeting)))
		return false;
	nbd_of(c)->phase = NBD_PHASE_FLAGS;
	return true;
}

static bool nbd_take_client_flags(struct conn *c)
{
	struct nbd_conn *n = nbd_of(c);
	uint8_t flags[NBD_CLIENT_FLAGS];

	if (c->rx.bytes < sizeof(flags)) {
		nbd_expect_input(c, NBD_HANDSHAKE_NS);
		return false;
	}
	bufq_read(&c->worker->pool, &c->rx, flags, sizeof(flags));
	conn_set_deadline(c, 0);
	n->phase = NBD_PHASE_OPTIONS;
	if (nbd_parse_client_flags(flags, &n->client_flags) < 0)
		nbd_end(c, CONN_END_PROTOCOL);
	return true;
}

/* ---- A connection's life ---- */

static int nbd_open(struct conn *c)
{
	nbd_of(c)->tls = c->worker->service->secure ? NBD_TLS_REQUIRED : NBD_TLS_ABSENT;
	return 0;
}

static void nbd_run(struct conn *c)
{
	struct nbd_conn *n = nbd_of(c);

	c->flags &= ~(uint32_t)CONN_WATCH_TX;
	if (n->phase == NBD_PHASE_GREETING && !nbd_greet(c))
		return;
	if (n->phase == NBD_PHASE_FLAGS && !nbd_take_client_flags(c))
		return;
	while (n->phase == NBD_PHASE_OPTIONS)
		if (!nbd_next_option(c))
			return;
	if (n->commands)
		nbd_commands_run(c);
	if (n->phase != NBD_PHASE_ENDING || n->busy > 0)
		return;
	bufq_drop(&c->worker->pool, &c->rx, c->rx.bytes);
	c->flags |= CONN_WATCH_TX;
	if (!conn_has_unsent(c))
		conn_close(c, n->end);
}

static void nbd_close(struct conn *c)
{
	if (nbd_of(c)->commands)
		nbd_commands_free(c);
	free(nbd_of(c)->partial);
}

const struct service service_nbd = {
	.name = "nbd",
	.example = "nbdinfo nbd://{host}:{port}/",
	.example_tls = "nbdinfo 'nbds://{host}:{port}/?tls-certificates=FOLDER'",
	.example_psk = "nbdinfo 'nbds://NAME@{host}:{port}/?tls-psk-file=FILE'",
	.operations = {
#define X(name) #name,
		IO_KINDS(X)
#undef X
		"invalid",
		NULL,
	},
	.flags = SERVICE_EXPORTS | SERVICE_COUNTS_REQUESTS | SERVICE_TLS |
		 SERVICE_STARTS_TLS,
	.held_max = BLOCK_HELD_MAX,
	.state_bytes = sizeof(struct nbd_conn),
	.open = nbd_open,
	.run = nbd_run,
	.close = nbd_close,
};
