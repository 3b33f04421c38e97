/* lib/show/render.c and human.c: tables that fit, numbers as people read them. */
#include "human.h"
#include "render.h"
#include "unit.h"

static const struct column columns[] = {
	{ .title = "name", .left = true },
	{ .title = "ops", .unit = "/s" },
	{ .title = "note", .left = true, .optional = true },
	{ .title = "extra", .rank = 1 },
	{ .title = "last", .rank = 2 },
};
enum { COLUMNS = sizeof(columns) / sizeof(columns[0]) };

/* The output of print() at a width, to be freed. */
static char *printed(unsigned width, bool colour, void (*print)(struct output *out))
{
	struct output out = { .width = width, .colour = colour };
	char *text;
	size_t bytes;

	out.file = open_memstream(&text, &bytes);
	print(&out);
	fclose(out.file);
	return text;
}

static void print_table(struct output *out)
{
	struct table *t = table_new(columns, COLUMNS);

	table_heading(t, STYLE_BOLD, "group");
	table_cell(t, STYLE_GOOD, "alpha");
	table_cell(t, STYLE_PLAIN, "%d", 12345);
	table_skip(t, 1);
	table_cell(t, STYLE_PLAIN, "1");
	table_cell(t, STYLE_PLAIN, "2");
	table_cell(t, STYLE_PLAIN, "b");
	table_cell(t, STYLE_PLAIN, "7");
	table_skip(t, 3);
	table_print(t, out, 2, true);
	table_free(t);
}

static void assert_prints(unsigned width, void (*print)(struct output *out), const char *expected)
{
	CLEANUP(free_p) char *text = printed(width, false, print);

	assert_string_equal(text, expected);
}

TEST(columns_align_and_empty_ones_go)
{
	assert_prints(0, print_table,
		      "  name     ops  extra  last\n"
		      "            /s\n"
		      "group\n"
		      "  alpha  12345      1     2\n"
		      "  b          7\n");
}

TEST(gaps_shrink_before_columns_go)
{
	assert_prints(25, print_table,
		      "  name    ops extra last\n"
		      "           /s\n"
		      "group\n"
		      "  alpha 12345     1    2\n"
		      "  b         7\n");
	assert_prints(20, print_table,
		      "  name    ops extra\n"
		      "           /s\n"
		      "group\n"
		      "  alpha 12345     1\n"
		      "  b         7\n"
		      "(no room here for:\n"
		      "  last)\n");
}

static void print_hostile(struct output *out)
{
	output_text(out, STYLE_BAD, "a\033[2Jb\tc\n");
}

/* U+009B is CSI, U+202E turns what follows around, U+200B and tags are not seen; then bytes that
 * are no UTF-8: alone, overlong, a surrogate, cut short. */
static void print_unicode(struct output *out)
{
	output_text(out, STYLE_PLAIN, "gr\u00f6\u00dfe \u6f22 \U0001f980 \u00b5s\n");
	output_text(out, STYLE_PLAIN,
		    "a\xc2\x9b"
		    "2Jb\u202ec\u202c\u200bd\u2028e\U000e0041f\ufdd0g\n");
	output_text(out, STYLE_PLAIN,
		    "a\x80"
		    "b\xc0\x8a"
		    "c\xed\xa0\x80"
		    "d\xf5"
		    "e\xe6\xbc\n");
}

static void print_json(struct output *out)
{
	json_t *text = json_pack("[s]", "a\xc2\x9b"
					"2Jb\u202e\u202c");

	output_json(out, text, true);
	json_decref(text);
}

TEST(characters_without_a_glyph_are_never_printed)
{
	assert_prints(
		0, print_unicode,
		"gr\u00f6\u00dfe \u6f22 \U0001f980 \u00b5s\na?2Jb?c??d?e?f?g\na?b??c?d?e??\n");
	assert_prints(0, print_json, "[\"a\\u009B2Jb\\u202E\\u202C\"]\n");
}

TEST(control_characters_are_never_printed)
{
	CLEANUP(free_p) char *text = printed(0, true, print_hostile);

	assert_prints(0, print_hostile, "a?[2Jb?c\n");
	assert_string_equal(text, "\033[31ma?[2Jb?c\033[0m\n");
}

static void print_paragraph(struct output *out)
{
	output_wrapped(out, STYLE_PLAIN, 4, "  one two three averyverylongword four");
}

TEST(paragraphs_wrap_at_words)
{
	assert_prints(0, print_paragraph, "  one two three averyverylongword four\n");
	assert_prints(12, print_paragraph,
		      "  one two\n"
		      "    three\n"
		      "    averyverylongword\n"
		      "    four\n");
}

TEST(width_counts_characters)
{
	assert_int_equal(text_width(""), 0);
	assert_int_equal(text_width("abc"), 3);
	assert_int_equal(text_width("\xc3\xa4\xe2\x82\xac"), 2);
}

TEST(numbers_are_short_and_round_well)
{
	assert_string_equal(human_count(0).text, "0");
	assert_string_equal(human_count(999).text, "999");
	assert_string_equal(human_count(1234567).text, "1,234,567");
	assert_string_equal(human_count(UINT64_MAX).text, "18,446,744,073,709,551,615");
	assert_string_equal(human_number(0).text, "0.00");
	assert_string_equal(human_number(9.994).text, "9.99");
	assert_string_equal(human_number(9.996).text, "10.0");
	assert_string_equal(human_number(99.96).text, "100");
	assert_string_equal(human_number(123456.7).text, "123,457");
	assert_string_equal(human_short(99999).text, "99,999");
	assert_string_equal(human_short(1234567).text, "1.23M");
	assert_string_equal(human_short(999999).text, "1.00M");
	assert_string_equal(human_bytes(17).text, "17 B");
	assert_string_equal(human_bytes(1200000).text, "1.20 MB");
	assert_string_equal(human_bytes(UINT64_MAX).text, "18,447 PB");
	assert_string_equal(human_percent(0.034).text, "3.4");
	assert_string_equal(human_percent(1.5).text, "150");
}

TEST(times_take_the_unit_that_fits)
{
	assert_string_equal(human_time(0).text, "0");
	assert_string_equal(human_time(350).text, "0.35us");
	assert_string_equal(human_time(35000).text, "35.0us");
	assert_string_equal(human_time(1200000).text, "1.20ms");
	assert_string_equal(human_time(12000000000).text, "12.0s");
	assert_string_equal(human_time(192000000000).text, "3m12s");
	assert_string_equal(human_time(14700000000000).text, "4h05m");
	assert_string_equal(human_time(1047600000000000).text, "12d3h");
}
