/* `nbctl exports`: exports, and each listener's statistics of them.  Needs no interval: all numbers
 * are since the daemon's start. */
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "exports.h"
#include "field.h"
#include "human.h"
#include "parse.h"
#include "text.h"
#include "util.h"

static enum style state_style(const char *state)
{
	if (!strcmp(state, "ok"))
		return STYLE_GOOD;
	return strcmp(state, "unused") ? STYLE_BAD : STYLE_WARN;
}

static void size_cell(struct table *t, const json_t *export)
{
	uint64_t bytes = field_uint(export, "size");
	char text[NUMBER_TEXT_MAX];

	table_text(t, bytes ? format_size(bytes, text) : NULL);
}

/* Prints a paragraph for each export that has a problem. */
static void render_reasons(struct output *out, const json_t *exports)
{
	json_t *export;
	size_t i;

	json_array_foreach(exports, i, export)
		if (*field_text(export, "reason"))
			output_wrapped(out, STYLE_WARN, 2, "%s: %s", field_text(export, "name"),
				       field_text(export, "reason"));
}

void exports_render(struct output *out, const json_t *exports)
{
	static const struct column columns[] = {
		{ .title = "export", .left = true },          { .title = "state", .left = true },
		{ .title = "store", .left = true },           { .title = "size" },
		{ .title = "path", .left = true, .rank = 1 },
	};
	struct table *t = table_new(columns, ARRAY_SIZE(columns));
	json_t *export;
	size_t i;

	json_array_foreach(exports, i, export) {
		const char *state = field_text(export, "state");

		table_cell(t, STYLE_BOLD, "%s", field_text(export, "name"));
		table_cell(t, state_style(state), "%s", state);
		table_text(t, field_text(export, "store"));
		size_cell(t, export);
		table_text(t, field_text(export, "path"));
	}
	table_finish(t, out, 0);
	render_reasons(out, exports);
}

/* ---- Counts and latencies ---- */

static const struct column columns[] = {
	{ .title = "export", .left = true },
	{ .title = "state", .left = true },
	{ .title = "size", .rank = 2 },
	{ .title = "listener", .left = true },
	{ .title = "store", .left = true },
	{ .title = "in", .unit = "flight", .rank = 1 },
	{ .title = "operation", .left = true },
	{ .title = "count" },
	{ .title = "bytes" },
	{ .title = "p50", .unit = "us" },
	{ .title = "p99", .unit = "us" },
	{ .title = "max", .unit = "us", .rank = 3 },
	{ .title = "errors", .optional = true },
};

enum { EXPORT_CELLS = 3, LISTENER_CELLS = 3, OPERATION_CELLS = 7 };

static void add_latency_cells(struct table *t, const json_t *operation)
{
	static const char *const paths[] = { "latency_ns.p50", "latency_ns.p99", "latency_ns.max" };
	/* The fewest samples that show a percentile: at least one lies beyond it. */
	static const unsigned samples_min[] = { 2, 100, 1 };
	uint64_t samples = field_uint(operation, "latency_ns.count");

	for (unsigned i = 0; i < ARRAY_SIZE(paths); i++)
		table_text(t, samples < samples_min[i]
				      ? NULL
				      : human_us(field_uint(operation, paths[i])).text);
}

static void add_operation_cells(struct table *t, const char *name, const json_t *operation,
				const json_t *served)
{
	const char *bytes = !strcmp(name, "read")    ? "bytes_read"
			    : !strcmp(name, "write") ? "bytes_written"
						     : NULL;
	uint64_t errors = field_uint(operation, "errors");

	table_text(t, name);
	table_text(t, human_short(field_uint(operation, "count")).text);
	table_text(t, bytes ? human_bytes(field_uint(served, bytes)).text : "");
	add_latency_cells(t, operation);
	table_cell(t, STYLE_BAD, "%s", errors ? human_short(errors).text : "");
}

/* Adds a row for each operation with a nonzero count.  The first row has the listener's cells; the
 * very first also has the export's, which the caller has added. */
static void add_listener(struct table *t, const json_t *served)
{
	const char *name;
	json_t *operation;
	bool first = true;

	table_text(t, field_text(served, "listener"));
	table_text(t, field_text(served, "store"));
	table_text(t, human_short(field_uint(served, "in_flight")).text);
	json_object_foreach(field_get(served, "operations"), name, operation) {
		if (!field_uint(operation, "count"))
			continue;
		if (!first)
			table_skip(t, EXPORT_CELLS + LISTENER_CELLS);
		add_operation_cells(t, name, operation, served);
		first = false;
	}
	if (first)
		table_skip(t, OPERATION_CELLS);
}

static void add_export(struct table *t, const json_t *export)
{
	json_t *listeners = field_get(export, "listeners"), *served;
	const char *state = field_text(export, "state");
	size_t i;

	table_cell(t, STYLE_BOLD, "%s", field_text(export, "name"));
	table_cell(t, state_style(state), "%s", state);
	size_cell(t, export);
	if (json_array_size(listeners) == 0)
		table_skip(t, LISTENER_CELLS + OPERATION_CELLS);
	json_array_foreach(listeners, i, served) {
		if (i > 0)
			table_skip(t, EXPORT_CELLS);
		add_listener(t, served);
	}
}

/* `disk0: nbd-uring: 3 EIO, 1 ENOSPC` */
static void render_errors(struct output *out, const json_t *export)
{
	json_t *served, *number;
	const char *error;
	size_t i;

	json_array_foreach(field_get(export, "listeners"), i, served) {
		char *text = NULL;
		FILE *to = text_open(&text);

		json_object_foreach(field_get(served, "errors"), error, number)
			if (field_uint(number, ""))
				fprintf(to, "%s%s %s", ftell(to) ? ", " : "",
					human_count(field_uint(number, "")).text, error);
		fclose(to);
		if (*text)
			output_wrapped(out, STYLE_BAD, 2, "%s: %s: %s", field_text(export, "name"),
				       field_text(served, "listener"), text);
		free(text);
	}
}

/* Prints the choices of `store = auto` with reasons, once for all listeners with the same choice.
 */
static void render_choices(struct output *out, const json_t *export)
{
	const char *last = "";
	json_t *served;
	size_t i;

	json_array_foreach(field_get(export, "listeners"), i, served) {
		const char *choice = field_text(served, "choice");

		if (*choice && strcmp(choice, last) != 0)
			output_wrapped(out, STYLE_DIM, 2, "%s: auto: %s, store %s",
				       field_text(export, "name"), choice,
				       field_text(served, "store"));
		last = choice;
	}
}

static void render_exports(struct output *out, const json_t *stats)
{
	json_t *exports = field_get(stats, "exports"), *export;
	struct table *t = table_new(columns, ARRAY_SIZE(columns));
	size_t i;

	json_array_foreach(exports, i, export)
		add_export(t, export);
	if (!table_finish(t, out, 0))
		output_text(out, STYLE_PLAIN, "No exports.\n");
	render_reasons(out, exports);
	json_array_foreach(exports, i, export)
		render_errors(out, export);
	json_array_foreach(exports, i, export)
		render_choices(out, export);
	if (json_array_size(exports))
		output_wrapped(out, STYLE_DIM, 2,
			       "Since the start. Latency is the store's share of a request, of a "
			       "sample of them.");
}

static int run_exports(struct ctl *ctl)
{
	json_t *reply, *exports;
	int rc;

	if (!ctl->out.json)
		return ctl_show(ctl, "GetStats", NULL, render_exports);
	rc = ctl_call(ctl, "GetStats", NULL, &reply);
	if (rc != CTL_DONE)
		return rc;
	exports = json_pack("{s:O*}", "exports", field_get(reply, "exports"));
	output_json(&ctl->out, exports, false);
	json_decref(exports);
	json_decref(reply);
	return CTL_DONE;
}

const struct command command_exports = {
	.name = "exports",
	.arguments = "",
	.summary = "storage: state, size, and each listener's counts",
	.details = "Latency is the time that the store took, without the network and the service;\n"
		   "`nbctl stats` and `nbbench compare` have that of whole requests.\n",
	.example = "nbctl exports",
	.run = run_exports,
};
