/* The table of `nbctl top`: a row for each listener, with its sparkline.  See top_page.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compare_group.h"
#include "field.h"
#include "human.h"
#include "must.h"
#include "top_chart.h"
#include "top_page.h"
#include "util.h"

enum {
	SPARK_MIN = 8, /* columns */
	SPARK_MAX = 60,
	SPARK_GAP = 2,
	SPARK_FROM = 60,   /* minimum columns of a screen with sparklines */
	SPARK_TICKS = 120, /* ticks that a sparkline covers */
};

static struct column column_at(enum top_column i)
{
	const struct top_column_info *info = &top_columns[i];
	struct column c = { .title = info->name,
			    .left = i < TOP_OPEN,
			    .width_min = info->width,
			    .rank = info->rank };

	if (i == TOP_OPEN) {
		c.title = "conns";
		c.unit = "open";
	} else if (info->figure != FIGURE_COUNT) {
		c.title = figures[info->figure].title;
		c.unit = figures[info->figure].unit;
	}
	return c;
}

/* The order of rows. */
const char *page_sort_mark(const struct top *top, bool utf8)
{
	bool ascending = (top->sort == TOP_LISTENER || top->sort == TOP_ENGINE) != top->reverse;

	return utf8 ? (ascending ? "▲" : "▼") : (ascending ? "^" : "v");
}

void page_value_cell(struct table *t, const struct measure *row, enum top_column column)
{
	double value = top_value(row, column);

	if (isnan(value))
		table_cell(t, STYLE_PLAIN, "-");
	else if (column == TOP_OPEN)
		table_text(t, human_short((uint64_t)value).text);
	else if (column == TOP_CPU)
		table_text(t, value > 0 ? human_percent(value).text : "0");
	else
		table_text(t, page_number(value * figures[top_columns[column].figure].scale).text);
}

/* The table of all rows as text of at most `width` columns.  Includes the rows that are not
 * visible, so that columns do not move when scrolling. */
static char *rows_text(const struct top *top, unsigned width, bool utf8)
{
	struct column columns[TOP_COLUMNS];
	char *text;
	struct output out;
	struct table *t;

	for (unsigned i = 0; i < TOP_COLUMNS; i++)
		columns[i] = column_at(i);
	columns[top->sort].mark = page_sort_mark(top, utf8);
	t = table_new(columns, TOP_COLUMNS);
	for (unsigned i = 0; i < top->rows.count; i++) {
		const struct measure *row = top->rows.rows[i];

		table_text(t, row->listener);
		table_text(t, compare_engine_text(row).text);
		for (unsigned j = TOP_OPEN; j < TOP_COLUMNS; j++)
			page_value_cell(t, row, (enum top_column)j);
	}
	page_output(&out, width, &text);
	table_finish(t, &out, 0);
	fclose(out.file);
	return text;
}

enum style page_row_style(const struct measure *row)
{
	const char *state = field_text(row->source, "state");

	if (measure_unavailable(row))
		return STYLE_BAD;
	if (*state && strcmp(state, "serving"))
		return STYLE_WARN;
	return row->listener_count ? STYLE_PLAIN : STYLE_DIM;
}

static unsigned lines_width(const char *text)
{
	unsigned width = 0;

	while (*text) {
		size_t bytes = strcspn(text, "\n");
		char *line = must(strndup(text, bytes));

		width = MAX(width, text_width(line));
		free(line);
		text += bytes + (text[bytes] != '\0');
	}
	return width;
}

/* The sparkline's column: its two titles, then a line for each row. */
struct spark {
	unsigned width, group; /* width 0: no room */
};

static struct spark plan_spark(const struct top *top, unsigned width, unsigned used)
{
	struct spark s = {};

	if (used + SPARK_GAP + SPARK_MIN > width)
		return s;
	s.width = MIN(width - used - SPARK_GAP, SPARK_MAX);
	s.group = top_spark_group(top, s.width, SPARK_TICKS);
	return s;
}

/* Prints a line of the table with its sparkline or title. */
static void put_with_spark(struct page *p, enum style style, const char *line, unsigned used,
			   const char *spark)
{
	unsigned begin = used + SPARK_GAP;
	unsigned pad = begin > text_width(line) ? begin - text_width(line) : 0;

	page_put(p, style, "%s%*s%s", line, *spark ? (int)pad : 0, "", spark);
}

/* Titles, then the rows of the listeners; the selected one is marked. */
void page_put_rows(struct page *p, const struct top *top, unsigned first, unsigned count, bool mark)
{
	struct measure *const *rows = top->rows.rows + first;
	unsigned width = p->screen->width, used;
	unsigned reserve = width > SPARK_FROM ? SPARK_GAP + SPARK_MIN : 0;
	char *text = rows_text(top, width - reserve, p->screen->utf8), *rest = text;
	struct spark s = plan_spark(top, width, used = lines_width(text));
	uint64_t span_ns = (uint64_t)s.group * s.width * top->interval_ms * (uint64_t)NS_PER_MS;
	char span[48];

	snprintf(span, sizeof(span), "%s%s", s.width > SPARK_MIN ? "last " : "",
		 human_time(span_ns).text);
	put_with_spark(p, STYLE_BOLD, page_next_line(&rest), used, s.width ? "ops/s" : "");
	put_with_spark(p, STYLE_DIM, page_next_line(&rest), used, s.width ? span : "");
	for (unsigned i = 0; i < first; i++)
		page_next_line(&rest);
	for (unsigned i = 0; i < count; i++) {
		char *spark = top_sparkline(top, rows[i]->listener, TOP_SERIES_RATE, s.width,
					    MAX(s.group, 1), p->screen->utf8);

		if (page_room(p))
			p->screen->lines[p->used].selected =
				mark && !strcmp(rows[i]->listener, top->selected);
		put_with_spark(p, page_row_style(rows[i]), page_next_line(&rest), used,
			       s.width && measure_unavailable(rows[i]) ? "unavailable" : spark);
		free(spark);
	}
	free(text);
}
