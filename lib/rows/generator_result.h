/* What a load generator printed about its own run, as numbers: requests, bytes, latency percentiles
 * as the client saw them.  Pure. */
#pragma once
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

enum { GENERATOR_QUANTILES_MAX = 16 };

struct generator_quantile {
	double quantile; /* 0.99: this share of the requests took at most ns */
	uint64_t ns;     /* round trip */
};

struct generator_result {
	double requests; /* completed; 0: unknown */
	double requests_per_s;
	double bytes; /* payload in both directions; 0: unknown */
	double bytes_per_s;
	double errors;                                                /* requests that failed */
	struct generator_quantile quantiles[GENERATOR_QUANTILES_MAX]; /* in rising order */
	unsigned quantile_count;
};

/* The latency at the quantile; false: the generator did not report it. */
static inline bool generator_quantile(const struct generator_result *result, double quantile,
				      uint64_t *ret_ns)
{
	for (unsigned i = 0; i < result->quantile_count; i++)
		if (fabs(result->quantiles[i].quantile - quantile) < 1e-9) {
			*ret_ns = result->quantiles[i].ns;
			return true;
		}
	return false;
}
