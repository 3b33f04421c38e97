/* Then and now on the page.  See report_page.h. */
#include <math.h>
#include <stdlib.h>

#include "field.h"
#include "figure.h"
#include "report_chart.h"
#include "report_page.h"
#include "svg.h"
#include "words.h"

static bool has_pairs(const struct result *r)
{
	for (struct result_at at = { 0 }; result_next(r, &at);)
		if (at.row->then && !isnan(at.row->then->verdict.change))
			return true;
	return false;
}

static void put_row(FILE *to, const struct result *r, const struct result_group *g,
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

static void put_table(FILE *to, const struct result *r)
{
	fputs("<div class=\"scroll\"><table>\n<thead><tr><th class=\"left\">load and listener</th>"
	      "<th class=\"left\">figure</th><th>then</th><th>now</th><th class=\"left\">unit</th>"
	      "<th>change</th><th class=\"left\">verdict</th></tr></thead>\n<tbody>\n",
	      to);
	for (struct result_at at = { 0 }; result_next(r, &at);)
		put_row(to, r, at.group, at.row);
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
	put_table(to, r->result);
	if (r->result->found)
		put_changes(to, r->result);
	fputs("</section>\n", to);
}
