/* `nbctl stats`: the counters since the start, or a line per listener and interval.  The daemon
 * sends sums since its start; intervals are differences of two documents. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ctl.h"
#include "field.h"
#include "figure.h"
#include "human.h"
#include "measure.h"
#include "openmetrics.h"
#include "text.h"
#include "util.h"

enum { WATCH_INTERVAL_MS = 1000, WATCH_HEADER_LINES = 24 };

enum { VALUE_OPENMETRICS, VALUE_WATCH, VALUE_BY_WORKER };

/* Shallow copies: the counters stay shared. */
static json_t *named(json_t *listener)
{
	json_t *copy;

	if (!json_object_get(listener, "worker"))
		return json_incref(listener);
	copy = json_copy(listener);
	json_object_set_new(copy, "name",
			    json_sprintf("%s/%llu", field_text(listener, "name"),
					 (unsigned long long)field_uint(listener, "worker")));
	return copy;
}

/* A copy of a document that was asked for by worker: its `listeners` are workers, each with the
 * name of its listener.  Here they are named LISTENER/WORKER.  A new reference. */
static json_t *workers_named(const json_t *stats)
{
	json_t *copy = json_copy((json_t *)stats), *list = json_array(), *listener;
	size_t i;

	json_array_foreach(json_object_get(stats, "listeners"), i, listener)
		json_array_append_new(list, named(listener));
	json_object_set_new(copy, "listeners", list);
	return copy;
}

/* The names of listeners that this host cannot serve. */
static void render_unavailable(struct output *out, const json_t *listeners)
{
	json_t *names = json_array(), *listener;
	char *text;
	size_t i;

	json_array_foreach(listeners, i, listener)
		json_array_append(names, field_get(listener, "name"));
	text = field_show(names);
	if (*text)
		output_wrapped(out, STYLE_DIM, 2, "Unavailable: %s (`nbctl status` says why).",
			       text);
	free(text);
	json_decref(names);
}

/* ---- The table since the start ---- */

static const struct column stats_columns[] = {
	{ .title = "listener", .left = true },
	{ .title = "engine", .left = true, .rank = 2 },
	{ .title = "operation", .left = true, .optional = true },
	{ .title = "open" },
	{ .title = "accepted", .rank = 4 },
	{ .title = "ops" },
	{ .title = "in" },
	{ .title = "out" },
	{ .title = "p50", .unit = "us" },
	{ .title = "p99", .unit = "us" },
	{ .title = "max", .unit = "us", .rank = 5 },
	{ .title = "CPU", .unit = "time", .rank = 3 },
	{ .title = "CPU", .unit = "us/op" },
	{ .title = "calls", .unit = "/op", .rank = 1 },
	{ .title = "instr", .unit = "/op", .optional = true, .rank = 7 },
	{ .title = "IPC", .optional = true, .rank = 7 },
	{ .title = "pool", .unit = "% used", .rank = 6 },
};

/* Adds the cells of the listener, which precede those of the operation. */
static void add_listener_cells(struct table *t, const json_t *listener, const char *operation)
{
	bool named = strcmp(operation, field_text(listener, "service")) != 0;
	char engine[256];

	field_engine(field_text(listener, "engine"), field_get(listener, "engine_features"), engine,
		     sizeof(engine));
	table_cell(t, STYLE_BOLD, "%s", field_text(listener, "name"));
	table_text(t, engine);
	table_text(t, named ? operation : "");
	table_text(t, human_short(field_uint(listener, "connections.open")).text);
	table_text(t, human_short(field_uint(listener, "connections.accepted")).text);
}

static void figure_cell(struct table *t, const struct measure *row, enum figure figure)
{
	struct human text = figure_text(figure, figure_value(row, figure));

	table_cell(t, *text.text ? STYLE_PLAIN : STYLE_DIM, "%s", *text.text ? text.text : "-");
}

static void add_cost_cells(struct table *t, const struct measure *row, const json_t *listener)
{
	static const enum figure counted[] = { FIGURE_INSTRUCTIONS_PER_OP, FIGURE_IPC };
	uint64_t chunks = field_uint(listener, "pool.chunks");
	double used = (double)chunks - (double)field_uint(listener, "pool.free");

	table_text(t, human_time(row->cpu_ns).text);
	figure_cell(t, row, FIGURE_CPU_PER_OP);
	figure_cell(t, row, FIGURE_SYSCALLS_PER_OP);
	for (unsigned i = 0; i < ARRAY_SIZE(counted); i++)
		table_text(t, figure_text(counted[i], figure_value(row, counted[i])).text);
	if (chunks)
		table_cell(t, STYLE_PLAIN, "%.0f", used / (double)chunks * 100);
	else
		table_cell(t, STYLE_DIM, "-");
}

/* Adds one row; first: it is the listener's first, which has the listener's own numbers. */
static void add_row(struct table *t, const struct measure *row, bool first)
{
	if (first) {
		add_listener_cells(t, row->source, row->operation);
	} else {
		table_skip(t, 2);
		table_text(t, row->operation);
		table_skip(t, 2);
	}
	table_text(t, human_short(row->count).text);
	if (first) {
		table_text(t, human_bytes(row->bytes_in).text);
		table_text(t, human_bytes(row->bytes_out).text);
	} else {
		table_skip(t, 2);
	}
	figure_cell(t, row, FIGURE_P50);
	figure_cell(t, row, FIGURE_P99);
	table_text(t, row->latency.count ? human_us(row->latency.max).text : NULL);
	if (first)
		add_cost_cells(t, row, row->source);
	else
		table_skip(t, 6);
}

/* ---- Errors ---- */

/* Paths of counters in GetStats that a user should know of when they are not 0. */
static const struct trouble {
	const char *path, *noun, *text; /* noun: name of the counted things; "": none */
} troubles[] = {
	{ "connections.refused.limit", "", "refused (too many)" },
	{ "connections.refused.denied", "", "refused (`allow`)" },
	{ "connections.closed.reset", "", "reset by the client" },
	{ "connections.closed.idle", "", "closed (idle-timeout)" },
	{ "connections.closed.protocol", "", "closed (broke the protocol)" },
	{ "connections.closed.overrun", "", "closed (used up its receives)" },
	{ "connections.closed.drain", "", "closed (drain-timeout)" },
	{ "connections.closed.error", "", "closed (error of this host)" },
	{ "accept_paused", "pause", " of accepting (out of descriptors)" },
	{ "pool.starved", "wait", " for a free buffer" },
	{ "throttled", "pause", " of receiving (too much held)" },
	{ "udp.overflowed", "datagram", " lost (full queue of the socket)" },
	{ "udp.truncated", "datagram", " lost (longer than buffer-size)" },
	{ "udp.dropped", "datagram", " lost (sender not admitted)" },
	{ "udp.refused", "datagram", " refused (from the port of a reflector, or of no test)" },
	{ "udp.withheld", "answer", " withheld (more than was received)" },
	{ "udp.unsent", "datagram", " not sent (error of this host)" },
};

/* Prints a paragraph for each listener with errors. */
static void render_troubles(struct output *out, const json_t *stats)
{
	json_t *listener;
	size_t i;

	json_array_foreach(field_get(stats, "listeners"), i, listener) {
		char *text = NULL;
		FILE *to = text_open(&text);

		for (unsigned j = 0; j < ARRAY_SIZE(troubles); j++) {
			uint64_t count = field_uint(listener, troubles[j].path);

			if (count)
				fprintf(to, "%s%s %s%s%s", ftell(to) ? "; " : "",
					human_count(count).text, troubles[j].noun,
					*troubles[j].noun ? plural(count) : "", troubles[j].text);
		}
		fclose(to);
		if (*text)
			output_wrapped(out, STYLE_WARN, 2, "%s: %s", field_text(listener, "name"),
				       text);
		free(text);
	}
}

static void render_footer(struct output *out, const struct measures *m)
{
	uint64_t samples = 0, count = 0, errors = 0;

	for (unsigned i = 0; i < m->count; i++) {
		samples += m->rows[i]->latency.count;
		count += m->rows[i]->count;
		errors += m->rows[i]->errors;
	}
	if (count)
		output_wrapped(out, STYLE_DIM, 2,
			       "Since the start. Latency from %s sample%s of %s operation%s.",
			       human_count(samples).text, plural(samples), human_count(count).text,
			       plural(count));
	if (errors)
		output_wrapped(out, STYLE_BAD, 2, "%s operation%s failed.",
			       human_count(errors).text, plural(errors));
}

static void render_stats(struct output *out, const json_t *document)
{
	struct table *t = table_new(stats_columns, ARRAY_SIZE(stats_columns));
	json_t *stats = workers_named(document);
	const json_t *last = NULL;
	struct measures m = {};

	measures_delta(&m, NULL, stats, field_uint(stats, "uptime_ns"), "");
	measures_take_unavailable(&m);
	measures_drop_idle(&m);
	for (unsigned i = 0; i < m.count; i++) {
		add_row(t, m.rows[i], m.rows[i]->source != last);
		last = m.rows[i]->source;
	}
	if (!table_finish(t, out, 0) && json_array_size(m.unavailable) == 0)
		output_text(out, STYLE_PLAIN, "No listeners.\n");
	render_footer(out, &m);
	render_troubles(out, stats);
	render_unavailable(out, m.unavailable);
	measures_free(&m);
	json_decref(stats);
}

static void render_openmetrics(struct output *out, const json_t *stats)
{
	openmetrics_write(out->file, stats);
}

/* ---- Watching ---- */

static const struct column watch_columns[] = {
	{ .title = "time", .left = true, .width_min = 8, .rank = 5 },
	{ .title = "listener", .left = true, .width_min = 10 },
	{ .title = "operation", .left = true, .optional = true },
	{ .title = "open", .width_min = 5, .rank = 4 },
	{ .title = "ops", .unit = "/s", .width_min = 9 },
	{ .title = "in MB", .unit = "/s", .width_min = 7 },
	{ .title = "out MB", .unit = "/s", .width_min = 7 },
	{ .title = "p50", .unit = "us", .width_min = 6 },
	{ .title = "p99", .unit = "us", .width_min = 7 },
	{ .title = "CPU", .unit = "%", .width_min = 4 },
	{ .title = "CPU", .unit = "us/op", .width_min = 6, .rank = 1 },
	{ .title = "calls", .unit = "/op", .width_min = 5, .rank = 2 },
	{ .title = "ops", .unit = "/turn", .width_min = 5, .rank = 3 },
};

struct watch {
	struct ctl *ctl;
	struct table *table;
	json_t *before; /* NULL before the first document */
	unsigned lines; /* printed since the last header */
	bool quiet;     /* the message that no listener is active was printed */
};

static void add_watch_row(struct table *t, const struct measure *row, const char *time)
{
	double seconds = (double)row->interval_ns / NS_PER_S;
	bool named = strcmp(row->operation, row->service) != 0;

	table_cell(t, STYLE_DIM, "%s", time);
	table_cell(t, STYLE_BOLD, "%s", row->listener);
	table_text(t, named ? row->operation : "");
	table_text(t, human_short(field_uint(row->source, "connections.open")).text);
	figure_cell(t, row, FIGURE_RATE);
	table_text(t, human_number((double)row->bytes_in / 1e6 / seconds).text);
	table_text(t, human_number((double)row->bytes_out / 1e6 / seconds).text);
	figure_cell(t, row, FIGURE_P50);
	figure_cell(t, row, FIGURE_P99);
	figure_cell(t, row, FIGURE_CPU_SHARE);
	figure_cell(t, row, FIGURE_CPU_PER_OP);
	figure_cell(t, row, FIGURE_SYSCALLS_PER_OP);
	figure_cell(t, row, FIGURE_OPS_PER_TURN);
}

static void print_interval(struct watch *w, const json_t *stats, uint64_t interval_ns)
{
	struct measures m = {};
	struct tm now;
	time_t seconds = time(NULL);
	char text[16];

	measures_delta(&m, w->before, stats, interval_ns, "");
	measures_take_unavailable(&m);
	if (w->lines == 0)
		render_unavailable(&w->ctl->out, m.unavailable);
	measures_drop_idle(&m);
	/* Listeners named by the user are shown even without operations. */
	if (w->ctl->word_count == 0)
		measures_drop_silent(&m);
	strftime(text, sizeof(text), "%H:%M:%S", localtime_r(&seconds, &now));
	for (unsigned i = 0; i < m.count; i++)
		add_watch_row(w->table, m.rows[i], text);
	if (!table_is_empty(w->table))
		table_print(w->table, &w->ctl->out, 0, w->lines == 0);
	else if (!w->quiet)
		output_text(&w->ctl->out, STYLE_DIM, "%s  no operations\n", text);
	fflush(w->ctl->out.file);
	w->quiet = m.count == 0;
	w->lines += m.count;
	if (w->lines >= WATCH_HEADER_LINES)
		w->lines = 0;
	measures_free(&m);
}

/* Keeps the document, as the next interval begins there.  False ends the stream: the
 * output is closed. */
static bool watch_reply(void *context, const json_t *document)
{
	struct watch *w = context;
	uint64_t interval_ns;
	json_t *stats;

	if (w->ctl->out.json) {
		output_json(&w->ctl->out, document, true);
		return !ferror(w->ctl->out.file);
	}
	stats = workers_named(document);
	if (w->before && measures_interval(w->before, stats, &interval_ns) == 0)
		print_interval(w, stats, interval_ns);
	json_decref(w->before);
	w->before = stats;
	return !ferror(w->ctl->out.file);
}

static int watch(struct ctl *ctl, json_t *parameters, unsigned interval_ms)
{
	struct watch w = { .ctl = ctl };
	int rc;

	w.table = table_new(watch_columns, ARRAY_SIZE(watch_columns));
	rc = ctl_stream(ctl, "GetStats", parameters, interval_ms, watch_reply, &w);
	json_decref(w.before);
	table_free(w.table);
	return rc;
}

/* ---- The command ---- */

static int run_stats(struct ctl *ctl)
{
	const char *interval = ctl->values[VALUE_WATCH];
	bool openmetrics = ctl->values[VALUE_OPENMETRICS];
	unsigned interval_ms = WATCH_INTERVAL_MS;
	json_t *parameters;

	if (openmetrics && ctl->values[VALUE_BY_WORKER])
		return ctl_usage(ctl, "--openmetrics has no workers: leave out --by-worker");
	if (openmetrics && (interval || ctl->out.json))
		return ctl_usage(ctl, "--openmetrics goes neither with --watch nor with --json");
	if (interval && *interval &&
	    ctl_interval(ctl, "watch", interval, CTL_STREAM_MIN_MS, &interval_ms))
		return CTL_USAGE;
	parameters = json_pack("{s:o*}", "listeners", ctl_words(ctl));
	if (ctl->values[VALUE_BY_WORKER])
		json_object_set_new(parameters, "by_worker", json_true());
	if (!interval)
		return ctl_show(ctl, "GetStats", parameters,
				openmetrics ? render_openmetrics : render_stats);
	json_object_set_new(parameters, "interval_ms", json_integer(interval_ms));
	return watch(ctl, parameters, interval_ms);
}

const struct command command_stats = {
	.name = "stats",
	.arguments = "[LISTENER...]",
	.summary = "counters of each listener since the start, or live",
	.details = "Operations, bytes, CPU time and system calls are counted.  Latency is sampled: the\n"
		   "samples are fewer than the operations, and the table says how many there were.\n"
		   "Of a service with several operations, those with a count of zero are left out.\n"
		   "MB and GB are powers of ten.\n",
	.example = "nbctl stats\n"
		   "nbctl stats echo-uring --watch=5\n"
		   "nbctl stats --openmetrics | promtool check metrics",
	.options = {
		[VALUE_BY_WORKER] = { "by-worker", OPTION_FLAG, NULL,
				      "a row for each worker: LISTENER/WORKER" },
		[VALUE_OPENMETRICS] = { "openmetrics", OPTION_FLAG, NULL,
					"OpenMetrics text, for Prometheus" },
		[VALUE_WATCH] = { "watch", OPTION_OPTIONAL, "SECONDS",
				  "a line per busy listener each second, or each SECONDS" },
	},
	.words_max = 256,
	.run = run_stats,
};
