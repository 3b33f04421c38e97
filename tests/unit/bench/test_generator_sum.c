/* A generator on several hosts: what their parts are together, and what is said of them. */
#include <math.h>

#include "generator_sum.h"
#include "hosts.h"
#include "measure_case.h"
#include "print.h"
#include "util.h"

/* A part that told `requests` in load_ms, whose generator took 100 ms more to start. */
static struct generator_part part_of(const char *host, unsigned end_ms, unsigned load_ms,
				     double requests, uint64_t p50_ns, uint64_t p99_ns)
{
	const uint64_t zero_ns = 5 * (uint64_t)NS_PER_S;

	return (struct generator_part){
		.host = host,
		.ended_ns = zero_ns + end_ms * (uint64_t)NS_PER_MS,
		.wall_ns = (load_ms + 100) * (uint64_t)NS_PER_MS,
		.result = { .requests = requests,
			    .requests_per_s = requests * 1000 / load_ms,
			    .bytes = 10 * requests,
			    .bytes_per_s = requests * 10000 / load_ms,
			    .quantiles = { { 0.5, p50_ns }, { 0.99, p99_ns } },
			    .quantile_count = 2 },
	};
}

TEST(requests_are_added_over_the_whole_time)
{
	const struct generator_part parts[] = { part_of("c1", 1200, 1000, 1000, 10, 90),
						part_of("c2", 1300, 1000, 3000, 30, 70) };
	struct generator_sum sum = generator_sum(parts, 2);
	uint64_t ns;

	/* From 200 to 1300 ms; both from 300 to 1200. */
	assert_true(fabs(sum.overlap - 900.0 / 1100) < 1e-6);
	assert_true(sum.result.requests == 4000 && sum.result.bytes == 40000);
	assert_true(fabs(sum.result.requests_per_s - 4000 / 1.1) < 1e-3);
	assert_true(fabs(sum.result.bytes_per_s - 40000 / 1.1) < 1e-2);
	assert_true(generator_quantile(&sum.result, 0.5, &ns) && ns == 30);
	assert_true(generator_quantile(&sum.result, 0.99, &ns) && ns == 90);
}

TEST(hosts_that_did_not_overlap_make_no_rate_higher)
{
	const struct generator_part parts[] = { part_of("c1", 1200, 1000, 1000, 1, 2),
						part_of("c2", 3200, 1000, 1000, 1, 2) };
	struct generator_sum sum = generator_sum(parts, 2);

	assert_true(sum.overlap == 0);
	assert_true(fabs(sum.result.requests_per_s - 2000 / 3.0) < 1e-3);
}

TEST(what_one_host_does_not_tell_is_unknown)
{
	struct generator_part parts[] = { part_of("c1", 1200, 1000, 1000, 1, 2),
					  part_of("c2", 1200, 1000, 1000, 1, 2) };
	struct generator_sum sum;

	parts[1].result.requests = 0; /* but the rate */
	parts[1].result.quantile_count = 1;
	sum = generator_sum(parts, 2);
	assert_true(sum.result.requests == 0 && sum.result.bytes == 20000);
	assert_true(fabs(sum.result.requests_per_s - 2000) < 1e-3);
	assert_int_equal(sum.result.quantile_count, 1);
	parts[1].result = (struct generator_result){ 0 }; /* its output was not understood */
	sum = generator_sum(parts, 2);
	assert_true(sum.result.requests == 0 && sum.result.requests_per_s == 0);
	assert_int_equal(sum.result.quantile_count, 0);
	assert_true(sum.overlap > 0);
}

/* ---- Rows ---- */

/* A visit of a listener by two hosts, whose busiest threads used so much of a CPU. */
static void add_visit(struct measures *m, const char *listener, double first, double second,
		      double overlap)
{
	struct generator_part parts[] = { part_of("c1", 1200, 1000, 500, 190000, 402000),
					  part_of("c2", 1200, 1000, 500, 210000, 812000) };
	const int cost[] = { 100 };
	struct measure_generator *g;

	parts[0].peak = first;
	parts[1].peak = second;
	add_visits(m, listener, 1, cost);
	g = &m->rows[m->count - 1]->generator;
	g->result = generator_sum(parts, 2).result;
	g->wall_ns = NS_PER_S;
	g->peak = MAX(first, second);
	g->overlap = overlap;
	g->spread_ns = 4100000;
	json_object_set_new(m->rows[m->count - 1]->source, "generator_hosts",
			    generator_parts_to_json(parts, 2));
	g->hosts = json_object_get(m->rows[m->count - 1]->source, "generator_hosts");
}

TEST(a_percentile_of_all_hosts_is_a_bound)
{
	CLEANUP(measures_free) struct measures m = {};
	char text[HOSTS_BOUNDS_BYTES], *table;

	add_visit(&m, "a", 0.5, 0.5, 1);
	assert_int_equal(hosts_count(m.rows[0]), 2);
	assert_true(hosts_bounds(m.rows[0], FIGURE_TRIP99, text));
	assert_string_equal(text, "<=812 (c2)");
	assert_true(hosts_bounds(m.rows[0], FIGURE_TRIP50, text));
	assert_string_equal(text, "190-210");
	assert_false(hosts_bounds(m.rows[0], FIGURE_P99, text));
	table = rendered(&m);
	assert_has(table, "<=812 (c2)");
	assert_has(table, "The generator started on 2 hosts within 4.10ms.");
}

TEST(saved_rows_have_each_host)
{
	CLEANUP(measures_free) struct measures m = {}, loaded = {};
	json_t *saved;

	add_visit(&m, "a", 0.5, 0.25, 0.5);
	saved = measure_to_json(m.rows[0]);
	assert_int_equal(measures_add_json(&loaded, saved), 0);
	json_decref(saved);
	assert_string_equal(hosts_name(loaded.rows[0], 1), "c2");
	assert_true(hosts_value(loaded.rows[0], 0, FIGURE_REQUEST_RATE) == 500);
	assert_true(hosts_value(loaded.rows[0], 1, FIGURE_GENERATOR_SHARE) == 0.25);
	assert_true(loaded.rows[0]->generator.overlap == 0.5);
	assert_int_equal(loaded.rows[0]->generator.spread_ns, 4100000);
}

/* The warning of that kind; NULL: there is none. */
static char *said_of(double first, double second, double overlap, const char *kind)
{
	CLEANUP(measures_free) struct measures m = {};
	CLEANUP(result_free_p) struct result *r;

	add_visit(&m, "a", first, second, overlap);
	r = judged(&m);
	return warned(r, kind) ? kept(strdup(warned(r, kind))) : NULL;
}

TEST(the_limit_is_judged_by_each_host)
{
	char *text = said_of(0.97, 0.5, 1, "limited_hosts");

	assert_has(text, "by their busiest threads (c1):");
	assert_null(said_of(0.97, 0.5, 1, "generator_limit"));
	assert_null(said_of(0.97, 0.97, 1, "limited_hosts"));
	assert_non_null(said_of(0.97, 0.97, 1, "generator_limit"));
	assert_null(said_of(0.5, 0.5, 1, "limited_hosts"));
}

TEST(hosts_that_hardly_ran_together_are_named)
{
	char *text = said_of(0.5, 0.5, 0.71, "overlap");

	assert_has(text, "they ran together for only 71 % of the time (a)");
	text = said_of(0.5, 0.5, 0.95, "overlap");
	assert_has_not(text, "together");
}
