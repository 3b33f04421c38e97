/* The figures of a group, and those of the generator's hosts.  See report_page.h. */
#include <string.h>

#include "hosts.h"
#include "report_chart.h"
#include "report_page.h"
#include "svg.h"
#include "words.h"

struct cell {
	char text[96], small[80]; /* "": there is none; small is below text */
};

/* The columns: the names of the row, its cost and the verdict on it, then all other figures. */
enum { COLUMN_LISTENER, COLUMN_ENGINE, COLUMN_COST, COLUMN_AGAINST, COLUMN_VISITS, COLUMN_FIGURES };
enum { COLUMN_COUNT = COLUMN_FIGURES + FIGURE_COUNT };

static const char *const titles[COLUMN_FIGURES] = {
	[COLUMN_LISTENER] = "listener",
	[COLUMN_ENGINE] = "engine",
	[COLUMN_AGAINST] = "vs first",
	[COLUMN_VISITS] = "visits",
};

/* The figure of a column; FIGURE_COUNT: none. */
static enum figure figure_of(unsigned column, const struct result_group *g)
{
	if (column == COLUMN_COST)
		return g->figures[JUDGED_COST];
	return column < COLUMN_FIGURES ? FIGURE_COUNT : (enum figure)(column - COLUMN_FIGURES);
}

static bool is_left(unsigned column)
{
	return column == COLUMN_LISTENER || column == COLUMN_ENGINE;
}

#define CELL(...) snprintf(cell->text, sizeof(cell->text), __VA_ARGS__)

/* with_spread: the lowest and the highest value, too. */
static void figure_cell(struct cell *cell, const struct result_row *row, enum figure figure,
			bool with_spread)
{
	const struct value *v = &row->values[figure];
	char bounds[HOSTS_BOUNDS_BYTES];

	if (hosts_bounds(row->row, figure, bounds))
		CELL("%s", bounds);
	else
		CELL("%s", figure_text(figure, v->median).text);
	if (with_spread && v->count > 1)
		snprintf(cell->small, sizeof(cell->small), "%s\xe2\x80\x93%s",
			 figure_text(figure, v->low).text, figure_text(figure, v->high).text);
}

static void against_cell(struct cell *cell, const struct result_group *g, unsigned i)
{
	if (g->count == 1)
		return;
	CELL("%s", i == 0 ? "the first" : words_change(g->rows[i].change).text);
	if (i > 0)
		snprintf(cell->small, sizeof(cell->small), "%s", words_row(g, &g->rows[i]).text);
}

static void fill_cell(struct cell *cell, unsigned column, const struct result_group *g, unsigned i)
{
	const struct measure *row = g->rows[i].row;
	enum figure figure = figure_of(column, g);

	*cell = (struct cell){ 0 };
	if (figure != FIGURE_COUNT)
		figure_cell(cell, &g->rows[i], figure,
			    column == COLUMN_COST || figures[figure].answer);
	else if (column == COLUMN_LISTENER)
		CELL("%s", row->listener);
	else if (column == COLUMN_ENGINE)
		CELL("%s", measure_engine_name(row).text);
	else if (column == COLUMN_VISITS)
		CELL("%u", measure_visits(row));
	else
		against_cell(cell, g, i);
}

/* Is the column to be left out: it has no value, or shows the same figure as the column
 * of the cost? */
static bool is_empty(unsigned column, const struct result_group *g)
{
	struct cell cell;

	if (column == COLUMN_FIGURES + (unsigned)g->figures[JUDGED_COST])
		return true;
	for (unsigned i = 0; i < g->count; i++) {
		fill_cell(&cell, column, g, i);
		if (*cell.text)
			return false;
	}
	return true;
}

static void put_header(FILE *to, unsigned column, const struct result_group *g)
{
	enum figure figure = figure_of(column, g);

	fprintf(to, "<th scope=\"col\"%s>", is_left(column) ? " class=\"left\"" : "");
	if (figure == FIGURE_COUNT)
		fprintf(to, "%s</th>\n", titles[column]);
	else
		fprintf(to, "%s<br/>%s</th>\n", figures[figure].words, page_unit(figure));
}

static void put_cell(FILE *to, unsigned column, const struct result_group *g, unsigned i)
{
	struct cell cell;

	fill_cell(&cell, column, g, i);
	fprintf(to, "<td%s>", is_left(column) ? " class=\"left\"" : "");
	svg_escape(to, cell.text);
	if (*cell.small) {
		fputs("<br/><small>", to);
		svg_escape(to, cell.small);
		fputs("</small>", to);
	}
	fputs("</td>", to);
}

void report_table(FILE *to, const struct result_group *g)
{
	bool shown[COLUMN_COUNT];

	fputs("<div class=\"scroll\"><table>\n<thead><tr>", to);
	for (unsigned c = 0; c < COLUMN_COUNT; c++) {
		shown[c] = !is_empty(c, g);
		if (shown[c])
			put_header(to, c, g);
	}
	fputs("</tr></thead>\n<tbody>\n", to);
	for (unsigned i = 0; i < g->count; i++) {
		fputs("<tr>", to);
		for (unsigned c = 0; c < COLUMN_COUNT; c++)
			if (shown[c])
				put_cell(to, c, g, i);
		fputs("</tr>\n", to);
	}
	fputs("</tbody></table></div>\n", to);
}

/* ---- The generator's hosts: a row for each ---- */

static void put_hosts(FILE *to, const struct measure *row)
{
	for (unsigned i = 0; i < hosts_count(row); i++) {
		fputs("<tr>", to);
		svg_element(to, "td class=\"left\"", "%s", row->listener);
		svg_element(to, "td class=\"left\"", "%s", hosts_name(row, i));
		for (unsigned j = 0; j < HOSTS_FIGURES; j++) {
			double value = hosts_value(row, i, hosts_figures[j]);

			fprintf(to, "<td>%s</td>", figure_text(hosts_figures[j], value).text);
		}
		fputs("</tr>\n", to);
	}
}

void report_hosts(FILE *to, const struct result_group *g)
{
	unsigned hosts = 0;

	for (unsigned i = 0; i < g->count; i++)
		hosts += hosts_count(g->rows[i].row);
	if (!hosts)
		return;
	fputs("<div class=\"scroll\"><table>\n<thead><tr><th class=\"left\">listener</th>"
	      "<th class=\"left\">generator's host</th>",
	      to);
	for (unsigned i = 0; i < HOSTS_FIGURES; i++) {
		const struct figure_info *f = &figures[hosts_figures[i]];

		fprintf(to, "<th scope=\"col\">%s<br/>%s</th>", f->words,
			page_unit(hosts_figures[i]));
	}
	fputs("</tr></thead>\n<tbody>\n", to);
	for (unsigned i = 0; i < g->count; i++)
		put_hosts(to, g->rows[i].row);
	fputs("</tbody></table></div>\n", to);
}
