/* Certificates and keys with OpenSSL: read from PEM files, or made.  Main thread. */
#pragma once
#include <openssl/ssl.h>

#include "tls.h"

/* Gives ctx the certificate, its chain and its key, as the options say; 0, or -errno with the
 * reason, which names the file. */
int certificate_load(SSL_CTX *ctx, const struct tls_options *options,
		     struct tls_certificate *ret_certificate, struct reason *reason);

/* The newest error of this thread's queue as a text, static; empties the queue. */
const char *certificate_error(void);
