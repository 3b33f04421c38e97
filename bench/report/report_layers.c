/* In which layers the rows of a group spend their CPU time.  See report_page.h. */
#include <math.h>
#include <stdlib.h>

#include "human.h"
#include "layers_group.h"
#include "report.h"
#include "report_chart.h"
#include "report_page.h"
#include "svg.h"
#include "text.h"
#include "util.h"

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

double report_layers_legend(FILE *to, const bool shown[LAYER_COUNT], double width, double y)
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
	bottom = report_layers_legend(drawn, l->shown, CHART_WIDTH, bottom + AXIS + 12);
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

static void put_table(FILE *to, const struct layers_group *l)
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
	put_table(to, l);
	fprintf(to, "<figcaption>Small: the first one's shares%s.</figcaption></figure>\n</div>\n",
		has_intervals(l) ? "; differences and how far their intervals reach, which hold "
				   "together"
				 : "");
	report_paragraph(to, "p class=\"warn\"", layers_warnings(l));
	for (unsigned i = 0; i < g->count; i++)
		report_paragraph(to, "p class=\"dim\"", layers_other(l, i));
}
