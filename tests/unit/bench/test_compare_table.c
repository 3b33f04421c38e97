/* bench/print/print_table.c and what stands beside the table: medians and warnings. */
#include <errno.h>
#include <math.h>

#include "measure_case.h"
#include "steps.h"
#include "util.h"

TEST(table_has_a_baseline)
{
	CLEANUP(measures_free) struct measures m = {};
	char *text;

	add_delta(&m, NULL, document("slow", "echo", 1000, 10, 2000000, "[[1023, 100]]"), "load");
	add_delta(&m, NULL, document("fast", "echo", 1000, 10, 1000000, "[[1023, 1000]]"), "load");
	add_delta(&m, NULL, document("none", "echo", 0, 0, 0, "[]"), "load");
	text = rendered(&m);
	assert_has(text, "echo: load\n");
	assert_has(text, "1st ");
	assert_has(text, "-50 %  too few rounds: 0 of 6");
	assert_has(text, "epoll+sqpoll");
	assert_has(text, "No operations in the interval: none");
}

TEST(nothing_ran_is_said)
{
	struct measures m = {};
	char *text = rendered(&m);

	assert_string_equal(text, "No operations in the interval.\n");
}

TEST(operations_of_other_sizes_are_compared_by_bytes)
{
	struct measures m = {};

	add_delta(&m, NULL, document("a", "echo", 1000, 64000, 1, "[]"), "");
	add_delta(&m, NULL, document("b", "echo", 1000, 65000, 1, "[]"), "");
	assert_int_equal(comparison_cost(m.rows, 2), FIGURE_CPU_PER_OP);
	add_delta(&m, NULL, document("c", "echo", 1000, 128000, 1, "[]"), "");
	assert_int_equal(comparison_cost(m.rows, 3), FIGURE_CPU_PER_BYTE);
	measures_free(&m);
	add_delta(&m, NULL, document("d", "discard", 1000, 64000, 1, "[]"), "");
	assert_int_equal(comparison_cost(m.rows, 1), FIGURE_CPU_PER_BYTE);
	measures_free(&m);
}

/* Two CPUs for a second: 0.9 s by the listener, 0.7 by the generator, 0.3 idle, 0.1 stolen. */
static double other_of(enum measure_irq_time irq_time, uint64_t softirq_ns, uint64_t cpu_ns)
{
	struct measure row = {
		.interval_ns = NS_PER_S,
		.cpu_ns = cpu_ns,
		.generator = { .wall_ns = NS_PER_S, .cpu_ns = 700 * NS_PER_MS },
		.machine = { .cpus = 2,
			     .total_ns = 2 * NS_PER_S,
			     .idle_ns = 300 * NS_PER_MS,
			     .steal_ns = 100 * NS_PER_MS,
			     .softirq_ns = softirq_ns,
			     .irq_time = irq_time },
	};

	assert_true(fabs(figure_value(&row, FIGURE_STEAL) - 0.1) < 1e-9);
	return figure_value(&row, FIGURE_OTHER);
}

TEST(softirqs_in_threads_time_are_not_taken_off_twice)
{
	uint64_t own = 700 * NS_PER_MS, softirq = 150 * NS_PER_MS;

	assert_float_equal(other_of(IRQ_TIME_IN_THREADS, softirq, own), 0.2, 1e-9);
	assert_float_equal(other_of(IRQ_TIME_APART, softirq, own), 0.05, 1e-9);
	assert_true(isnan(other_of(IRQ_TIME_UNKNOWN, softirq, own)));
	assert_float_equal(other_of(IRQ_TIME_UNKNOWN, 0, own), 0.2, 1e-9);
	/* The parts exceed the whole: by the resolution of the clock, and by more than that. */
	assert_true(other_of(IRQ_TIME_IN_THREADS, softirq, 940 * NS_PER_MS) == 0);
	assert_true(isnan(other_of(IRQ_TIME_IN_THREADS, softirq, 1200 * NS_PER_MS)));
}

TEST(figures_are_medians_of_the_visits)
{
	static const int cost[] = { 900, 1100, 1000 };
	CLEANUP(measures_free) struct measures m = {};

	add_visits(&m, "a", 3, cost);
	measures_merge(&m);
	assert_int_equal(m.count, 1);
	assert_int_equal(m.rows[0]->visit_count, 3);
	assert_float_equal(measure_median(m.rows[0], FIGURE_CPU_PER_OP), 1000, 0.01);
	assert_true(isnan(measure_median(m.rows[0], FIGURE_CPU_PER_REQUEST)));
}

TEST(trips_are_medians_as_other_figures_are)
{
	static const int cost[] = { 1000, 1000 };
	CLEANUP(measures_free) struct measures m = {};

	add_visits(&m, "a", 2, cost);
	for (unsigned i = 0; i < m.count; i++) {
		m.rows[i]->generator.result.quantiles[0] =
			(struct generator_quantile){ 0.5, i ? 101 : 301 };
		m.rows[i]->generator.result.quantile_count = 1;
	}
	measures_merge(&m);
	assert_true(measure_median(m.rows[0], FIGURE_TRIP50) == 201);
}

TEST(all_listeners_that_share_a_cpu_are_named)
{
	static const int cost[] = { 1000 };
	CLEANUP(measures_free) struct measures m = {};
	struct result *r;

	for (unsigned i = 0; i < 3; i++)
		add_visits(&m, (const char *const[]){ "a", "b", "c" }[i], 1, cost);
	m.rows[1]->generator.shared_cpus = 1;
	r = judged(&m);
	assert_has(warned(r, "shared_cpus"), "The generator and b may run");
	result_free(r);
	m.rows[0]->generator.shared_cpus = 2;
	m.rows[2]->generator.sibling_cpus = 1;
	r = judged(&m);
	assert_has(warned(r, "shared_cpus"), "The generator and a, b may run");
	assert_has(warned(r, "shared_cores"),
		   "The generator and c run on hardware threads of the same core");
	result_free(r);
}

/* Two visits, of which one was throttled, on a host that has whatever costs. */
TEST(conditions_that_void_figures_are_said)
{
	static const char host[] =
		"{\"host\": {\"governor\": \"powersave\", \"clocksource\": \"hpet\", \"turbo\": "
		"\"on\", \"transparent_hugepages\": \"always\"%s}%s}";
	static const char *const expected[][2] = {
		{ "throttled", "throttled in 1 of 2 visits" },
		{ "other_nodes", "different NUMA nodes in 2 of 2 visits" },
		{ "governor", "governor is powersave" },
		{ "clock_source", "clock source is hpet" },
		{ "steal", "gave up to 10 % of a CPU" },
		{ "other_programs", "took up to 90 % of a CPU" },
		{ "pressure", "waited for a CPU in up to 50 % of the time" },
		{ "turbo", "Turbo is on" },
		{ "huge_pages", "huge pages are on" },
		{ "shared_cpus", "`cpus = 0` in the listener, taskset -c 2 COMMAND" },
	};
	CLEANUP(measures_free) struct measures m = { 0 };
	struct result *r;

	for (unsigned i = 0; i < 2; i++) {
		struct measure *row = measures_add(&m);
		char text[256];

		snprintf(text, sizeof(text), host, ", \"apart\": \"0 2\"",
			 i ? ", \"other_nodes\": true"
			   : ", \"other_nodes\": true, \"throttled\": 3");
		row->source = json_loads(text, 0, NULL);
		row->conditions = row->source;
		row->label = row->engine = "";
		row->listener = i ? "b" : "a";
		row->service = row->operation = "echo";
		row->count = row->listener_count = 10;
		row->generator.shared_cpus = 1;
		row->generator.wall_ns = row->interval_ns = NS_PER_S;
		row->machine = (struct measure_machine){ .cpus = 1,
							 .total_ns = NS_PER_S,
							 .steal_ns = NS_PER_S / 10,
							 .pressure_ns = NS_PER_S / 2 };
	}
	r = judged(&m);
	for (unsigned i = 0; i < ARRAY_SIZE(expected); i++) {
		assert_non_null(warned(r, expected[i][0]));
		assert_has(warned(r, expected[i][0]), expected[i][1]);
	}
	assert_int_equal(r->warning_count, ARRAY_SIZE(expected));
	result_free(r);
	json_decref(m.rows[0]->source);
	json_decref(m.rows[1]->source);
	for (unsigned i = 0; i < 2; i++) { /* a host of which nothing is known */
		m.rows[i]->source = json_object();
		m.rows[i]->conditions = m.rows[i]->source;
		m.rows[i]->machine = (struct measure_machine){ 0 };
		m.rows[i]->generator.shared_cpus = 0;
	}
	r = judged(&m);
	assert_int_equal(r->warning_count, 0);
	result_free(r);
}

/* Of 1,000 datagrams: af_xdp may lose a percent to its socket, and no other engine has frames. */
TEST(datagrams_beside_the_frames_are_said)
{
	static const struct {
		const char *engine;
		int frames;
		bool is_said;
	} cases[] = { { "af_xdp", 990, false }, { "af_xdp", 989, true }, { "epoll", 0, false } };

	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		CLEANUP(measures_free) struct measures m = { 0 };
		CLEANUP(result_free_p) struct result *r = NULL;
		json_t *after = document("udp-x", "echo", 1000, 1000, 1000, "[]");
		json_t *listener = json_array_get(json_object_get(after, "listeners"), 0);

		json_object_set_new(listener, "engine", json_string(cases[i].engine));
		json_object_set_new(
			listener, "udp",
			json_pack("{s:i, s:i}", "in", 1000, "frames_in", cases[i].frames));
		add_delta(&m, document("udp-x", "echo", 0, 0, 0, "[]"), after, "");
		r = judged(&m);
		assert_int_equal(warned(r, "beside_frames") != NULL, cases[i].is_said);
		if (cases[i].is_said)
			assert_has(warned(r, "beside_frames"), "came to udp-x as frames");
	}
}

/* Two listeners, b with half of a's CPU time, on a host that was busy for so long with each. */
TEST(a_host_that_contradicts_the_threads_is_said)
{
	static const int cost[][8] = { { 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000 },
				       { 500, 500, 500, 500, 500, 500, 500, 500 } };
	static const struct {
		const char *engine;
		uint64_t busy_ms[2];
		bool elsewhere, is_shown, is_otherwise, has_generator;
	} cases[] = {
		{ "af_xdp", { 400, 300 }, false, true, false, true },
		{ "af_xdp", { 400, 500 }, false, true, true, true },
		{ "af_xdp", { 400, 500 }, true, true, true, false },
		{ "af_xdp", { 0, 0 }, false, false, false, false },
		{ "epoll", { 400, 500 }, false, false, false, false },
	};

	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		CLEANUP(measures_free) struct measures m = { 0 };
		CLEANUP(result_free_p) struct result *r = NULL;
		struct output out = { .width = 200 };
		char *text;
		size_t bytes;

		for (unsigned j = 0; j < 16; j++) {
			add_visits(&m, j % 2 ? "b" : "a", 1, cost[j % 2]);
			m.rows[j]->visit.round = j / 2 + 1;
			m.rows[j]->engine = j % 2 ? cases[i].engine : "epoll";
			m.rows[j]->generator.wall_ns = NS_PER_S;
			m.rows[j]->generator.elsewhere = cases[i].elsewhere;
			if (cases[i].busy_ms[j % 2])
				m.rows[j]->machine = (struct measure_machine){
					.cpus = 2,
					.total_ns = 2 * NS_PER_S,
					.idle_ns = 1900 * NS_PER_MS -
						   cases[i].busy_ms[j % 2] * NS_PER_MS,
					.steal_ns = 100 * NS_PER_MS,
				};
		}
		measures_merge(&m);
		r = judged(&m);
		assert_int_equal(r->groups[0].rows[1].verdicts[JUDGED_COST].is, VERDICT_LESS);
		if (cases[i].busy_ms[1]) /* of 1,000 operations */
			assert_float_equal(measure_median(m.rows[1], FIGURE_HOST_PER_OP),
					   (double)cases[i].busy_ms[1] * 1000, 1e-6);
		assert_int_equal(warned(r, "host_otherwise") != NULL, cases[i].is_otherwise);
		assert_int_equal(warned(r, "host_with_generator") != NULL, cases[i].has_generator);
		out.file = open_memstream(&text, &bytes);
		print_result(&out, r, &m, false);
		fclose(out.file);
		assert_int_equal(strstr(kept(text), " host") != NULL, cases[i].is_shown);
	}
}

/* 1,000 requests of a generator that ran for so long, on a listener that counted so many. */
TEST(a_count_of_requests_that_cannot_be_is_unknown)
{
	static const struct {
		uint64_t lived_ms;
		double requests, per_s;
		uint64_t operations, bytes;
		bool batch, fits;
	} cases[] = {
		{ 1000, 1000, 1000, 1000, 5000, false, true },
		{ 1000, 1000, 0, 1000, 5000, false, true },    /* it tells no rate */
		{ 1000, 1000, 1000, 10, 5000, true, true },    /* a batch has many */
		{ 1000, 1000, 1000, 900, 5000, false, false }, /* more than there were */
		{ 1000, 1000, 1000, 900, 999, true, false },   /* less than a byte each */
		{ 1000, 1000, 500, 1000, 5000, false, false }, /* two seconds' work */
		{ 200, 1000, 2500, 10, 5000, true, false },    /* twice that of a short visit */
		{ 200, 1000, 5200, 10, 5000, true, true },     /* its clock ticks in ms */
		{ 1000, 0, 500, 0, 0, false, true },
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct measure row = { .listener_count = cases[i].operations,
				       .bytes_in = cases[i].bytes,
				       .batch = cases[i].batch };

		row.generator.wall_ns = row.generator.lived_ns = cases[i].lived_ms * NS_PER_MS;
		row.generator.result.requests = cases[i].requests;
		row.generator.result.requests_per_s = cases[i].per_s;
		measure_check_requests(&row);
		assert_true(row.generator.result.requests ==
			    (cases[i].fits ? cases[i].requests : 0));
		assert_int_equal(row.generator.refused_requests, cases[i].fits ? 0 : 1000);
	}
}

/* iperf3 and iperf report bytes alone: they are shown beside those of the listener. */
TEST(bytes_of_the_generator_stand_beside_the_listeners)
{
	static const int cost[] = { 1000 };
	CLEANUP(measures_free) struct measures m = {};
	char *text;

	add_visits(&m, "a", 1, cost);
	text = rendered(&m);
	assert_has_not(text, "genMB");
	m.rows[0]->generator.result.bytes_per_s = 123e6;
	text = rendered(&m);
	assert_has(text, "genMB");
	assert_has(text, " 123 ");
}
