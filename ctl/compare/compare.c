/* `nbctl compare`: what each listener's operations cost, over an interval or while a command runs.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compare_options.h"
#include "ctl.h"
#include "layers_print.h"
#include "measure.h"
#include "measuring.h"
#include "reasons.h"
#include "result_json.h"
#include "rows.h"
#include "suggest.h"
#include "table.h"
#include "util.h"

/* ---- The command ---- */

static void show_rounds(struct output *out, const struct rounds *rounds, double within)
{
	char *text = rounds->done ? rounds_text(rounds, within) : NULL;

	if (text)
		output_wrapped(out, STYLE_DIM, 2, "%s", text);
	free(text);
}

static bool has_pairs(const struct ctl *ctl)
{
	return !ctl->values[VALUE_AGAINST] && (ctl->values[VALUE_BUILD] || ctl->values[VALUE_PAIR]);
}

static void show_json(struct ctl *ctl, const struct result *r, const struct measures *m)
{
	json_t *document = result_to_json(r, m);

	layers_add_json(document, r);
	output_json(&ctl->out, document, false);
	json_decref(document);
}

/* What decides the exit status is on stderr if standard output is a document for programs. */
static void show(struct ctl *ctl, const struct compare *c, const struct result *r,
		 const struct measures *m)
{
	struct output beside = ctl->out;

	if (ctl->out.json) {
		show_json(ctl, r, m);
		beside.file = stderr;
	} else {
		print_result(&ctl->out, r, m, ctl->values[VALUE_WIDE] ? COLUMNS_ALL : c->columns);
		layers_render(&ctl->out, r);
		show_rounds(&ctl->out, &c->rounds, r->within);
		print_answer(&ctl->out, r);
		reasons_render(&ctl->out, m->unavailable);
	}
	print_gates(&beside, r);
}

static int no_such_listener(const struct measures *m, const char *name)
{
	struct suggestion near = { .text = name };

	for (unsigned i = 0; i < m->count; i++)
		suggest_try(&near, m->rows[i]->listener);
	ctl_warn("there is no listener '%s'%s", name, suggest_hint(&near));
	return CTL_REFUSED;
}

/* Keeps the rows of the named listeners; CTL_REFUSED when one is not there. */
static int select_named(struct ctl *ctl, const struct compare *c, struct measures *m)
{
	json_t *names = ctl_words(ctl);
	int rc = CTL_DONE;

	for (unsigned i = 0; i < ctl->word_count && rc == CTL_DONE; i++)
		if (!measures_has(m, ctl->words[i]))
			rc = no_such_listener(m, ctl->words[i]);
	if (names)
		measures_select(m, names);
	else if (ctl->rest && !c->visits)
		measures_drop_silent(m);
	json_decref(names);
	return rc;
}

static bool has_operations(const struct measures *m, const struct measure *like)
{
	for (unsigned i = 0; i < m->count; i++)
		if (m->rows[i]->listener_count && !strcmp(m->rows[i]->label, like->label) &&
		    !strcmp(m->rows[i]->listener, like->listener))
			return true;
	return false;
}

/* A visited listener without an operation is not compared, which is a failure; so is a command or
 * a file of rows in which none of the listeners had any. */
static int check_measured(const struct ctl *ctl, const struct compare *c, const struct measures *m)
{
	const char *empty = NULL;
	bool any = false;

	for (unsigned i = 0; i < m->count; i++) {
		const struct measure *row = m->rows[i];

		if (has_operations(m, row))
			any = true;
		else if (!measure_unavailable(row))
			empty = row->listener;
	}
	if (c->visits && empty)
		ctl_warn(
			"nothing was measured on '%s': COMMAND made no operation there; does it speak "
			"the listener's protocol and transport?",
			empty);
	else if (ctl->rest && !c->visits && !any)
		ctl_warn(
			"nothing was measured: COMMAND made no operation, and has no {port}: it chose "
			"itself where to connect");
	return (c->visits ? empty != NULL : !any) ? CTL_NOTHING : CTL_DONE;
}

static struct result *judge(struct ctl *ctl, const struct compare *c, const struct measures *m)
{
	const struct result_options options = {
		.within = c->within,
		.then = ctl->values[VALUE_AGAINST] ? &c->before : NULL,
		.force = ctl->values[VALUE_FORCE],
		.pairs = has_pairs(ctl),
		.undecided_passes = c->undecided_passes,
		.limits = c->limit_list,
		.limit_count = c->limit_count,
	};

	return result_new(m, &options);
}

/* Saves, judges and shows the rows, in this order: they are saved by visit, and judged and shown
 * after measures_merge() has added the visits up. */
static int finish(struct ctl *ctl, struct compare *c, struct measures *m)
{
	const char *path = ctl->values[VALUE_SAVE];
	int rc = select_named(ctl, c, m);
	bool good = rc == CTL_DONE;
	struct result *r;

	if ((ctl->rest || (ctl->values[VALUE_LOAD] && !ctl->values[VALUE_AGAINST])) && good &&
	    c->status == 0)
		rc = check_measured(ctl, c, m);
	if (c->save.file && rc == CTL_DONE && c->status == 0)
		rc = rows_save(&c->save, m);
	else if (c->save.file)
		ctl_warn("%s: nothing saved", path);
	measures_merge(m);
	r = judge(ctl, c, m);
	if (m->count || good)
		show(ctl, c, r, m);
	if (c->html.file && rc == CTL_DONE)
		rc = rows_report(&c->html, r, m);
	if (rc == CTL_DONE)
		rc = rows_gate(r->gate);
	result_free(r);
	return rc;
}

/* The files of --save and --html are open already, so that opening cannot fail after the
 * command has run. */
static int compare(struct ctl *ctl, struct compare *c)
{
	const char *from = ctl->values[VALUE_LOAD];
	struct measures m = { .within = c->within };
	int rc = from ? rows_load(from, &m) : measuring_run(ctl, c, &m);

	if (!from && !c->status)
		c->status = rc; /* what was measured before a failure is shown, too */
	if (from ? rc == CTL_DONE : m.count || c->status == 0)
		rc = finish(ctl, c, &m);
	measures_free(&m);
	return c->status ? c->status : rc;
}

static int load_option(const char *path, struct measures *m)
{
	int rc = path ? rows_load(path, m) : CTL_DONE;

	measures_merge(m);
	return rc;
}

static int explain_columns(struct ctl *ctl)
{
	static const struct column columns[] = {
		{ .title = "name", .left = true },
		{ .title = "column", .left = true },
		{ .title = "meaning", .left = true },
	};
	struct table *t = table_new(columns, ARRAY_SIZE(columns));

	for (unsigned i = 0; print_column_name(i); i++) {
		table_cell(t, STYLE_BOLD, "%s", print_column_name(i));
		table_text(t, print_column_heading(i).text);
		table_text(t, print_column_meaning(i));
	}
	table_finish(t, &ctl->out, 0);
	return CTL_DONE;
}

static int run(struct ctl *ctl)
{
	const char *columns = ctl->values[VALUE_COLUMNS];
	struct compare c = { 0 };
	int rc;

	if (columns && !strcmp(columns, "help"))
		return explain_columns(ctl);
	rc = compare_options(ctl, &c);
	if (rc == CTL_DONE)
		rc = load_option(ctl->values[VALUE_AGAINST], &c.before);
	if (rc == CTL_DONE)
		rc = rows_open(&c.save, ctl->values[VALUE_SAVE]);
	if (rc == CTL_DONE)
		rc = rows_open(&c.html, ctl->values[VALUE_HTML]);
	if (rc == CTL_DONE)
		rc = compare(ctl, &c);
	rows_close(&c.save);
	rows_close(&c.html);
	measures_free(&c.before);
	compare_options_fini(&c);
	return rc;
}

const struct command command_compare = {
	.name = "compare",
	.arguments = "[LISTENER...] [-- COMMAND ARG...]",
	.summary = "what an operation costs on each listener, side by side",
	.details =
		"Takes the counters twice and shows the difference: rates, latency, CPU time and\n"
		"system calls per operation.  With COMMAND, usually a load generator, the interval is\n"
		"that part of its run time in which there was load, and only listeners that did\n"
		"something are shown.  The first listener of each service is the baseline: name them in the order\n"
		"you like.\n"
		"\n"
		"With {host}, {port}, {uri} or {listener} in COMMAND it visits one listener after the\n"
		"other (those named, or all that serve), in rounds of random order, until it is known\n"
		"which differ, or --time is over.  Each figure is the median of the visits.  Costs are\n"
		"compared by the ratios in the same rounds: the table has the estimate and what its\n"
		"interval tells, less, more, the same within 5 %, or undecided.  Many visits of 0.1 to\n"
		"0.3 s tell more than a few long ones.  Ctrl-C shows what there is.\n"
		"\n"
		"What redis-benchmark, fio (--output-format=json), iperf3, wrk, h2load, ab,\n"
		"sockperf and qemu-img bench print of their own run is understood and shown:\n"
		"requests/s and round trips as the client saw them, and CPU time per request.\n"
		"\n"
		"With -H the daemon is on another host; with --on COMMAND runs on another host, or\n"
		"on several at once: --on c[1-3].\n"
		"\n"
		"Operations, bytes, CPU time and system calls are counted; latency is sampled, and\n"
		"the table says how many samples there were.  It runs from the moment a worker has a\n"
		"request's bytes to the moment the kernel has taken the reply.  CPU time is that of\n"
		"the listener's own threads and of the kernel's threads that work for them;\n"
		"Linux charges interrupts to the threads that they interrupt.\n"
		"\n"
		"The exit status is COMMAND's: 128 and the signal's number when one killed it, 127 when\n"
		"there is no such command, 126 when it cannot be run, 124 when it was ended by\n"
		"--timeout.  --against, --fail-if: 5 when a row got worse or fails, 6 when one may (--undecided), 7\n"
		"when one cannot be compared.  8: a listener got no operation, so that nothing was measured there, or\n"
		"the rows of --load have none.\n",
	.example = "nbctl compare echo-epoll echo-uring -- redis-benchmark -p {port} -t set -q\n"
		   "nbctl compare -- redis-benchmark -p 7008 -t ping_mbulk -n 200000 -q\n"
		   "nbctl -H server1 compare -- redis-benchmark -h {host} -p {port} -t set -q\n"
		   "nbctl compare --save rows.jsonl --label 50 nbd-uring nbd-epoll -- fio ... {uri}\n"
		   "nbctl compare --load rows.jsonl --against yesterday.jsonl",
	.options = {
#define OPTION(id, ...) [VALUE_##id] = { __VA_ARGS__ },
#include "compare_option_list.h"
#undef OPTION
	},
	.words_max = 256,
	.runs_command = true,
	.run = run,
};
