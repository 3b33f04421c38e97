/* See generator_sum.h. */
#include "generator_sum.h"

#include "measure_file.h"
#include "util.h"

/* The requests or bytes of a part; some generators tell only their rate. */
static double amount(double count, double per_s, double load_s)
{
	return count > 0 ? count : per_s * load_s;
}

/* The time of the host's load as its generator measured it, count over rate, which excludes the
 * generator's start and end; else the run time of the command. */
static double load_ns(const struct generator_part *p)
{
	const struct generator_result *r = &p->result;
	double all = (double)p->wall_ns, load = all;

	if (r->requests > 0 && r->requests_per_s > 0)
		load = r->requests / r->requests_per_s * NS_PER_S;
	else if (r->bytes > 0 && r->bytes_per_s > 0)
		load = r->bytes / r->bytes_per_s * NS_PER_S;
	return MIN(load, all);
}

static bool is_understood(const struct generator_part *p)
{
	return p->result.requests_per_s > 0 || p->result.bytes_per_s > 0;
}

static void add_counts(struct generator_result *to, const struct generator_part *parts,
		       unsigned count)
{
	bool requests = true, bytes = true;

	for (unsigned i = 0; i < count; i++) {
		const struct generator_result *r = &parts[i].result;
		double load_s = load_ns(&parts[i]) / NS_PER_S;

		to->requests += r->requests;
		to->bytes += r->bytes;
		to->errors += r->errors;
		to->requests_per_s += amount(r->requests, r->requests_per_s, load_s);
		to->bytes_per_s += amount(r->bytes, r->bytes_per_s, load_s);
		requests &= r->requests > 0;
		bytes &= r->bytes > 0;
	}
	to->requests = requests ? to->requests : 0;
	to->bytes = bytes ? to->bytes : 0;
}

/* The highest of each percentile that all of them tell. */
static void add_quantiles(struct generator_result *to, const struct generator_part *parts,
			  unsigned count)
{
	for (unsigned i = 0; i < parts[0].result.quantile_count; i++) {
		struct generator_quantile most = parts[0].result.quantiles[i];
		bool all = true;

		for (unsigned j = 1; j < count && all; j++) {
			uint64_t ns = 0;

			all = generator_quantile(&parts[j].result, most.quantile, &ns);
			most.ns = MAX(most.ns, ns);
		}
		if (all)
			to->quantiles[to->quantile_count++] = most;
	}
}

struct generator_sum generator_sum(const struct generator_part *parts, unsigned count)
{
	/* The load of each ended when its generator did. */
	uint64_t first_end_ns = UINT64_MAX, last_end_ns = 0;
	double first_start_ns = (double)UINT64_MAX, last_start_ns = 0, all_ns, common_ns;
	struct generator_sum sum = { 0 };
	bool understood = true;

	for (unsigned i = 0; i < count; i++) {
		double start_ns = (double)parts[i].ended_ns - load_ns(&parts[i]);

		first_start_ns = MIN(first_start_ns, start_ns);
		last_start_ns = MAX(last_start_ns, start_ns);
		first_end_ns = MIN(first_end_ns, parts[i].ended_ns);
		last_end_ns = MAX(last_end_ns, parts[i].ended_ns);
		understood &= is_understood(&parts[i]);
	}
	all_ns = MAX((double)last_end_ns - first_start_ns, 1.0);
	common_ns = (double)first_end_ns - last_start_ns;
	sum.overlap = MAX(common_ns, 0.0) / all_ns;
	if (!understood)
		return sum;
	add_counts(&sum.result, parts, count);
	add_quantiles(&sum.result, parts, count);
	sum.result.requests_per_s *= NS_PER_S / all_ns;
	sum.result.bytes_per_s *= NS_PER_S / all_ns;
	return sum;
}

json_t *generator_parts_to_json(const struct generator_part *parts, unsigned count)
{
	json_t *made = json_array();

	for (unsigned i = 0; i < count; i++) {
		const struct generator_part *p = &parts[i];
		json_t *host = json_pack("{s:s, s:I, s:I, s:I, s:f}", "host", p->host, "wall_ns",
					 (json_int_t)p->wall_ns, "cpu_ns", (json_int_t)p->cpu_ns,
					 "busiest_ns", (json_int_t)p->busiest_ns, "peak", p->peak);

		measure_result_to_json(&p->result, host);
		json_array_append_new(made, host);
	}
	return made;
}
