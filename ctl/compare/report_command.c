/* `nbctl report`.  See report.h. */
#include "ctl.h"
#include "report.h"
#include "rows.h"
#include "table.h"

enum { VALUE_SVG, VALUE_AGAINST, VALUE_FORCE };

static int show(struct ctl *ctl, const struct measures *m, const struct measures *then)
{
	const struct result_options options = { .then = then, .force = ctl->values[VALUE_FORCE] };
	struct result *result = result_new(m, &options);
	struct output beside = ctl->out;
	int rc = rows_gate(result->gate);

	if (ctl->values[VALUE_SVG])
		report_svg(ctl->out.file, result);
	else
		report_html(ctl->out.file, result, m);
	/* Standard output has the page: what the exit status says is on stderr. */
	beside.file = stderr;
	print_gates(&beside, result);
	result_free(result);
	return rc;
}

static int run(struct ctl *ctl)
{
	const char *past = ctl->values[VALUE_AGAINST];
	struct measures m = {}, then = {};
	int rc = past ? rows_load(past, &then) : CTL_DONE;

	if (ctl->values[VALUE_FORCE] && !past)
		return ctl_usage(ctl, "--force is about --against");
	for (unsigned i = 0; i < ctl->word_count && rc == CTL_DONE; i++)
		rc = rows_load(ctl->words[i], &m);
	measures_merge(&m);
	measures_merge(&then);
	if (rc == CTL_DONE)
		rc = show(ctl, &m, past ? &then : NULL);
	measures_free(&m);
	measures_free(&then);
	return rc;
}

const struct command command_report = {
	.name = "report",
	.here = true,
	.arguments = "FILE...",
	.summary = "saved rows of compare as a page of HTML with pictures",
	.details =
		"Reads rows that `nbctl compare --save` wrote, on this host or another, `-` from\n"
		"standard input; asks no daemon.  The page is one file without script that loads\n"
		"nothing: the verdict in words, CPU time with its spread and verdicts, latency\n"
		"percentiles, system calls, every figure in a table, and under what conditions it was\n"
		"measured.  `nbctl compare --html FILE` writes the same of what it measures.\n"
		"\n"
		"With --against it begins with each row then and now, and what changed between; the\n"
		"exit status is that of `nbctl compare --load FILE --against FILE`.\n",
	.example = "nbctl report rows.jsonl >report.html\n"
		   "nbctl report --against old.jsonl new.jsonl >report.html\n"
		   "nbctl report --svg rows.jsonl >cost.svg",
	.options = {
		[VALUE_SVG] = { "svg", OPTION_FLAG, NULL, "only the picture of the costs, as SVG" },
		[VALUE_AGAINST] = { "against", OPTION_VALUE, "FILE", "compare with these saved rows: what got worse or better" },
		[VALUE_FORCE] = { "force", OPTION_FLAG, NULL, "... even if command, host or keys differ" },
	},
	.words_min = 1,
	.words_max = 256,
	.json_instead = "nbctl compare --load FILE --json",
	.run = run,
};
