/* Certificates and keys with GnuTLS.  See gnutls_identity.h. */
#include "gnutls_identity.h"

#include <errno.h>
#include <gnutls/crypto.h>
#include <gnutls/x509.h>
#include <stdio.h>
#include <time.h>

#include "files.h"

enum {
	MADE_DAYS = 3650, /* for which a certificate that is made here is valid */
	DAY_S = 24 * 3600,
};

/* The server's certificate with its chain, and its key. */
struct identity {
	gnutls_x509_crt_t *chain;
	unsigned count;
	gnutls_x509_privkey_t key;
};

static void identity_free(struct identity *id)
{
	for (unsigned i = 0; i < id->count; i++)
		gnutls_x509_crt_deinit(id->chain[i]);
	gnutls_free(id->chain);
	gnutls_x509_privkey_deinit(id->key);
}

/* ---- Files ---- */

static gnutls_datum_t datum_of(const struct tls_file *f)
{
	return (gnutls_datum_t){ (unsigned char *)f->text, (unsigned)f->bytes };
}

static int identity_parse(struct identity *id, const struct tls_files *f, struct reason *reason)
{
	gnutls_datum_t certificate = datum_of(&f->certificate), key = datum_of(&f->key);
	int rc = gnutls_x509_crt_list_import2(&id->chain, &id->count, &certificate,
					      GNUTLS_X509_FMT_PEM, 0);

	if (rc < 0)
		return tls_files_no_certificate(f, gnutls_strerror(rc), reason);
	if (id->count > TLS_CHAIN_MAX)
		return tls_files_bad_chain(f, "there are more", reason);
	rc = gnutls_x509_privkey_init(&id->key);
	if (rc == 0)
		rc = gnutls_x509_privkey_import2(id->key, &key, GNUTLS_X509_FMT_PEM, NULL, 0);
	return rc < 0 ? tls_files_no_key(f, gnutls_strerror(rc), reason) : 0;
}

static int identity_read(struct identity *id, gnutls_certificate_credentials_t to,
			 const struct tls_options *options, struct reason *reason)
{
	struct tls_files f;
	int rc = tls_files_read(&f, options, reason);

	if (rc < 0)
		return rc;
	rc = identity_parse(id, &f, reason);
	if (rc == 0) {
		rc = gnutls_certificate_set_x509_key(to, id->chain, (int)id->count, id->key);
		if (rc == GNUTLS_E_CERTIFICATE_KEY_MISMATCH)
			rc = tls_files_other_key(&f, reason);
		else if (rc < 0)
			rc = tls_files_bad_chain(&f, gnutls_strerror(rc), reason);
	}
	tls_files_wipe(&f);
	return rc;
}

/* ---- A self-signed certificate ---- */

static int add_names(gnutls_x509_crt_t x)
{
	static const struct {
		gnutls_x509_subject_alt_name_t type;
		const char *name;
		unsigned bytes;
	} names[] = {
		{ GNUTLS_SAN_DNSNAME, "localhost", 9 },
		{ GNUTLS_SAN_IPADDRESS, "\x7f\0\0\1", 4 },
		{ GNUTLS_SAN_IPADDRESS, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1", 16 },
	};
	int rc = 0;

	for (unsigned i = 0; rc >= 0 && i < sizeof(names) / sizeof(names[0]); i++)
		rc = gnutls_x509_crt_set_subject_alt_name(x, names[i].type, names[i].name,
							  names[i].bytes, GNUTLS_FSAN_APPEND);
	return rc;
}

/* Signs x, a certificate for this host's loopback addresses, with its own key.  0, or an error of
 * GnuTLS, as each step returns it. */
static int self_sign(gnutls_x509_crt_t x, gnutls_x509_privkey_t key)
{
	unsigned char serial[8];
	time_t now = time(NULL);
	int rc = gnutls_rnd(GNUTLS_RND_NONCE, serial, sizeof(serial));

	serial[0] = 0x40 | (serial[0] & 0x3f); /* a positive number */
	if (rc < 0 || (rc = gnutls_x509_crt_set_version(x, 3)) < 0 ||
	    (rc = gnutls_x509_crt_set_serial(x, serial, sizeof(serial))) < 0 ||
	    (rc = gnutls_x509_crt_set_activation_time(x, now)) < 0 ||
	    (rc = gnutls_x509_crt_set_expiration_time(x, now + (time_t)MADE_DAYS * DAY_S)) < 0 ||
	    (rc = gnutls_x509_crt_set_dn_by_oid(x, GNUTLS_OID_X520_COMMON_NAME, 0, "nbserved", 8)) <
		    0 ||
	    (rc = add_names(x)) < 0 || (rc = gnutls_x509_crt_set_key(x, key)) < 0)
		return rc;
	return gnutls_x509_crt_sign2(x, x, key, GNUTLS_DIG_SHA256, 0);
}

static int identity_make(struct identity *id, gnutls_certificate_credentials_t to,
			 struct reason *reason)
{
	int rc = GNUTLS_E_MEMORY_ERROR;

	id->chain = gnutls_calloc(1, sizeof(*id->chain));
	if (id->chain && (rc = gnutls_x509_crt_init(&id->chain[0])) == 0)
		id->count = 1;
	if (rc == 0)
		rc = gnutls_x509_privkey_init(&id->key);
	if (rc == 0)
		rc = gnutls_x509_privkey_generate(id->key, GNUTLS_PK_ECDSA,
						  GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1),
						  0);
	if (rc == 0)
		rc = self_sign(id->chain[0], id->key);
	if (rc == 0)
		rc = gnutls_certificate_set_x509_key(to, id->chain, 1, id->key);
	return rc < 0 ? reason_set(reason, -EINVAL, "cannot make a certificate: %s",
				   gnutls_strerror(rc))
		      : 0;
}

/* ---- Its description ---- */

/* RFC 4514, and what is not ASCII escaped.  A longer name is cut. */
static void print_name(gnutls_datum_t *name, char text[static TLS_NAME_MAX])
{
	size_t used = 0;

	for (unsigned i = 0; i < name->size && used + sizeof("\\FF") <= TLS_NAME_MAX; i++) {
		unsigned char c = name->data[i];

		used += (size_t)sprintf(text + used, c >= ' ' && c <= '~' ? "%c" : "\\%02X", c);
	}
	text[used] = '\0';
	gnutls_free(name->data);
}

static void describe(gnutls_x509_crt_t x, struct tls_certificate *ret)
{
	size_t bytes = sizeof(ret->digest);
	gnutls_datum_t subject = { 0 }, issuer = { 0 };

	gnutls_x509_crt_get_dn3(x, &subject, 0);
	gnutls_x509_crt_get_issuer_dn3(x, &issuer, 0);
	print_name(&subject, ret->subject);
	print_name(&issuer, ret->issuer);
	gnutls_x509_crt_get_fingerprint(x, GNUTLS_DIG_SHA256, ret->digest, &bytes);
	ret->begin_s = gnutls_x509_crt_get_activation_time(x);
	ret->end_s = gnutls_x509_crt_get_expiration_time(x);
}

int gnutls_identity_load(gnutls_certificate_credentials_t to, const struct tls_options *options,
			 struct tls_certificate *ret_certificate, struct reason *reason)
{
	struct identity id = { 0 };
	int rc = options->certificate[0] ? identity_read(&id, to, options, reason)
					 : identity_make(&id, to, reason);

	if (rc == 0)
		describe(id.chain[0], ret_certificate);
	identity_free(&id);
	return rc;
}
