/* The conditions under which rows were measured.  See conditions.h, report_page.h. */
#include <stdlib.h>
#include <string.h>

#include "field.h"
#include "report_page.h"
#include "svg.h"
#include "text.h"
#include "util.h"

/* ---- What the visits have in common ---- */

json_t *report_distinct(const struct measures *m, json_t *(*make)(const struct measure *visit))
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
	json_t *listeners = report_distinct(m, make_listener), *listener;
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
 * there are none.  See report_distinct(). */
static void put_words(FILE *to, const struct measures *m, json_t *(*make)(const struct measure *),
		      const char *begin, const char *element, const char *end)
{
	json_t *all = report_distinct(m, make), *words;
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

void report_conditions(FILE *to, const struct measures *m)
{
	json_t *hosts = report_distinct(m, make_host), *host;
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

void report_subtitle(FILE *to, const struct measures *m)
{
	json_t *hosts = report_distinct(m, make_host);
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

void report_commands(FILE *to, const struct result_group *g)
{
	struct measures rows = {};

	for (unsigned i = 0; i < g->count; i++)
		measures_append(&rows, g->rows[i].row);
	put_words(to, &rows, make_command, "<ul class=\"commands\">\n", "li", "</ul>\n");
	free(rows.rows); /* borrowed */
}
