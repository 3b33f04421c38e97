/* The page: what print/ prints, as HTML, with charts and the conditions of the rows.  See report.h.
 */
#include "report.h"

#include <stdlib.h>
#include <string.h>

#include "chart.h"
#include "field.h"
#include "measure_visits.h"
#include "print.h"
#include "reasons.h"
#include "svg.h"
#include "text.h"
#include "util.h"
#include "words.h"

/* ---- The style sheets: light, dark and print ---- */

/* Colours of series and parts are those of Okabe and Ito, which colour-blind people tell apart;
 * marks and patterns say the same.  Of charts, also for an SVG file of its own. */
static const char chart_style[] =
	"\n:root{--page:#ffffff;--text:#1b1f24;--dim:#57606a;--card:#ffffff;--edge:#d0d7de;"
	"--grid:#e4e8ec;--warn:#e69f00;--band:#57606a;"
	"--s0:#0072b2;--s1:#d55e00;--s2:#009e73;--s3:#b85c94;--s4:#b87d00;--s5:#3a95cf}\n"
	"@media screen and (prefers-color-scheme:dark){:root{--page:#0f1317;--text:#e6eaee;"
	"--dim:#a2acb6;--card:#171c22;--edge:#323a43;--grid:#2a323a;"
	"--warn:#e69f00;--band:#c4ccd4;--s0:#56b4e9;--s1:#f0772b;"
	"--s2:#1fc49a;--s3:#dd94bd;--s4:#e69f00;--s5:#f0e442}}\n"
	"svg{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}\n"
	"svg text{fill:var(--text);font-size:12px}\n"
	"svg text.dim{fill:var(--dim);font-size:11px}\n"
	"svg text.head{font-size:14px;font-weight:600}\n"
	"svg text.end{text-anchor:end}svg text.middle{text-anchor:middle}\n"
	"svg .dim.end{text-anchor:end}svg .strong{font-weight:600}\n"
	".page{fill:var(--page)}\n"
	".grid{stroke:var(--grid);stroke-width:1}\n"
	".band{fill:var(--band);fill-opacity:.16}\n"
	".curve{fill:none;stroke-width:2;stroke-linejoin:round}\n"
	".mark{stroke:var(--card);stroke-width:1}\n"
	".s0{--s:var(--s0)}.s1{--s:var(--s1)}.s2{--s:var(--s2)}.s3{--s:var(--s3)}"
	".s4{--s:var(--s4)}.s5{--s:var(--s5)}\n"
	".less{--s:var(--s2)}.more{--s:var(--s1)}.same,.hollow{--s:var(--dim)}\n"
	".curve,.interval{stroke:var(--s)}.mark{fill:var(--s)}.interval{stroke-width:2}"
	".mark.hollow{fill:var(--card);stroke:var(--s);stroke-width:1.5}\n";

/* The style of the page around the pictures. */
static const char page_style[] =
	"\n:root{color-scheme:light dark}*{box-sizing:border-box}\n"
	"body{margin:0 auto;padding:24px 20px 48px;max-width:1320px;background:var(--page);"
	"color:var(--text);font:15px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',"
	"sans-serif}\n"
	"h1{font-size:26px;line-height:1.2;margin:0 0 4px}h2{font-size:19px;margin:40px 0 8px}\n"
	"h3{font-size:14px;margin:20px 0 8px}figure h3{margin-top:0}\n"
	"p{margin:0 0 10px;max-width:75ch}.dim,th,figcaption,dt{color:var(--dim)}\n"
	".answer .bold{font-size:18px;line-height:1.45;max-width:70ch}"
	"p.warn,p.bad{border-left:4px solid var(--warn);padding-left:10px}\n"
	".charts{display:flex;flex-wrap:wrap;gap:16px}.charts>*{flex:1 1 min(440px,100%)}\n"
	"figure{margin:12px 0;padding:14px;background:var(--card);border:1px solid var(--edge);"
	"border-radius:8px;break-inside:avoid;min-width:0}\n"
	"figure svg{display:block;width:100%;height:auto;max-width:760px;margin:0 auto}\n"
	/* Scrolled rather than too small to read. */
	".answer figure{overflow-x:auto}.answer svg{min-width:520px}\n"
	"figcaption{font-size:13px;margin-top:8px}\n"
	".scroll{overflow-x:auto;margin-bottom:12px}table{border-collapse:collapse;font-size:12.5px;"
	"font-variant-numeric:tabular-nums}\n"
	"th,td{padding:4px 8px 4px 0;text-align:right;vertical-align:top;white-space:nowrap;"
	"border-bottom:1px solid var(--edge)}.left{text-align:left}\n"
	/* The names stay in sight while the figures scroll. */
	"tr>:first-child{position:sticky;left:0;background:var(--page)}\n"
	".good{color:var(--s2)}.bad{color:var(--s1)}p.bad{color:inherit}\n"
	".conditions td{white-space:normal;overflow-wrap:anywhere}\n"
	/* The first table has the same warnings and sentences already. */
	"details p{display:none}\n"
	"dl{display:grid;grid-template-columns:minmax(8em,max-content) 1fr;gap:2px 16px;margin:0 0 "
	"12px}dd{margin:0;overflow-wrap:anywhere}\n"
	"code{font:12.5px/1.5 ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;"
	"white-space:pre-wrap}\n"
	"details{margin:8px 0}summary{cursor:pointer}\n"
	"footer{margin-top:40px;font-size:13px;color:var(--dim)}\n"
	"@media(max-width:480px){body{padding:16px 12px 32px}figure{padding:10px}"
	".answer .bold{font-size:16px}dl{grid-template-columns:1fr}dd{margin-bottom:6px}}\n"
	"@media print{@page{margin:12mm}body{max-width:none;padding:0;font-size:10pt;"
	"-webkit-print-color-adjust:exact;print-color-adjust:exact}h2{break-after:avoid}"
	".scroll{overflow:visible}table{font-size:7pt}th,td{padding-right:4px}}\n";

/* ---- Conditions ---- */

/* Calls `make` on each visit that has conditions; a new array of the different results, of which
 * make() returns a reference or NULL. */
static json_t *distinct(const struct measures *m, json_t *(*make)(const struct measure *visit))
{
	json_t *all = json_array();

	for (unsigned i = 0; i < m->count; i++)
		for (unsigned j = 0; j < measure_visits(m->rows[i]); j++)
			if (measure_visit_at(m->rows[i], j)->conditions)
				field_add_once(all, make(measure_visit_at(m->rows[i], j)));
	return all;
}

static json_t *make_host(const struct measure *visit)
{
	const json_t *of = visit->conditions, *hosts = field_get(of, "generator_hosts");
	json_t *made =
		json_pack("{s:s, s:s, s:O*}", "nbserved", field_text(of, "nbserved"), "nbbench",
			  field_text(of, "nbbench"), "The daemon's host", field_get(of, "host"));
	json_t *host;
	size_t i;

	if (!hosts && field_get(of, "generator_host"))
		json_object_set(made, "The generator's host", field_get(of, "generator_host"));
	json_array_foreach(hosts, i, host) {
		char *title = text_new("The generator's host %s", field_text(host, "name"));

		json_object_set(made, title, host);
		free(title);
	}
	return made;
}

static json_t *make_listener(const struct measure *visit)
{
	const json_t *of = visit->conditions;

	return json_pack("{s:s, s:s, s:s, s:O*, s:O*}", "listener", visit->listener, "its CPUs",
			 field_text(of, "listener_cpus"), "the generator's CPUs",
			 field_text(of, "generator_cpus"), "Keys that are not the default",
			 field_get(of, "listener"), "Exports", field_get(of, "exports"));
}

static json_t *make_date(const struct measure *visit)
{
	return json_incref(field_get(visit->conditions, "date"));
}

static json_t *make_invocation(const struct measure *visit)
{
	return json_incref(field_get(visit->conditions, "invocation"));
}

static json_t *make_idle(const struct measure *visit)
{
	return json_incref(field_get(visit->conditions, "energy.idle"));
}

/* The command with its placeholders, as the user gave it: the ports of a run are of no use later.
 */
static json_t *make_command(const struct measure *visit)
{
	json_t *command = field_get(visit->conditions, "command_given");

	if (!command)
		command = field_get(visit->conditions, "command");
	return json_is_array(command) ? json_incref(command) : NULL;
}

/* The first and the last; borrowed, "" when unknown. */
static void dates_of(const json_t *dates, const char **ret_first, const char **ret_last)
{
	json_t *date;
	size_t i;

	*ret_first = *ret_last = "";
	json_array_foreach(dates, i, date) {
		const char *text = field_text(date, "");

		if (!**ret_first || (*text && strcmp(text, *ret_first) < 0))
			*ret_first = text;
		if (strcmp(text, *ret_last) > 0)
			*ret_last = text;
	}
}

static void put_definition(FILE *to, const char *term, const char *element, char *text)
{
	enum { LONG = 200 }; /* shown only on request */
	bool folded = strlen(text) > LONG;

	svg_element(to, "dt", "%s", term);
	fputs(folded ? "<dd><details><summary>\xe2\x80\xa6</summary>" : "<dd>", to);
	svg_element(to, element, "%s", text);
	fputs(folded ? "</details></dd>\n" : "</dd>\n", to);
	free(text);
}

/* All that the object has, under a heading; objects in it have their own. */
static void put_object(FILE *to, const char *title, const json_t *object)
{
	const char *name;
	json_t *value;

	svg_element(to, "h3", "%s", title);
	fputs("<dl>\n", to);
	json_object_foreach((json_t *)object, name, value)
		if (!json_is_object(value))
			put_definition(to, name, "span", field_show(value));
	fputs("</dl>\n", to);
	json_object_foreach((json_t *)object, name, value)
		if (json_is_object(value))
			put_object(to, name, value);
}

/* The different commands of the visits. */
static void put_commands(FILE *to, const struct measures *m, const char *term,
			 json_t *(*make)(const struct measure *))
{
	json_t *all = distinct(m, make), *words;
	size_t i;

	json_array_foreach(all, i, words)
		put_definition(to, term, "code", field_show_words(words));
	json_decref(all);
}

static void put_conditions(struct output *out, const struct measures *m)
{
	json_t *hosts = distinct(m, make_host), *dates = distinct(m, make_date);
	json_t *listeners = distinct(m, make_listener), *idle = distinct(m, make_idle), *object;
	const char *first, *last;
	size_t i, count = json_array_size(hosts);

	fputs("<section class=\"conditions\"><h2>Conditions</h2>\n", out->file);
	if (count == 0)
		output_text(out, STYLE_DIM,
			    "The rows were saved without their conditions, by an "
			    "older nbbench.");
	if (count > 1)
		output_text(out, STYLE_WARN,
			    "The rows are of %zu different hosts, kernels or versions: differences "
			    "between listeners may be differences between those.",
			    count);
	dates_of(dates, &first, &last);
	fputs("<dl>\n", out->file);
	if (*first)
		put_definition(out->file, "measured", "span", text_new("%s to %s", first, last));
	/* The command that measures all of it again.  Ports that the run chose are not in it. */
	put_commands(out->file, m, "measured by", make_invocation);
	put_commands(out->file, m, "command", make_command);
	fputs("</dl>\n", out->file);
	json_array_foreach(hosts, i, object)
		put_object(out->file, "Versions", object);
	json_array_foreach(listeners, i, object)
		put_object(out->file, field_text(object, "listener"), object);
	json_array_foreach(idle, i, object)
		put_object(out->file, "Energy without load, subtracted from joules", object);
	fputs("</section>\n", out->file);
	json_decref(hosts);
	json_decref(dates);
	json_decref(listeners);
	json_decref(idle);
}

/* ---- The page ---- */

static void begin_figure(FILE *to, const char *heading)
{
	fputs("<figure>", to);
	svg_element(to, "h3", "%s", heading);
}

static void end_figure(FILE *to, const char *caption)
{
	fprintf(to, "<figcaption>%s</figcaption></figure>\n", caption);
}

/* The answer: what the run ends in, and the pictures of the verdicts. */
static void put_answer(struct output *out, const struct result *r, const struct measures *m)
{
	fputs("<section class=\"answer\">\n", out->file);
	print_answer(out, r);
	if (!r->finding_count)
		output_text(out, STYLE_BOLD, "%s", words_none(r));
	reasons_render(out, m->unavailable);
	begin_figure(out->file, "CPU cost against the first listener of each load");
	chart_forest(out->file, r, false, NULL);
	end_figure(out->file, "CPU per request, per operation or per GB, as each load is compared. "
			      "All intervals of a load hold together in about 95 of 100 runs.");
	fputs("</section>\n", out->file);
}

static void put_against(struct output *out, const struct result *r)
{
	fputs("<section><h2>Then and now</h2>\n", out->file);
	begin_figure(out->file, "CPU cost now against that of the saved rows");
	chart_forest(out->file, r, true, NULL);
	end_figure(out->file,
		   "Of whole runs; a row is falsely called worse in 5 of 100 comparisons at most, "
		   "and falsely called better in as many.");
	print_against(out, r);
	fputs("</section>\n", out->file);
}

static void put_curve(FILE *to, const struct result_curve *c, enum figure y, enum figure x)
{
	char *drawn;
	FILE *chart = text_open(&drawn);
	bool any = chart_curve(chart, c, y, x);
	bool over_values = x == FIGURE_COUNT;

	fclose(chart);
	if (any) {
		fputs("<figure>", to);
		svg_element(to, "h3", "%s%s%s over %s%s", figures[y].words,
			    *chart_unit(y) == '/' ? "" : " in ", chart_unit(y),
			    over_values ? c->name : figures[x].words,
			    over_values ? "" : chart_unit(x));
		fputs(drawn, to);
		end_figure(to, "Logarithmic, but for values of a sweep: these are in their order. "
			       "Vertical lines: intervals that hold in 95 of 100 runs.");
	}
	free(drawn);
}

static void put_curves(FILE *to, const struct result *r)
{
	for (unsigned i = 0; i < r->curve_count; i++) {
		const struct result_curve *c = &r->curves[i];
		struct curve_figures drawn = curve_figures(c);

		fputs("<section>", to);
		svg_element(to, "h2", "%s over %s", c->title, c->name);
		fputs("<div class=\"charts\">\n", to);
		for (unsigned j = 0; j < CURVE_FIGURES; j++)
			put_curve(to, c, drawn.list[j], FIGURE_COUNT);
		for (unsigned j = 2; j < CURVE_FIGURES; j++) /* latencies over the rate */
			put_curve(to, c, drawn.list[j], drawn.list[1]);
		fputs("</div>\n</section>\n", to);
	}
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
	fprintf(to, "<style>%s%s</style>\n</head>\n<body>\n", chart_style, page_style);
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

void report_html(FILE *to, const struct result *r, const struct measures *m)
{
	struct output out = { .file = to, .html = true };

	put_head(to);
	fputs("<header><h1>What each I/O path costs</h1>\n", to);
	fputs("</header>\n<main>\n", to);
	put_answer(&out, r, m);
	if (r->against)
		put_against(&out, r);
	put_curves(to, r);
	fputs("<section><h2>Figures</h2>\n", to);
	print_result(&out, r, m, false);
	fputs("<details><summary>All figures</summary>\n", to);
	print_result(&out, r, m, true);
	fputs("</details>\n", to);
	fputs("</section>\n", to);
	put_conditions(&out, m);
	fputs("</main>\n", to);
	put_notes(to);
	fputs("</body>\n</html>\n", to);
}

void report_svg(FILE *to, const struct result *r)
{
	chart_forest(to, r, r->against, chart_style);
}
