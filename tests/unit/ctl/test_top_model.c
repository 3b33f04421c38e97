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
		top->sort = i ? i - 1 : TOP_COLUMNS - 1;
		assert_true(top_key(top, '>'));
		assert_int_equal(top->sort, i);
		if (i >= TOP_OPEN)
			assert_string_equal(name_at(top, 2), "c");
	}
	sort_by(top, TOP_P50);
	assert_string_equal(name_at(top, 0), "b");
	top_key(top, 'r'); /* the other way round, but unknown values stay last */
	assert_string_equal(name_at(top, 0), "a");
	assert_string_equal(name_at(top, 2), "c");
	sort_by(top, TOP_LISTENER);
	assert_string_equal(name_at(top, 0), "a");
	top_key(top, 'r');
	assert_string_equal(name_at(top, 0), "c");
	top_key(top, '<'); /* around the end */
	assert_int_equal(top->sort, TOP_CPU);
}

TEST_WITH(without_listeners_the_screen_is_empty, setup, teardown, NULL)
{
	struct top *top = *state;
	json_t *stats;

	feed_seconds(top, 1, 2);
	top_key(top, TOP_KEY_END);
	stats = document(3);
	json_array_clear(json_object_get(stats, "listeners"));
	feed(top, stats);
	assert_int_equal(top->rows.count, 0);
	shown(top);
}

TEST_WITH(a_restart_is_reported, setup, teardown, NULL)
{
	struct top *top = *state;
	char *text;

	feed_seconds(top, 10, 13);
	snprintf(top->trouble, sizeof(top->trouble), "unreachable, trying again: no daemon");
	text = shown(top);
	assert_has(text, "trying again");
	assert_has(text, "\nb "); /* known rows stay */
	feed_seconds(top, 1, 2);
	text = shown(top);
	assert_has_not(text, "trying again");
	assert_has(text, "the daemon was restarted");
	assert_float_equal(top_value(top->rows.rows[0], TOP_RATE), 3000, 0.01);
}

TEST_WITH(other_keys_do_nothing, setup, teardown, NULL)
{
	struct top *top = *state;

	feed_seconds(top, 1, 2);
	assert_true(top_key(top, 0));
	assert_true(top_key(top, '?'));
	assert_false(top_key(top, 'q'));
}
