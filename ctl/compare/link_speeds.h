/* The values of `compare --link`: how fast network interfaces are whose drivers do not tell.  Pure.
 */
#pragma once
#include <stdint.h>

#include "host_list.h"

enum { LINK_SPEEDS_MAX = 16 };

struct link_speeds {
	uint64_t all_bps; /* of all hosts that are not named; 0: their drivers' speeds */
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

/* The speed of a host, by its name in -H or --on, NULL for this host; 0: that of its driver. */
uint64_t link_speeds_of(const struct link_speeds *speeds, const char *host);
