/* In place of openssl.c, in a build without OpenSSL: listeners with it are refused. */
#include "library.h"

const struct tls_library tls_library = {
	.absent = "this build has no OpenSSL for TLS; build nbserved where libssl-dev (OpenSSL 3) "
		  "is installed, without TLS=no",
};
