/* ctl/top/top_view.c: the screen, whatever its size. */
#include "top_case.h"

TEST_WITH(the_table_has_a_row_for_each_listener, setup, teardown, NULL)
{
	struct top *top = *state;
	const char *text;

	feed_seconds(top, 1, 5);
	text = shown(top);
	assert_has(text, "nbserved 1.2.3  up 5.00s  generation 7  3 listeners  every 1 s\n");
	assert_has(text, "\nall: 4,000 ops/s  0.08 MB/s  CPU 0.8 %  200 connections\n");
	assert_has(text, "▼ops");
	assert_has(text, "\nb ");
	assert_has(text, "  3,000  0.06  50.2   50.2   2.00  3.00  ");
	assert_has(text, "\nc ");
	assert_has(text, "\nq quit");
}

/* At every size screen_of() checks that no line is too wide; the sanitizers check the memory. */
TEST_WITH(any_size_is_drawn, setup, teardown, NULL)
{
	struct top *top = *state;

	for (unsigned what = 0; what < 2; what++) {
		for (unsigned width = 1; width < 220; width += 7)
			for (unsigned height = 1; height < 60; height += 3)
				screen_of(top, width, height, width % 2);
		if (what == 0)
			feed_seconds(top, 1, 3);
	}
}

TEST_WITH(the_table_scrolls_by_keys, setup, teardown, NULL)
{
	struct top *top = *state;
	char *text;

	for (int at = 1; at <= 2; at++) {
		json_t *stats = document(at), *list = json_object_get(stats, "listeners");

		for (int i = 0; i < 30; i++) {
			char name[16];

			snprintf(name, sizeof(name), "x%02d", i);
			json_array_append_new(list, listener(name, "epoll", 0, 1));
		}
		feed(top, stats);
	}
	text = screen_of(top, 80, 12, true);
	assert_has(text, "\nb ");
	assert_has(text, "\nx03 ");
	assert_has_not(text, "\nx04 ");
	top_key(top, TOP_KEY_END);
	text = screen_of(top, 80, 12, true);
	assert_has(text, "\nx29 ");
	assert_has(text, "\nx23 ");
	assert_has_not(text, "\nx22 ");
	top_key(top, TOP_KEY_UP);
	text = screen_of(top, 80, 12, true);
	assert_has(text, "\nx22 ");
	assert_has_not(text, "\nx29 ");
	top_key(top, TOP_KEY_HOME);
	text = screen_of(top, 80, 12, true);
	assert_has(text, "\nb ");
}

TEST_WITH(at_80_columns_the_engine_stays, setup, teardown, NULL)
{
	struct top *top = *state;
	const char *text;

	for (int at = 1; at <= 2; at++) {
		json_t *stats = document(at), *list = json_object_get(stats, "listeners");

		json_array_append_new(
			list, listener("echo-uring-poll", "io_uring-poll", at * 900000, 2000));
		feed(top, stats);
	}
	text = shown(top);
	assert_has(text, "\nlistener        engine         conns ");
	assert_has(text, "\necho-uring-poll io_uring-poll 18,000  900,000 ");
	assert_has(text, " CPU/op ");
	assert_has(text, " calls\n");
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
TEST_WITH(columns_stay_where_they_are, setup, teardown, NULL)
{
	struct top *top = *state;

	for (int at = 1; at <= 2; at++) {
		json_t *stats = document(at), *list = json_object_get(stats, "listeners");

		for (int i = 0; i < 30; i++) {
			char name[48];

			snprintf(name, sizeof(name), "%.*s%02d", i,
				 "a-very-long-name-of-a-listener", i);
			json_array_append_new(list, listener(name, "epoll", at * i * 10000, i + 1));
		}
		feed(top, stats);
	}
	for (unsigned width = TOP_WIDTH_MIN; width < 160; width++) {
		CLEANUP(free_p) char *first = NULL;

		for (unsigned i = 0; i < TOP_COLUMNS; i++) {
			char *text;

			sort_by(top, i);
			text = screen_of(top, width, 12, false);
			if (first)
				assert_string_equal(titles_of(text), first);
			else
				first = strdup(titles_of(text));
		}
	}
}

/* Also by a column that has no room. */
TEST_WITH(the_column_that_sorts_the_rows_is_marked, setup, teardown, NULL)
{
	static const char *const titles[] = { "listener", "engine", "conns", "ops", "MB", "p50",
					      "p99",      "CPU/op", "calls", "ops", "CPU" };
	struct top *top = *state;

	feed_seconds(top, 1, 3);
	for (unsigned i = 0; i < TOP_COLUMNS; i++) {
		char said[64], *text;

		sort_by(top, i);
		text = screen_of(top, 80, 24, true);
		snprintf(said, sizeof(said), "< > sort: %s %s  r reverse  up ", top_columns[i].name,
			 i <= TOP_ENGINE ? "▲" : "▼");
		assert_has(text, said);
		top_key(top, 'r');
		text = screen_of(top, 200, 24, true);
		snprintf(said, sizeof(said), "%s%s%s", i <= TOP_ENGINE ? "" : "▲", titles[i],
			 i <= TOP_ENGINE ? " ▼" : "");
		assert_has(text, said);
	}
}

TEST_WITH(without_utf8_all_is_ascii, setup, teardown, NULL)
{
	struct top *top = *state;

	const char *text;

	feed_seconds(top, 1, 5);
	text = screen_of(top, 100, 40, false);
	for (const char *c = text; *c; c++)
		assert_true((unsigned char)*c < 0x80);
}

TEST_WITH(a_listener_that_is_not_served_says_so, setup, teardown, NULL)
{
	struct top *top = *state;
	const char *text;

	for (int at = 1; at <= 2; at++) {
		json_t *stats = document(at);
		json_t *b = json_array_get(json_object_get(stats, "listeners"), 1);

		json_object_set_new(b, "state", json_string("unavailable"));
		feed(top, stats);
	}
	text = screen_of(top, 100, 24, true);
	assert_has(text, "\nall: 1,000 ops/s  0.02 MB/s  CPU 0.2 %  20 connections\n");
	assert_has(
		text,
		"\nb             unavailable        -         -      -      -       -       -      - "
		"     -     -\n");
}
