/* In place of openssl.c, in a build without OpenSSL: every listener with TLS is refused. */
#include "library.h"

const struct tls_library tls_library = {
	.absent =
		"this build has no TLS; build nbserved where libssl-dev (OpenSSL 3) is installed, "
		"without TLS=no",
};
