/* The TLS library OpenSSL, with its own records in user space, and certificates: of PEM files, or
 * made.  See library.h.
 *
 * A session reads and writes through a BIO of this file, which knows the stage's queues: no byte is
 * copied between OpenSSL and a memory BIO, and OpenSSL never takes more input than it needs. */
#include <errno.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "library.h"
#include "nvme_key.h"
#include "psk.h"
#include "util.h"

enum {
	MADE_DAYS = 3650, /* for which a certificate that is made here is valid */
	LOOKUPS_MAX = 8,  /* identities of a handshake that are looked at: each may cost 20 us */
};

/* The newest error of this thread's queue as a text, static; empties the queue. */
static const char *certificate_error(void)
{
	const char *text = ERR_reason_error_string(ERR_peek_last_error());

	ERR_clear_error();
	return text ? text : "unknown error";
}

/* ---- Files ---- */

/* The password of encrypted keys: without one OpenSSL would ask at the terminal. */
static char no_password[] = "";

static int use_certificates(SSL_CTX *ctx, BIO *bio, const struct tls_files *f,
			    struct reason *reason)
{
	X509 *x = PEM_read_bio_X509(bio, NULL, NULL, no_password);
	int good;

	if (!x)
		return reason_set(reason, -EINVAL,
				  "%s: '%s' has no certificate (%s); expected PEM with a line "
				  "`-----BEGIN CERTIFICATE-----`",
				  f->certificate.key, f->certificate.path, certificate_error());
	good = SSL_CTX_use_certificate(ctx, x);
	X509_free(x);
	for (unsigned i = 1; good && (x = PEM_read_bio_X509(bio, NULL, NULL, no_password)); i++) {
		good = i < TLS_CHAIN_MAX && SSL_CTX_add0_chain_cert(ctx, x);
		if (!good)
			X509_free(x);
	}
	if (!good)
		return reason_set(reason, -EINVAL,
				  "%s: cannot use the certificates of '%s' (%s); expected the "
				  "server's and at most %d of its chain",
				  f->certificate.key, f->certificate.path, certificate_error(),
				  TLS_CHAIN_MAX - 1);
	ERR_clear_error(); /* the end of the file is an error to OpenSSL */
	return 0;
}

static int use_key(SSL_CTX *ctx, BIO *bio, const struct tls_files *f, struct reason *reason)
{
	EVP_PKEY *key = PEM_read_bio_PrivateKey(bio, NULL, NULL, no_password);
	int good;

	if (!key)
		return reason_set(
			reason, -EINVAL,
			"%s: '%s' has no key without a password (%s); expected PEM with a line "
			"`-----BEGIN PRIVATE KEY-----`, which `openssl pkey -in FILE` makes of an "
			"encrypted one",
			f->key.key, f->key.path, certificate_error());
	good = X509_check_private_key(SSL_CTX_get0_certificate(ctx), key) &&
	       SSL_CTX_use_PrivateKey(ctx, key);
	EVP_PKEY_free(key);
	ERR_clear_error();
	if (good)
		return 0;
	return reason_set(reason, -EINVAL,
			  "%s: the key of '%s' is not that of the certificate in '%s'; `openssl "
			  "pkey -pubout` of the one file and `openssl x509 -pubkey -noout` of the "
			  "other show the same if it is",
			  f->key.key, f->key.path, f->certificate.path);
}

static int use_files(SSL_CTX *ctx, const struct tls_options *options, uint64_t end_ns,
		     struct reason *reason)
{
	struct tls_files f;
	BIO *certificate, *key;
	int rc = tls_files_read(&f, options, end_ns, reason);

	if (rc < 0)
		return rc;
	certificate = BIO_new_mem_buf(f.certificate.text, (int)f.certificate.bytes);
	key = BIO_new_mem_buf(f.key.text, (int)f.key.bytes);
	rc = certificate && key ? use_certificates(ctx, certificate, &f, reason)
				: reason_set(reason, -ENOMEM, "no memory");
	if (rc == 0)
		rc = use_key(ctx, key, &f, reason);
	BIO_free(certificate);
	BIO_free(key);
	tls_files_wipe(&f);
	return rc;
}

/* ---- A self-signed certificate ---- */

static int add_names(X509 *x)
{
	X509V3_CTX context;
	X509_EXTENSION *names;
	int good;

	X509V3_set_ctx_nodb(&context);
	X509V3_set_ctx(&context, x, x, NULL, NULL, 0);
	names = X509V3_EXT_conf_nid(NULL, &context, NID_subject_alt_name,
				    "DNS:localhost,IP:127.0.0.1,IP:::1");
	good = names && X509_add_ext(x, names, -1);
	X509_EXTENSION_free(names);
	return good;
}

/* Signs x, for this host's loopback, with its own key. */
static int self_sign(X509 *x, EVP_PKEY *key)
{
	X509_NAME *name = X509_get_subject_name(x);
	uint64_t serial;

	return RAND_bytes((unsigned char *)&serial, sizeof(serial)) &&
	       X509_set_version(x, X509_VERSION_3) &&
	       ASN1_INTEGER_set_uint64(X509_get_serialNumber(x), serial) &&
	       X509_gmtime_adj(X509_getm_notBefore(x), 0) &&
	       X509_time_adj_ex(X509_getm_notAfter(x), MADE_DAYS, 0, NULL) &&
	       X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
					  (const unsigned char *)"nbserved", -1, -1, 0) &&
	       X509_set_issuer_name(x, name) && X509_set_pubkey(x, key) && add_names(x) &&
	       X509_sign(x, key, EVP_sha256());
}

static int make_certificate(SSL_CTX *ctx, struct reason *reason)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *x = X509_new();
	int good = key && x && self_sign(x, key) && SSL_CTX_use_certificate(ctx, x) &&
		   SSL_CTX_use_PrivateKey(ctx, key);

	X509_free(x);
	EVP_PKEY_free(key);
	return good ? 0
		    : reason_set(reason, -EINVAL, "cannot make a certificate: %s",
				 certificate_error());
}

/* ---- Its description ---- */

/* RFC 2253, which escapes what is not ASCII.  A longer name is cut. */
static void print_name(const X509_NAME *name, char text[static TLS_NAME_MAX])
{
	BIO *bio = BIO_new(BIO_s_mem());
	int n = 0;

	if (bio && X509_NAME_print_ex(bio, name, 0, XN_FLAG_RFC2253) >= 0)
		n = BIO_read(bio, text, TLS_NAME_MAX - 1);
	text[MAX(n, 0)] = '\0';
	BIO_free(bio);
}

static int64_t seconds_of(const ASN1_TIME *at)
{
	struct tm tm;

	return ASN1_TIME_to_tm(at, &tm) ? (int64_t)timegm(&tm) : 0;
}

/* Gives ctx the certificate, its chain and its key, as the options say; 0, or -errno with the
 * reason, which names the file. */
static int certificate_load(SSL_CTX *ctx, const struct tls_options *options, uint64_t end_ns,
			    struct tls_certificate *ret_certificate, struct reason *reason)
{
	int rc = options->certificate[0] ? use_files(ctx, options, end_ns, reason)
					 : make_certificate(ctx, reason);
	const X509 *x;

	if (rc < 0)
		return rc;
	x = SSL_CTX_get0_certificate(ctx);
	print_name(X509_get_subject_name(x), ret_certificate->subject);
	print_name(X509_get_issuer_name(x), ret_certificate->issuer);
	X509_digest(x, EVP_sha256(), ret_certificate->digest, NULL);
	ret_certificate->begin_s = seconds_of(X509_get0_notBefore(x));
	ret_certificate->end_s = seconds_of(X509_get0_notAfter(x));
	return 0;
}

struct tls_context {
	SSL_CTX *ssl;
	enum psk_hash hash; /* of the cipher */
};

struct tls_session {
	SSL *ssl;
	const struct tls_wire *wire;
	void *wire_context;
	bool dry; /* the wire had no input in this step */
	const char *why;
	enum psk_hash hash;
	unsigned lookups;    /* of identities */
	const char *refused; /* why the last identity has no key */
	char *identity;      /* that identity, if it is of NVMe; NULL: it is not */
	/* Secrets of the client's records and of the server's, for keys(). */
	uint8_t secrets[2][EVP_MAX_MD_SIZE];
	size_t secret_bytes;
};

static BIO_METHOD *method;
static int keys_index; /* of a context's struct psk_table, which ends with it */

/* ---- The wire as a BIO ---- */

static int wire_read(BIO *bio, char *to, int bytes)
{
	struct tls_session *s = BIO_get_data(bio);
	size_t n = s->wire->receive(s->wire_context, to, (size_t)bytes);

	BIO_clear_retry_flags(bio);
	if (n > 0)
		return (int)n;
	s->dry = true;
	BIO_set_retry_read(bio);
	return -1;
}

static int wire_write(BIO *bio, const char *data, int bytes)
{
	struct tls_session *s = BIO_get_data(bio);
	size_t n = s->wire->send(s->wire_context, data, (size_t)bytes);

	BIO_clear_retry_flags(bio);
	if (n > 0)
		return (int)n;
	BIO_set_retry_write(bio);
	return -1;
}

static long wire_ctrl(BIO *bio, int command, long number, void *pointer)
{
	(void)bio, (void)number, (void)pointer;
	return command == BIO_CTRL_FLUSH;
}

/* ---- Contexts ---- */

static void free_keys(void *context, void *keys, CRYPTO_EX_DATA *data, int index, long argl,
		      void *argp)
{
	(void)context, (void)data, (void)index, (void)argl, (void)argp;
	psk_free(keys);
}

/* No openssl.cnf, so that rows of different hosts are comparable. */
static bool library_init(void)
{
	if (method)
		return true;
	if (!OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG, NULL))
		return false;
	method = BIO_meth_new(BIO_TYPE_SOURCE_SINK | BIO_get_new_index(), "nbserved");
	if (!method || !BIO_meth_set_read(method, wire_read) ||
	    !BIO_meth_set_write(method, wire_write) || !BIO_meth_set_ctrl(method, wire_ctrl))
		return false;
	keys_index =
		CRYPTO_get_ex_new_index(CRYPTO_EX_INDEX_SSL_CTX, 0, NULL, NULL, NULL, free_keys);
	return keys_index >= 0;
}

static const char *openssl_name(void)
{
	static char text[64];
	const char *version = OpenSSL_version(OPENSSL_VERSION);

	/* `OpenSSL 3.0.19 27 Jan 2026` */
	snprintf(text, sizeof(text), "%.*s",
		 (int)(strcspn(version, " ") + 1 + strcspn(strchr(version, ' ') + 1, " ")),
		 version);
	return text;
}

/* OpenSSL reports secrets as lines of a key log: a label, the client's
 * random, the secret in hex. */
static void keep_secret(const SSL *ssl, const char *line)
{
	static const char *const labels[] = { "CLIENT_TRAFFIC_SECRET_0 ",
					      "SERVER_TRAFFIC_SECRET_0 " };
	struct tls_session *s = SSL_get_app_data(ssl);

	for (unsigned i = 0; i < ARRAY_SIZE(labels); i++)
		if (!strncmp(line, labels[i], strlen(labels[i])))
			OPENSSL_hexstr2buf_ex(s->secrets[i], sizeof(s->secrets[i]),
					      &s->secret_bytes, strrchr(line, ' ') + 1, '\0');
}

/* TLS 1.3 alone, one cipher, no tickets and no cached sessions: each connection costs the same.
 * Without AUTO_RETRY a call ends at a record without data, so that the stage can count these. */
static bool set_rules(SSL_CTX *ssl, const struct tls_options *options)
{
	static const char *const suites[] = { "TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384",
					      "TLS_CHACHA20_POLY1305_SHA256" };

	SSL_CTX_set_mode(ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_RELEASE_BUFFERS |
				      SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	SSL_CTX_clear_mode(ssl, SSL_MODE_AUTO_RETRY);
	SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
	if (tls_in_kernel(options->mode))
		SSL_CTX_set_keylog_callback(ssl, keep_secret);
	return SSL_CTX_set_min_proto_version(ssl, TLS1_3_VERSION) &&
	       SSL_CTX_set_num_tickets(ssl, 0) &&
	       SSL_CTX_set_ciphersuites(ssl, suites[options->cipher]);
}

/* The session has the context's keys, also after a reload. */
static const struct psk_table *keys_of(const SSL *ssl)
{
	return SSL_CTX_get_ex_data(SSL_get_SSL_CTX(ssl), keys_index);
}

/* The key of TLS for an identity of NVMe: its bytes; 0: none, and s->refused is set. */
static size_t derive_key(struct tls_session *s, const char *identity, size_t bytes,
			 uint8_t to[static NVME_KEY_MAX])
{
	struct nvme_identity id;
	const struct psk *k;

	s->refused = "expected NVMe0R01 HOSTNQN SUBNQN, or NVMe1R01 HOSTNQN SUBNQN DIGEST";
	if (!nvme_identity_parse(identity, bytes, &id))
		return 0;
	s->identity = strndup(identity, bytes);
	k = psk_find_host(keys_of(s->ssl), id.host, id.host_bytes);
	if (id.hash != s->hash)
		s->refused = "its hash is of another tls-cipher: 01 of aes-128-gcm, 02 of "
			     "aes-256-gcm";
	else if (!k)
		s->refused = "tls-psk-file has no key for that host";
	else
		s->refused = nvme_key_derive(k, &id, to);
	return s->refused ? 0 : psk_hash_bytes(id.hash);
}

/* Keys that no identity gives a hash are of SHA-256 (RFC 8446, 4.2.11). */
static size_t find_key(struct tls_session *s, const char *identity, size_t bytes,
		       uint8_t to[static PSK_KEY_MAX])
{
	const struct psk *k = psk_find(keys_of(s->ssl), identity, bytes);

	free(s->identity);
	s->identity = NULL;
	s->refused = NULL;
	if (!k)
		return bytes > 4 && !memcmp(identity, "NVMe", 4)
			       ? derive_key(s, identity, bytes, to)
			       : 0;
	if (s->hash != PSK_SHA256)
		return 0;
	memcpy(to, k->key, k->key_bytes);
	return k->key_bytes;
}

/* A session as if it was resumed: the only form in which OpenSSL takes keys of SHA-384.  NULL: no
 * memory. */
static SSL_SESSION *session_of(SSL *ssl, enum psk_hash hash, const uint8_t *key, size_t bytes)
{
	static const unsigned char suites[][2] = { { 0 }, { 0x13, 0x01 }, { 0x13, 0x02 } };
	SSL_SESSION *session = SSL_SESSION_new();

	if (session && SSL_SESSION_set1_master_key(session, key, bytes) &&
	    SSL_SESSION_set_cipher(session, SSL_CIPHER_find(ssl, suites[hash])) &&
	    SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION))
		return session;
	SSL_SESSION_free(session);
	return NULL;
}

/* For each identity of a ClientHello, until one has a key.  0 ends the handshake. */
static int find_session(SSL *ssl, const unsigned char *identity, size_t bytes, SSL_SESSION **ret)
{
	struct tls_session *s = SSL_get_app_data(ssl);
	uint8_t key[PSK_KEY_MAX];
	size_t key_bytes;

	*ret = NULL;
	if (++s->lookups > LOOKUPS_MAX)
		return 0;
	key_bytes = find_key(s, (const char *)identity, bytes, key);
	if (key_bytes)
		*ret = session_of(ssl, s->hash, key, key_bytes);
	OPENSSL_cleanse(key, sizeof(key));
	return !key_bytes || *ret;
}

/* Clients without one of the keys are refused, as there is no certificate. */
static int use_keys(SSL_CTX *ssl, const char *path, uint64_t end_ns,
		    struct tls_certificate *ret_certificate, struct reason *reason)
{
	struct psk_table *keys = psk_read(path, end_ns, reason);

	if (!keys)
		return -EINVAL;
	if (!SSL_CTX_set_ex_data(ssl, keys_index, keys)) {
		psk_free(keys);
		return reason_set(reason, -ENOMEM, "no memory");
	}
	SSL_CTX_set_psk_find_session_callback(ssl, find_session);
	ret_certificate->shared_keys = psk_count(keys);
	return 0;
}

static int use_secrets(SSL_CTX *ssl, const struct tls_options *options, uint64_t end_ns,
		       struct tls_certificate *ret_certificate, struct reason *reason)
{
	return options->psk_file[0]
		       ? use_keys(ssl, options->psk_file, end_ns, ret_certificate, reason)
		       : certificate_load(ssl, options, end_ns, ret_certificate, reason);
}

static void openssl_forget(struct tls_context *c)
{
	if (!c)
		return;
	SSL_CTX_free(c->ssl);
	free(c);
}

static struct tls_context *openssl_context(const struct tls_options *options, uint64_t end_ns,
					   struct tls_certificate *ret_certificate,
					   struct reason *reason)
{
	struct tls_context *c;

	ERR_clear_error();
	if (!library_init()) {
		reason_set(reason, -EINVAL, "tls: OpenSSL cannot be used: %s", certificate_error());
		return NULL;
	}
	c = calloc(1, sizeof(*c));
	if (c)
		c->hash = strstr(tls_ciphers[options->cipher], "256-gcm") ? PSK_SHA384 : PSK_SHA256;
	if (!c || !(c->ssl = SSL_CTX_new(TLS_server_method()))) {
		reason_set(reason, -ENOMEM, "no memory");
		free(c);
		return NULL;
	}
	if (!set_rules(c->ssl, options))
		reason_set(reason, -EINVAL,
			   "tls-cipher: OpenSSL does not offer TLS 1.3 with %s: %s",
			   tls_ciphers[options->cipher], certificate_error());
	else if (use_secrets(c->ssl, options, end_ns, ret_certificate, reason) == 0)
		return c;
	openssl_forget(c);
	return NULL;
}

/* ---- Sessions ---- */

static void openssl_free(struct tls_session *s)
{
	if (!s)
		return;
	SSL_free(s->ssl);
	free(s->identity);
	OPENSSL_cleanse(s->secrets, sizeof(s->secrets));
	free(s);
}

static struct tls_session *openssl_session(struct tls_context *c, const struct tls_wire *wire,
					   void *wire_context)
{
	struct tls_session *s = calloc(1, sizeof(*s));
	BIO *bio = BIO_new(method);

	if (s)
		s->ssl = SSL_new(c->ssl);
	if (!s || !bio || !s->ssl) {
		BIO_free(bio);
		openssl_free(s);
		ERR_clear_error();
		return NULL;
	}
	s->wire = wire;
	s->wire_context = wire_context;
	s->hash = c->hash;
	SSL_set_app_data(s->ssl, s);
	BIO_set_data(bio, s);
	BIO_set_init(bio, 1);
	SSL_set_bio(s->ssl, bio, bio);
	SSL_set_accept_state(s->ssl);
	return s;
}

/* SSL_get_error() looks at the thread's queue of errors, so it must be empty before a call.  To
 * look costs less than to clear, which writes each of its 16 entries. */
static inline void begin(struct tls_session *s)
{
	if (unlikely(ERR_peek_error()))
		ERR_clear_error();
	s->dry = false;
}

static int result(struct tls_session *s, int rc)
{
	switch (SSL_get_error(s->ssl, rc)) {
	case SSL_ERROR_WANT_READ:
		if (s->dry)
			return TLS_WANT_INPUT;
		/* OpenSSL changes the server's keys with its next write. */
		return SSL_get_key_update_type(s->ssl) == SSL_KEY_UPDATE_NONE ? TLS_CONTROL
									      : TLS_ASKED;
	case SSL_ERROR_WANT_WRITE:
		return TLS_WANT_MEMORY;
	case SSL_ERROR_ZERO_RETURN:
		return TLS_CLOSED;
	default:
		s->why = certificate_error();
		return TLS_FAILED;
	}
}

static int openssl_handshake(struct tls_session *s)
{
	int rc;

	begin(s);
	rc = SSL_do_handshake(s->ssl);
	return rc == 1 ? 0 : result(s, rc);
}

static int openssl_read(struct tls_session *s, void *to, size_t bytes)
{
	int rc;

	begin(s);
	rc = SSL_read(s->ssl, to, (int)bytes);
	return rc > 0 ? rc : result(s, rc);
}

static int openssl_write(struct tls_session *s, const void *data, size_t bytes)
{
	int rc;

	begin(s);
	rc = SSL_write(s->ssl, data, (int)MIN(bytes, (size_t)TLS_RECORD_MAX));
	return rc > 0 ? rc : result(s, rc);
}

/* HKDF-Expand-Label of RFC 8446, 7.1, without a context. */
static bool expand_label(const struct tls_session *s, uint8_t *secret, const char *label,
			 uint8_t *to, size_t bytes)
{
	const EVP_MD *digest = SSL_CIPHER_get_handshake_digest(SSL_get_current_cipher(s->ssl));
	EVP_KDF *kdf = EVP_KDF_fetch(NULL, "TLS13-KDF", NULL);
	EVP_KDF_CTX *ctx = EVP_KDF_CTX_new(kdf);
	int mode = EVP_KDF_HKDF_MODE_EXPAND_ONLY;
	const OSSL_PARAM params[] = {
		OSSL_PARAM_construct_int(OSSL_KDF_PARAM_MODE, &mode),
		OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST,
						 (char *)EVP_MD_get0_name(digest), 0),
		OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, secret, s->secret_bytes),
		OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_PREFIX, (char *)"tls13 ", 6),
		OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_LABEL, (char *)label,
						  strlen(label)),
		OSSL_PARAM_construct_end(),
	};
	bool good = ctx && EVP_KDF_derive(ctx, to, bytes, params) > 0;

	EVP_KDF_CTX_free(ctx);
	EVP_KDF_free(kdf);
	return good;
}

static bool openssl_keys(struct tls_session *s, bool sends, struct tls_keys *ret_keys)
{
	int nid = SSL_CIPHER_get_cipher_nid(SSL_get_current_cipher(s->ssl));
	size_t key_bytes = (size_t)EVP_CIPHER_get_key_length(EVP_get_cipherbynid(nid));
	uint8_t *secret = s->secrets[sends];
	bool good;

	begin(s);
	good = s->secret_bytes && expand_label(s, secret, "key", ret_keys->key, key_bytes) &&
	       expand_label(s, secret, "iv", ret_keys->iv, sizeof(ret_keys->iv));
	OPENSSL_cleanse(secret, sizeof(s->secrets[sends]));
	return good;
}

static int openssl_close(struct tls_session *s)
{
	int rc;

	begin(s);
	rc = SSL_shutdown(s->ssl);
	return rc >= 0 ? 0 : result(s, rc);
}

static const char *openssl_why(const struct tls_session *s)
{
	return s->refused ? s->refused : s->why;
}

static const char *openssl_identity(const struct tls_session *s)
{
	if (!keys_of(s->ssl))
		return NULL;
	return s->identity ? s->identity : "";
}

const struct tls_library tls_library = {
	.name = openssl_name,
	.context = openssl_context,
	.forget = openssl_forget,
	.session = openssl_session,
	.handshake = openssl_handshake,
	.read = openssl_read,
	.write = openssl_write,
	.keys = openssl_keys,
	.identity = openssl_identity,
	.close = openssl_close,
	.why = openssl_why,
	.free = openssl_free,
};
