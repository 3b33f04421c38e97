/* The words of the keys `tls` and `tls-cipher`.  See tls.h. */
#include <stddef.h>

#include "tls.h"

const char *const tls_modes[] = { "none", "user", "ktls-tx", "ktls", NULL };
const char *const tls_ciphers[] = { "aes-128-gcm", "aes-256-gcm", "chacha20-poly1305", NULL };
