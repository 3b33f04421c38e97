/* The TLS library GnuTLS, with its own records in user space.  See library.h.
 *
 * GnuTLS reads and writes the stage's queues by itself, a header and a record at a time, and keeps
 * a part of a record until the rest is there. */
#include <gnutls/gnutls.h>

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gnutls_identity.h"
#include "library.h"
#include "psk.h"
#include "util.h"

struct tls_context {
	atomic_uint users; /* its owner and sessions; GnuTLS counts none */
	gnutls_priority_t rules;
	gnutls_certificate_credentials_t certificate; /* or: */
	gnutls_psk_server_credentials_t shared;
	struct psk_table *keys; /* the keys to which `shared` refers */
	gnutls_datum_t alpn;    /* without data: ALPN is ignored */
};

struct tls_session {
	gnutls_session_t gnutls;
	struct tls_context *context;
	const struct tls_wire *wire;
	void *wire_context;
	bool dry, full; /* the wire had no input, or took no output, in this step */
	bool asked;     /* in this step the client has asked this server to change its keys */
	const char *why;
};

static const char *library_name(void)
{
	static char text[64];

	snprintf(text, sizeof(text), "GnuTLS %s", gnutls_check_version(NULL));
	return text;
}

/* ---- The wire ---- */

static ssize_t wire_pull(gnutls_transport_ptr_t of, void *to, size_t bytes)
{
	struct tls_session *s = of;
	size_t n = s->wire->receive(s->wire_context, to, bytes);

	if (n > 0)
		return (ssize_t)n;
	s->dry = true;
	gnutls_transport_set_errno(s->gnutls, EAGAIN);
	return -1;
}

static ssize_t wire_push(gnutls_transport_ptr_t of, const void *data, size_t bytes)
{
	struct tls_session *s = of;
	size_t n = s->wire->send(s->wire_context, data, bytes);

	if (n > 0)
		return (ssize_t)n;
	s->full = true;
	gnutls_transport_set_errno(s->gnutls, EAGAIN);
	return -1;
}

/* ---- Contexts ---- */

static void context_forget(struct tls_context *c)
{
	if (!c || atomic_fetch_sub(&c->users, 1) > 1)
		return;
	if (c->rules)
		gnutls_priority_deinit(c->rules);
	if (c->certificate)
		gnutls_certificate_free_credentials(c->certificate);
	if (c->shared)
		gnutls_psk_free_server_credentials(c->shared);
	psk_free(c->keys);
	free(c);
}

/* Gives GnuTLS a copy of the key, which GnuTLS owns and wipes. */
static int find_key(gnutls_session_t session, const char *identity, gnutls_datum_t *ret_key)
{
	const struct tls_context *c = gnutls_session_get_ptr(session);
	const struct psk *k = psk_find(c->keys, identity, strlen(identity));

	if (!k || !(ret_key->data = gnutls_malloc(k->key_bytes)))
		return -1;
	memcpy(ret_key->data, k->key, k->key_bytes);
	ret_key->size = k->key_bytes;
	return 0;
}

/* TLS 1.3 alone and one cipher. */
static int set_rules(struct tls_context *c, const struct tls_options *options)
{
	static const char *const ciphers[] = { "AES-128-GCM", "AES-256-GCM", "CHACHA20-POLY1305" };
	char rules[128];

	snprintf(rules, sizeof(rules), "NORMAL:-VERS-ALL:+VERS-TLS1.3:-CIPHER-ALL:+%s%s",
		 ciphers[options->cipher], options->psk_file[0] ? ":+ECDHE-PSK:+DHE-PSK" : "");
	return gnutls_priority_init(&c->rules, rules, NULL);
}

/* Clients without one of the keys are refused, as there is no certificate. */
static int use_keys(struct tls_context *c, const struct tls_options *options,
		    struct tls_certificate *ret_certificate, struct reason *reason)
{
	c->keys = psk_read(options->psk_file, reason);
	if (!c->keys)
		return -EINVAL;
	if (gnutls_psk_allocate_server_credentials(&c->shared) < 0)
		return reason_set(reason, -ENOMEM, "no memory");
	gnutls_psk_set_server_credentials_function(c->shared, find_key);
	ret_certificate->shared_keys = psk_count(c->keys);
	return 0;
}

static int use_certificate(struct tls_context *c, const struct tls_options *options,
			   struct tls_certificate *ret_certificate, struct reason *reason)
{
	if (gnutls_certificate_allocate_credentials(&c->certificate) < 0)
		return reason_set(reason, -ENOMEM, "no memory");
	return gnutls_identity_load(c->certificate, options, ret_certificate, reason);
}

static struct tls_context *context_new(const struct tls_options *options, const char *alpn,
				       struct tls_certificate *ret_certificate,
				       struct reason *reason)
{
	struct tls_context *c = calloc(1, sizeof(*c));
	int rc;

	if (!c) {
		reason_set(reason, -ENOMEM, "no memory");
		return NULL;
	}
	c->users = 1;
	if (alpn)
		c->alpn = (gnutls_datum_t){ (unsigned char *)alpn, (unsigned)strlen(alpn) };
	rc = set_rules(c, options);
	if (rc < 0)
		reason_set(reason, -EINVAL, "tls-cipher: GnuTLS does not offer TLS 1.3 with %s: %s",
			   tls_ciphers[options->cipher], gnutls_strerror(rc));
	else if ((options->psk_file[0] ? use_keys : use_certificate)(c, options, ret_certificate,
								     reason) == 0)
		return c;
	context_forget(c);
	return NULL;
}

/* ---- Sessions ---- */

static void session_free(struct tls_session *s)
{
	if (!s)
		return;
	if (s->gnutls)
		gnutls_deinit(s->gnutls);
	context_forget(s->context);
	free(s);
}

/* A KeyUpdate (RFC 8446, 4.6.3) has one byte, 1: update_requested. */
static int notice_key_update(gnutls_session_t session, unsigned type, unsigned post,
			     unsigned incoming, const gnutls_datum_t *message)
{
	struct tls_session *s = gnutls_transport_get_ptr(session);

	(void)type, (void)post;
	if (incoming && message->size == 1 && message->data[0] == 1)
		s->asked = true;
	return 0;
}

static int set_up(struct tls_session *s, struct tls_context *c)
{
	/* No tickets: each connection costs the same. */
	int rc = gnutls_init(&s->gnutls, GNUTLS_SERVER | GNUTLS_NONBLOCK | GNUTLS_NO_TICKETS);

	if (rc == 0)
		rc = gnutls_priority_set(s->gnutls, c->rules);
	if (rc == 0)
		rc = c->shared ? gnutls_credentials_set(s->gnutls, GNUTLS_CRD_PSK, c->shared)
			       : gnutls_credentials_set(s->gnutls, GNUTLS_CRD_CERTIFICATE,
							c->certificate);
	if (rc == 0 && c->alpn.data)
		rc = gnutls_alpn_set_protocols(s->gnutls, &c->alpn, 1, GNUTLS_ALPN_MANDATORY);
	if (rc < 0)
		return rc;
	gnutls_session_set_ptr(s->gnutls, c);
	gnutls_transport_set_ptr(s->gnutls, s);
	gnutls_transport_set_pull_function(s->gnutls, wire_pull);
	gnutls_transport_set_push_function(s->gnutls, wire_push);
	gnutls_handshake_set_hook_function(s->gnutls, GNUTLS_HANDSHAKE_KEY_UPDATE, GNUTLS_HOOK_PRE,
					   notice_key_update);
	return 0;
}

static struct tls_session *session_new(struct tls_context *c, const struct tls_wire *wire,
				       void *wire_context)
{
	struct tls_session *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	atomic_fetch_add(&c->users, 1);
	s->context = c;
	s->wire = wire;
	s->wire_context = wire_context;
	if (set_up(s, c) == 0)
		return s;
	session_free(s);
	return NULL;
}

static inline void begin(struct tls_session *s)
{
	s->dry = s->full = s->asked = false;
}

/* GnuTLS, unlike OpenSSL, does not send an alert by itself. */
static int result(struct tls_session *s, int rc)
{
	if (rc == GNUTLS_E_AGAIN && s->full)
		return TLS_WANT_MEMORY;
	if (rc == GNUTLS_E_AGAIN && s->dry)
		return TLS_WANT_INPUT;
	if (!gnutls_error_is_fatal(rc))
		return s->asked ? TLS_ASKED : TLS_CONTROL;
	s->why = gnutls_strerror(rc);
	if (rc != GNUTLS_E_FATAL_ALERT_RECEIVED)
		gnutls_alert_send_appropriate(s->gnutls, rc);
	return TLS_FAILED;
}

static int session_handshake(struct tls_session *s)
{
	int rc;

	begin(s);
	rc = gnutls_handshake(s->gnutls);
	return rc == 0 ? 0 : result(s, rc);
}

static int session_read(struct tls_session *s, void *to, size_t bytes)
{
	ssize_t n;

	begin(s);
	n = gnutls_record_recv(s->gnutls, to, bytes);
	if (n == 0)
		return TLS_CLOSED;
	return n > 0 ? (int)n : result(s, (int)n);
}

static int session_write(struct tls_session *s, const void *data, size_t bytes)
{
	ssize_t n;

	begin(s);
	n = gnutls_record_send(s->gnutls, data, MIN(bytes, (size_t)TLS_RECORD_MAX));
	return n > 0 ? (int)n : result(s, (int)n);
}

/* GnuTLS wipes its own copy when it frees the session. */
static bool session_keys(struct tls_session *s, bool sends, struct tls_keys *ret_keys)
{
	gnutls_datum_t iv, key;
	unsigned char number[8];

	if (gnutls_record_get_state(s->gnutls, !sends, NULL, &iv, &key, number) < 0 ||
	    iv.size != sizeof(ret_keys->iv) || key.size > sizeof(ret_keys->key))
		return false;
	memcpy(ret_keys->iv, iv.data, iv.size);
	memcpy(ret_keys->key, key.data, key.size);
	return true;
}

static int session_close(struct tls_session *s)
{
	int rc;

	begin(s);
	rc = gnutls_bye(s->gnutls, GNUTLS_SHUT_WR);
	return rc == 0 ? 0 : result(s, rc);
}

static const char *session_why(const struct tls_session *s)
{
	return s->why;
}

const struct tls_library tls_gnutls = {
	.name = library_name,
	.context = context_new,
	.forget = context_forget,
	.session = session_new,
	.handshake = session_handshake,
	.read = session_read,
	.write = session_write,
	.keys = session_keys,
	.close = session_close,
	.why = session_why,
	.free = session_free,
};
