/* The figures of a group, and those of the generator's hosts.  See report_chart.h. */
#include "report_chart.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "field.h"
#include "figure.h"
#include "hosts.h"
#include "human.h"
#include "layers_group.h"
#include "report.h"
#include "svg.h"
#include "text.h"
#include "util.h"
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

/* ---- In which layers the rows of a group spend their CPU time ---- */

enum { EDGE = 10, ROW = 46, BAR_TOP = 18, BAR = 18, AXIS = 22, LABEL_LEAST = 26 };

/* ---- Bars ---- */

static unsigned bars_drawn(const struct layers_group *l)
{
	return MIN(l->group->count, (unsigned)CHART_ROWS_MAX);
}

static double scaled(const struct result_group *g, double ns)
{
	return ns * figures[g->figures[JUDGED_COST]].scale;
}

/* "TCP, UDP, IP: 3.91 us, 46 %" */
static void part_title(char *text, size_t bytes, const struct layers_group *l, unsigned row,
		       enum layer layer)
{
	enum figure cost = l->group->figures[JUDGED_COST];
	double ns = l->rows[row].ns[layer];

	snprintf(text, bytes, "%s: %s %s, %s %%", layer_infos[layer].words,
		 figure_text(cost, ns).text, page_unit(cost),
		 human_percent(ns / result_cost(l->group, &l->group->rows[row])->median).text);
}

static void bar_parts(FILE *to, const struct layers_group *l, unsigned row, const struct scale *x,
		      double y)
{
	const struct layers_row *of = &l->rows[row];
	double sum = 0;

	for (unsigned i = 0; i < LAYER_COUNT; i++) {
		double from = scale_at(x, scaled(l->group, sum)), width;
		char class[64], title[128];

		sum += of->ns[i];
		width = scale_at(x, scaled(l->group, sum)) - from;
		snprintf(class, sizeof(class), "layer %s", layer_infos[i].name);
		part_title(title, sizeof(title), l, row, i);
		svg_rect_titled(to, class, from, y, width, BAR, title);
		if (width >= LABEL_LEAST)
			svg_text(to, "frame middle", from + width / 2, y + BAR - 5, "%s %%",
				 human_percent(of->ns[i] /
					       result_cost(l->group, &l->group->rows[row])->median)
					 .text);
	}
}

static void bar_row(FILE *to, const struct layers_group *l, unsigned row, const struct scale *x)
{
	const struct result_group *g = l->group;
	double y = 4 + row * ROW;

	svg_text_fit(to, "name", EDGE, y + 12, 270, g->rows[row].row->listener);
	if (!l->rows[row].known) {
		svg_text(to, "dim end", CHART_WIDTH - EDGE, y + 12, "not sampled");
		return;
	}
	svg_text(to, "end strong", CHART_WIDTH - EDGE, y + 12, "%s %s",
		 figure_text(g->figures[JUDGED_COST], result_cost(g, &g->rows[row])->median).text,
		 page_unit(g->figures[JUDGED_COST]));
	bar_parts(to, l, row, x, y + BAR_TOP);
}

static double layers_legend(FILE *to, const bool shown[LAYER_COUNT], double width, double y)
{
	struct chart_key keys[LAYER_COUNT];
	char classes[LAYER_COUNT][64];

	for (unsigned i = 0; i < LAYER_COUNT; i++) {
		snprintf(classes[i], sizeof(classes[i]), "layer %s", layer_infos[i].name);
		keys[i] = (struct chart_key){ classes[i], layer_infos[i].words, shown[i] };
	}
	return chart_legend(to, keys, LAYER_COUNT, width, y);
}

static void chart_layers(FILE *to, const struct layers_group *l)
{
	const struct result_group *g = l->group;
	double most = 0, bottom = 4 + bars_drawn(l) * ROW;
	struct scale x;
	char *body;
	FILE *drawn = text_open(&body);

	for (unsigned i = 0; i < bars_drawn(l); i++)
		if (l->rows[i].known)
			most = fmax(most, result_cost(g, &g->rows[i])->median);
	x = (struct scale){ 0, most > 0 ? scaled(g, most) * 1.02 : 1, EDGE, CHART_WIDTH - EDGE,
			    false };
	chart_axis(drawn, &x, page_unit(g->figures[JUDGED_COST]), 4, bottom);
	for (unsigned i = 0; i < bars_drawn(l); i++)
		bar_row(drawn, l, i, &x);
	bottom = layers_legend(drawn, l->shown, CHART_WIDTH, bottom + AXIS + 12);
	svg_put(to, drawn, &body, CHART_WIDTH, bottom, "CPU time by layer", NULL);
}

/* ---- The table ---- */

/* "3.91", and below it "46 %" of the first listener, the difference of the others. */
static void put_value(FILE *to, const struct layers_group *l, unsigned row, enum layer layer)
{
	const struct layers_row *of = &l->rows[row];
	enum figure cost = l->group->figures[JUDGED_COST];
	const struct verdict *v = &of->verdicts[layer];
	double reach = fmax(v->high - v->change, v->change - v->low);

	if (!of->known) {
		fputs("<td></td>", to);
		return;
	}
	fprintf(to, "<td>%s", of->ns[layer] > 0 ? figure_text(cost, of->ns[layer]).text : "0");
	if (row == 0 && of->ns[layer] > 0)
		fprintf(to, "<br/><small>%s %%</small>",
			human_percent(of->ns[layer] /
				      result_cost(l->group, &l->group->rows[row])->median)
				.text);
	else if (row > 0 && !isnan(v->change) && !isnan(reach))
		fprintf(to, "<br/><small>%s%s \xc2\xb1%s</small>",
			v->change < 0 ? "\xe2\x88\x92" : "+",
			figure_text(cost, fabs(v->change)).text, figure_text(cost, reach).text);
	fputs("</td>", to);
}

static void put_layers_table(FILE *to, const struct layers_group *l)
{
	const struct result_group *g = l->group;

	fputs("<div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\" class=\"left\">layer</th>",
	      to);
	for (unsigned i = 0; i < g->count; i++) {
		fputs("<th scope=\"col\">", to);
		svg_escape(to, g->rows[i].row->listener);
		fprintf(to, "<br/>%s</th>", page_unit(g->figures[JUDGED_COST]));
	}
	fputs("</tr></thead>\n<tbody>\n", to);
	for (unsigned i = 0; i < LAYER_COUNT; i++) {
		if (!l->shown[i])
			continue;
		fprintf(to, "<tr><td class=\"left\">%s</td>", layer_infos[i].words);
		for (unsigned j = 0; j < g->count; j++)
			put_value(to, l, j, i);
		fputs("</tr>\n", to);
	}
	fputs("</tbody></table></div>\n", to);
}

static bool has_intervals(const struct layers_group *l)
{
	for (unsigned i = 1; i < l->group->count; i++)
		for (unsigned j = 0; j < LAYER_COUNT; j++)
			if (!isnan(l->rows[i].verdicts[j].low) && l->shown[j])
				return true;
	return false;
}

/* ---- The section ---- */

void report_layers(FILE *to, const struct result_group *g)
{
	const struct layers_group *l = g->layers;

	if (!l)
		return;
	fprintf(to, "<div class=\"charts layers\">\n<figure><h3>%s by layer</h3>\n",
		figures[g->figures[JUDGED_COST]].words);
	chart_layers(to, l);
	fputs("<figcaption>The innermost function that names a layer decides.</figcaption></figure>\n"
	      "<figure><h3>Layers against the first</h3>\n",
	      to);
	put_layers_table(to, l);
	fprintf(to, "<figcaption>Small: the first one's shares%s.</figcaption></figure>\n</div>\n",
		has_intervals(l) ? "; differences and how far their intervals reach, which hold "
				   "together"
				 : "");
	report_paragraph(to, "p class=\"warn\"", layers_warnings(l));
	for (unsigned i = 0; i < g->count; i++)
		report_paragraph(to, "p class=\"dim\"", layers_other(l, i));
}

/* ---- Then and now ---- */

static bool has_pairs(const struct result *r)
{
	for (struct result_at at = { 0 }; result_next(r, &at);)
		if (at.row->then && !isnan(at.row->then->verdict.change))
			return true;
	return false;
}

static void put_then_row(FILE *to, const struct result *r, const struct result_group *g,
			 const struct result_row *row)
{
	const struct then *t = row->then;
	enum figure cost = g->figures[JUDGED_COST];
	static const char left[] = "td class=\"left\"";

	fputs("<tr>", to);
	svg_element(to, left, "%s, %s", g->title, row->row->listener);
	svg_element(to, left, "%s", figures[cost].words);
	svg_element(to, "td", "%s", figure_text(cost, t ? t->before : NAN).text);
	svg_element(to, "td", "%s",
		    figure_text(cost, t ? t->now : result_cost(g, row)->median).text);
	svg_element(to, left, "%s", page_unit(cost));
	svg_element(to, "td", "%s", t ? words_change(t->verdict.change).text : "");
	svg_element(to, left, "%s", words_then(r, row).text);
	fputs("</tr>\n", to);
}

static void put_then_table(FILE *to, const struct result *r)
{
	fputs("<div class=\"scroll\"><table>\n<thead><tr><th class=\"left\">load and listener</th>"
	      "<th class=\"left\">figure</th><th>then</th><th>now</th><th class=\"left\">unit</th>"
	      "<th>change</th><th class=\"left\">verdict</th></tr></thead>\n<tbody>\n",
	      to);
	for (struct result_at at = { 0 }; result_next(r, &at);)
		put_then_row(to, r, at.group, at.row);
	fputs("</tbody></table></div>\n", to);
}

static void put_changes(FILE *to, const struct result *r)
{
	json_t *change;
	size_t i;

	fputs("<h3>What changed between</h3>\n", to);
	if (json_array_size(r->changed) == 0) {
		fprintf(to, "<p class=\"dim\">%s</p>\n", words_nothing_changed);
		return;
	}
	fputs("<dl>\n", to);
	json_array_foreach(r->changed, i, change) {
		svg_element(to, "dt", "%s", field_text(change, "what"));
		svg_element(to, "dd", "%s \xe2\x86\x92 %s", field_text(change, "then"),
			    field_text(change, "now"));
	}
	fputs("</dl>\n", to);
}

void report_against(FILE *to, const struct report *r)
{
	fputs("<section><h2>Then and now</h2>\n", to);
	report_paragraph(to, "p class=\"verdict\"", words_then_summary(r->result));
	if (has_pairs(r->result)) {
		fputs("<div class=\"charts\"><figure><h3>CPU cost now against that of the saved "
		      "rows</h3>\n",
		      to);
		chart_then_now(to, r, CHART_WIDTH, NULL);
		fputs("<figcaption>Of whole runs; a row is falsely called worse in 5 of 100 "
		      "comparisons at most, and falsely called better in as many.</figcaption>"
		      "</figure></div>\n",
		      to);
	}
	put_then_table(to, r->result);
	if (r->result->found)
		put_changes(to, r->result);
	fputs("</section>\n", to);
}
