/* Traffic of network interfaces, in GetStats for the daemon's host and in nbctl for
 * the host of a generator. */
#pragma once
#include <jansson.h>

/* Sets in a document `interfaces`, with the counters of those of the names (texts) that there are,
 * and `host_tcp`, the segments of TCP of this network namespace. */
void nic_traffic_add(json_t *document, const json_t *names);
