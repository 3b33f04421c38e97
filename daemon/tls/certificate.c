/* Certificates and keys with OpenSSL: of PEM files, or made.  See certificate.h. */
#include "certificate.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <string.h>

#include "files.h"
#include "util.h"

enum { MADE_DAYS = 3650 /* for which a certificate that is made here is valid */ };

const char *certificate_error(void)
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
		return tls_files_no_certificate(f, certificate_error(), reason);
	good = SSL_CTX_use_certificate(ctx, x);
	X509_free(x);
	for (unsigned i = 1; good && (x = PEM_read_bio_X509(bio, NULL, NULL, no_password)); i++) {
		good = i < TLS_CHAIN_MAX && SSL_CTX_add0_chain_cert(ctx, x);
		if (!good)
			X509_free(x);
	}
	if (!good)
		return tls_files_bad_chain(f, certificate_error(), reason);
	ERR_clear_error(); /* the end of the file is an error to OpenSSL */
	return 0;
}

static int use_key(SSL_CTX *ctx, BIO *bio, const struct tls_files *f, struct reason *reason)
{
	EVP_PKEY *key = PEM_read_bio_PrivateKey(bio, NULL, NULL, no_password);
	int good;

	if (!key)
		return tls_files_no_key(f, certificate_error(), reason);
	good = X509_check_private_key(SSL_CTX_get0_certificate(ctx), key) &&
	       SSL_CTX_use_PrivateKey(ctx, key);
	EVP_PKEY_free(key);
	ERR_clear_error();
	return good ? 0 : tls_files_other_key(f, reason);
}

static int use_files(SSL_CTX *ctx, const struct tls_options *options, struct reason *reason)
{
	struct tls_files f;
	BIO *certificate, *key;
	int rc = tls_files_read(&f, options, reason);

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

int certificate_load(SSL_CTX *ctx, const struct tls_options *options,
		     struct tls_certificate *ret_certificate, struct reason *reason)
{
	int rc = options->certificate[0] ? use_files(ctx, options, reason)
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
