/* The page of a report.  See report.h; compare.c is `nbbench show`. */
#include "report.h"

#include <stdlib.h>

#include "field.h"
#include "report_chart.h"
#include "report_page.h"
#include "svg.h"
#include "text.h"
#include "util.h"
#include "words.h"

void report_paragraph(FILE *to, const char *element, char *text)
{
	if (text)
		svg_element(to, element, "%s", text);
	free(text);
}

/* Around a chart: <figure>, a heading, the chart, a caption. */
static void begin_figure(FILE *to, const char *heading)
{
	fprintf(to, "<figure><h3>%s</h3>\n", heading);
}

static void end_figure(FILE *to, const char *caption)
{
	fprintf(to, "<figcaption>%s</figcaption></figure>\n", caption);
}

static void put_rounds(FILE *to, const struct result_group *g)
{
	if (g->judged)
		fprintf(to,
			"<p class=\"dim\">%u rounds; all intervals of a load hold together in about "
			"95 of 100 runs.</p>\n",
			g->rounds);
	else if (g->count > 1)
		fprintf(to,
			"<p class=\"dim\">Not judged: that takes %u rounds in which all listeners "
			"are visited.</p>\n",
			result_least_rounds(g->comparisons));
}

static void put_group(FILE *to, const struct report *r, const struct result_group *g)
{
	fputs("<section>", to);
	svg_element(to, "h2", "%s", g->title);
	report_paragraph(to, "p class=\"verdict\"", words_group(g));
	report_paragraph(to, "p class=\"verdict\"", words_users(g));
	report_paragraph(to, "p class=\"verdict\"", words_sides(g));
	put_rounds(to, g);
	report_paragraph(to, "p class=\"dim\"", words_tls(g));
	if (g->count > 1) {
		fputs("<div class=\"charts\">\n", to);
		begin_figure(to, "Against the first");
		chart_against(to, r, g);
		end_figure(to, "The estimated change of the cost.");
		fputs("</div>\n", to);
	}
	if (g->count > CHART_ROWS_MAX)
		fprintf(to, "<p class=\"dim\">The charts have the first %d of %u rows.</p>\n",
			CHART_ROWS_MAX, g->count);
	report_layers(to, g);
	report_table(to, g);
	report_hosts(to, g);
	report_commands(to, g);
	fputs("</section>\n", to);
}

static bool is_compared(const struct result *r)
{
	for (unsigned i = 0; i < r->group_count; i++)
		if (r->groups[i].count > 1)
			return true;
	return false;
}

/* The overview: sentences about all loads, and the chart. */
static void put_overview(FILE *to, const struct report *r)
{
	const struct result *result = r->result;

	if (result->group_count < 2 || !is_compared(result))
		return;
	fputs("<section><h2>Load by load</h2>\n<div class=\"overview\">\n<ul class=\"verdicts\">\n",
	      to);
	for (unsigned i = 0; i < result->group_count; i++) {
		const struct result_group *g = &result->groups[i];
		char *verdict = words_group(g);

		if (g->count > 1) {
			fputs("<li><b>", to);
			svg_escape(to, g->title);
			fputs("</b><br/>", to);
			svg_escape(to, verdict ? verdict : "too few rounds: not judged");
			fputs("</li>\n", to);
		}
		free(verdict);
	}
	fputs("</ul>\n", to);
	begin_figure(to, "CPU cost against the first listener of each load");
	chart_overview(to, r, CHART_WIDTH, NULL);
	end_figure(to, "CPU per request, per operation or per GB, as each load is compared.");
	fputs("</div></section>\n", to);
}

static void put_unavailable(FILE *to, const json_t *unavailable)
{
	json_t *listener;
	size_t i;

	json_array_foreach(unavailable, i, listener)
		svg_element(to, "p class=\"warn\"", "%s: unavailable: %s",
			    field_text(listener, "name"), field_text(listener, "reason"));
}

/* The answer: what the run ends in, then what makes it less reliable. */
static void put_answer(FILE *to, const struct result *r)
{
	for (unsigned i = 0; i < r->finding_count; i++)
		report_paragraph(to, "p class=\"lead\"", words_finding(r, i));
	if (!r->finding_count)
		svg_element(to, "p class=\"lead\"", "%s", words_none(r));
	report_paragraph(to, "p", words_open(r));
	report_paragraph(to, "p class=\"dim\"", words_chance(r));
	for (unsigned i = 0; i < r->warning_count; i++)
		svg_element(to, "p class=\"warn\"", "%s", r->warnings[i].text);
}

static void put_head(FILE *to)
{
	fputs("<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\">\n<head>\n"
	      "<meta charset=\"utf-8\"/>\n"
	      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
	      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
	      "style-src 'unsafe-inline'\"/>\n"
	      "<title>nbserved: what each I/O path costs</title>\n",
	      to);
	fprintf(to, "<style>%s%s</style>\n</head>\n<body>\n", report_chart_style,
		report_page_style);
}

static void put_notes(FILE *to)
{
	fputs("<footer><p>CPU is user and system time of the listener's threads and of the kernel's "
	      "that work for them. Linux charges softirqs to the threads that they interrupt: their time, "
	      "shown beside, is that of the whole machine. Latency runs from "
	      "the request in the worker's hands to the reply in the kernel's and is sampled; the "
	      "round trip is as the generator measured it. A verdict is of the ratios of cost in "
	      "the same rounds; it holds for this machine, build and load.</p>\n"
	      "<p>Made by nbbench " NB_VERSION ", " NB_URL ".</p></footer>\n",
	      to);
}

void report_html(FILE *to, const struct result *result, const struct measures *m)
{
	struct report r;

	report_init(&r, result);
	put_head(to);
	fputs("<header><h1>What each I/O path costs</h1>\n", to);
	report_subtitle(to, m);
	fputs("</header>\n<main>\n", to);
	put_answer(to, result);
	put_unavailable(to, m->unavailable);
	if (result->against)
		report_against(to, &r);
	report_curves(to, &r);
	put_overview(to, &r);
	for (unsigned i = 0; i < result->group_count; i++)
		put_group(to, &r, &result->groups[i]);
	report_conditions(to, m);
	fputs("</main>\n", to);
	put_notes(to);
	fputs("</body>\n</html>\n", to);
	report_fini(&r);
}

void report_svg(FILE *to, const struct result *result)
{
	enum { WIDTH = 760 };
	struct report r;

	report_init(&r, result);
	if (result->against)
		chart_then_now(to, &r, WIDTH, report_chart_style);
	else
		chart_overview(to, &r, WIDTH, report_chart_style);
	report_fini(&r);
}
