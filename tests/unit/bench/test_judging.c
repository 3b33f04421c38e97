/* bench/generator/: rows judged by their rounds, the gate of whole runs, and limits. */
#include <errno.h>
#include <math.h>

#include "limit.h"
#include "measure_case.h"
#include "print.h"
#include "util.h"

TEST(a_row_is_judged_by_its_ratios_to_the_first)
{
	static const int first[] = { 800, 1600, 1200, 1000, 900, 1100 };
	static const int less[] = { 640, 1300, 955, 800, 715, 890 };
	static const int apart[] = { 810, 1610, 1190, 1010, 890, 1090 };
	static const int noisy[] = { 640, 2000, 960, 1250, 900, 1100 };
	char *text = two_listeners(first, less, 6);

	/* The range of each is three times as large as the difference. */
	assert_has(text, "-20 %  19 to 21 % less");
	assert_has(text, "echo (CPU per operation, 6 rounds)\n");
	text = two_listeners(first, apart, 6);
	assert_has(text, "the same within 5 %");
	text = two_listeners(first, noisy, 6);
	assert_has(text, "  undecided, -20 to +25 %");
	text = two_listeners(first, less, 5);
	assert_has(text, "-20 %  too few rounds: 5 of 6");
}

/* Ten rounds in which b's rate is a tenth more than a's, and its round trips are the same.  busy:
 * of the generator's busiest thread. */
static char *rates_beside_costs(double busy)
{
	static const int cost[] = { 1000, 1100, 1200, 900, 1000, 1050, 980, 1010, 990, 1020 };
	CLEANUP(measures_free) struct measures m = {};

	add_visits(&m, "a", 10, cost);
	add_visits(&m, "b", 10, cost);
	for (unsigned i = 0; i < m.count; i++) {
		struct measure_generator *g = &m.rows[i]->generator;
		double noise = 1 + 0.001 * (i * 7 % 5);

		g->wall_ns = NS_PER_S;
		g->peak = busy;
		g->result = (struct generator_result){
			.requests = 1000,
			.requests_per_s = (i < 10 ? 1000 : 1100) * noise,
			.quantile_count = 1,
			.quantiles = { { 0.5, (uint64_t)(50000 * noise) } },
		};
	}
	measures_merge(&m);
	return rendered(&m);
}

TEST(rates_are_judged_unless_they_are_the_generators)
{
	char *text = rates_beside_costs(0.5);

	assert_has(text, "b: requests 10 % more.");
	assert_has_not(text, "round trip p50 ");
	text = rates_beside_costs(0.99);
	assert_has_not(text, "b: requests");
}

static void add_tls_visits(struct measures *m, const char *listener, const char *mode,
			   const int cost[10])
{
	unsigned first = m->count;

	add_visits(m, listener, 10, cost);
	for (unsigned i = first; i < m->count; i++) {
		json_t *tls = json_pack("{s:s, s:s, s:s, s:s*}", "mode", mode, "library", "L 1",
					"cipher", "c", "driver", strcmp(mode, "user") ? "d" : NULL);

		json_object_set_new(m->rows[i]->source, "tls", tls);
		m->rows[i]->tls = tls;
	}
}

TEST(libraries_and_drivers_of_tls_are_told)
{
	static const int cost[10] = { 800, 1600, 1200, 1000, 900, 1100, 800, 1600, 1200, 1000 };
	CLEANUP(measures_free) struct measures m = {};
	char *text;

	add_visits(&m, "a", 10, cost);
	add_tls_visits(&m, "b", "user", cost);
	add_tls_visits(&m, "c", "ktls", cost);
	measures_merge(&m);
	text = rendered(&m);
	assert_non_null(strstr(text, ", tls by L 1 with c, the kernel by d)"));
	assert_has(text, "epoll+sqpoll+ktls ");
}

TEST(rounds_without_a_cost_and_rates_apart_are_said)
{
	static const int cost[10] = { 1000, 1010, 1020, 1030, 1000, 1010, 1020, 1030, 1000, 1010 };
	CLEANUP(measures_free) struct measures m = {};
	char *text;

	add_visits(&m, "a", 10, cost);
	add_visits(&m, "b", 10, cost);
	for (unsigned i = 10; i < 20; i++)
		m.rows[i]->interval_ns = 1250000000; /* a rate of four fifths */
	m.rows[12]->cpu_ns = m.rows[15]->cpu_ns = 0;
	measures_merge(&m);
	text = rendered(&m);
	assert_has(text, "b (8 of 10).");
	assert_has(text, "echo (CPU per operation, 8 rounds, rates up to 20 % apart)\n");
}

TEST(rounds_of_other_runs_are_not_compared)
{
	static const int cost[] = { 1000, 1000, 1000, 1000, 1000, 1000, 1000 };
	CLEANUP(measures_free) struct measures m = {};
	char *text;

	add_visits(&m, "a", 7, cost);
	add_visits(&m, "b", 7, cost);
	for (unsigned i = 7; i < 12; i++)
		m.rows[i]->visit.run = "other";
	measures_merge(&m);
	text = rendered(&m);
	assert_has(text, "too few rounds: 2 of 6");
}

TEST(visits_of_another_setup_are_another_row)
{
	static const int cost[] = { 1000, 1000, 1000 };
	CLEANUP(measures_free) struct measures m = {};

	add_visits(&m, "a", 3, cost);
	m.rows[1]->visit.setup = "other";
	m.rows[2]->visit.build = "other";
	measures_merge(&m);
	assert_int_equal(m.count, 3);
}

static void add_visit_of(struct measures *m, const char *prefix, unsigned run, int cost)
{
	struct measure *row;
	char name[16];

	add_visits(m, "a", 1, &cost);
	row = m->rows[m->count - 1];
	snprintf(name, sizeof(name), "%s%u", prefix, run);
	json_object_set_new(row->source, "run", json_string(name));
	row->visit.run = json_string_value(json_object_get(row->source, "run"));
}

/* A row of several runs, of two rounds each. */
static void add_runs(struct measures *m, const char *prefix, unsigned count, const int *cost)
{
	for (unsigned i = 0; i < 2 * count; i++)
		add_visit_of(m, prefix, i / 2, cost[i / 2] + (int)i % 2);
	measures_merge(m);
}

/* The gate of all rows, and the table. */
static enum gate compared(const struct measures *before, const struct measures *now, bool force,
			  char **ret_text)
{
	struct output out = { .width = 200 };
	const struct result_options options = { .saved = before, .force = force };
	CLEANUP(result_free_p) struct result *r = result_new(now, &options);

	*ret_text = WRITTEN(to, out.file = to; print_against(&out, r));
	return r->gate;
}

static enum gate gated(const int *before, const int *now, unsigned runs, char **ret_text)
{
	CLEANUP(measures_free) struct measures a = {}, b = {};

	add_runs(&a, "old", runs, before);
	add_runs(&b, "new", runs, now);
	return compared(&a, &b, false, ret_text);
}

TEST(the_gate_compares_whole_runs)
{
	static const int good[] = { 990, 1000, 1010, 1005, 995 };
	static const int bad[] = { 1090, 1100, 1110, 1105, 1095 };
	static const int noisy[] = { 900, 1000, 1200, 950, 1100 };
	char *text;

	assert_int_equal(gated(good, good, 5, &text), GATE_PASSED);
	assert_has(text, "0 of 1 are worse");
	assert_int_equal(gated(good, bad, 5, &text), GATE_FAILED);
	assert_has(text, "echo (CPU per operation, us)\n");
	assert_has(text, "  1.00  1.10   +10 %  ");
	assert_has(text, " % more\n");
	assert_has(text, "1 of 1 are worse, 0 better");
	assert_int_equal(gated(bad, good, 5, &text), GATE_PASSED);
	assert_has(text, "  1.10  1.00  -9.1 %  ");
	assert_has(text, " % less\n");
	assert_has(text, "0 of 1 are worse, 1 better");
	assert_int_equal(gated(good, noisy, 5, &text), GATE_UNDECIDED);
	assert_int_equal(gated(good, bad, 4, &text), GATE_UNKNOWN);
	assert_has(text, "+10 %  too few runs: 4 now, 4 then, of 5");
}

TEST(the_gate_refuses_what_is_not_comparable)
{
	static const int cost[] = { 990, 1000, 1010, 1005, 995 };
	CLEANUP(measures_free) struct measures before = {}, now = {}, none = {};
	char *text;

	add_runs(&before, "old", 5, cost);
	add_runs(&now, "new", 5, cost);
	assert_int_equal(compared(&none, &now, false, &text), GATE_UNKNOWN);
	assert_has(text, "no saved row");
	/* A run is not compared with itself. */
	assert_int_equal(compared(&now, &now, false, &text), GATE_UNKNOWN);
	assert_has(text, "too few runs: 5 now, 0 then, of 5");
	before.rows[0]->visit.setup = "other";
	assert_int_equal(compared(&before, &now, false, &text), GATE_UNKNOWN);
	assert_has(text, "of another command, host, kernel or configuration");
	assert_int_equal(compared(&before, &now, true, &text), GATE_PASSED);
}

TEST(runs_beside_themselves_have_not_changed)
{
	CLEANUP(measures_free) struct measures m = {};
	char *text;

	add_visit_of(&m, "run", 0, 1000);
	for (unsigned i = 0; i < 3; i++)
		add_visit_of(&m, "run", 1, 2000);
	measures_merge(&m);
	assert_int_equal(compared(&m, &m, false, &text), GATE_UNKNOWN);
	assert_has(text, "  1.50  1.50  +0.0 %  too few runs: 2 now, 0 then, of 5");
}

/* The conditions of all visits; the rows own them. */
static void set_conditions(struct measures *m, const char *text)
{
	for (unsigned i = 0; i < measure_visits(m->rows[0]); i++) {
		struct measure *visit = (struct measure *)measure_visit_at(m->rows[0], i);
		json_t *made = json_loads(text, 0, NULL);

		assert_non_null(made);
		json_object_set_new(visit->source, "conditions", made);
		visit->conditions = made;
		if (i == 0)
			m->rows[0]->conditions = made;
	}
}

TEST(what_changed_between_is_told)
{
	static const int cost[] = { 990, 1000, 1010, 1005, 995 };
	CLEANUP(measures_free) struct measures before = {}, now = {};
	char *text;

	add_runs(&before, "old", 5, cost);
	add_runs(&now, "new", 5, cost);
	assert_int_equal(compared(&before, &now, false, &text), GATE_PASSED);
	assert_has(text, "\nNo change is known: host");
	set_conditions(&before,
		       "{\"host\": {\"kernel\": \"Linux 6\", \"mitigations\": {\"mds\": \"M\"}, "
		       "\"cpu_flags\": \"fpu avx2 fsrm pcid\"}, "
		       "\"listener\": {\"port\": 1, \"batch\": [1, 2]}, \"command\": [\"a\", "
		       "\"1\"], \"command_given\": [\"a\", \"{port}\"]}");
	set_conditions(
		&now,
		"{\"host\": {\"kernel\": \"Linux 7\", \"governor\": \"powersave\", "
		"\"cpu_flags\": \"pcid fpu  erms\", \"mitigations\": {}}, \"listener\": {\"port\": 1}, \"command\": "
		"[\"a\", \"2\"], \"command_given\": [\"a\", \"{port}\"]}");
	assert_int_equal(compared(&before, &now, false, &text), GATE_PASSED);
	assert_has(text, "\nChanged: kernel: Linux 6 -> Linux 7\n");
	assert_has(text, "\nChanged: CPU mitigation mds: M -> -\n");
	assert_has(text, "\nChanged: CPU flags: avx2 fsrm -> erms\n");
	assert_has(text, "\nChanged: a: key batch: 1, 2 -> -\n");
	assert_has_not(text, "governor"); /* not saved then */
	assert_has_not(text, "port");
}

TEST(a_limit_is_a_figure_a_sign_and_a_value)
{
	static const struct {
		const char *text;
		enum figure figure;
		double value;
		bool below;
	} good[] = {
		{ "p99>200us", FIGURE_P99, 200000, false },
		{ " p99.9 < 1.5 ms ", FIGURE_P99_9, 1500000, true },
		{ "cost>1.1us", FIGURE_CPU_PER_OP, 1100, false },
		{ "rate<100k", FIGURE_RATE, 100000, true },
		{ "bytes_per_s<2.5G", FIGURE_BANDWIDTH, 2.5e9, true },
		{ "cpu_share>80%", FIGURE_CPU_SHARE, 0.8, false },
		{ "cpu_ns_per_request>800ns", FIGURE_CPU_PER_REQUEST, 800, false },
	};
	static const char *const bad[][2] = {
		{ "", "expected FIGURE>LIMIT" },
		{ "p99", "expected FIGURE>LIMIT" },
		{ ">1us", "expected FIGURE>LIMIT" },
		{ "p98>1us", "no figure 'p98'; there are cost, calls, rate" },
		{ "p99>200", "a time with its unit" },
		{ "p99>1k", "a time with its unit" },
		{ "p99>inf", "a time with its unit" },
		{ "p99>1us 2us", "a time with its unit" },
		{ "cost>1.1*first", "by --build and --against" },
		{ "rate<-1", "a number, such as 100k" },
		{ "rate<0", "a number, such as 100k" },
		{ "rate<1.2.3", "a number, such as 100k" },
		{ "rate<1us", "a number, such as 100k" },
		{ "cpu_share>1k", "a part of a CPU" },
	};
	char error[LIMIT_ERROR_BYTES];
	struct limit l;

	for (unsigned i = 0; i < ARRAY_SIZE(good); i++) {
		assert_true(limit_parse(good[i].text, &l, error));
		assert_int_equal(l.figure, good[i].figure);
		assert_true(fabs(l.value / good[i].value - 1) < 1e-9);
		assert_int_equal(l.below, good[i].below);
	}
	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
		assert_false(limit_parse(bad[i][0], &l, error));
		assert_has(error, bad[i][1]);
	}
}

/* Rounds of two listeners, whose costs are 1000 ns and 1200 ns, against the limit. */
static enum gate limited(const char *text, unsigned rounds, char **ret_said)
{
	static const int cost[] = { 990, 1000, 1010, 1005, 995, 1002, 998, 1001 };
	static const int more[] = { 1190, 1200, 1210, 1205, 1195, 1202, 1198, 1201 };
	struct output out = { .width = 200 };
	char error[LIMIT_ERROR_BYTES];
	CLEANUP(measures_free) struct measures m = {};
	struct limit limit;
	struct result_options options = { .limits = &limit, .limit_count = 1 };
	CLEANUP(result_free_p) struct result *r;

	add_visits(&m, "a", rounds, cost);
	add_visits(&m, "b", rounds, more);
	measures_merge(&m);
	assert_true(limit_parse(text, &limit, error));
	limit.text = (char *)text;
	r = result_new(&m, &options);
	*ret_said = WRITTEN(to, out.file = to; print_gates(&out, r));
	return r->gate;
}

TEST(a_row_fails_a_limit_if_its_whole_interval_does)
{
	static const struct {
		const char *limit;
		enum gate gate;
		const char *said;
	} cases[] = {
		{ "cost>1.1us", GATE_FAILED, "of 2 rows and limits 1 passed, 1 failed" },
		{ "cost<1.1us", GATE_FAILED, "failed: a (echo): 1.00, by its interval 0.99" },
		{ "cost>1us", GATE_FAILED, "undecided: a (echo): 1.00, by its interval 0.99" },
		{ "cost>2us", GATE_PASSED, "of 2 rows and limits 2 passed" },
		{ "trip99>2us", GATE_UNKNOWN, "unknown: a (echo): known in 0 visits" },
	};
	char *text;

	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(limited(cases[i].limit, 8, &text), cases[i].gate);
		assert_has(text, cases[i].said);
	}
	/* Beyond by far, but in too few rounds to know. */
	assert_int_equal(limited("cost>1ns", 5, &text), GATE_UNKNOWN);
	assert_has(text, "known in 5 visits or blocks of them, it takes 6");
	assert_int_equal(limited("trip99>2us", 5, &text), GATE_UNKNOWN);
	assert_has(text, "known in 0 visits or blocks of them, it takes 6");
}
