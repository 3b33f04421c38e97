/* The generator's hosts of a row, if there are several: the part of each.  Pure. */
#pragma once
#include <jansson.h>

#include "figure.h"
#include "measure.h"

/* The number of hosts; 0: the generator ran on one. */
unsigned hosts_count(const struct measure *row);
const char *hosts_name(const struct measure *row, unsigned host);

/* The figure of a host's part, the median of the visits; NaN: unknown. */
double hosts_value(const struct measure *row, unsigned host, enum figure figure);

/* What each host's generator said and took, a new array; NULL: it ran on one. */
json_t *hosts_to_json(const struct measure *row);

/* The share of its busiest thread on the host where that is the smallest; NaN: unknown. */
double hosts_least_share(const struct measure *row);

/* Of all hosts together a percentile is known only by its bounds: the highest as "<=812 (c2)", of
 * the median the lowest, too: "190-812".  False: it is another figure, or unknown, or the generator
 * ran on one host. */
enum { HOSTS_BOUNDS_BYTES = 96 };
bool hosts_bounds(const struct measure *row, enum figure figure, char text[HOSTS_BOUNDS_BYTES]);
