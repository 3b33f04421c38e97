/* Figures that are computed from the counts of a row, and access to its visits.  See measure.h. */
#include <stdlib.h>

#include "measure.h"
#include "must.h"
#include "util.h"
#include "verdict.h"

unsigned measure_visits(const struct measure *row)
{
	return MAX(row->visit_count, 1U);
}

const struct measure *measure_visit_at(const struct measure *row, unsigned i)
{
	return row->visit_count ? row->visits[i] : row;
}

bool measure_is_minor(const struct measure *row)
{
	return row->count > 0 && row->count < row->listener_count / 50;
}

bool histogram_tail(const struct histogram_sum *h, double quantile, uint64_t *ret_ns)
{
	static const double beyond = 10 - 1e-6; /* of fewer the next sample may move it far */

	if ((1 - quantile) * (double)h->count < beyond)
		return false;
	*ret_ns = histogram_quantile(h, quantile);
	return true;
}

void measure_check_requests(struct measure *row)
{
	struct measure_generator *g = &row->generator;
	const struct generator_result *r = &g->result;
	double wall_s = (double)g->wall_ns / NS_PER_S;
	bool fits = r->requests <= (double)row->bytes_in + (double)row->bytes_out;

	/* The span of load is known to some 20 ms at each end, and redis-benchmark with --threads
	 * ends its own at a timer of 250 ms. */
	if (r->requests_per_s > 0 && g->wall_ns)
		fits &= r->requests / r->requests_per_s <= 1.1 * wall_s + 0.35;
	if (!row->batch) /* what is under way at the ends may be counted on one side */
		fits &= r->requests <= 1.02 * (double)row->listener_count + 10;
	if (fits || r->requests <= 0)
		return;
	g->refused_requests = (uint64_t)r->requests;
	g->result.requests = 0;
}

bool measure_trip(const struct measure *row, double quantile, uint64_t *ret_ns)
{
	unsigned visits = measure_visits(row), count = 0;
	double *values = must(calloc(visits, sizeof(*values)));
	uint64_t ns;

	for (unsigned i = 0; i < visits; i++) {
		const struct measure *visit = measure_visit_at(row, i);

		if (generator_quantile(&visit->generator.result, quantile, &ns))
			values[count++] = (double)ns;
	}
	if (count > 0)
		*ret_ns = (uint64_t)numbers_median(values, count);
	free(values);
	return count > 0;
}
