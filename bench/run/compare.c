/* `nbbench run`, `compare` and `show`: what each listener's operations cost while a command runs,
 * or did by saved rows. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compare.h"
#include "ctl.h"
#include "leftovers.h"
#include "measure_visits.h"
#include "measuring.h"
#include "placeholders.h"
#include "print.h"
#include "reasons.h"
#include "report.h"
#include "rows.h"
#include "runtime.h"
#include "served.h"
#include "suggest.h"
#include "text.h"
#include "util.h"

static void show_rounds(struct output *out, const struct rounds *rounds, double within)
{
	char *text = rounds->done ? rounds_text(rounds, within) : NULL;

	if (text)
		output_wrapped(out, STYLE_DIM, 2, "%s", text);
	free(text);
}

static bool has_pairs(const struct ctl *ctl)
{
	return !ctl->values[VALUE_AGAINST] && ctl->values[VALUE_BUILD];
}

static bool is_stdout(const char *path)
{
	return path && !strcmp(path, "-");
}

/* What decides the exit status is on stderr if standard output is a document for programs. */
static void show(struct ctl *ctl, const struct compare *c, const struct result *r,
		 const struct measures *m)
{
	struct output beside = ctl->out;
	json_t *document;

	if (is_stdout(ctl->values[VALUE_HTML]) || is_stdout(ctl->values[VALUE_SVG])) {
		if (is_stdout(ctl->values[VALUE_HTML]))
			report_html(ctl->out.file, r, m);
		else
			report_svg(ctl->out.file, r);
		beside.file = stderr;
	} else if (ctl->out.json) {
		output_json(&ctl->out, document = print_json(r, m), false);
		json_decref(document);
		beside.file = stderr;
	} else {
		print_result(&ctl->out, r, m, ctl->values[VALUE_WIDE]);
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
	else if (!c->loaded && !c->visits)
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
static int check_measured(const struct compare *c, const struct measures *m)
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
	else if (!c->loaded && !c->visits && !any)
		ctl_warn(
			"nothing was measured: COMMAND made no operation, and has no {port}: it chose "
			"itself where to connect");
	return (c->visits ? empty != NULL : !any) ? CTL_NOTHING : CTL_DONE;
}

static struct result *judge(struct ctl *ctl, const struct compare *c, const struct measures *m)
{
	const struct result_options options = {
		.within = c->within,
		.saved = ctl->values[VALUE_AGAINST] ? &c->before : NULL,
		.force = ctl->values[VALUE_FORCE],
		.pairs = has_pairs(ctl),
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

	if (!(c->loaded && ctl->values[VALUE_AGAINST]) && good && c->status == 0)
		rc = check_measured(c, m);
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
	if (c->svg.file && rc == CTL_DONE)
		rc = rows_report(&c->svg, r, NULL);
	if (rc == CTL_DONE)
		rc = rows_gate(r->gate);
	result_free(r);
	return rc;
}

/* The files of --save and --html are open already, so that opening cannot fail after the
 * command has run. */
static int compare(struct ctl *ctl, struct compare *c)
{
	struct measures m = { .within = c->within };
	int rc = CTL_DONE;

	for (unsigned i = 0; c->loaded && i < ctl->word_count && rc == CTL_DONE; i++)
		rc = rows_load(ctl->words[i], &m);
	if (c->loaded)
		ctl->word_count = 0; /* files, and no names of listeners */
	else
		rc = measuring_run(ctl, c, &m);
	if (!c->loaded && !c->status)
		c->status = rc; /* what was measured before a failure is shown, too */
	if (c->loaded ? rc == CTL_DONE : m.count || c->status == 0)
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

/* Standard output gets the page in place of the table: show(). */
static int open_output(struct rows_file *ret, const char *path)
{
	return rows_open(ret, is_stdout(path) ? NULL : path);
}

/* Measures, or with `loaded` reads ctl->words, files of saved rows. */
static int run_with(struct ctl *ctl, bool loaded)
{
	struct compare c = { .loaded = loaded };
	int rc;

	rc = compare_options(ctl, &c);
	if (rc == CTL_DONE)
		rc = load_option(ctl->values[VALUE_AGAINST], &c.before);
	if (rc == CTL_DONE)
		rc = rows_open(&c.save, ctl->values[VALUE_SAVE]);
	if (rc == CTL_DONE)
		rc = open_output(&c.html, ctl->values[VALUE_HTML]);
	if (rc == CTL_DONE)
		rc = open_output(&c.svg, ctl->values[VALUE_SVG]);
	if (rc == CTL_DONE)
		rc = compare(ctl, &c);
	rows_close(&c.save);
	rows_close(&c.html);
	rows_close(&c.svg);
	measures_free(&c.before);
	compare_options_fini(&c);
	return rc;
}

/* ---- The commands ---- */

static int run_compare(struct ctl *ctl)
{
	if (!ctl->rest)
		return ctl_usage(ctl,
				 "compare runs a command, behind `--`; without one `nbctl stats "
				 "--watch` shows what listeners do, and `nbbench show FILE` "
				 "saved rows");
	return run_with(ctl, false);
}

/* Does COMMAND have a placeholder, or may it know a listener by an address or port that the user
 * chose? */
static bool knows_a_listener(const struct ctl *ctl)
{
	for (char **spec = ctl->specs; *spec; spec++)
		if (strstr(*spec, ",address=") || strstr(*spec, ",port="))
			return true;
	return placeholders_used(ctl->rest);
}

int compare_serving(struct ctl *ctl)
{
	char socket[PATH_MAX], directory[RUNTIME_DIRECTORY_BYTES];
	int rc;

	leftovers_guard(ctl->argv);
	rc = runtime_choose_socket(ctl->argv, socket, sizeof(socket), directory);
	if (rc < 0) {
		ctl_warn("no directory for the control socket: %s: %s", directory, strerror(-rc));
		return CTL_CANNOT_RUN;
	}
	if (!ctl->target.host && !ctl->target.socket)
		ctl->target.socket = socket;
	unsetenv("NBSERVED_SOCKET"); /* COMMAND may start another daemon */
	rc = run_with(ctl, false);
	if (*directory)
		rmdir(directory); /* fails if it is not empty */
	return rc;
}

int compare_page(const char *path, const char *rows)
{
	struct measures m = { 0 };
	struct rows_file page;
	int rc = rows_load(rows, &m);

	measures_merge(&m);
	if (rc == CTL_DONE)
		rc = rows_open(&page, path);
	if (rc == CTL_DONE) {
		struct result *r = result_new(&m, &(struct result_options){ 0 });

		rc = rows_report(&page, r, &m);
		result_free(r);
		rows_close(&page);
	}
	measures_free(&m);
	return rc;
}

static int run_run(struct ctl *ctl)
{
	ctl->specs = ctl->words;
	ctl->word_count = 0;
	if (!ctl->rest)
		return ctl_usage(ctl,
				 "expected a command behind `--`; `nbserved --run SPEC` serves "
				 "without one");
	if (*ctl->rest && !knows_a_listener(ctl))
		ctl_warn(
			"COMMAND has no {port}, {uri}, {host} or {listener}: it must know by itself "
			"where to connect, or it may load another server at its default port");
	return compare_serving(ctl);
}

static int run_show(struct ctl *ctl)
{
	if (ctl->word_count == 0)
		return ctl_usage(ctl, "expected: nbbench show FILE...");
	return run_with(ctl, true);
}

#define HOW_IT_MEASURES                                                                            \
	"With {host}, {port}, {uri} or {listener} in COMMAND it visits one listener after the\n"   \
	"other, in rounds of random order, until it is known which differ, or --time is over.\n"   \
	"Many visits of 0.1 to 0.3 s tell more than a few long ones.  Ctrl-C shows the visits\n"   \
	"made so far.  nbbench(1) says what each figure is.\n"                                     \
	"\n"                                                                                       \
	"The exit status is COMMAND's: 128 and the signal's number when one killed it, 127 when\n" \
	"there is no such command, 126 when it cannot be run, 124 when it was ended by\n"          \
	"--timeout.  --against, --fail-if: 5 when a row got worse or fails, 6 when one may, 7\n"   \
	"when one cannot be compared.  8: a listener got no operation, so that nothing was\n"      \
	"measured there.\n"

/* clang-format off */
const struct command command_run = {
	.name = "run",
	.arguments = "SPEC... -- COMMAND ARG...",
	.summary = "serve each SPEC, run COMMAND against one after the other, compare",
	.details =
		"Starts an nbserved for each round, which serves SPEC as `nbserved --run SPEC` does:\n"
		"SERVICE[,KEY=VALUE]..., `nbserved --run help` lists services and engines.\n"
		"\n"
		HOW_IT_MEASURES,
	.example = "nbbench run echo,engine=all -- redis-benchmark -p {port} -t set -q\n"
		   "nbbench -H server1 run http -- wrk -c8 {uri}",
	.options = {
#define OPTION(id, in, ...) COMPARE_OPTION(id, in, RUN, __VA_ARGS__)
#include "compare_option_list.h"
#undef OPTION
	},
	.words_min = 1,
	.words_max = SERVED_SPECS_MAX,
	.runs_command = true,
	.serves = true,
	.run = run_run,
};

const struct command command_compare = {
	.name = "compare",
	.arguments = "[LISTENER...] -- COMMAND ARG...",
	.summary = "what an operation costs on each listener of a daemon that runs",
	.details =
		"Takes the counters before and after COMMAND, usually a load generator, and shows the\n"
		"difference: rates, latency, CPU time and system calls per operation, in that part of\n"
		"its run time in which there was load.  The first listener of each service is the\n"
		"baseline: name them in the order you like.\n"
		"\n"
		HOW_IT_MEASURES,
	.example = "nbbench compare echo-epoll echo-uring -- redis-benchmark -p {port} -t set -q\n"
		   "nbbench compare -- redis-benchmark -p 7008 -t ping_mbulk -n 200000 -q\n"
		   "nbbench -H server1 compare -- redis-benchmark -h {host} -p {port} -t set -q\n"
		   "nbbench compare --save rows.jsonl --label 50 nbd-uring nbd-epoll -- fio ... {uri}",
	.options = {
#define OPTION(id, in, ...) COMPARE_OPTION(id, in, COMPARE, __VA_ARGS__)
#include "compare_option_list.h"
#undef OPTION
	},
	.words_max = 256,
	.runs_command = true,
	.run = run_compare,
};

const struct command command_show = {
	.name = "show",
	.here = true,
	.arguments = "FILE...",
	.summary = "saved rows: as a table, JSON, a page of HTML or a picture",
	.details =
		"Reads rows that --save wrote, on this host or another, `-` from standard input; asks no\n"
		"daemon.  The page of --html is one file without script that loads nothing: the answer in\n"
		"words and as a picture, the table, curves of a sweep, all figures, and under\n"
		"what conditions it was measured.  --html -, --svg -:\n"
		"to standard output, in place of the table.\n"
		"\n"
		"With --against it shows each row then and now, and what changed between.  The exit\n"
		"status: 5 when a row got worse or fails a limit, 6 when one may have, 7 when one cannot be\n"
		"compared, 8 when the files have no operations.\n",
	.example = "nbbench show rows.jsonl\n"
		   "nbbench show --html page.html rows.jsonl\n"
		   "nbbench show --against old.jsonl new.jsonl",
	.options = {
#define OPTION(id, in, ...) COMPARE_OPTION(id, in, SHOW, __VA_ARGS__)
#include "compare_option_list.h"
#undef OPTION
	},
	.words_max = 256,
	.run = run_show,
};
