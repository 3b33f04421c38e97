/* In place of gnutls.c, in a build without GnuTLS: listeners with it are refused. */
#include "library.h"

const struct tls_library tls_gnutls = {
	.absent = "this build has no GnuTLS for TLS; build nbserved where libgnutls28-dev is "
		  "installed, without TLS=no or TLS=openssl",
};
