/* Certificates and keys with OpenSSL: read from PEM files, or made.  See certificate.h. */
#include "certificate.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "open_file.h"
#include "sandbox.h"
#include "util.h"

enum {
	FILE_MAX = 256 * 1024, /* bytes of a PEM file */
	CHAIN_MAX = 16,        /* certificates of a file */
	MADE_DAYS = 3650,      /* for which a certificate that is made here is valid */
};

const char *certificate_error(void)
{
	const char *text = ERR_reason_error_string(ERR_peek_last_error());

	ERR_clear_error();
	return text ? text : "unknown error";
}

/* ---- Files ---- */

/* A PEM file, and the configuration's key that names it.  Of its contents `bytes` bytes are wiped
 * when it is closed. */
struct pem {
	const char *key, *path;
	bool secret; /* it has the private key */
	char *text;
	size_t bytes;
	BIO *bio; /* reads text */
};

static void pem_close(struct pem *p)
{
	BIO_free(p->bio);
	if (p->text)
		OPENSSL_cleanse(p->text, p->bytes);
	free(p->text);
	p->text = NULL;
	p->bio = NULL;
}

/* A key that others can read is no secret, and of a file that others can write neither is the
 * identity. */
static int check_mode(struct pem *p, int fd, struct reason *reason)
{
	mode_t open_to = S_IWGRP | S_IWOTH | (p->secret ? S_IROTH : 0);
	struct stat st;

	if (fstat(fd, &st) < 0)
		return reason_set(reason, -errno, "%s: '%s': %s", p->key, p->path, strerror(errno));
	if (st.st_mode & open_to)
		return reason_set(reason, -EPERM, "%s: '%s' may be %s by others; `chmod %s %s`",
				  p->key, p->path,
				  st.st_mode & (S_IWGRP | S_IWOTH) ? "written" : "read",
				  p->secret ? "g-w,o-rwx" : "go-w", p->path);
	if (st.st_size > FILE_MAX)
		return reason_set(reason, -EFBIG,
				  "%s: '%s' is larger than %d KiB; expected a PEM file", p->key,
				  p->path, FILE_MAX / 1024);
	p->bytes = (size_t)st.st_size;
	return 0;
}

static int read_all(int fd, struct pem *p)
{
	size_t used = 0;

	while (used < p->bytes) {
		ssize_t n = read(fd, p->text + used, p->bytes - used);

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 0)
			break;
		used += (size_t)MAX(n, 0);
	}
	p->bio = BIO_new_mem_buf(p->text, (int)used);
	return p->bio ? 0 : -ENOMEM;
}

static const char *open_advice(const char *path, int error)
{
	const char *sandbox = sandbox_advice(path, false, error);

	if (*sandbox)
		return sandbox;
	switch (error) {
	case ENOENT:
		return "; make it, or say `tls-certificate = auto`";
	case EACCES:
		return "; the daemon's user or group must be able to read it";
	default:
		return "";
	}
}

static int pem_open(struct pem *p, struct reason *reason)
{
	const char *why;
	int fd = open_file(p->path, O_RDONLY, false, &why), rc;

	if (fd < 0)
		return reason_set(reason, fd, "%s: cannot read '%s': %s%s", p->key, p->path, why,
				  open_advice(p->path, -fd));
	rc = check_mode(p, fd, reason);
	if (rc == 0) {
		p->text = malloc(p->bytes + 1);
		rc = p->text ? read_all(fd, p) : -ENOMEM;
		if (rc < 0)
			reason_set(reason, rc, "%s: cannot read '%s': %s", p->key, p->path,
				   strerror(-rc));
	}
	close(fd);
	if (rc < 0)
		pem_close(p);
	return rc;
}

/* The password of encrypted keys: without one OpenSSL would ask at the terminal. */
static char no_password[] = "";

static int read_certificates(SSL_CTX *ctx, const struct pem *p, struct reason *reason)
{
	X509 *x = PEM_read_bio_X509(p->bio, NULL, NULL, no_password);
	int good;

	if (!x)
		return reason_set(reason, -EINVAL,
				  "%s: '%s' has no certificate (%s); expected PEM with a line "
				  "`-----BEGIN CERTIFICATE-----`",
				  p->key, p->path, certificate_error());
	good = SSL_CTX_use_certificate(ctx, x);
	X509_free(x);
	for (unsigned i = 1; good && (x = PEM_read_bio_X509(p->bio, NULL, NULL, no_password));
	     i++) {
		good = i < CHAIN_MAX && SSL_CTX_add0_chain_cert(ctx, x);
		if (!good)
			X509_free(x);
	}
	if (!good)
		return reason_set(reason, -EINVAL,
				  "%s: cannot use the certificates of '%s' (%s); expected the "
				  "server's and at most %d of its chain",
				  p->key, p->path, certificate_error(), CHAIN_MAX - 1);
	ERR_clear_error(); /* the end of the file is an error to OpenSSL */
	return 0;
}

static int read_key(SSL_CTX *ctx, const struct pem *p, const char *certificate,
		    struct reason *reason)
{
	EVP_PKEY *key = PEM_read_bio_PrivateKey(p->bio, NULL, NULL, no_password);
	int good;

	if (!key)
		return reason_set(
			reason, -EINVAL,
			"%s: '%s' has no key without a password (%s); expected PEM with a line "
			"`-----BEGIN PRIVATE KEY-----`, which `openssl pkey -in FILE` makes of "
			"an encrypted one",
			p->key, p->path, certificate_error());
	good = X509_check_private_key(SSL_CTX_get0_certificate(ctx), key) &&
	       SSL_CTX_use_PrivateKey(ctx, key);
	EVP_PKEY_free(key);
	ERR_clear_error();
	if (!good)
		return reason_set(reason, -EINVAL,
				  "%s: the key of '%s' is not that of the certificate in '%s'; "
				  "`openssl pkey -pubout` of the one file and `openssl x509 "
				  "-pubkey -noout` of the other show the same if it is",
				  p->key, p->path, certificate);
	return 0;
}

static int load_files(SSL_CTX *ctx, const struct tls_options *options, struct reason *reason)
{
	bool same = options->key[0] == '\0';
	struct pem certificate = { "tls-certificate", options->certificate, .secret = same };
	struct pem key = { "tls-key", options->key, .secret = true };
	int rc = pem_open(&certificate, reason);

	if (rc < 0)
		return rc;
	rc = read_certificates(ctx, &certificate, reason);
	if (rc == 0 && same) {
		(void)BIO_reset(certificate.bio); /* the key may come first */
		rc = read_key(ctx, &certificate, options->certificate, reason);
	}
	pem_close(&certificate);
	if (rc < 0 || same)
		return rc;
	rc = pem_open(&key, reason);
	if (rc < 0)
		return rc;
	rc = read_key(ctx, &key, options->certificate, reason);
	pem_close(&key);
	return rc;
}

/* ---- A certificate of our own ---- */

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
	uint32_t serial;

	return RAND_bytes((unsigned char *)&serial, sizeof(serial)) &&
	       X509_set_version(x, X509_VERSION_3) &&
	       ASN1_INTEGER_set(X509_get_serialNumber(x), (long)(serial >> 1)) &&
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

/* ---- What it says ---- */

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
	int rc = options->certificate[0] ? load_files(ctx, options, reason)
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
