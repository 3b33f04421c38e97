/* The values of `compare --link`: how fast network interfaces are whose drivers do not tell.  Pure.
 */
#pragma once
#include <stdint.h>

#include "host_list.h"

enum { LINK_SPEEDS_MAX = 16 };

struct link_speeds {
	uint64_t all_bps; /* of each host that is not named; 0: as its driver tells */
	struct link_speed {
		struct host_list hosts;
		uint64_t bps;
	} list[LINK_SPEEDS_MAX];
	unsigned count;
};

/* Lines of SPEED, in bits per second as 25G, or HOST,...=SPEED.  0, or -EINVAL with the reason;
 * link_speeds_free() in both cases. */
int link_speeds_parse(const char *text, struct link_speeds *ret, struct reason *reason);
void link_speeds_free(struct link_speeds *speeds);

/* Of a host, by its name as -H or --on has it; NULL: it has none. */
uint64_t link_speeds_of(const struct link_speeds *speeds, const char *host);
