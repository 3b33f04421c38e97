/* ctl/top_*.c: documents and keys in, lines of a screen out. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "top_chart.h"
#include "top_view.h"
#include "util.h"

enum { SECOND = 1000000000 };

/* A listener that has done `count` operations of `service`, each in about `latency_ns`. */
static json_t *listener(const char *name, const char *engine, int count, int latency_ns)
{
	json_t *l = json_pack(
		"{s:s, s:s, s:s, s:s, s:i, s:[s], s:{s:i}, s:i, s:i, s:{s:i, s:i, s:i, s:{s:i}}}",
		"name", name, "engine", engine, "service", "echo", "state", "serving", "workers", 1,
		"addresses", "127.0.0.1:7", "connections", "open", count / 100, "bytes_in",
		count * 10, "bytes_out", count * 10, "cost", "cpu_user_ns", count * 1000,
		"cpu_system_ns", count * 1000, "turns", count / 2, "syscalls", "recv", count * 3);
	json_t *latency = json_pack("{s:[[i, i]]}", "buckets", latency_ns, count);

	assert_non_null(l);
	json_object_set_new(l, "operations",
			    json_pack("{s:{s:i, s:i, s:o}}", "echo", "count", count, "errors", 0,
				      "latency_ns", latency));
	return l;
}

/* The document of second `at`: `a` does 1000 ops/s in 2 us, `b` 3000 in 50 us, `c` nothing. */
static json_t *document(int at)
{
	return json_pack("{s:s, s:i, s:I, s:[o, o, o]}", "version", "1.2.3", "generation", 7,
			 "uptime_ns", (json_int_t)at * SECOND, "listeners",
			 listener("a", "epoll", at * 1000, 2000),
			 listener("b", "io_uring", at * 3000, 50000), listener("c", "epoll", 0, 1));
}

static void feed(struct top *top, json_t *stats)
{
	top_add(top, stats);
	json_decref(stats);
}

static void feed_seconds(struct top *top, int from, int to)
{
	for (int at = from; at <= to; at++)
		feed(top, document(at));
}

/* The whole screen as one text, the selected line marked with '>'. */
static char *screen_of(const struct top *top, unsigned width, unsigned height, bool utf8)
{
	struct top_screen screen = { .width = width, .height = height, .utf8 = utf8 };
	char *text;
	size_t bytes;
	FILE *to = open_memstream(&text, &bytes);

	top_screen_init(&screen, top);
	for (unsigned i = 0; i < height; i++) {
		const char *line = screen.lines[i].text ? screen.lines[i].text : "";

		assert_true(text_width(line) <= width);
		assert_null(strpbrk(line, "\n\033"));
		fprintf(to, "%s%s\n", screen.lines[i].selected ? ">" : "", line);
	}
	top_screen_fini(&screen);
	fclose(to);
	return text;
}

static void assert_has(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("no '%s' in:\n%s", part, text);
}

static void assert_has_not(const char *text, const char *part)
{
	if (strstr(text, part))
		fail_msg("'%s' in:\n%s", part, text);
}

/* What the screen says, to be looked at and freed. */
static char *shown(const struct top *top)
{
	return screen_of(top, 80, 24, true);
}

static const char *name_at(const struct top *top, unsigned i)
{
	return top->rows.rows[i]->listener;
}

static int setup(void **state)
{
	struct top *top = calloc(1, sizeof(*top));

	top_init(top, 1000);
	*state = top;
	return 0;
}

static int teardown(void **state)
{
	top_fini(*state);
	free(*state);
	return 0;
}

/* ---- The model ---- */

static void rows_are_those_of_the_last_interval(void **state)
{
	struct top *top = *state;

	feed_seconds(top, 1, 4);
	assert_int_equal(top->rows.count, 3);
	assert_float_equal(top_value(top->rows.rows[0], TOP_RATE), 3000, 0.01);
	assert_float_equal(top_value(top->rows.rows[0], TOP_SYSCALLS), 3, 0.01);
	assert_float_equal(top_value(top->rows.rows[0], TOP_CPU_PER_OP), 2000, 0.01);
	assert_float_equal(top_value(top->rows.rows[1], TOP_TURN), 2, 0.01);
	assert_float_equal(top_value(top->rows.rows[1], TOP_P99), 2000, 40);
	assert_float_equal(top_value(top->rows.rows[1], TOP_OPEN), 40, 0.01);
	assert_true(isnan(top_value(top->rows.rows[2], TOP_P50)));
}

static void every_column_sorts_and_unknown_goes_last(void **state)
{
	struct top *top = *state;

	feed_seconds(top, 1, 2);
	for (unsigned i = 0; i < TOP_COLUMNS; i++) {
		top->reverse = false;
		top->sort = TOP_COLUMNS; /* another one */
		assert_true(top_key(top, top_columns[i].key));
		assert_int_equal(top->sort, i);
		if (i >= TOP_OPEN)
			assert_string_equal(name_at(top, 2), "c");
	}
	top_sort(top, TOP_P50);
	assert_string_equal(name_at(top, 0), "b");
	top_key(top, '5'); /* again: the other way round, but what is not known stays last */
	assert_string_equal(name_at(top, 0), "a");
	assert_string_equal(name_at(top, 2), "c");
	top_key(top, 'n');
	assert_string_equal(name_at(top, 0), "a");
	top_key(top, 'r');
	assert_string_equal(name_at(top, 0), "c");
	top_key(top, '<'); /* around the end */
	assert_int_equal(top->sort, TOP_CPU);
	top_key(top, '>');
	assert_int_equal(top->sort, TOP_LISTENER);
}

static void selection_stays_with_its_listener(void **state)
{
	struct top *top = *state;

	feed_seconds(top, 1, 2);
	assert_string_equal(top->selected, "b");
	top_key(top, TOP_KEY_DOWN);
	assert_string_equal(top->selected, "a");
	top_key(top, 'n');
	feed(top, document(3));
	assert_string_equal(top->selected, "a");
	assert_int_equal(top_selected(top), 0);
	top_key(top, TOP_KEY_UP);
	assert_string_equal(top->selected, "a");
	top_key(top, TOP_KEY_PAGE_DOWN);
	assert_string_equal(top->selected, "c");
	top_key(top, TOP_KEY_HOME);
	assert_string_equal(top->selected, "a");
	top_key(top, TOP_KEY_END);
	assert_string_equal(top->selected, "c");
}

static void a_selected_listener_that_goes_leaves_another_selected(void **state)
{
	struct top *top = *state;
	json_t *stats;

	feed_seconds(top, 1, 2);
	top_key(top, TOP_KEY_ENTER);
	stats = document(3);
	json_array_remove(json_object_get(stats, "listeners"), 1); /* b */
	feed(top, stats);
	assert_string_equal(top->selected, "a");
	assert_true(isnan(top_past(top, "b", TOP_SERIES_RATE, 0)));
	assert_false(isnan(top_past(top, "a", TOP_SERIES_RATE, 0)));
	stats = document(4);
	json_array_clear(json_object_get(stats, "listeners"));
	feed(top, stats);
	assert_string_equal(top->selected, "");
	free(shown(top));
}

static void pause_keeps_the_screen_and_not_the_past(void **state)
{
	struct top *top = *state;
	char *before, *after;

	feed_seconds(top, 1, 3);
	top_key(top, 'p');
	before = shown(top);
	assert_has(before, "paused");
	feed_seconds(top, 4, 6);
	after = shown(top);
	assert_string_equal(before, after);
	free(before);
	free(after);
	top_key(top, 'n'); /* sorting goes on */
	assert_string_equal(name_at(top, 0), "a");
	top_key(top, ' ');
	feed(top, document(7));
	assert_float_equal(top_value(top->rows.rows[0], TOP_RATE), 1000, 0.01);
	for (uint64_t tick = 0; tick < 6; tick++)
		assert_float_equal(top_past(top, "a", TOP_SERIES_RATE, tick), 1000, 0.01);
}

static void a_restart_is_told_and_leaves_a_gap(void **state)
{
	struct top *top = *state;
	char *text;

	feed_seconds(top, 10, 13);
	snprintf(top->trouble, sizeof(top->trouble), "unreachable, trying again: no daemon");
	text = shown(top);
	assert_has(text, "trying again");
	assert_has(text, "\n>b "); /* what was known stays */
	free(text);
	feed_seconds(top, 1, 2);
	text = shown(top);
	assert_has_not(text, "trying again");
	assert_has(text, "the daemon was restarted");
	free(text);
	assert_float_equal(top_value(top->rows.rows[0], TOP_RATE), 3000, 0.01);
	assert_float_equal(top_past(top, "a", TOP_SERIES_RATE, 2), 1000, 0.01);
	assert_true(isnan(top_past(top, "a", TOP_SERIES_RATE, 3)));
	assert_float_equal(top_past(top, "a", TOP_SERIES_RATE, 4), 1000, 0.01);
}

static void the_past_has_an_end(void **state)
{
	struct top *top = *state;

	feed_seconds(top, 1, TOP_HISTORY + 11);
	assert_int_equal(top->tick, TOP_HISTORY + 10);
	assert_true(isnan(top_past(top, "a", TOP_SERIES_RATE, 9)));
	assert_float_equal(top_past(top, "a", TOP_SERIES_RATE, 10), 1000, 0.01);
	assert_true(isnan(top_past(top, "a", TOP_SERIES_RATE, top->tick)));
	assert_true(isnan(top_past(top, "no-such", TOP_SERIES_RATE, 10)));
}

static void the_histogram_begins_at_the_first_document_or_at_z(void **state)
{
	struct top *top = *state;
	struct measures m;

	feed_seconds(top, 1, 5);
	assert_true(top_since_base(top, "b", &m));
	assert_int_equal(m.rows[0]->latency.count, 4 * 3000);
	measures_free(&m);
	top_key(top, 'z');
	assert_false(top_since_base(top, "b", &m));
	measures_free(&m);
	feed(top, document(6));
	assert_true(top_since_base(top, "b", &m));
	assert_int_equal(m.rows[0]->latency.count, 3000);
	measures_free(&m);
}

static void keys_go_in_and_out(void **state)
{
	struct top *top = *state;

	top_key(top, TOP_KEY_ENTER); /* nothing is there yet */
	assert_false(top->detail);
	feed_seconds(top, 1, 2);
	top_key(top, TOP_KEY_ENTER);
	top_key(top, '?');
	assert_true(top->detail && top->help);
	top_key(top, TOP_KEY_BACK);
	assert_true(top->detail && !top->help);
	top_key(top, TOP_KEY_BACK);
	assert_false(top->detail);
	assert_true(top_key(top, TOP_KEY_BACK));
	assert_true(top_key(top, 0));
	assert_false(top_key(top, 'q'));
}

static void connections_of_another_listener_are_not_shown(void **state)
{
	struct top *top = *state;
	json_t *reply = json_pack("{s:[{s:s, s:s, s:i}], s:i}", "connections", "peer", "10.0.0.1:5",
				  "state", "open", "bytes_in", 5, "open", 1);
	char *text;

	feed_seconds(top, 1, 2);
	top_key(top, TOP_KEY_ENTER);
	top_add_connections(top, "a", reply);
	text = shown(top);
	assert_has_not(text, "10.0.0.1:5");
	free(text);
	top_add_connections(top, "b", reply);
	text = shown(top);
	assert_has(text, "\n1 connection\n");
	assert_has(text, "10.0.0.1:5");
	free(text);
	top_key(top, TOP_KEY_DOWN);
	text = shown(top);
	assert_has_not(text, "10.0.0.1:5");
	free(text);
	json_decref(reply);
}

/* ---- The screen ---- */

static void the_table_has_a_row_for_each_listener(void **state)
{
	struct top *top = *state;
	char *text;

	feed_seconds(top, 1, 5);
	text = shown(top);
	assert_has(text, "nbserved 1.2.3  up 5.00s  generation 7  3 listeners  every 1 s\n");
	assert_has(text, "\nall: 4,000 ops/s  0.08 MB/s  CPU 0.8 %  200 connections\n");
	assert_has(text, "▼ops");
	assert_has(text, "\n>b ");
	assert_has(text, "  3,000  0.06  50.2   50.2   2.00  3.00  2.00");
	assert_has(text, "████\n");
	assert_has(text, "\nc ");
	assert_has(text, "▁▁▁▁\n");
	assert_has(text, "\nq quit");
	free(text);
}

/* Whatever the size: screen_of() checks that no line is too wide, the sanitizers the rest. */
static void any_size_is_drawn(void **state)
{
	struct top *top = *state;

	for (unsigned what = 0; what < 3; what++) {
		top->detail = what == 1;
		top->help = what == 2;
		for (unsigned width = 1; width < 220; width += 7)
			for (unsigned height = 1; height < 60; height += 3)
				free(screen_of(top, width, height, width % 2));
		if (what == 0)
			feed_seconds(top, 1, 700);
	}
	top->detail = top->help = false;
}

static void the_table_scrolls_with_the_selection(void **state)
{
	struct top *top = *state;
	char *text;

	for (int at = 1; at <= 2; at++) {
		json_t *stats = document(at), *list = json_object_get(stats, "listeners");

		for (int i = 0; i < 30; i++) {
			char name[8];

			snprintf(name, sizeof(name), "x%02d", i);
			json_array_append_new(list, listener(name, "epoll", 0, 1));
		}
		feed(top, stats);
	}
	text = screen_of(top, 80, 12, true);
	assert_has(text, "\n>b ");
	assert_has(text, "\nx03 ");
	assert_has_not(text, "\nx04 ");
	free(text);
	top_key(top, TOP_KEY_END);
	text = screen_of(top, 80, 12, true);
	assert_has(text, "\n>x29 ");
	assert_has(text, "\nx23 ");
	assert_has_not(text, "\nx22 ");
	free(text);
}

static void without_utf8_all_is_ascii(void **state)
{
	struct top *top = *state;

	feed_seconds(top, 1, 5);
	for (unsigned what = 0; what < 3; what++) {
		char *text;

		top->detail = what == 1;
		top->help = what == 2;
		text = screen_of(top, 100, 40, false);
		for (const char *c = text; *c; c++)
			assert_true((unsigned char)*c < 0x80);
		if (what == 0)
			assert_has(text, "####\n");
		free(text);
	}
}

static void a_listener_shows_its_latencies(void **state)
{
	struct top *top = *state;
	char *text;

	feed_seconds(top, 1, 5);
	top_key(top, TOP_KEY_ENTER);
	text = shown(top);
	assert_has(text, "\nb: echo, io_uring, serving, 1 worker, 127.0.0.1:7\n");
	assert_has(text, "latency: 12,000 samples in 4.00s");
	assert_has(text, "\n   50.0us to 70.0us          12,000   100 %  ████");
	assert_has(text, "\np99 ");
	free(text);
}

static void several_operations_are_told_apart_and_added_up(void **state)
{
	struct top *top = *state;
	char *text;

	for (int at = 1; at <= 2; at++) {
		json_t *stats = document(at);
		json_t *b = json_array_get(json_object_get(stats, "listeners"), 1);
		json_t *operations = json_object_get(b, "operations");

		json_object_set_new(operations, "read", json_pack("{s:i}", "count", at * 500));
		json_object_set_new(operations, "trim", json_pack("{s:i}", "count", 0));
		feed(top, stats);
	}
	assert_int_equal(top->rows.count, 3);
	assert_float_equal(top_value(top->rows.rows[0], TOP_RATE), 3500, 0.01);
	top_key(top, TOP_KEY_ENTER);
	text = shown(top);
	assert_has(text, "\noperation ");
	assert_has(text, "\necho              3,000       0    50.2    50.2\n");
	assert_has(text, "\nread                500       0       -       -\n");
	assert_has_not(text, "trim"); /* never done */
	free(text);
}

static void a_listener_that_is_not_served_says_why(void **state)
{
	struct top *top = *state;
	char *text;

	for (int at = 1; at <= 2; at++) {
		json_t *stats = document(at);
		json_t *b = json_array_get(json_object_get(stats, "listeners"), 1);

		json_object_set_new(b, "state", json_string("unavailable"));
		json_object_set_new(b, "reason", json_string("no \033[31mio_uring"));
		feed(top, stats);
	}
	top_key(top, TOP_KEY_ENTER);
	text = shown(top);
	assert_has(text, "unavailable");
	assert_has(text, "no ?[31mio_uring");
	free(text);
}

/* ---- Charts ---- */

static void sparklines_show_means_of_aligned_groups(void **state)
{
	struct top *top = *state;
	char *text;
	int total = 0;

	for (int at = 1; at <= 10; at++) {
		json_t *stats = json_pack("{s:I, s:[o]}", "uptime_ns", (json_int_t)at * SECOND,
					  "listeners", listener("a", "epoll", total, 1000));

		feed(top, stats);
		total += at == 4 || at == 5 ? 800 : at == 6 ? 100 : 0;
	}
	text = top_sparkline(top, "a", TOP_SERIES_RATE, 12, 1, false);
	assert_string_equal(text, "   ___##.___");
	free(text);
	text = top_sparkline(top, "a", TOP_SERIES_RATE, 9, 1, true);
	assert_string_equal(text, "▁▁▁██▂▁▁▁");
	free(text);
	/* 0-2, 3-5 and 6-8: means of 0, 567 and 0. */
	text = top_sparkline(top, "a", TOP_SERIES_RATE, 4, 3, false);
	assert_string_equal(text, " _#_");
	free(text);
	text = top_sparkline(top, "no-such", TOP_SERIES_RATE, 3, 1, true);
	assert_string_equal(text, "   ");
	free(text);
	assert_int_equal(top_spark_group(top, 10, 120), 1);
	assert_int_equal(top_spark_group(top, 4, 120), 3);
	assert_int_equal(top_spark_group(top, 2, 4), 2);
}

static void bars_are_in_proportion(void **state)
{
	static const struct {
		double share;
		const char *utf8, *ascii;
	} cases[] = {
		{ 1, "████", "####" }, { 0.5, "██", "##" },   { 0, "", "" },
		{ 0.001, "▏", "#" },   { 7, "████", "####" }, { 0.53125, "██▏", "##" },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		char *utf8 = top_bar(cases[i].share, 4, true);
		char *ascii = top_bar(cases[i].share, 4, false);

		assert_string_equal(utf8, cases[i].utf8);
		assert_string_equal(ascii, cases[i].ascii);
		free(utf8);
		free(ascii);
	}
}

/* Whatever the number of bins: they touch and hold everything. */
static void bins_hold_every_sample(void **state)
{
	static const uint64_t values[] = {
		0, 1, 999, 1500, 47000, 1000000, UINT64_C(100000000000)
	};
	struct histogram_sum h = {};
	struct top_bin bins[100];

	(void)state;
	assert_int_equal(top_bins(&h, bins, 100), 0);
	for (unsigned i = 0; i < ARRAY_SIZE(values); i++) {
		h.buckets[histogram_bucket(values[i])] += i + 1;
		h.count += i + 1;
	}
	for (unsigned max = 1; max <= 100; max++) {
		unsigned count = top_bins(&h, bins, max);
		uint64_t sum = 0;

		assert_true(count >= 1 && count <= max);
		for (unsigned i = 0; i < count; i++) {
			sum += bins[i].count;
			assert_true(bins[i].from_ns < bins[i].to_ns);
			if (i)
				assert_int_equal(bins[i].from_ns, bins[i - 1].to_ns);
		}
		assert_int_equal(sum, h.count);
	}
	assert_int_equal(top_bins(&h, bins, 100), 62);
	assert_int_equal(bins[0].to_ns, 10);
	assert_int_equal(bins[0].count, 3);
}

int main(void)
{
#define TOP_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TOP_TEST(rows_are_those_of_the_last_interval),
		TOP_TEST(every_column_sorts_and_unknown_goes_last),
		TOP_TEST(selection_stays_with_its_listener),
		TOP_TEST(a_selected_listener_that_goes_leaves_another_selected),
		TOP_TEST(pause_keeps_the_screen_and_not_the_past),
		TOP_TEST(a_restart_is_told_and_leaves_a_gap),
		TOP_TEST(the_past_has_an_end),
		TOP_TEST(the_histogram_begins_at_the_first_document_or_at_z),
		TOP_TEST(keys_go_in_and_out),
		TOP_TEST(connections_of_another_listener_are_not_shown),
		TOP_TEST(the_table_has_a_row_for_each_listener),
		TOP_TEST(any_size_is_drawn),
		TOP_TEST(the_table_scrolls_with_the_selection),
		TOP_TEST(without_utf8_all_is_ascii),
		TOP_TEST(a_listener_shows_its_latencies),
		TOP_TEST(several_operations_are_told_apart_and_added_up),
		TOP_TEST(a_listener_that_is_not_served_says_why),
		TOP_TEST(sparklines_show_means_of_aligned_groups),
		TOP_TEST(bars_are_in_proportion),
		TOP_TEST(bins_hold_every_sample),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
