/* Then and now on the page.  See report_page.h. */
#include <math.h>
#include <stdlib.h>

#include "field.h"
#include "figure.h"
#include "report_chart.h"
#include "report_page.h"
#include "svg.h"

void chart_then_now(FILE *to, const struct against *a, double width, const char *style)
{
	struct report r;

	report_init_groups(&r, a->groups, "CPU cost now against that of the saved rows", "then");
	chart_overview(to, &r, width, style);
	json_decref(r.engines); /* the groups are not ours */
}

static bool has_pairs(const struct against *a)
{
	for (unsigned i = 0; i < a->groups.count; i++)
		if (a->groups.list[i].count > 1 && !isnan(group_change(&a->groups.list[i], 1)))
			return true;
	return false;
}

static void put_row(FILE *to, const struct against *a, unsigned i)
{
	const struct against_row *row = &a->rows[i];
	const struct group *g = &a->groups.list[i];
	static const char left[] = "td class=\"left\"";

	fputs("<tr>", to);
	report_paragraph(to, left, group_title(g));
	svg_element(to, left, "%s", figures[g->cost].words);
	svg_element(to, "td", "%s", figure_text(g->cost, row->then).text);
	svg_element(to, "td", "%s", figure_text(g->cost, row->now).text);
	svg_element(to, left, "%s", page_unit(g->cost));
	svg_element(to, "td", "%s", g->count > 1 ? group_change_text(g, 1).text : "");
	svg_element(to, left, "%s", against_words(a, i).text);
	fputs("</tr>\n", to);
}

static void put_table(FILE *to, const struct against *a)
{
	fputs("<div class=\"scroll\"><table>\n<thead><tr><th class=\"left\">load and listener</th>"
	      "<th class=\"left\">figure</th><th>then</th><th>now</th><th class=\"left\">unit</th>"
	      "<th>change</th><th class=\"left\">verdict</th></tr></thead>\n<tbody>\n",
	      to);
	for (unsigned i = 0; i < a->groups.count; i++)
		put_row(to, a, i);
	fputs("</tbody></table></div>\n", to);
}

static void put_changes(FILE *to, const struct against *a)
{
	json_t *change;
	size_t i;

	fputs("<h3>What changed between</h3>\n", to);
	if (json_array_size(a->changed) == 0) {
		fprintf(to, "<p class=\"dim\">%s</p>\n", against_nothing_changed);
		return;
	}
	fputs("<dl>\n", to);
	json_array_foreach(a->changed, i, change) {
		svg_element(to, "dt", "%s", field_text(change, "what"));
		svg_element(to, "dd", "%s \xe2\x86\x92 %s", field_text(change, "then"),
			    field_text(change, "now"));
	}
	fputs("</dl>\n", to);
}

void report_against(FILE *to, const struct against *a)
{
	fputs("<section><h2>Then and now</h2>\n", to);
	report_paragraph(to, "p class=\"verdict\"", against_summary(a));
	if (has_pairs(a)) {
		fputs("<div class=\"charts\"><figure><h3>CPU cost now against that of the saved "
		      "rows</h3>\n",
		      to);
		chart_then_now(to, a, CHART_WIDTH, NULL);
		fputs("<figcaption>Of whole runs; a row is falsely called worse in 5 of 100 "
		      "comparisons at most, and falsely called better in as many.</figcaption>"
		      "</figure></div>\n",
		      to);
	}
	put_table(to, a);
	if (a->found)
		put_changes(to, a);
	fputs("</section>\n", to);
}
