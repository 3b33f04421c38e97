/* ctl/top/top_model.c: documents and keys in, rows and the past out. */
#include <math.h>

#include "top_case.h"

TEST_WITH(rows_are_those_of_the_last_interval, setup, teardown, NULL)
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

TEST_WITH(every_column_sorts_and_unknown_goes_last, setup, teardown, NULL)
{
	struct top *top = *state;

	feed_seconds(top, 1, 2);
	for (unsigned i = 0; i < TOP_COLUMNS; i++) {
		top->reverse = false;
		top->sort = TOP_COLUMNS; /* a column other than any */
		assert_true(top_key(top, top_columns[i].key));
		assert_int_equal(top->sort, i);
		if (i >= TOP_OPEN)
			assert_string_equal(name_at(top, 2), "c");
	}
	top_sort(top, TOP_P50);
	assert_string_equal(name_at(top, 0), "b");
	top_key(top, '5'); /* again: the other way round, but unknown values stay last */
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

TEST_WITH(selection_stays_with_its_listener, setup, teardown, NULL)
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

TEST_WITH(another_listener_is_selected_when_the_selected_one_is_removed, setup, teardown, NULL)
{
	struct top *top = *state;
	json_t *stats;

	feed_seconds(top, 1, 2);
	top_key(top, TOP_KEY_ENTER);
	stats = document(3);
	json_array_remove(json_object_get(stats, "listeners"), 1); /* b */
	feed(top, stats);
	assert_string_equal(top->selected, "a");
	stats = document(4);
	json_array_clear(json_object_get(stats, "listeners"));
	feed(top, stats);
	assert_string_equal(top->selected, "");
	shown(top);
}

static void type(struct top *top, const char *text)
{
	for (; *text; text++)
		assert_true(top_key(top, *text));
}

TEST_WITH(a_filter_shows_what_has_its_text, setup, teardown, NULL)
{
	struct top *top = *state;
	char *text;

	feed_seconds(top, 1, 2);
	type(top, "/B");
	assert_int_equal(top->rows.count, 1);
	assert_string_equal(name_at(top, 0), "b");
	assert_string_equal(top->selected, "b");
	text = shown(top);
	assert_has(text, "/B_");
	type(top, "q"); /* the key is text while the filter is typed */
	assert_int_equal(top->rows.count, 0);
	shown(top);
	top_key(top, TOP_KEY_ERASE);
	top_key(top, TOP_KEY_ENTER);
	feed_seconds(top, 3, 4);
	assert_int_equal(top->rows.count, 1);
	text = shown(top);
	assert_has(text, "/B: ");
	top_key(top, TOP_KEY_BACK);
	assert_int_equal(top->rows.count, 3);
	assert_string_equal(top->selected, "b");
	assert_false(top_key(top, 'q'));
}

TEST_WITH(pause_keeps_the_screen, setup, teardown, NULL)
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
	top_key(top, 'n'); /* sorting continues */
	assert_string_equal(name_at(top, 0), "a");
	top_key(top, ' ');
	feed(top, document(7));
	assert_float_equal(top_value(top->rows.rows[0], TOP_RATE), 1000, 0.01);
}

TEST_WITH(a_restart_is_reported, setup, teardown, NULL)
{
	struct top *top = *state;
	char *text;

	feed_seconds(top, 10, 13);
	snprintf(top->trouble, sizeof(top->trouble), "unreachable, trying again: no daemon");
	text = shown(top);
	assert_has(text, "trying again");
	assert_has(text, "\n>b "); /* known rows stay */
	feed_seconds(top, 1, 2);
	text = shown(top);
	assert_has_not(text, "trying again");
	assert_has(text, "the daemon was restarted");
	assert_float_equal(top_value(top->rows.rows[0], TOP_RATE), 3000, 0.01);
}

TEST_WITH(keys_go_in_and_out, setup, teardown, NULL)
{
	struct top *top = *state;

	feed_seconds(top, 1, 2);
	top_key(top, '?');
	assert_true(top->help);
	top_key(top, TOP_KEY_BACK);
	assert_false(top->help);
	assert_true(top_key(top, TOP_KEY_ENTER)); /* it is of the filter alone */
	assert_true(top_key(top, TOP_KEY_BACK));
	assert_true(top_key(top, 0));
	assert_false(top_key(top, 'q'));
}

static json_t *by_worker(int at)
{
	json_t *stats = document(at), *one = json_array_get(json_object_get(stats, "listeners"), 0);

	json_object_set_new(one, "name", json_string("a/1"));
	json_object_set_new(one, "listener", json_string("a"));
	json_object_set_new(one, "worker", json_integer(1));
	return stats;
}

TEST_WITH(rows_by_worker_begin_with_their_own_documents, setup, teardown, NULL)
{
	struct top *top = *state;

	feed_seconds(top, 1, 3);
	top_key(top, 'w');
	assert_true(top->by_worker);
	feed(top, by_worker(4));
	assert_string_equal(name_at(top, 1), "a"); /* until there is an interval */
	feed(top, by_worker(5));
	assert_string_equal(name_at(top, 1), "a/1");
	assert_float_equal(top_value(top->rows.rows[1], TOP_RATE), 1000, 0.01);
}
