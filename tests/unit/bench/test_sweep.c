/* bench/run/points.c and brace.c: values in texts; bench/result/curve.c: what a sweep tells. */
#include <math.h>

#include "curve.h"
#include "measure_case.h"
#include "points.h"
#include "util.h"

/* ---- Values ---- */

static void assert_filled(bool last, const char *text, const char *expected)
{
	struct point point = { .values = json_pack("{s:s, s:s}", "c", "7", "some_delay", "10us") };
	CLEANUP(free_p) char *filled = point_fill(&point, text, last);

	assert_string_equal(filled, expected);
	json_decref(point.values);
}

TEST(other_braces_stay)
{
	assert_filled(false, "{c}{port}{{c}}${c}%{c}{C}{}{c", "7{port}{{c}}${c}%{c}{C}{}{c");
	assert_filled(true, "{{c}} {c} -d {some_delay}", "{c} 7 -d 10us");
}

/* ---- Curves ---- */

/* Twelve visits of a listener at c=value, which cost cpu ns an operation, give or take spread. */
static void add_row(struct measures *m, const char *listener, const char *value, unsigned cpu,
		    unsigned spread)
{
	for (unsigned round = 1; round <= 12; round++) {
		unsigned cost = cpu + (round % 2 ? spread : 0) + round;
		json_t *source = json_pack(
			"{s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:{s:s, s:i}, s:{s:{s:s, "
			"s:i, s:{s:s, s:s}}}}",
			"listener", listener, "label", value, "engine", listener, "service", "echo",
			"operation", "echo", "count", 1000, "listener_count", 1000, "interval_ns",
			1000000000, "cpu_ns", 1000 * cost, "visit", "run", "r", "round", round,
			"conditions", "sweep", "label", "", "place", 1000 - atoi(value), "values",
			"c", value, "d", "0");

		assert_non_null(source);
		assert_int_equal(measures_add_json(m, source), 0);
		json_decref(source);
	}
}

static struct measures rows_of(const unsigned costs[4], const unsigned spreads[4])
{
	static const char *const values[] = { "1", "10", "50", "100" };
	struct measures m = { 0 };

	/* Their order is that of the numbers, not that of the rows. */
	for (unsigned i = 4; i-- > 0;) {
		add_row(&m, "epoll", values[i], 1000, 0);
		add_row(&m, "io_uring", values[i], costs[i], spreads[i]);
	}
	measures_merge(&m);
	return m;
}

/* What is told of those rows. */
static void assert_told(const unsigned costs[4], const unsigned spreads[4], const char *expected)
{
	CLEANUP(measures_free) struct measures m = rows_of(costs, spreads);
	CLEANUP(result_free_p) struct result *r = judged(&m);
	const char *text;

	assert_int_equal(r->curve_count, 1);
	text = kept(curve_text(&r->curves[0]));
	assert_has(text, "CPU per operation against epoll over c: io_uring: ");
	assert_string_equal(strstr(text, "io_uring: "), expected);
}

TEST(a_crossing_has_an_interval_on_either_side)
{
	assert_told((unsigned[]){ 1500, 1200, 900, 700 }, (unsigned[]){ 0, 0, 200, 0 },
		    "io_uring: more up to c=10, undecided at c=50, less at c=100 (they cross "
		    "between c=10 and 100).");
	assert_told((unsigned[]){ 1500, 1000, 800, 700 }, (unsigned[4]){ 0 },
		    "io_uring: more at c=1, the same at c=10, less from c=50 on (they cross "
		    "between c=1 and 50).");
}

TEST(without_two_intervals_nothing_crosses)
{
	assert_told((unsigned[]){ 1500, 900, 900, 900 }, (unsigned[]){ 0, 200, 200, 200 },
		    "io_uring: more at c=1, undecided from c=10 on.");
	assert_told((unsigned[]){ 700, 700, 700, 700 }, (unsigned[4]){ 0 },
		    "io_uring: less at every value.");
	assert_told((unsigned[]){ 700, 1500, 700, 1500 }, (unsigned[4]){ 0 },
		    "io_uring: less at c=1, more at c=10, less at c=50, more at c=100.");
}

TEST(intervals_of_all_values_hold_together)
{
	CLEANUP(measures_free)
	struct measures m = rows_of((unsigned[]){ 700, 700, 700, 700 }, (unsigned[]){ 0, 0, 0, 0 });
	CLEANUP(result_free_p) struct result *r = judged(&m);

	assert_int_equal(r->group_count, 4);
	for (unsigned i = 0; i < r->group_count; i++)
		assert_int_equal(r->groups[i].comparisons, 4);
}

TEST(an_interval_is_about_its_figure)
{
	CLEANUP(measures_free) struct measures m = { 0 };
	const struct value *v;
	CLEANUP(result_free_p) struct result *r;

	add_row(&m, "epoll", "1", 1000, 0);
	measures_merge(&m);
	r = judged(&m);
	v = &r->groups[0].rows[0].values[FIGURE_CPU_PER_OP];
	assert_true(v->lower > 1001 && v->lower < 1006.5 && v->upper > 1006.5 && v->upper < 1012);
	v = &r->groups[0].rows[0].values[FIGURE_TRIP50];
	assert_true(isnan(v->lower) && isnan(v->upper));
}

TEST(the_page_has_curves)
{
	CLEANUP(measures_free)
	struct measures m =
		rows_of((unsigned[]){ 1500, 1200, 900, 700 }, (unsigned[]){ 0, 0, 200, 0 });
	const char *page = page_of(&m);

	assert_has(page, "<h2>echo: d=0 over c</h2>");
	assert_has(page, "CPU per operation in \xc2\xb5s over c");
	assert_has(page, "operations/s over c");
	assert_has(page, "they cross between c=10 and 100");
	assert_has_not(page, "over requests"); /* no latency is known */
}

/* A generator of a fixed rate, which is the value, and its round trips. */
static void add_rated(struct measures *m, const char *listener, const char *rate, unsigned trip_ns)
{
	unsigned first = m->count;

	add_row(m, listener, rate, 1000, 0);
	for (unsigned i = first; i < m->count; i++) {
		struct measure_generator *g = &m->rows[i]->generator;

		g->name = "wrk2";
		g->wall_ns = NS_PER_S;
		g->result.requests = 1000;
		g->result.requests_per_s = atof(rate);
		g->result.quantile_count = 2;
		g->result.quantiles[0] = (struct generator_quantile){ 0.5, trip_ns };
		g->result.quantiles[1] = (struct generator_quantile){ 0.99, 2 * trip_ns };
	}
}

TEST(latency_is_drawn_over_the_measured_rate)
{
	CLEANUP(measures_free) struct measures m = { 0 };
	const char *page;

	add_rated(&m, "epoll", "10000", 50000);
	add_rated(&m, "epoll", "20000", 70000);
	measures_merge(&m);
	page = page_of(&m);
	assert_has(page, "<h3>round trip p50 in \xc2\xb5s over requests/s</h3>");
	assert_has(page, "<h3>round trip p99 in \xc2\xb5s over requests/s</h3>");
	assert_has(page, "Vertical lines: intervals");
	assert_has(page, ">15,000</text>");
}
