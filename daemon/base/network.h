/* Networks, as the key `allow` has them.  Pure. */
#pragma once
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "parse.h"

/* `127.0.0.0/8`, `::1`, `2001:db8::/32`.  Bits beyond the prefix must be zero.  Or `local`: the
 * addresses of this host, which only the kernel knows. */
struct network {
	struct in6_addr prefix; /* IPv4 as ::ffff:a.b.c.d */
	uint8_t bits;           /* 0..128, of the mapped form */
	bool local;             /* the other fields are 0 */
};

/* As the functions of parse.h. */
int network_parse(const char *text, struct network *ret_network);
char *network_format(const struct network *network, char text[static ADDRESS_TEXT_MAX]);

/* Must not be called with `local`. */
bool network_contains(const struct network *network, const struct in6_addr *mapped);
