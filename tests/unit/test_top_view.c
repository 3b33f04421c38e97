/* ctl/top/top_view.c, top_detail.c, top_chart.c: the screen, whatever its size. */
#include "top_case.h"
#include "top_chart.h"
#include "util.h"

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
	assert_has(text, "  3,000  0.06  50.2   50.2   2.00  3.00  ");
	assert_has(text, "████\n");
	assert_has(text, "\nc ");
	assert_has(text, "▁▁▁▁\n");
	assert_has(text, "\nq quit");
	free(text);
}

/* At every size screen_of() checks that no line is too wide; the sanitizers check the memory. */
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

static void at_80_columns_the_engine_stays(void **state)
{
	struct top *top = *state;
	char *text;

	for (int at = 1; at <= 2; at++) {
		json_t *stats = document(at), *list = json_object_get(stats, "listeners");

		json_array_append_new(
			list, listener("echo-uring-poll", "io_uring-poll", at * 900000, 2000));
		feed(top, stats);
	}
	text = shown(top);
	assert_has(text, "\nlistener        engine        ");
	assert_has(text, "\n>echo-uring-poll io_uring-poll  900,000 ");
	assert_has(text, " CPU/op ");
	assert_has(text, " calls ");
	assert_has(text, " ops/s\n");
	free(text);
}

/* Cuts the screen's text down to its line of titles, without the mark. */
static char *titles_of(char *text)
{
	char *titles = strstr(text, "listener"), *mark;

	titles[strcspn(titles, "\n")] = '\0';
	while ((mark = strpbrk(titles, "^v"))) /* in no title */
		*mark = ' ';
	return titles;
}

/* Whatever the rows are sorted by, and whichever of them are on the screen. */
static void columns_stay_where_they_are(void **state)
{
	struct top *top = *state;

	for (int at = 1; at <= 2; at++) {
		json_t *stats = document(at), *list = json_object_get(stats, "listeners");

		for (int i = 0; i < 30; i++) {
			char name[32];

			snprintf(name, sizeof(name), "%.*s%02d", i,
				 "a-very-long-name-of-a-listener", i);
			json_array_append_new(list, listener(name, "epoll", at * i * 10000, i + 1));
		}
		feed(top, stats);
	}
	for (unsigned width = TOP_WIDTH_MIN; width < 160; width++) {
		char *first = NULL;

		for (unsigned i = 0; i < TOP_COLUMNS; i++) {
			char *text;

			top_key(top, top_columns[i].key);
			text = screen_of(top, width, 12, false);
			if (first)
				assert_string_equal(titles_of(text), first);
			else
				first = strdup(titles_of(text));
			free(text);
		}
		free(first);
	}
}

/* Also by a column that has no room. */
static void the_column_that_sorts_the_rows_is_marked(void **state)
{
	static const char *const titles[] = { "listener", "engine", "conns", "ops", "MB", "p50",
					      "p99",      "CPU/op", "calls", "ops", "CPU" };
	struct top *top = *state;

	feed_seconds(top, 1, 3);
	for (unsigned i = 0; i < TOP_COLUMNS; i++) {
		char said[64], *text;

		top_key(top, top_columns[i].key == 'o' ? 'n' : 'o'); /* a key of another column */
		top_key(top, top_columns[i].key);
		text = screen_of(top, 80, 24, true);
		snprintf(said, sizeof(said), "< > sort: %s %s  r reverse  ? keys",
			 top_columns[i].name, i <= TOP_ENGINE ? "▲" : "▼");
		assert_has(text, said);
		free(text);
		top_key(top, 'r');
		text = screen_of(top, 200, 24, true);
		snprintf(said, sizeof(said), "%s%s%s", i <= TOP_ENGINE ? "" : "▲", titles[i],
			 i <= TOP_ENGINE ? " ▼" : "");
		assert_has(text, said);
		free(text);
	}
}

static void the_keys_fit_80x24(void **state)
{
	struct top *top = *state;
	char *narrow, *wide;

	feed_seconds(top, 1, 3);
	top_key(top, '?');
	narrow = screen_of(top, 80, 24, true);
	wide = screen_of(top, 200, 24, true);
	assert_string_equal(narrow, wide);
	assert_has(narrow, "\nu                                sort by server's CPU\n\n");
	free(narrow);
	free(wide);
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

/* A second of `b`'s 100 reads of an export `at` seconds old; another listener's share is not shown.
 */
static json_t *exports(int at)
{
	json_t *read = json_pack("{s:i, s:i, s:{s:[[i, i]]}}", "count", at * 100, "errors", at,
				 "latency_ns", "buckets", 3000, at * 100);
	json_t *share = json_pack("{s:s, s:s, s:i, s:i, s:i, s:{s:o}}", "listener", "b", "store",
				  "threads", "bytes_read", at * 4000000, "bytes_written", 0,
				  "in_flight", 5, "operations", "read", read);

	return json_pack("[{s:s, s:[o, {s:s, s:s}]}, {s:s, s:[]}]", "name", "disk", "listeners",
			 share, "listener", "a", "store", "memory", "name", "other", "listeners");
}

static void a_listener_shows_its_exports(void **state)
{
	struct top *top = *state;
	char *text;

	for (int at = 1; at <= 3; at++) {
		json_t *stats = document(at);

		json_object_set_new(stats, "exports", exports(at));
		feed(top, stats);
	}
	top_key(top, TOP_KEY_ENTER);
	text = shown(top);
	assert_has(text, "\nexport ");
	assert_has(text,
		   "\ndisk          threads         100    4.00    1.00    3.01       -       5\n");
	assert_has_not(text, "other");
	assert_has_not(text, "memory");
	free(text);
	top_key(top, 'n');
	top_key(top, TOP_KEY_END); /* c has none */
	text = shown(top);
	assert_has(text, "\nc: echo");
	assert_has_not(text, "\nexport ");
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
	text = screen_of(top, 100, 24, true);
	assert_has(text, "\nall: 1,000 ops/s  0.02 MB/s  CPU 0.2 %  20 connections\n");
	assert_has(text,
		   "\nb            io_uring          -        -     -     -      -      -     "
		   "-     -    -  unavailable\n");
	free(text);
	top_key(top, 'n');
	top_key(top, TOP_KEY_DOWN);
	top_key(top, TOP_KEY_ENTER);
	text = shown(top);
	assert_has(text, "\nb: echo");
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

/* The kernel accounts some time to an idle thread, which is no load. */
static void an_idle_cpu_is_a_flat_line(void **state)
{
	static const int cpu_us[] = { 0, 3000, 100, 5000, 0, 1000, 0, 80000 };
	struct top *top = *state;
	int total_us = 0;
	char *text;

	for (int at = 0; at < (int)ARRAY_SIZE(cpu_us); at++) {
		json_t *l = listener("a", "epoll", 0, 1);

		total_us += cpu_us[at];
		json_object_set_new(json_object_get(l, "cost"), "cpu_user_ns",
				    json_integer((json_int_t)total_us * NS_PER_US));
		feed(top, json_pack("{s:I, s:[o]}", "uptime_ns", (json_int_t)(at + 1) * SECOND,
				    "listeners", l));
		if (at < (int)ARRAY_SIZE(cpu_us) - 2)
			continue;
		text = top_sparkline(top, "a", TOP_SERIES_CPU, 7, 1, true);
		assert_string_equal(text, at < (int)ARRAY_SIZE(cpu_us) - 1 ? " ▁▁▁▁▁▁" : "▁▁▁▁▁▁▇");
		free(text);
	}
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
	const struct CMUnitTest tests[] = {
		TOP_TEST(the_table_has_a_row_for_each_listener),
		TOP_TEST(any_size_is_drawn),
		TOP_TEST(the_table_scrolls_with_the_selection),
		TOP_TEST(at_80_columns_the_engine_stays),
		TOP_TEST(columns_stay_where_they_are),
		TOP_TEST(the_column_that_sorts_the_rows_is_marked),
		TOP_TEST(the_keys_fit_80x24),
		TOP_TEST(without_utf8_all_is_ascii),
		TOP_TEST(a_listener_shows_its_latencies),
		TOP_TEST(several_operations_are_told_apart_and_added_up),
		TOP_TEST(a_listener_shows_its_exports),
		TOP_TEST(a_listener_that_is_not_served_says_why),
		TOP_TEST(sparklines_show_means_of_aligned_groups),
		TOP_TEST(an_idle_cpu_is_a_flat_line),
		TOP_TEST(bars_are_in_proportion),
		TOP_TEST(bins_hold_every_sample),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
