/* ctl/measure/measure.c and compare_table.c: intervals out of two documents, sums, files, the
 * table. */
#include <errno.h>
#include <math.h>

#include "compare_group.h"
#include "measure_case.h"
#include "util.h"

/* { name, operations: {a, b, c} } with the given number of each. */
static json_t *service_with(const char *listener, int a, int b, int c)
{
	return json_pack("{s:s, s:s, s:{s:{s:i}, s:{s:i}, s:{s:i}}}", "name", listener, "service",
			 "s", "operations", "a", "count", a, "b", "count", b, "c", "count", c);
}

static void operations_that_never_happened_are_dropped(void **state)
{
	struct measures m = {};
	const char *const expected[] = { "busy b", "idle a", "whole a", "whole b", "whole c" };

	(void)state;
	add_delta(&m, NULL,
		  json_pack("{s:[o, o, o]}", "listeners", service_with("busy", 0, 2, 0),
			    service_with("idle", 0, 0, 0), service_with("whole", 1, 1, 1)),
		  "");
	assert_int_equal(m.count, 9);
	measures_drop_idle(&m);
	assert_int_equal(m.count, ARRAY_SIZE(expected));
	for (unsigned i = 0; i < m.count; i++) {
		char text[32];

		snprintf(text, sizeof(text), "%s %s", m.rows[i]->listener, m.rows[i]->operation);
		assert_string_equal(text, expected[i]);
	}
	measures_free(&m);
}

/* An unavailable listener has no figures, rather than zeros. */
static void unavailable_listeners_have_no_rows(void **state)
{
	json_t *far = service_with("far", 0, 0, 0), *unavailable, *document;
	struct measures m = {};
	char *text;

	(void)state;
	json_object_set_new(far, "state", json_string("unavailable"));
	json_object_set_new(far, "reason", json_string("no device"));
	add_delta(&m, NULL,
		  json_pack("{s:[o, o, o]}", "listeners", service_with("idle", 0, 0, 0), far,
			    service_with("busy", 1, 1, 1)),
		  "");
	measures_take_unavailable(&m);
	assert_int_equal(m.count, 6);
	assert_int_equal(json_array_size(m.unavailable), 1);
	text = rendered(&m);
	assert_non_null(strstr(text, "No operations in the interval: idle\n"));
	assert_null(strstr(text, "far"));
	document = compare_to_json(&m);
	assert_int_equal(json_array_size(json_object_get(document, "rows")), 6);
	unavailable = json_pack("[{s:s, s:s}]", "listener", "far", "reason", "no device");
	assert_true(json_equal(json_object_get(document, "unavailable"), unavailable));
	json_decref(unavailable);
	json_decref(document);
	free(text);
	measures_free(&m);
}

static void delta_subtracts_every_counter(void **state)
{
	struct measures m = {};
	const struct measure *row;

	(void)state;
	add_delta(&m, document("a", "echo", 100, 1000, 50000, "[[1023, 10]]"),
		  document("a", "echo", 300, 5000, 250000, "[[1023, 15], [2047, 5]]"), "");
	assert_int_equal(m.count, 1);
	row = m.rows[0];
	assert_string_equal(row->listener, "a");
	assert_string_equal(row->operation, "echo");
	assert_int_equal(row->count, 200);
	assert_int_equal(row->listener_count, 200);
	assert_int_equal(row->bytes_in, 4000);
	assert_int_equal(row->cpu_ns, 400000);
	assert_int_equal(row->syscalls, 400);
	assert_int_equal(row->turns, 50);
	assert_int_equal(row->latency.count, 10);
	assert_int_equal(histogram_quantile(&row->latency, 0.5), 1023);
	assert_int_equal(histogram_quantile(&row->latency, 0.99), 2047);
	assert_float_equal(figure_value(row, FIGURE_CPU_PER_OP), 2000, 0.001);
	assert_float_equal(figure_value(row, FIGURE_SYSCALLS_PER_OP), 2, 0.001);
	assert_float_equal(figure_value(row, FIGURE_RATE), 200, 0.001);
	measures_free(&m);
}

/* The same document, for a listener whose counters began at that uptime. */
static json_t *since(uint64_t since_ns, json_t *document)
{
	json_t *listeners = json_object_get(document, "listeners");

	json_object_set_new(json_array_get(listeners, 0), "since_ns",
			    json_integer((json_int_t)since_ns));
	return document;
}

/* It does not matter how much the listener before it had done. */
static void new_or_replaced_listener_counts_from_zero(void **state)
{
	struct measures m = {};

	(void)state;
	add_delta(&m, document("other", "echo", 100, 0, 0, "[]"),
		  document("a", "echo", 300, 5, 5, "[[1023, 3]]"), "");
	add_delta(&m, document("a", "echo", 1000, 9, 9, "[[1023, 500]]"),
		  since(7, document("a", "echo", 300, 5, 5, "[[1023, 3]]")), "");
	add_delta(&m, since(7, document("a", "echo", 100, 3, 3, "[[1023, 1]]")),
		  since(8, document("a", "echo", 300, 5, 5, "[[1023, 3]]")), "");
	assert_int_equal(m.count, 3);
	for (unsigned i = 0; i < m.count; i++) {
		assert_int_equal(m.rows[i]->count, 300);
		assert_int_equal(m.rows[i]->listener_count, 300);
		assert_int_equal(m.rows[i]->syscalls, 600);
		assert_int_equal(m.rows[i]->turns, 75);
		assert_int_equal(m.rows[i]->bytes_in, 5);
		assert_int_equal(m.rows[i]->cpu_ns, 10);
		assert_int_equal(m.rows[i]->latency.count, 3);
	}
	measures_free(&m);
}

/* No figure of a row may be the difference of a wrong pair, nor wrap around. */
static void a_counter_that_went_backwards_adds_nothing(void **state)
{
	struct measures m = {};
	const struct measure *row;

	(void)state;
	add_delta(&m, document("a", "echo", 1000, 9, 9, "[[1023, 500]]"),
		  document("a", "echo", 300, 5, 5, "[[1023, 3]]"), "");
	row = m.rows[0];
	assert_int_equal(row->count | row->listener_count | row->syscalls | row->turns, 0);
	assert_int_equal(row->bytes_in | row->bytes_out | row->cpu_ns | row->latency.count, 0);
	measures_free(&m);
}

static void restarted_daemon_is_noticed(void **state)
{
	json_t *early = document("a", "echo", 100, 0, 0, "[]");
	json_t *late = document("a", "echo", 300, 0, 0, "[]");
	uint64_t interval_ns;

	(void)state;
	assert_int_equal(measures_interval(early, late, &interval_ns), 0);
	assert_int_equal(interval_ns, 200);
	assert_int_equal(measures_interval(late, early, &interval_ns), -ESTALE);
	/* A later process is told by its pid and start, even if it has served for longer. */
	json_object_set_new(early, "pid", json_integer(7));
	json_object_set_new(late, "pid", json_integer(8));
	assert_int_equal(measures_interval(early, late, &interval_ns), -ESTALE);
	json_object_set_new(late, "pid", json_integer(7));
	json_object_set_new(late, "started_ns", json_integer(9));
	assert_int_equal(measures_interval(early, late, &interval_ns), -ESTALE);
	json_decref(early);
	json_decref(late);
}

/* As the table says `-`. */
static void json_is_null_where_nothing_can_be_told(void **state)
{
	static const char *const of_none[] = { "cpu_ns_per_operation",
					       "cpu_ns_per_byte",
					       "syscalls_per_operation",
					       "operations_per_turn",
					       "p50_ns",
					       "p99_ns",
					       "p99_9_ns" };
	struct measures m = {};
	json_t *json, *rows;
	const json_t *derived;

	(void)state;
	add_delta(&m, NULL, document("a", "echo", 2000, 10, 5, "[[1023, 1000]]"), "");
	add_delta(&m, NULL, document("b", "echo", 0, 0, 0, "[]"), "");
	json = compare_to_json(&m);
	rows = json_object_get(json, "rows");
	derived = json_object_get(json_array_get(rows, 0), "derived");
	assert_true(json_number_value(json_object_get(derived, "p50_ns")) == 1023);
	assert_true(json_number_value(json_object_get(derived, "p99_ns")) == 1023);
	/* of 1,000 samples one lies beyond this percentile, ten do not */
	assert_true(json_is_null(json_object_get(derived, "p99_9_ns")));
	assert_true(json_is_real(json_object_get(derived, "cpu_ns_per_operation")));
	derived = json_object_get(json_array_get(rows, 1), "derived");
	for (unsigned i = 0; i < ARRAY_SIZE(of_none); i++)
		assert_true(json_is_null(json_object_get(derived, of_none[i])));
	assert_float_equal(json_real_value(json_object_get(derived, "operations_per_s")), 0, 0);
	json_decref(json);
	measures_free(&m);
}

static void missing_and_odd_fields_are_tolerated(void **state)
{
	static const char *const texts[] = {
		"{}",
		"{\"listeners\": 7}",
		"{\"listeners\": [null, 3, {}, {\"name\": 5, \"operations\": []}]}",
		"{\"listeners\": [{\"name\": \"a\", \"operations\": {\"echo\": 1, \"x\": {}}}]}",
		("{\"listeners\": [{\"name\": \"a\", \"operations\": {\"echo\": {\"count\": -4,"
		 " \"latency_ns\": {\"buckets\": [[1], 7, [\"a\", {}], [-1, -1]]}}},"
		 " \"cost\": {\"syscalls\": 9}, \"engine_features\": {\"a\": 1}}]}"),
	};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		json_t *document = json_loads(texts[i], 0, NULL);
		struct measures m = {};

		assert_non_null(document);
		measures_delta(&m, NULL, document, 0, "");
		measures_delta(&m, document, document, 1, "");
		free(rendered(&m));
		json_decref(compare_to_json(&m));
		measures_free(&m);
		json_decref(document);
	}
}

static void select_keeps_the_order_of_the_names(void **state)
{
	json_t *names = json_pack("[s, s, s]", "b", "a", "b");
	json_t *wrong = json_pack("[s]", "c");
	struct measures m = {};

	(void)state;
	add_delta(&m, NULL, document("a", "echo", 1, 0, 0, "[]"), "");
	add_delta(&m, NULL, document("b", "echo", 1, 0, 0, "[]"), "");
	assert_true(measures_has(&m, "a"));
	assert_false(measures_has(&m, "c"));
	measures_select(&m, names);
	assert_int_equal(m.count, 2);
	assert_string_equal(m.rows[0]->listener, "b");
	assert_string_equal(m.rows[1]->listener, "a");
	measures_select(&m, wrong);
	assert_int_equal(m.count, 0);
	measures_free(&m);
	json_decref(names);
	json_decref(wrong);
}

static void merge_sums_rows_of_one_label_and_listener(void **state)
{
	struct measures m = {};

	(void)state;
	add_delta(&m, NULL, document("a", "echo", 100, 10, 5, "[[1023, 10]]"), "x");
	add_delta(&m, NULL, document("a", "echo", 200, 20, 7, "[[2047, 30]]"), "x");
	add_delta(&m, NULL, document("a", "echo", 400, 40, 9, "[[2047, 50]]"), "y");
	measures_merge(&m);
	assert_int_equal(m.count, 2);
	assert_int_equal(m.rows[0]->count, 300);
	assert_int_equal(m.rows[0]->interval_ns, 2000000000);
	assert_int_equal(m.rows[0]->bytes_out, 30);
	assert_int_equal(m.rows[0]->cpu_ns, 24);
	assert_int_equal(m.rows[0]->latency.count, 40);
	assert_int_equal(histogram_quantile(&m.rows[0]->latency, 0.5), 2047);
	assert_int_equal(m.rows[0]->latency.min, 1023);
	assert_int_equal(m.rows[1]->count, 400);
	measures_free(&m);
}

static void saved_rows_come_back_the_same(void **state)
{
	struct measures m = {}, back = {};
	char *text, *again;
	unsigned line;
	json_t *row;
	FILE *file;

	(void)state;
	add_delta(&m, NULL, document("a", "echo", 100, 10, 5, "[[1023, 10], [9087, 1]]"),
		  "x \"y\"");
	m.rows[0]->softirq = (struct measure_softirq){ 1, 2, 3, 4, 5, 6, 7 };
	row = measure_to_json(m.rows[0]);
	text = json_dumps(row, JSON_COMPACT);
	file = fmemopen(text, strlen(text), "r");
	assert_int_equal(measures_load(&back, file, &line), 0);
	fclose(file);
	assert_int_equal(back.count, 1);
	assert_string_equal(back.rows[0]->label, "x \"y\"");
	assert_memory_equal(&back.rows[0]->softirq, &m.rows[0]->softirq,
			    sizeof(struct measure_softirq));
	json_decref(row);
	row = measure_to_json(back.rows[0]);
	again = json_dumps(row, JSON_COMPACT);
	assert_string_equal(again, text);
	json_decref(row);
	free(again);
	free(text);
	measures_free(&m);
	measures_free(&back);
}

static void load_names_the_bad_line(void **state)
{
	char text[] = "{\"listener\":\"a\",\"count\":1}\n\n{\"listener\":\"a\"}\n";
	struct measures m = {};
	unsigned line;
	FILE *file = fmemopen(text, strlen(text), "r");

	(void)state;
	assert_int_equal(measures_load(&m, file, &line), -EINVAL);
	assert_int_equal(line, 3);
	fclose(file);
	measures_free(&m);
}

static void table_has_a_baseline(void **state)
{
	struct measures m = {};
	char *text;

	(void)state;
	add_delta(&m, NULL, document("slow", "echo", 1000, 10, 2000000, "[[1023, 100]]"), "load");
	add_delta(&m, NULL, document("fast", "echo", 1000, 10, 1000000, "[[1023, 1000]]"), "load");
	add_delta(&m, NULL, document("none", "echo", 0, 0, 0, "[]"), "load");
	text = rendered(&m);
	assert_non_null(strstr(text, "echo: load\n"));
	assert_non_null(strstr(text, "1st "));
	assert_non_null(strstr(text, "-50 %  too few rounds: 0 of 6"));
	assert_non_null(strstr(text, "epoll+sqpoll"));
	assert_non_null(strstr(text, "p99 us: its 99th percentile"));
	assert_non_null(strstr(text, "No operations in the interval: none"));
	free(text);
	measures_free(&m);
}

static void nothing_ran_is_said(void **state)
{
	struct measures m = {};
	char *text = rendered(&m);

	(void)state;
	assert_string_equal(text, "No operations in the interval.\n");
	free(text);
}

static void operations_of_other_sizes_are_compared_by_bytes(void **state)
{
	struct measures m = {};

	(void)state;
	add_delta(&m, NULL, document("a", "echo", 1000, 64000, 1, "[]"), "");
	add_delta(&m, NULL, document("b", "echo", 1000, 65000, 1, "[]"), "");
	assert_int_equal(compare_cost(m.rows, 2), FIGURE_CPU_PER_OP);
	add_delta(&m, NULL, document("c", "echo", 1000, 128000, 1, "[]"), "");
	assert_int_equal(compare_cost(m.rows, 3), FIGURE_CPU_PER_BYTE);
	measures_free(&m);
	add_delta(&m, NULL, document("d", "discard", 1000, 64000, 1, "[]"), "");
	assert_int_equal(compare_cost(m.rows, 1), FIGURE_CPU_PER_BYTE);
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

static void softirqs_in_threads_time_are_not_taken_off_twice(void **state)
{
	uint64_t own = 700 * NS_PER_MS, softirq = 150 * NS_PER_MS;

	(void)state;
	assert_float_equal(other_of(IRQ_TIME_IN_THREADS, softirq, own), 0.2, 1e-9);
	assert_float_equal(other_of(IRQ_TIME_APART, softirq, own), 0.05, 1e-9);
	assert_true(isnan(other_of(IRQ_TIME_UNKNOWN, softirq, own)));
	assert_float_equal(other_of(IRQ_TIME_UNKNOWN, 0, own), 0.2, 1e-9);
	/* The parts exceed the whole: by the resolution of the clock, and by more than that. */
	assert_true(other_of(IRQ_TIME_IN_THREADS, softirq, 940 * NS_PER_MS) == 0);
	assert_true(isnan(other_of(IRQ_TIME_IN_THREADS, softirq, 1200 * NS_PER_MS)));
}

static void figures_are_medians_with_their_spread(void **state)
{
	static const int cost[] = { 900, 1100, 1000 };
	struct measures m = {};
	struct spread s;

	(void)state;
	add_visits(&m, "a", 3, cost);
	measures_merge(&m);
	assert_int_equal(m.count, 1);
	assert_int_equal(m.rows[0]->visit_count, 3);
	s = figure_spread(m.rows[0], FIGURE_CPU_PER_OP);
	assert_float_equal(s.median, 1000, 0.01);
	assert_float_equal(s.low, 900, 0.01);
	assert_float_equal(s.high, 1100, 0.01);
	s = figure_spread(m.rows[0], FIGURE_CPU_PER_REQUEST);
	assert_true(isnan(s.median) && s.count == 0);
	measures_free(&m);
}

static void trips_are_medians_as_other_figures_are(void **state)
{
	static const int cost[] = { 1000, 1000 };
	struct measures m = {};
	uint64_t ns;

	(void)state;
	add_visits(&m, "a", 2, cost);
	for (unsigned i = 0; i < m.count; i++) {
		m.rows[i]->generator.result.quantiles[0] =
			(struct generator_quantile){ 0.5, i ? 101 : 301 };
		m.rows[i]->generator.result.quantile_count = 1;
	}
	measures_merge(&m);
	assert_true(measure_trip(m.rows[0], 0.5, &ns));
	assert_int_equal(ns, 201);
	measures_free(&m);
}

static void all_listeners_that_share_a_cpu_are_named(void **state)
{
	static const int cost[] = { 1000 };
	struct measures m = {};
	struct groups groups;
	char *said;

	(void)state;
	for (unsigned i = 0; i < 3; i++)
		add_visits(&m, (const char *const[]){ "a", "b", "c" }[i], 1, cost);
	m.rows[1]->generator.shared_cpus = 1;
	groups_init(&groups, &m);
	said = groups_shared_cpus(&groups);
	assert_non_null(strstr(said, "The generator and b may run"));
	free(said);
	m.rows[0]->generator.shared_cpus = 2;
	said = groups_shared_cpus(&groups);
	assert_non_null(strstr(said, "The generator and a, b may run"));
	free(said);
	assert_null(groups_shared_cores(&groups));
	m.rows[2]->generator.sibling_cpus = 1;
	said = groups_shared_cores(&groups);
	assert_non_null(
		strstr(said, "The generator and c run on hardware threads of the same core"));
	free(said);
	groups_fini(&groups);
	measures_free(&m);
}

/* Two visits, of which one was throttled, on a host that has whatever costs. */
static void conditions_that_void_figures_are_said(void **state)
{
	static const char host[] =
		"{\"host\": {\"governor\": \"powersave\", \"clocksource\": \"hpet\", \"turbo\": "
		"\"on\", \"transparent_hugepages\": \"always\"%s}%s}";
	static const char *const expected[] = {
		"throttled in 1 of 2 visits",
		"different NUMA nodes in 2 of 2 visits",
		"governor is powersave",
		"clock source is hpet",
		"gave up to 10 % of a CPU",
		"took up to 90 % of a CPU",
		"waited for a CPU in up to 50 % of the time",
		"Turbo is on",
		"huge pages are on",
		"`cpus = 0` in the listener, taskset -c 2 COMMAND"
	};
	struct measures m = { 0 };
	struct groups all;
	char *said;

	(void)state;
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
	groups_init(&all, &m);
	said = groups_conditions(&all);
	for (unsigned i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
		assert_non_null(strstr(said, expected[i]));
	free(said);
	groups_fini(&all);
	json_decref(m.rows[0]->source);
	json_decref(m.rows[1]->source);
	for (unsigned i = 0; i < 2; i++) { /* a host of which nothing is known */
		m.rows[i]->source = json_object();
		m.rows[i]->conditions = m.rows[i]->source;
		m.rows[i]->machine = (struct measure_machine){ 0 };
		m.rows[i]->generator.shared_cpus = 0;
	}
	groups_init(&all, &m);
	assert_null(groups_conditions(&all));
	groups_fini(&all);
	measures_free(&m);
}

/* 1,000 requests at 1,000 a second in a second, on a listener that counted as many. */
static void a_count_of_requests_that_cannot_be_is_unknown(void **state)
{
	static const struct {
		double requests, per_s;
		uint64_t operations, bytes;
		bool batch, fits;
	} cases[] = {
		{ 1000, 1000, 1000, 5000, false, true },
		{ 1000, 0, 1000, 5000, false, true },    /* it tells no rate */
		{ 1000, 1000, 10, 5000, true, true },    /* a batch has many */
		{ 1000, 1000, 900, 5000, false, false }, /* more than there were */
		{ 1000, 1000, 900, 999, true, false },   /* less than a byte each */
		{ 1000, 500, 1000, 5000, false, false }, /* two seconds' work */
		{ 0, 500, 0, 0, false, true },
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct measure row = { .listener_count = cases[i].operations,
				       .bytes_in = cases[i].bytes,
				       .batch = cases[i].batch };

		row.generator.wall_ns = NS_PER_S;
		row.generator.result.requests = cases[i].requests;
		row.generator.result.requests_per_s = cases[i].per_s;
		measure_check_requests(&row);
		assert_true(row.generator.result.requests ==
			    (cases[i].fits ? cases[i].requests : 0));
		assert_int_equal(row.generator.refused_requests, cases[i].fits ? 0 : 1000);
	}
}

/* iperf3 and iperf report bytes alone: they are shown beside those of the listener. */
static void bytes_of_the_generator_stand_beside_the_listeners(void **state)
{
	static const int cost[] = { 1000 };
	struct measures m = {};
	char *text;

	(void)state;
	add_visits(&m, "a", 1, cost);
	text = rendered(&m);
	assert_null(strstr(text, "genMB"));
	free(text);
	m.rows[0]->generator.result.bytes_per_s = 123e6;
	text = rendered(&m);
	assert_non_null(strstr(text, "genMB"));
	assert_non_null(strstr(text, " 123 "));
	free(text);
	measures_free(&m);
}

static void softirqs_are_summed_and_divided(void **state)
{
	static const int cost[] = { 990, 1010 };
	struct measures m = {};
	char *text;

	(void)state;
	add_visits(&m, "a", 2, cost);
	assert_true(isnan(figure_value(m.rows[0], FIGURE_RECEIVE_PER_OP)));
	for (unsigned i = 0; i < 2; i++) {
		struct measure *row = m.rows[i];

		row->machine = (struct measure_machine){ .cpus = 2, .total_ns = 2000000 };
		row->softirq = (struct measure_softirq){ .receive_ns = 2000 * row->listener_count,
							 .peer_ns = 500 * row->listener_count,
							 .unattributed_ns = 500000,
							 .total_ns = 9000000 };
	}
	measures_merge(&m);
	assert_int_equal(m.rows[0]->softirq.total_ns, 18000000);
	assert_true(figure_spread(m.rows[0], FIGURE_RECEIVE_PER_OP).median == 2000);
	assert_true(figure_spread(m.rows[0], FIGURE_TRANSMIT_PER_OP).median == 0);
	assert_true(figure_spread(m.rows[0], FIGURE_PEER_PER_OP).median == 500);
	assert_true(figure_spread(m.rows[0], FIGURE_UNATTRIBUTED).median == 0.5);
	text = rendered(&m);
	assert_non_null(strstr(text, " peer "));
	assert_non_null(strstr(text, "rx us: softirq time of packets to the listener"));
	free(text);
	measures_free(&m);
}

static void csv_has_a_field_for_every_title(void **state)
{
	static const int cost[] = { 990, 1000, 1010 };
	struct output out = { 0 };
	struct measures m = {};
	unsigned commas[4] = { 0 }, line = 0;
	char *text;
	size_t bytes;

	(void)state;
	add_visits(&m, "a,\"b\"", 3, cost);
	measures_merge(&m);
	m.unavailable = json_pack("[{s:s, s:s}]", "name", "b", "reason", "no, not here");
	out.file = open_memstream(&text, &bytes);
	compare_csv(&out, &m, NULL);
	fclose(out.file);
	assert_non_null(strstr(text, "\n,\"a,\"\"b\"\"\",epoll,echo,echo,,3,"));
	for (const char *at = text; *at; at++) {
		commas[line] += *at == ',';
		line += *at == '\n';
	}
	assert_int_equal(line, 3);
	assert_int_equal(commas[1], commas[0] + 1); /* the comma in the name */
	assert_int_equal(commas[2], commas[0] + 1); /* the comma in the reason */
	assert_non_null(strstr(text, ",reason\r\n"));
	assert_non_null(strstr(text, "\n,b,,,,,0,"));
	assert_non_null(strstr(text, ",\"no, not here\"\r\n"));
	free(text);
	measures_free(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(operations_that_never_happened_are_dropped),
		cmocka_unit_test(unavailable_listeners_have_no_rows),
		cmocka_unit_test(delta_subtracts_every_counter),
		cmocka_unit_test(new_or_replaced_listener_counts_from_zero),
		cmocka_unit_test(a_counter_that_went_backwards_adds_nothing),
		cmocka_unit_test(restarted_daemon_is_noticed),
		cmocka_unit_test(json_is_null_where_nothing_can_be_told),
		cmocka_unit_test(missing_and_odd_fields_are_tolerated),
		cmocka_unit_test(select_keeps_the_order_of_the_names),
		cmocka_unit_test(merge_sums_rows_of_one_label_and_listener),
		cmocka_unit_test(saved_rows_come_back_the_same),
		cmocka_unit_test(load_names_the_bad_line),
		cmocka_unit_test(table_has_a_baseline),
		cmocka_unit_test(nothing_ran_is_said),
		cmocka_unit_test(operations_of_other_sizes_are_compared_by_bytes),
		cmocka_unit_test(softirqs_in_threads_time_are_not_taken_off_twice),
		cmocka_unit_test(figures_are_medians_with_their_spread),
		cmocka_unit_test(trips_are_medians_as_other_figures_are),
		cmocka_unit_test(all_listeners_that_share_a_cpu_are_named),
		cmocka_unit_test(conditions_that_void_figures_are_said),
		cmocka_unit_test(a_count_of_requests_that_cannot_be_is_unknown),
		cmocka_unit_test(bytes_of_the_generator_stand_beside_the_listeners),
		cmocka_unit_test(softirqs_are_summed_and_divided),
		cmocka_unit_test(csv_has_a_field_for_every_title),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
