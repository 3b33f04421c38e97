/* What a load generator printed about its own run, as numbers: requests, bytes, latency percentiles
 * as the client saw them.  Pure. */
#pragma once
#include <jansson.h>
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
bool generator_quantile(const struct generator_result *result, double quantile, uint64_t *ret_ns);

/* As members of an object in a saved row.  *r is zeroed. */
void generator_result_to_json(const struct generator_result *r, json_t *to);
void generator_result_from_json(struct generator_result *r, const json_t *from);
