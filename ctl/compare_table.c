/* Rendering of rows that measure.c made.  See compare_table.h. */
#include "compare_table.h"

#include <stdlib.h>
#include <string.h>

#include "field.h"
#include "human.h"
#include "util.h"

enum {
	COLUMN_LISTENER,
	COLUMN_ENGINE,
	COLUMN_RATE,
	COLUMN_BANDWIDTH,
	COLUMN_P50,
	COLUMN_P99,
	COLUMN_P99_9,
	COLUMN_CPU_PER_OP,
	COLUMN_CPU_PER_GB,
	COLUMN_AGAINST,
	COLUMN_SYSCALLS,
	COLUMN_TURN,
	COLUMN_CPU,
	COLUMN_COUNT
};

static const struct column columns[] = {
	[COLUMN_LISTENER] = { .title = "listener", .left = true },
	[COLUMN_ENGINE] = { .title = "engine", .left = true },
	[COLUMN_RATE] = { .title = "ops", .unit = "/s", .apart = true },
	[COLUMN_BANDWIDTH] = { .title = "MB", .unit = "/s" },
	[COLUMN_P50] = { .title = "p50", .unit = "us", .apart = true },
	[COLUMN_P99] = { .title = "p99", .unit = "us", .rank = 1 },
	[COLUMN_P99_9] = { .title = "p99.9", .unit = "us", .rank = 2 },
	[COLUMN_CPU_PER_OP] = { .title = "CPU/op", .unit = "us", .apart = true },
	[COLUMN_CPU_PER_GB] = { .title = "CPU/GB", .unit = "ms", .optional = true },
	[COLUMN_AGAINST] = { .title = "vs 1st ", .optional = true },
	[COLUMN_SYSCALLS] = { .title = "calls", .unit = "/op", .apart = true },
	[COLUMN_TURN] = { .title = "ops", .unit = "/turn", .rank = 4 },
	[COLUMN_CPU] = { .title = "CPU", .unit = "%", .rank = 3 },
};

struct group {
	const char *service, *label, *operation;
	struct measure **rows;
	unsigned count;
	bool by_bytes;
};

struct groups {
	struct group *list;
	unsigned count;
};

/* ---- Grouping ---- */

static struct group *find_group(struct groups *g, const struct measure *row)
{
	for (unsigned i = 0; i < g->count; i++) {
		struct group *group = &g->list[i];

		if (!strcmp(group->service, row->service) && !strcmp(group->label, row->label) &&
		    !strcmp(group->operation, row->operation))
			return group;
	}
	g->list = reallocarray(g->list, g->count + 1, sizeof(*g->list));
	if (!g->list)
		abort();
	g->list[g->count] = (struct group){
		.service = row->service,
		.label = row->label,
		.operation = row->operation,
	};
	return &g->list[g->count++];
}

static void groups_init(struct groups *g, const struct measures *m)
{
	*g = (struct groups){};
	for (unsigned i = 0; i < m->count; i++) {
		struct group *group;

		if (m->rows[i]->count == 0)
			continue;
		group = find_group(g, m->rows[i]);
		group->rows = reallocarray(group->rows, group->count + 1, sizeof(*group->rows));
		if (!group->rows)
			abort();
		group->rows[group->count++] = m->rows[i];
	}
	for (unsigned i = 0; i < g->count; i++)
		g->list[i].by_bytes = compare_by_bytes(g->list[i].rows, g->list[i].count);
}

static void groups_fini(struct groups *g)
{
	for (unsigned i = 0; i < g->count; i++)
		free(g->list[i].rows);
	free(g->list);
}

/* Services without messages: an operation is a batch of bytes. */
static bool is_stream(const char *service)
{
	return !strcmp(service, "echo") || !strcmp(service, "discard") ||
	       !strcmp(service, "chargen");
}

bool compare_by_bytes(struct measure *const *rows, unsigned count)
{
	double low = measure_bytes_per_op(rows[0]), high = low;

	if (strcmp(rows[0]->service, "echo") && is_stream(rows[0]->service))
		return true;
	for (unsigned i = 1; i < count; i++) {
		double bytes = measure_bytes_per_op(rows[i]);

		low = MIN(low, bytes);
		high = MAX(high, bytes);
	}
	return low > 0 && high > low * 1.1;
}

static double group_cost(const struct group *g, unsigned i)
{
	return g->by_bytes ? measure_cpu_per_byte(g->rows[i]) : measure_cpu_per_op(g->rows[i]);
}

/* The row of the lowest cost; NULL in a group of one. */
static const struct measure *group_best(const struct group *g)
{
	unsigned best = 0;

	for (unsigned i = 1; i < g->count; i++)
		if (group_cost(g, i) < group_cost(g, best))
			best = i;
	return g->count > 1 ? g->rows[best] : NULL;
}

/* ---- Cells ---- */

/* Features that a listener was configured for and that set it apart from others of its engine. */
static const char *const chosen_features[][2] = {
	{ "sqpoll", "+sqpoll" },
	{ "send_zc", "+zc" },
	{ "busy_poll", "+busy" },
	{ "napi_busy_poll", "+napi" },
};

static bool has_feature(const struct measure *row, const char *name)
{
	json_t *feature;
	size_t i;

	json_array_foreach(row->features, i, feature)
		if (!strcmp(field_text(feature, ""), name))
			return true;
	return false;
}

void compare_engine_text(const struct measure *row, char *text, size_t bytes)
{
	size_t used = (size_t)snprintf(text, bytes, "%s", row->engine), index;
	json_t *store;

	for (unsigned i = 0; i < ARRAY_SIZE(chosen_features) && used < bytes; i++)
		if (has_feature(row, chosen_features[i][0]))
			used += (size_t)snprintf(text + used, bytes - used, "%s",
						 chosen_features[i][1]);
	json_array_foreach(row->stores, index, store)
		if (used < bytes)
			used += (size_t)snprintf(text + used, bytes - used, "%c%s",
						 index ? ',' : '/', field_text(store, ""));
}

static void quantile_cell(struct table *t, const struct measure *row, double quantile)
{
	uint64_t ns;

	if (measure_quantile(row, quantile, &ns))
		table_cell(t, STYLE_PLAIN, "%s", human_us(ns).text);
	else
		table_cell(t, STYLE_DIM, "-");
}

static void add_row(struct table *t, const struct group *g, unsigned i)
{
	const struct measure *row = g->rows[i], *best = group_best(g);
	enum style mark = row == best ? STYLE_GOOD : STYLE_PLAIN;
	double base = group_cost(g, 0);
	char engine[80];

	compare_engine_text(row, engine, sizeof(engine));
	table_cell(t, mark, "%s", row->listener);
	table_cell(t, mark, "%s", engine);
	table_cell(t, STYLE_PLAIN, "%s", human_number(measure_rate(row)).text);
	table_cell(t, STYLE_PLAIN, "%s", human_number(measure_bandwidth(row) / 1e6).text);
	quantile_cell(t, row, 0.5);
	quantile_cell(t, row, 0.99);
	quantile_cell(t, row, 0.999);
	table_cell(t, mark, "%s", human_number(measure_cpu_per_op(row) / NS_PER_US).text);
	if (g->by_bytes)
		table_cell(t, mark, "%s", human_number(measure_cpu_per_byte(row) * 1000).text);
	else
		table_skip(t, 1);
	if (!best)
		table_skip(t, 1);
	else if (base > 0)
		table_cell(t, mark, "%.2fx%s", group_cost(g, i) / base, row == best ? "*" : " ");
	else
		table_cell(t, STYLE_DIM, "- ");
	table_cell(t, STYLE_PLAIN, "%.2f", measure_syscalls_per_op(row));
	table_cell(t, STYLE_PLAIN, "%s",
		   row->turns ? human_number(measure_ops_per_turn(row)).text : "-");
	table_cell(t, STYLE_PLAIN, "%s", human_percent(measure_cpu_share(row)).text);
}

static void add_group_heading(struct table *t, const struct group *g)
{
	bool operation = strcmp(g->operation, g->service) != 0;

	table_heading(t, STYLE_BOLD, "%s%s%s%s%s", g->service, operation ? " " : "",
		      operation ? g->operation : "", *g->label ? ": " : "", g->label);
}

static void render_service(struct output *out, struct table *t, const struct groups *all,
			   const char *service)
{
	for (unsigned i = 0; i < all->count; i++) {
		const struct group *g = &all->list[i];

		if (strcmp(g->service, service))
			continue;
		add_group_heading(t, g);
		for (unsigned j = 0; j < g->count; j++)
			add_row(t, g, j);
	}
	table_print(t, out, 2, true);
}

/* ---- Footer ---- */

/* What every io_uring listener has tells nothing. */
static bool is_notable(const char *feature)
{
	static const char *const plumbing[] = { "registered_ring", "restricted", "single_issuer",
						"multishot_accept", "registered_files" };

	for (unsigned i = 0; i < ARRAY_SIZE(plumbing); i++)
		if (!strcmp(feature, plumbing[i]))
			return false;
	return true;
}

/* Adds the row's listener to those of the same features: { "a, b": ["echo-uring", ...] }. */
static void add_features(json_t *listeners, const struct measure *row)
{
	json_t *notable = json_array(), *names, *feature, *name;
	char *text;
	size_t i;

	json_array_foreach(row->features, i, feature)
		if (is_notable(field_text(feature, "")))
			json_array_append(notable, feature);
	text = field_show(notable);
	json_decref(notable);
	names = json_object_get(listeners, text);
	if (!names) {
		names = json_array();
		json_object_set_new(listeners, text, names);
	}
	free(text);
	json_array_foreach(names, i, name)
		if (!strcmp(field_text(name, ""), row->listener))
			return;
	json_array_append_new(names, json_string(row->listener));
}

static void render_features(struct output *out, const struct groups *all)
{
	json_t *listeners = json_object(), *names;
	const char *features;

	for (unsigned i = 0; i < all->count; i++)
		for (unsigned j = 0; j < all->list[i].count; j++)
			add_features(listeners, all->list[i].rows[j]);
	json_object_foreach(listeners, features, names) {
		char *text = field_show(names);

		if (*features)
			output_wrapped(out, STYLE_DIM, 2, "%s: %s", text, features);
		free(text);
	}
	json_decref(listeners);
}

static void render_notes(struct output *out, const struct groups *all)
{
	uint64_t low = UINT64_MAX, high = 0, errors = 0;
	bool by_bytes = false, shared = false, batches = false, compared = false;

	for (unsigned i = 0; i < all->count; i++) {
		by_bytes |= all->list[i].by_bytes;
		compared |= all->list[i].count > 1;
		batches |= is_stream(all->list[i].service);
		for (unsigned j = 0; j < all->list[i].count; j++) {
			const struct measure *row = all->list[i].rows[j];

			low = MIN(low, row->latency.count);
			high = MAX(high, row->latency.count);
			errors += row->errors;
			shared |= row->listener_count != row->count;
		}
	}
	output_wrapped(
		out, STYLE_DIM, 2,
		"CPU: user and system time of the listener's threads and of the kernel's that "
		"work for them.%s",
		!compared  ? ""
		: by_bytes ? " vs 1st: CPU/op (CPU/GB where shown: operations differ in size) "
			     "against the first row of its group; * the lowest."
			   : " vs 1st: CPU/op against the first row of its group; * the "
			     "lowest.");
	output_wrapped(
		out, STYLE_DIM, 2,
		"Latency: from the request in the worker's hands to the reply in the "
		"kernel's, not the client's round trip. Sampled: %s%s%s samples a row; - too "
		"few.",
		human_count(low).text, low == high ? "" : " to ",
		low == high ? "" : human_count(high).text);
	if (batches)
		output_wrapped(out, STYLE_DIM, 2,
			       "An operation of echo, discard, chargen is what one receive or send "
			       "moved: many pipelined requests may be one.");
	if (shared)
		output_wrapped(out, STYLE_DIM, 2,
			       "MB, CPU, calls and turns are of all operations of a listener.");
	if (errors)
		output_wrapped(out, STYLE_BAD, 2, "%s operation%s failed.",
			       human_count(errors).text, plural(errors));
}

/* The listeners that did nothing; `any`: others did something. */
static void render_idle(struct output *out, const struct measures *m, bool any)
{
	const char *last = "";
	char *names = NULL;
	size_t bytes;
	FILE *to = open_memstream(&names, &bytes);

	if (!to)
		abort();
	for (unsigned i = 0; i < m->count; i++) {
		const struct measure *row = m->rows[i];

		if (row->listener_count || !strcmp(row->listener, last))
			continue;
		last = row->listener;
		fprintf(to, "%s%s", ftell(to) ? ", " : "", last);
		if (measure_cpu_share(row) >= 0.01)
			fprintf(to, " (CPU %s %%)", human_percent(measure_cpu_share(row)).text);
	}
	fclose(to);
	if (*names)
		output_wrapped(out, STYLE_WARN, 2, "No operations in the interval: %s", names);
	else if (!any)
		output_text(out, STYLE_WARN, "No operations in the interval.\n");
	free(names);
}

void compare_render(struct output *out, const struct measures *m)
{
	struct table *t = table_new(columns, COLUMN_COUNT);
	struct groups all;

	groups_init(&all, m);
	for (unsigned i = 0; i < all.count; i++) {
		unsigned first = 0;

		while (strcmp(all.list[first].service, all.list[i].service))
			first++;
		if (first != i)
			continue;
		render_service(out, t, &all, all.list[i].service);
		putc('\n', out->file);
	}
	if (all.count) {
		render_notes(out, &all);
		render_features(out, &all);
	}
	render_idle(out, m, all.count > 0);
	groups_fini(&all);
	table_free(t);
}

/* ---- JSON ---- */

/* What cannot be told is null: a 0 would be read as a measurement. */
static json_t *ratio_to_json(double value, uint64_t of)
{
	return of ? json_real(value) : json_null();
}

static json_t *quantile_to_json(const struct measure *row, double quantile)
{
	uint64_t ns;

	return measure_quantile(row, quantile, &ns) ? json_integer((json_int_t)ns) : json_null();
}

static json_t *derived_to_json(const struct measure *row)
{
	uint64_t count = row->listener_count, bytes = row->bytes_in + row->bytes_out;

	return json_pack("{s:f, s:f, s:o, s:o, s:o, s:o, s:f, s:o, s:o, s:o}", "operations_per_s",
			 measure_rate(row), "bytes_per_s", measure_bandwidth(row),
			 "cpu_ns_per_operation", ratio_to_json(measure_cpu_per_op(row), count),
			 "cpu_ns_per_byte", ratio_to_json(measure_cpu_per_byte(row), bytes),
			 "syscalls_per_operation",
			 ratio_to_json(measure_syscalls_per_op(row), count), "operations_per_turn",
			 ratio_to_json(measure_ops_per_turn(row), row->turns), "cpu_share",
			 measure_cpu_share(row), "p50_ns", quantile_to_json(row, 0.5), "p99_ns",
			 quantile_to_json(row, 0.99), "p99_9_ns", quantile_to_json(row, 0.999));
}

json_t *compare_to_json(const struct measures *m, const json_t *unavailable)
{
	json_t *rows = json_array(), *absent = json_array(), *listener;
	size_t index;

	for (unsigned i = 0; i < m->count; i++) {
		json_t *row = measure_to_json(m->rows[i]);

		json_object_set_new(row, "derived", derived_to_json(m->rows[i]));
		json_array_append_new(rows, row);
	}
	json_array_foreach(unavailable, index, listener)
		json_array_append_new(absent, json_pack("{s:s, s:s}", "listener",
							field_text(listener, "name"), "reason",
							field_text(listener, "reason")));
	return json_pack("{s:o, s:o}", "rows", rows, "unavailable", absent);
}
