/* The page of a report: its style, the conditions of the rows, its order.  See report.h; compare.c
 * is `nbbench show`. */
#include "report.h"

#include <stdlib.h>
#include <string.h>

#include "field.h"
#include "report_chart.h"
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
	".grid{stroke:var(--grid);stroke-width:1}.axis{stroke:var(--dim);stroke-width:1}\n"
	".band{fill:var(--band);fill-opacity:.16}\n"
	".curve{fill:none;stroke-width:2;stroke-linejoin:round}\n"
	".mark{stroke:var(--card);stroke-width:1}\n"
	".s0{--s:var(--s0)}.s1{--s:var(--s1)}.s2{--s:var(--s2)}.s3{--s:var(--s3)}"
	".s4{--s:var(--s4)}.s5{--s:var(--s5)}\n"
	".curve,.interval{stroke:var(--s)}.mark{fill:var(--s)}.interval{stroke-width:2}"
	".hollow{fill:var(--card);stroke:var(--s);stroke-width:1.5}\n"
	/* Layers, for text that is dark in any scheme. */
	".layer{stroke:var(--card);stroke-width:.6}svg text.frame{fill:#1b1f24;font-size:11px;"
	"pointer-events:none}\n"
	".service{fill:#4c9be8}.engine{fill:#86bff2}.store{fill:#b3d8f7}.core{fill:#d3e5f4}"
	".system_calls{fill:#f2b134}.io_uring{fill:#ee8247}.epoll{fill:#f6b08c}"
	".sockets{fill:#a5da9d}.tcp_ip{fill:#5cb96b}.netfilter{fill:#cfe8bd}"
	".network_device{fill:#3fb8a4}.copying{fill:#e09ac9}.memory{fill:#bd97dd}"
	".files{fill:#cdab86}.block{fill:#e5d1b0}.rdma{fill:#86d6dd}.scheduler{fill:#ecd858}"
	".other,.all{fill:#b8bec6}\n";

/* Of the page around them. */
static const char page_style[] =
	"\n:root{color-scheme:light dark}*{box-sizing:border-box}\n"
	"body{margin:0 auto;padding:24px 20px 48px;max-width:1320px;background:var(--page);"
	"color:var(--text);font:15px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',"
	"sans-serif}\n"
	"h1{font-size:26px;line-height:1.2;margin:0 0 4px}h2{font-size:19px;margin:40px 0 8px}\n"
	"h3{font-size:14px;margin:0 0 8px}.scroll+h3{margin-top:20px}\n"
	"p{margin:0 0 10px;max-width:75ch}\n"
	".dim,caption,figcaption,dt{color:var(--dim)}\n"
	".lead{font-size:18px;line-height:1.45;max-width:70ch}.warn{border-left:4px solid "
	"var(--warn);padding-left:10px}\n"
	".verdicts{margin:0 0 10px;padding-left:20px}.verdicts li{margin-bottom:8px}\n"
	".charts{display:flex;flex-wrap:wrap;gap:16px;margin:12px 0}"
	".charts>*{flex:1 1 min(440px,100%)}\n"
	"figure{margin:0;padding:14px;background:var(--card);border:1px solid var(--edge);"
	"border-radius:8px;break-inside:avoid;min-width:0}\n"
	"figure svg{display:block;width:100%;height:auto;max-width:560px;margin:0 auto}\n"
	"figcaption{font-size:13px;margin-top:8px}\n"
	/* A shadow at the side where there is more of the table; its cover scrolls along. */
	".scroll{overflow-x:auto;background:"
	"linear-gradient(90deg,var(--page) 12px,transparent) 0 0/40px 100% no-repeat local,"
	"linear-gradient(270deg,var(--page) 12px,transparent) 100% 0/40px 100% no-repeat local,"
	"linear-gradient(90deg,var(--dim),transparent) 0 0/12px 100% no-repeat,"
	"linear-gradient(270deg,var(--dim),transparent) 100% 0/12px 100% no-repeat}table{border-collapse:collapse;font-size:12.5px;"
	"font-variant-numeric:tabular-nums}\n"
	"th,td{padding:4px 8px 4px 0;text-align:right;vertical-align:top;white-space:nowrap;"
	"border-bottom:1px solid var(--edge)}\n"
	"th{color:var(--dim);font-weight:600;white-space:normal}td small{color:var(--dim)}\n"
	"th.left,td.left{text-align:left}\n"
	"td.wrap{white-space:normal;min-width:16em;text-align:left;overflow-wrap:anywhere}\n"
	"dl{display:grid;grid-template-columns:minmax(8em,max-content) 1fr;gap:2px 16px;margin:0 0 "
	"12px}dd{margin:0;overflow-wrap:anywhere}\n"
	"code{font:12.5px/1.5 ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;"
	"overflow-wrap:anywhere;white-space:pre-wrap}\n"
	".commands{margin:8px 0 0;padding-left:0;list-style:none;font-size:13px}\n"
	"details{margin:8px 0}summary{cursor:pointer}\n"
	".overview{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(420px,100%),1fr));"
	"gap:24px;align-items:start}.overview figure svg{max-width:520px}\n"
	"footer{margin-top:40px;font-size:13px;color:var(--dim)}\n"
	"@media(max-width:480px){body{padding:16px 12px 32px}figure{padding:10px}"
	".lead{font-size:16px}dl{grid-template-columns:1fr}dd{margin-bottom:6px}}\n"
	"@media print{@page{margin:12mm}body{max-width:none;padding:0;font-size:10pt;"
	"-webkit-print-color-adjust:exact;print-color-adjust:exact}"
	"h2{break-after:avoid;margin-top:20px}.charts{display:grid;grid-template-columns:repeat(3,1fr);gap:8px}"
	"figure{padding:8px}.scroll{overflow:visible;background:none}table{font-size:6.5pt}th,td{padding-right:4px}"
	"section{break-inside:auto}}\n";

/* ---- The conditions ---- */

/* ---- What the visits have in common ---- */

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
	const json_t *host = field_get(visit->conditions, "host");

	return json_pack("{s:O?, s:O*, s:O*, s:s, s:s}", "host", host, "generator_host",
			 field_get(visit->conditions, "generator_host"), "generator_hosts",
			 field_get(visit->conditions, "generator_hosts"), "nbserved",
			 field_text(visit->conditions, "nbserved"), "nbbench",
			 field_text(visit->conditions, "nbbench"));
}

static json_t *make_listener(const struct measure *visit)
{
	return json_pack("{s:s, s:s, s:s, s:O?, s:O?}", "name", visit->listener, "cpus",
			 field_text(visit->conditions, "listener_cpus"), "generator_cpus",
			 field_text(visit->conditions, "generator_cpus"), "keys",
			 field_get(visit->conditions, "listener"), "exports",
			 field_get(visit->conditions, "exports"));
}

/* The first and the last; "" when unknown. */
static void dates_of(const struct measures *m, const char **ret_first, const char **ret_last)
{
	*ret_first = *ret_last = "";
	for (unsigned i = 0; i < m->count; i++)
		for (unsigned j = 0; j < measure_visits(m->rows[i]); j++) {
			const char *date =
				field_text(measure_visit_at(m->rows[i], j)->conditions, "date");

			if (!**ret_first || (*date && strcmp(date, *ret_first) < 0))
				*ret_first = date;
			if (strcmp(date, *ret_last) > 0)
				*ret_last = date;
		}
}

/* ---- Hosts ---- */

enum { LONG = 200 }; /* a text that is shown only on request */

/* Puts nothing for "". */
static void put_term(FILE *to, const char *term, const char *text)
{
	if (!*text)
		return;
	fprintf(to, "<dt>%s</dt>", term);
	svg_element(to, "dd", "%s", text);
}

/* Many words, in an element that the reader can open. */
static void put_details(FILE *to, const char *text)
{
	fputs("<details><summary>\xe2\x80\xa6</summary>", to);
	svg_escape(to, text);
	fputs("</details>", to);
}

/* All that is known of the host, by the names of host_describe(). */
static void put_host(FILE *to, const json_t *host)
{
	const char *name, *inner;
	json_t *value, *state;

	json_object_foreach((json_t *)host, name, value) {
		char *text = json_is_object(value) ? text_new("%s", "") : field_show(value);

		svg_element(to, "dt", "%s", name);
		fputs("<dd>", to);
		if (strlen(text) > LONG)
			put_details(to, text);
		else
			svg_escape(to, text);
		json_object_foreach(value, inner, state)
			svg_element(to, "div", "%s: %s", inner, field_text(state, ""));
		fputs("</dd>\n", to);
		free(text);
	}
}

static void put_generator(FILE *to, const char *name, const json_t *host)
{
	svg_element(to, "h3", "The generator's host%s%s", *name ? " " : "", name);
	fputs("<dl>\n", to);
	put_host(to, host);
	fputs("</dl>\n", to);
}

static void put_hosts(FILE *to, const json_t *of)
{
	json_t *hosts = field_get(of, "generator_hosts"), *host;
	const json_t *generator = field_get(of, "generator_host");
	size_t i;

	fputs("<dl>\n", to);
	put_host(to, field_get(of, "host"));
	put_term(to, "nbserved", field_text(of, "nbserved"));
	put_term(to, "nbbench", field_text(of, "nbbench"));
	fputs("</dl>\n", to);
	if (!generator)
		return;
	if (!hosts)
		put_generator(to, "", generator);
	json_array_foreach(hosts, i, host)
		put_generator(to, field_text(host, "name"), host);
}

/* ---- Listeners ---- */

static void put_keys(FILE *to, const json_t *keys)
{
	const char *name, *separator = "";
	json_t *value;

	json_object_foreach((json_t *)keys, name, value) {
		char *text = field_show(value);

		fputs(separator, to);
		svg_escape_format(to, "%s = %s", name, text);
		separator = "; ";
		free(text);
	}
}

static void put_listener(FILE *to, const json_t *of)
{
	static const char *const texts[] = { "name", "cpus", "generator_cpus" };
	json_t *exports = field_get(of, "exports"), *keys;
	const char *name;

	fputs("<tr>", to);
	for (unsigned i = 0; i < ARRAY_SIZE(texts); i++)
		svg_element(to, "td class=\"left\"", "%s", field_text(of, texts[i]));
	fputs("<td class=\"wrap\"><code>", to);
	put_keys(to, field_get(of, "keys"));
	json_object_foreach(exports, name, keys) {
		svg_escape_format(to, "\n[export %s] ", name);
		put_keys(to, keys);
	}
	fputs("</code></td></tr>\n", to);
}

static void put_listeners(FILE *to, const struct measures *m)
{
	json_t *listeners = distinct(m, make_listener), *listener;
	size_t i;

	fputs("<div class=\"scroll\"><table>\n<thead><tr><th class=\"left\">listener</th>"
	      "<th class=\"left\">its CPUs</th><th class=\"left\">the generator's</th>"
	      "<th class=\"left\">configuration, where it is not the default</th></tr></thead>\n"
	      "<tbody>\n",
	      to);
	json_array_foreach(listeners, i, listener)
		put_listener(to, listener);
	fputs("</tbody></table></div>\n", to);
	json_decref(listeners);
}

static json_t *make_invocation(const struct measure *visit)
{
	return json_incref(field_get(visit->conditions, "invocation"));
}

/* The different commands of the visits, an element each, between `begin` and `end`; nothing if
 * there are none.  See distinct(). */
static void put_words(FILE *to, const struct measures *m, json_t *(*make)(const struct measure *),
		      const char *begin, const char *element, const char *end)
{
	json_t *all = distinct(m, make), *words;
	size_t i;

	fputs(json_array_size(all) ? begin : "", to);
	json_array_foreach(all, i, words) {
		fprintf(to, "<%s>", element);
		report_paragraph(to, "code", field_show_words(words));
		fprintf(to, "</%s>\n", element);
	}
	fputs(json_array_size(all) ? end : "", to);
	json_decref(all);
}

static void put_conditions(FILE *to, const struct measures *m)
{
	json_t *hosts = distinct(m, make_host), *host;
	const char *first, *last;
	size_t i;

	dates_of(m, &first, &last);
	fputs("<section><h2>Conditions</h2>\n", to);
	if (json_array_size(hosts) == 0)
		fputs("<p class=\"dim\">The rows were saved without their conditions, by an older "
		      "nbbench.</p>\n",
		      to);
	if (json_array_size(hosts) > 1)
		fprintf(to,
			"<p class=\"warn\">The rows are of %zu different hosts, kernels or "
			"versions: differences between listeners may be differences between "
			"those.</p>\n",
			json_array_size(hosts));
	json_array_foreach(hosts, i, host)
		put_hosts(to, host);
	if (*first) {
		fputs("<dl><dt>measured</dt>", to);
		svg_element(to, "dd", "%s to %s", first, last);
		fputs("</dl>\n", to);
	}
	/* The command that measures all of it again.  Ports that the run chose are not in it. */
	put_words(to, m, make_invocation, "<dl><dt>measured by</dt>", "dd", "</dl>\n");
	if (json_array_size(hosts))
		put_listeners(to, m);
	fputs("</section>\n", to);
	json_decref(hosts);
}

/* "nbserved 0.1.0 on Linux 6.1.0, 2026-11-22": one line, or nothing when it is unknown. */
static void put_subtitle(FILE *to, const struct measures *m)
{
	json_t *hosts = distinct(m, make_host);
	const json_t *host = json_array_get(hosts, 0);
	const char *first, *last;

	dates_of(m, &first, &last);
	if (json_array_size(hosts) == 1)
		svg_element(to, "p class=\"dim\"", "nbserved %s on %s, %s, %llu CPUs, %.10s",
			    field_text(host, "nbserved"), field_text(host, "host.kernel"),
			    field_text(host, "host.cpu"),
			    (unsigned long long)field_uint(host, "host.cpus"), first);
	json_decref(hosts);
}

/* ---- Commands ---- */

/* The command with its placeholders, as the user gave it: the ports of a run are of no use later.
 */
static json_t *make_command(const struct measure *visit)
{
	json_t *command = field_get(visit->conditions, "command_given");

	if (!command)
		command = field_get(visit->conditions, "command");
	return json_is_array(command) ? json_incref(command) : NULL;
}

/* The commands that the group's rows were measured with, with placeholders, if they are known. */
static void put_commands(FILE *to, const struct result_group *g)
{
	struct measures rows = {};

	for (unsigned i = 0; i < g->count; i++)
		measures_append(&rows, g->rows[i].row);
	put_words(to, &rows, make_command, "<ul class=\"commands\">\n", "li", "</ul>\n");
	free(rows.rows); /* borrowed */
}

/* ---- The page ---- */

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
	put_commands(to, g);
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

void report_html(FILE *to, const struct result *result, const struct measures *m)
{
	struct report r;

	report_init(&r, result);
	put_head(to);
	fputs("<header><h1>What each I/O path costs</h1>\n", to);
	put_subtitle(to, m);
	fputs("</header>\n<main>\n", to);
	put_answer(to, result);
	put_unavailable(to, m->unavailable);
	if (result->against)
		report_against(to, &r);
	report_curves(to, &r);
	put_overview(to, &r);
	for (unsigned i = 0; i < result->group_count; i++)
		put_group(to, &r, &result->groups[i]);
	put_conditions(to, m);
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
		chart_then_now(to, &r, WIDTH, chart_style);
	else
		chart_overview(to, &r, WIDTH, chart_style);
	report_fini(&r);
}
