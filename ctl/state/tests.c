/* `nbctl tests`: the last tests of clients of iperf3 and netperf, as both sides counted them. */
#include <string.h>

#include "ctl.h"
#include "field.h"
#include "human.h"
#include "parse.h"
#include "util.h"

enum { VALUE_LIMIT };
enum { TESTS_MAX = 1000 };

/* The rate of a count in a test's time; "" for none. */
static void rate_cell(struct table *t, const json_t *figures, const char *field, double scale)
{
	double seconds = (double)field_uint(figures, "duration_ns") / NS_PER_S;
	double count = (double)field_uint(figures, field);

	table_text(t, count > 0 && seconds > 0 ? human_number(count * scale / seconds).text : "");
}

static void count_cell(struct table *t, const json_t *figures, const char *field)
{
	uint64_t count = field_uint(figures, field);

	table_cell(t, count ? STYLE_WARN : STYLE_PLAIN, "%s", count ? human_short(count).text : "");
}

static void add_test(struct table *t, const json_t *test)
{
	static const double mbit = 8 / 1e6;
	const json_t *client = field_get(test, "client"), *server = field_get(test, "server");
	bool complete = json_is_true(field_get(test, "complete"));

	table_cell(t, STYLE_BOLD, "%s", field_text(test, "listener"));
	table_cell(t, STYLE_PLAIN, "%.19s", field_text(test, "ended"));
	table_text(t, field_text(test, "peer"));
	table_cell(t, complete ? STYLE_PLAIN : STYLE_WARN, "%s%s",
		   complete ? "" : "broken off: ", field_text(test, "options"));
	table_text(t, complete ? human_time(field_uint(server, "duration_ns")).text : "");
	rate_cell(t, client, "sent_bytes", mbit);
	rate_cell(t, server, "received_bytes", mbit);
	rate_cell(t, server, "sent_bytes", mbit);
	rate_cell(t, client, "received_bytes", mbit);
	rate_cell(t, server, "transactions", 1);
	count_cell(t, server, "lost");
	count_cell(t, client, "lost");
	count_cell(t, client, "retransmits");
	count_cell(t, server, "retransmits");
}

static void render_tests(struct output *out, const json_t *reply)
{
	static const struct column columns[] = {
		{ .title = "listener", .left = true },
		{ .title = "ended (UTC)", .left = true, .rank = 2 },
		{ .title = "peer", .left = true },
		{ .title = "options", .left = true, .rank = 1 },
		{ .title = "time" },
		{ .title = "client", .unit = "sent", .optional = true },
		{ .title = "we", .unit = "received", .optional = true },
		{ .title = "we", .unit = "sent", .optional = true },
		{ .title = "client", .unit = "received", .optional = true },
		{ .title = "transactions", .unit = "/s", .optional = true },
		{ .title = "we", .unit = "missed", .optional = true },
		{ .title = "client", .unit = "missed", .optional = true },
		{ .title = "client", .unit = "retrans", .optional = true },
		{ .title = "our", .unit = "retrans", .optional = true },
	};
	struct table *t = table_new(columns, ARRAY_SIZE(columns));
	json_t *tests = field_get(reply, "tests"), *test;
	size_t i;

	json_array_foreach(tests, i, test)
		add_test(t, test);
	if (table_finish(t, out, 0))
		output_wrapped(out, STYLE_DIM, 2,
			       "Rates in Mbit/s, each by the counts and the time of that side.");
	else
		output_text(out, STYLE_PLAIN, "No tests of iperf3 or netperf yet.\n");
}

static int run_tests(struct ctl *ctl)
{
	const char *most = ctl->values[VALUE_LIMIT];
	uint64_t limit = 100;

	if (most && (parse_uint(most, &limit) < 0 || limit < 1 || limit > TESTS_MAX))
		return ctl_usage(ctl, "--limit: expected a number from 1 to %d, got '%s'",
				 TESTS_MAX, most);
	return ctl_show(ctl, "ListTests",
			json_pack("{s:s*, s:I}", "listener", ctl->word_count ? ctl->words[0] : NULL,
				  "limit", (json_int_t)limit),
			render_tests);
}

const struct command command_tests = {
	.name = "tests",
	.arguments = "[LISTENER]",
	.summary = "the last tests of iperf3 and netperf clients, by both sides' counts",
	.details = "The last 100 of each listener, the newest first.  A client of iperf3 sends\n"
		   "its figures to the server, one of netperf does not.\n",
	.example = "nbctl tests iperf3 --limit 10",
	.options = {
		[VALUE_LIMIT] = { "limit", OPTION_VALUE, "N", "at most that many (default: 100)" },
	},
	.words_max = 1,
	.run = run_tests,
};
