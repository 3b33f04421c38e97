/* `nbctl report`.  See report.h. */
#include "ctl.h"
#include "report.h"
#include "rows.h"

enum { VALUE_SVG };

static int run(struct ctl *ctl)
{
	struct measures m = {};
	int rc = CTL_DONE;

	for (unsigned i = 0; i < ctl->word_count && rc == CTL_DONE; i++)
		rc = rows_load(ctl->words[i], &m);
	if (rc == CTL_DONE) {
		measures_merge(&m);
		if (ctl->values[VALUE_SVG])
			report_svg(ctl->out.file, &m);
		else
			report_html(ctl->out.file, &m);
	}
	measures_free(&m);
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
		"measured.  `nbctl compare --html FILE` writes the same of what it measures.\n",
	.example = "nbctl report rows.jsonl >report.html\n"
		   "nbctl report --svg rows.jsonl >cost.svg",
	.options = {
		[VALUE_SVG] = { "svg", OPTION_FLAG, NULL, "only the picture of the costs, as SVG" },
	},
	.words_min = 1,
	.words_max = 256,
	.json_instead = "nbctl compare --load FILE --json",
	.run = run,
};
