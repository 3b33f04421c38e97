/* lib/rows/measure.c: intervals out of two documents, sums, files. */
#include <errno.h>
#include <math.h>

#include "field.h"
#include "measure_case.h"
#include "print.h"
#include "util.h"

/* { name, operations: {a, b, c} } with the given number of each. */
static json_t *service_with(const char *listener, int a, int b, int c)
{
	return json_pack("{s:s, s:s, s:{s:{s:i}, s:{s:i}, s:{s:i}}}", "name", listener, "service",
			 "s", "operations", "a", "count", a, "b", "count", b, "c", "count", c);
}

TEST(operations_that_never_happened_are_dropped)
{
	CLEANUP(measures_free) struct measures m = {};
	const char *const expected[] = { "busy b", "idle a", "whole a", "whole b", "whole c" };

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
}

/* An unavailable listener has no figures, rather than zeros. */
TEST(unavailable_listeners_have_no_rows)
{
	json_t *far = service_with("far", 0, 0, 0), *unavailable, *document;
	CLEANUP(measures_free) struct measures m = {};
	struct result *r;
	char *text;

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
	assert_has(text, "No operations in the interval: idle\n");
	assert_has_not(text, "far");
	r = judged(&m);
	document = print_json(r, &m);
	result_free(r);
	assert_int_equal(json_array_size(json_object_get(document, "idle")), 1);
	unavailable = json_pack("[{s:s, s:s}]", "name", "far", "reason", "no device");
	assert_true(json_equal(json_object_get(document, "unavailable"), unavailable));
	json_decref(unavailable);
	json_decref(document);
}

TEST(delta_subtracts_every_counter)
{
	CLEANUP(measures_free) struct measures m = {};
	const struct measure *row;

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
}

/* A document whose listener has counters of hardware. */
static json_t *counted(int count, int kernel, int enabled, int running, int cycles)
{
	json_t *made = document("a", "echo", count, count, count, "[]");
	json_t *hardware =
		json_pack("{s:i, s:i, s:i, s:i, s:i}", "kernel", kernel, "enabled_ns", enabled,
			  "running_ns", running, "cycles", cycles, "instructions", 2 * cycles);

	json_object_set_new(json_array_get(json_object_get(made, "listeners"), 0), "hardware",
			    hardware);
	return made;
}

TEST(counters_are_known_where_both_ends_have_them)
{
	CLEANUP(measures_free) struct measures m = {};

	add_delta(&m, counted(100, 1, 1000, 1000, 7000), counted(300, 1, 3000, 2900, 17000), "");
	assert_float_equal(figure_value(m.rows[0], FIGURE_CYCLES_PER_OP), 50, 0.001);
	assert_float_equal(figure_value(m.rows[0], FIGURE_INSTRUCTIONS_PER_OP), 100, 0.001);
	assert_float_equal(figure_value(m.rows[0], FIGURE_IPC), 2, 0.001);
	add_delta(&m, document("a", "echo", 100, 0, 0, "[]"), counted(300, 1, 3000, 3000, 17000),
		  ""); /* since the start, not since then */
	add_delta(&m, counted(100, 1, 1000, 1000, 7000), document("a", "echo", 300, 0, 0, "[]"),
		  "");
	/* In this interval others used the counters; from the start on it is less than a tenth. */
	add_delta(&m, counted(100, 1, 90000, 90000, 1), counted(300, 1, 91000, 90890, 90), "");
	for (unsigned i = 1; i < 4; i++) {
		assert_true(isnan(figure_value(m.rows[i], FIGURE_INSTRUCTIONS_PER_OP)));
		assert_true(isnan(figure_value(m.rows[i], FIGURE_CYCLES_PER_OP)));
		assert_true(isnan(figure_value(m.rows[i], FIGURE_IPC)));
	}
}

/* They are of another kind, and must not be compared with those of both. */
TEST(instructions_of_user_space_alone_have_a_figure_of_their_own)
{
	CLEANUP(measures_free) struct measures m = {};

	add_delta(&m, counted(100, 0, 10, 10, 7000), counted(300, 0, 30, 30, 17000), "");
	m.rows[0]->generator.result.requests = 100;
	assert_true(isnan(figure_value(m.rows[0], FIGURE_INSTRUCTIONS_PER_REQUEST)));
	assert_true(isnan(figure_value(m.rows[0], FIGURE_IPC)));
	assert_float_equal(figure_value(m.rows[0], FIGURE_USER_INSTRUCTIONS_PER_REQUEST), 200,
			   0.001);
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
TEST(new_or_replaced_listener_counts_from_zero)
{
	CLEANUP(measures_free) struct measures m = {};

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
}

/* No figure of a row may be the difference of a wrong pair, nor wrap around. */
TEST(a_counter_that_went_backwards_adds_nothing)
{
	CLEANUP(measures_free) struct measures m = {};
	const struct measure *row;

	add_delta(&m, document("a", "echo", 1000, 9, 9, "[[1023, 500]]"),
		  document("a", "echo", 300, 5, 5, "[[1023, 3]]"), "");
	row = m.rows[0];
	assert_int_equal(row->count | row->listener_count | row->syscalls | row->turns, 0);
	assert_int_equal(row->bytes_in | row->bytes_out | row->cpu_ns | row->latency.count, 0);
}

TEST(restarted_daemon_is_noticed)
{
	CLEANUP(json_decref_p) json_t *early = document("a", "echo", 100, 0, 0, "[]");
	CLEANUP(json_decref_p) json_t *late = document("a", "echo", 300, 0, 0, "[]");
	uint64_t interval_ns;

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
}

/* As the table says `-`. */
/* Of the first row; NaN: null. */
static double median_in(const json_t *json, const char *figure)
{
	const json_t *group = json_array_get(field_get(json, "groups"), 0);
	const json_t *row = json_array_get(field_get(group, "rows"), 0);
	const json_t *value = json_object_get(field_get(row, "values"), figure);

	assert_non_null(value);
	return json_is_null(field_get(value, "median"))
		       ? NAN
		       : json_number_value(field_get(value, "median"));
}

TEST(json_is_null_where_nothing_can_be_told)
{
	static const char *const of_none[] = { "requests_per_s", "cpu_ns_per_request",
					       "trip50_ns" };
	CLEANUP(measures_free) struct measures m = {};
	CLEANUP(result_free_p) struct result *r;
	CLEANUP(json_decref_p) json_t *json;

	add_delta(&m, NULL, document("a", "echo", 2000, 10, 5, "[[1023, 1000]]"), "");
	add_delta(&m, NULL, document("b", "echo", 0, 0, 0, "[]"), "");
	r = judged(&m);
	json = print_json(r, &m);
	assert_true(field_uint(json, "schema") == 3);
	assert_true(median_in(json, "p50_ns") == 1023);
	assert_true(median_in(json, "p99_ns") == 1023);
	/* of 1,000 samples one lies beyond this percentile, ten do not */
	assert_true(isnan(median_in(json, "p99_9_ns")));
	assert_false(isnan(median_in(json, "cpu_ns_per_operation")));
	for (unsigned i = 0; i < ARRAY_SIZE(of_none); i++)
		assert_true(isnan(median_in(json, of_none[i])));
}

TEST(missing_and_odd_fields_are_tolerated)
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

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		CLEANUP(json_decref_p) json_t *document = json_loads(texts[i], 0, NULL);
		CLEANUP(measures_free) struct measures m = {};
		CLEANUP(result_free_p) struct result *r;

		assert_non_null(document);
		measures_delta(&m, NULL, document, 0, "");
		measures_delta(&m, document, document, 1, "");
		rendered(&m);
		r = judged(&m);
		json_decref(print_json(r, &m));
	}
}

TEST(select_keeps_the_order_of_the_names)
{
	CLEANUP(json_decref_p) json_t *names = json_pack("[s, s, s]", "b", "a", "b");
	CLEANUP(json_decref_p) json_t *wrong = json_pack("[s]", "c");
	CLEANUP(measures_free) struct measures m = {};

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
}

TEST(merge_sums_rows_of_one_label_and_listener)
{
	CLEANUP(measures_free) struct measures m = {};

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
}

TEST(saved_rows_come_back_the_same)
{
	CLEANUP(measures_free) struct measures m = {}, back = {};
	CLEANUP(free_p) char *text, *again;
	unsigned line;
	json_t *row;
	FILE *file;

	add_delta(&m, NULL, document("a", "echo", 100, 10, 5, "[[1023, 10], [9087, 1]]"),
		  "x \"y\"");
	row = measure_to_json(m.rows[0]);
	text = json_dumps(row, JSON_COMPACT);
	file = fmemopen(text, strlen(text), "r");
	assert_int_equal(measures_load(&back, file, &line), 0);
	fclose(file);
	assert_int_equal(back.count, 1);
	assert_string_equal(back.rows[0]->label, "x \"y\"");
	json_decref(row);
	row = measure_to_json(back.rows[0]);
	again = json_dumps(row, JSON_COMPACT);
	assert_string_equal(again, text);
	json_decref(row);
}

TEST(load_names_the_bad_line)
{
	char text[] = "{\"listener\":\"a\",\"count\":1}\n\n{\"listener\":\"a\"}\n";
	CLEANUP(measures_free) struct measures m = {};
	unsigned line;
	FILE *file = fmemopen(text, strlen(text), "r");

	assert_int_equal(measures_load(&m, file, &line), -EINVAL);
	assert_int_equal(line, 3);
	fclose(file);
}

static void add_operation(struct measures *m, const char *listener, const char *operation,
			  unsigned round, uint64_t count, uint64_t all)
{
	json_t *source =
		json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:{s:s, s:i, s:i}}", "label", "",
			  "listener", listener, "engine", "e", "service", "nbd", "operation",
			  operation, "count", (json_int_t)count, "listener_count", (json_int_t)all,
			  "visit", "run", "r", "round", (int)round, "position", 1);

	assert_int_equal(measures_add_json(m, source), 0);
	json_decref(source);
}

/* Of one listener some more than a hundredth are flushes, of another some less. */
TEST(operations_of_a_visit_are_one_row)
{
	CLEANUP(measures_free) struct measures m = {};

	for (unsigned round = 1; round <= 2; round++)
		for (unsigned i = 0; i < 2; i++) {
			const char *listener = i ? "b" : "a";

			add_operation(&m, listener, "flush", round, i ? 99 : 101, 10000);
			add_operation(&m, listener, "read", round, 9000 - i, 10000);
			add_operation(&m, listener, "write", round, 900, 10000);
		}
	measures_merge(&m);
	assert_int_equal(m.count, 2);
	for (unsigned i = 0; i < m.count; i++) {
		assert_string_equal(m.rows[i]->operation, "read+write");
		assert_int_equal(m.rows[i]->count, 2 * (9900 - i));
		assert_int_equal(m.rows[i]->listener_count, 20000);
		assert_int_equal(measure_visits(m.rows[i]), 2);
	}
	assert_int_equal(json_array_size(m.minor), 1);
	assert_string_equal(field_text(json_array_get(m.minor, 0), ""), "nbd flush");
}

TEST(a_listener_is_named_by_what_it_did)
{
	CLEANUP(measures_free) struct measures m = {};

	add_operation(&m, "a", "read", 1, 100, 100);
	add_operation(&m, "b", "write", 1, 100, 100);
	measures_merge(&m);
	assert_int_equal(m.count, 2);
	assert_string_equal(m.rows[0]->operation, "read");
	assert_string_equal(m.rows[1]->operation, "write");
}
