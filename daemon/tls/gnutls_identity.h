/* Certificates and keys with GnuTLS: of PEM files, or made.  Main thread. */
#pragma once
#include <gnutls/gnutls.h>

#include "tls.h"

/* Gives `to` the certificate, its chain and its key, as the options say; 0, or -errno with the
 * reason, which names the file. */
int gnutls_identity_load(gnutls_certificate_credentials_t to, const struct tls_options *options,
			 struct tls_certificate *ret_certificate, struct reason *reason);
