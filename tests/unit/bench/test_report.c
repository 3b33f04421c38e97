/* bench/report: the page and its pictures, out of rows as they may be. */

#include "measure_file.h"
#include "measure_visits.h"
#include "render.h"
#include "report.h"
#include "svg.h"
#include "unit.h"
#include "util.h"

CLEANUP_OF(struct result *, result_free)
CLEANUP_OF(json_t *, json_decref)

static unsigned occurrences(const char *text, const char *of)
{
	unsigned count = 0;

	for (; (text = strstr(text, of)); text += strlen(of))
		count++;
	return count;
}

/* Text that no row, however odd, may put on the page. */
static void assert_sound(const char *page)
{
	static const char *const never[] = { "nan", "inf\"",   "inf<",       "-nan",
					     "\"-", "<script", "=\"http://e" };

	for (unsigned i = 0; i < ARRAY_SIZE(never); i++)
		if (strstr(page, never[i]))
			fail_msg("on the page: %.80s", strstr(page, never[i]) - 20);
	assert_int_equal(occurrences(page, "<svg "), occurrences(page, "</svg>"));
	assert_int_equal(occurrences(page, "<figure>"), occurrences(page, "</figure>"));
	assert_int_equal(occurrences(page, "<text "), occurrences(page, "</text>"));
}

/* The page of the rows, or their picture; then: beside what was. */
static const char *written(const struct measures *m, const struct measures *then, bool picture)
{
	const struct result_options options = { .saved = then, .force = then };
	CLEANUP(result_free_p) struct result *r = result_new(m, &options);
	char *text = WRITTEN(to, picture ? report_svg(to, r) : report_html(to, r, m));

	assert_sound(text);
	return text;
}

static const char *page_of(const struct measures *m)
{
	return written(m, NULL, false);
}

static const char *picture_of(const struct measures *m)
{
	return written(m, NULL, true);
}

static char *escaped(const char *from)
{
	return WRITTEN(to, render_escape(to, from));
}

/* A row as JSON, with more fields as text that begins with a comma, or "". */
static void add(struct measures *m, const char *listener, const char *label, const char *more)
{
	char text[2048];
	CLEANUP(json_decref_p) json_t *source;

	snprintf(text, sizeof(text),
		 "{\"listener\": \"%s\", \"label\": \"%s\", \"engine\": \"%s\", \"service\": "
		 "\"http\", \"operation\": \"get\", \"count\": 1000%s}",
		 listener, label, listener, more);
	source = json_loads(text, 0, NULL);
	assert_non_null(source);
	assert_int_equal(measures_add_json(m, source), 0);
}

/* Three visits that cost cpu ns an operation, give or take a part of a hundred. */
static void add_visits_of(struct measures *m, const char *label, const char *listener, unsigned cpu)
{
	for (unsigned i = 0; i < 8; i++) {
		unsigned total = 1000 * cpu + i * cpu * 10;
		char more[1024];

		snprintf(more, sizeof(more),
			 ", \"listener_count\": 1000, \"cpu_ns\": %u, \"cpu_user_ns\": %u, "
			 "\"cpu_system_ns\": %u, \"syscalls\": 2500, \"interval_ns\": 1000000000, "
			 "\"bytes_in\": 1000, \"bytes_out\": 1000, \"latency_ns\": {\"buckets\": "
			 "[[1000, 900], [5000, 99], [90000, 1]]}, \"machine\": {\"cpus\": 2, "
			 "\"total_ns\": 2000000000, \"idle_ns\": 1000, \"softirq_ns\": 500000}, "
			 "\"generator\": {\"name\": \"wrk\", \"requests\": 1000, "
			 "\"requests_per_s\": 1000, \"wall_ns\": 1000000000, \"latency_ns\": "
			 "[[0.5, 20000], [0.99, 40000]]}, \"conditions\": {\"date\": "
			 "\"2026-01-02T03:04:05Z\", \"nbserved\": \"9.9\", \"host\": {\"kernel\": "
			 "\"Linux 9\", \"cpu\": \"Z80\", \"cpus\": 2}, \"listener\": {\"engine\": "
			 "\"<%s>\"}, \"command\": [\"wrk\", \"it's\"]}, \"visit\": "
			 "{\"run\": \"r\", \"round\": %u}",
			 total, total / 4, total - total / 4, listener, i + 1);
		add(m, listener, label, more);
	}
}

static void add_visits(struct measures *m, const char *listener, unsigned cpu)
{
	add_visits_of(m, "load", listener, cpu);
}

/* The rows of any test beside themselves: sound, too. */
static void check_against(const struct measures *m)
{
	const char *page = written(m, m, false);

	written(m, m, true);
	assert_has(page, "Then and now");
	assert_has_not(page, "\" onload");
}

TEST(text_from_clients_is_escaped)
{
	static const char *const cases[][2] = {
		{ "plain \xc3\xa4 \xe2\x82\xac", "plain \xc3\xa4 \xe2\x82\xac" },
		{ "<b a=\"1\">&amp;'", "&lt;b a=&quot;1&quot;&gt;&amp;amp;'" },
		{ "a\001\033[31m\r\177", "a\xef\xbf\xbd\xef\xbf\xbd[31m\xef\xbf\xbd\xef\xbf\xbd" },
		{ "\xc2\x85\xc2\xa0", "\xef\xbf\xbd\xc2\xa0" },
		{ "\xef\xbf\xbe\xef\xbf\xbf", "\xef\xbf\xbd\xef\xbf\xbd" },
		{ "tab\tline\n", "tab\tline\n" },
	};

	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++)
		assert_string_equal(escaped(cases[i][0]), cases[i][1]);
}

TEST(a_row_that_has_only_a_name_is_tolerated)
{
	CLEANUP(measures_free) struct measures m = {};
	const char *page;

	add(&m, "alone", "", "");
	measures_merge(&m);
	page = page_of(&m);
	assert_has(page, "nothing to be compared with");
	assert_has(picture_of(&m), "There is nothing to compare.");
	assert_has(page, "saved without their conditions");
	check_against(&m);
}

TEST(numbers_at_the_limits_are_tolerated)
{
	static const char *const odd[] = {
		", \"cpu_ns\": 9223372036854775807, \"listener_count\": 1, \"interval_ns\": 1",
		", \"cpu_ns\": 0, \"listener_count\": 9223372036854775807, \"bytes_in\": 1",
		", \"cpu_ns\": -5, \"listener_count\": \"x\", \"latency_ns\": {}",
		", \"latency_ns\": {\"buckets\": [[137438953471, 100000]]}, \"cpu_user_ns\": 7",
		", \"latency_ns\": {\"buckets\": [[0, 100000]]}, \"conditions\": [1, 2]",
		", \"conditions\": {\"host\": 3, \"listener\": \"x\", \"command\": [7, null], "
		"\"exports\": []}",
		", \"generator\": {\"wall_ns\": 1, \"requests\": 1e308, \"requests_per_s\": 1e308, "
		"\"latency_ns\": [[1, 1], [0.5, 9000000000000000000], 5, [null]]}",
		", \"machine\": {\"total_ns\": 1, \"softirq_ns\": 9223372036854775807}, \"cpu_ns\": 1, "
		"\"listener_count\": 1",
	};
	CLEANUP(measures_free) struct measures m = {};
	char name[16];

	for (unsigned i = 0; i < 2 * ARRAY_SIZE(odd); i++) {
		snprintf(name, sizeof(name), "row%u", i);
		add(&m, name, i % 2 ? "one" : "two", odd[i / 2]);
		add(&m, name, i % 2 ? "one" : "two", odd[i / 2]);
	}
	measures_merge(&m);
	page_of(&m);
	picture_of(&m);
	check_against(&m);
}

TEST(every_row_of_256_is_in_the_table)
{
	CLEANUP(measures_free) struct measures m = {};
	char name[16], cell[64];
	const char *page;

	for (unsigned i = 0; i < 256; i++) {
		snprintf(name, sizeof(name), "row%u", i);
		add(&m, name, "", ", \"listener_count\": 1000, \"cpu_ns\": 5000");
	}
	measures_merge(&m);
	page = page_of(&m);
	for (unsigned i = 0; i < 256; i++) {
		snprintf(cell, sizeof(cell), "<tr><td class=\"left plain\">row%u</td>", i);
		assert_int_equal(occurrences(page, cell),
				 2); /* of the answer, and of all figures */
	}
	check_against(&m);
}

TEST(the_verdict_and_all_figures_are_on_the_page)
{
	static const char *const said[] = {
		"<p class=\"bold\">fast takes 50 % less CPU time per request than slow: 0.207 of a",
		"CPU per request, 8 rounds",
		"Linux 9",
		"Z80",
		"<dd><span>&lt;slow&gt;</span>",
		"wrk 'it'\\''s'",
		"2026-01-02T03:04:05Z",
		"2.50",
		"<td class=\"right plain\">2.07</td>",
		"<td class=\"left good\">50 % less</td>",
	};
	CLEANUP(measures_free) struct measures m = {};
	const char *page, *svg;

	add_visits(&m, "slow", 4000);
	add_visits(&m, "fast", 2000);
	add_visits(&m, "same", 4000);
	measures_merge(&m);
	page = page_of(&m);
	for (unsigned i = 0; i < ARRAY_SIZE(said); i++)
		assert_has(page, said[i]);
	svg = picture_of(&m);
	assert_ptr_equal(strstr(svg, "<svg xmlns="), svg);
	assert_has(svg, ">50 % less<");
	assert_has(svg, "class=\"mark less\"");
	assert_has_not(svg, "class=\"mark hollow\""); /* all is decided */
}

TEST(two_loads_are_concluded_together)
{
	CLEANUP(measures_free) struct measures m = {};
	const char *page;

	for (unsigned i = 0; i < 2; i++) {
		add_visits_of(&m, i ? "one" : "two", "slow", 4000);
		add_visits_of(&m, i ? "one" : "two", "fast", i ? 2000 : 4000);
	}
	measures_merge(&m);
	page = page_of(&m);
	assert_has(page, "<p class=\"bold\">fast takes 50 % less CPU time per request than "
			 "slow: 0.207 of a CPU for 100,000 requests/s instead of 0.414, in "
			 "1 of 2 loads.</p>");
	assert_int_equal(occurrences(page, "class=\"mark less\""), 1);
	assert_int_equal(occurrences(page, "class=\"mark same\""), 1);
}

TEST(rows_of_two_hosts_are_said_to_be)
{
	CLEANUP(measures_free) struct measures m = {};
	const char *page;

	add(&m, "a", "", ", \"conditions\": {\"host\": {\"kernel\": \"Linux 5\"}}");
	add(&m, "b", "", ", \"conditions\": {\"host\": {\"kernel\": \"Linux 6\"}}");
	measures_merge(&m);
	page = page_of(&m);
	assert_has(page, "The rows are of 2 different hosts");
	assert_has(page, "<dd><span>Linux 5</span>");
	assert_has(page, "<dd><span>Linux 6</span>");
}

TEST(ticks_keep_their_distance)
{
	static const struct scale scales[] = {
		{ 1, 1e11, 220, 8, true },
		{ 900, 5000, 220, 8, true },
		{ 0.1, 10, 0, 380, true },
	};

	for (unsigned i = 0; i < ARRAY_SIZE(scales); i++) {
		const struct scale *s = &scales[i];
		struct ticks t = { .count = 0 };

		ticks_round(&t, s, 26);
		assert_in_range(t.count, 2, TICKS_MAX);
		for (unsigned j = 0; j < t.count; j++)
			for (unsigned k = 0; k < j; k++) {
				double apart = scale_at(s, t.values[j]) - scale_at(s, t.values[k]);

				assert_true(apart * apart >= 25.9 * 25.9);
			}
	}
}
