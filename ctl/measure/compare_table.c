/* Rendering of rows that measure.c made.  See compare_table.h. */
#include "compare_table.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compare_group.h"
#include "compare_notes.h"
#include "field.h"
#include "human.h"
#include "util.h"

enum {
	COLUMN_LISTENER,
	COLUMN_ENGINE,
	COLUMN_REQUESTS,
	COLUMN_RATE,
	COLUMN_BANDWIDTH,
	COLUMN_GENERATOR_BANDWIDTH,
	COLUMN_TRIP50,
	COLUMN_TRIP99,
	COLUMN_P50,
	COLUMN_P99,
	COLUMN_P99_9,
	COLUMN_CPU_PER_REQUEST,
	COLUMN_CPU_PER_OP,
	COLUMN_CPU_PER_GB,
	COLUMN_USER,
	COLUMN_RECEIVE,
	COLUMN_TRANSMIT,
	COLUMN_PEER,
	COLUMN_SYSCALLS,
	COLUMN_TURN,
	COLUMN_CPU,
	COLUMN_GENERATOR,
	COLUMN_SOFTIRQ,
	COLUMN_IDLE,
	COLUMN_STEAL,
	COLUMN_OTHER,
	COLUMN_UNATTRIBUTED,
	COLUMN_AGAINST,
	COLUMN_VERDICT,
	COLUMN_COUNT
};

enum { NARROW = 100 }; /* columns, unless --wide */

/* The kernel splits CPU time by clock ticks, of 1 to 10 ms: of fewer than some 100 the part of user
 * space is little more than chance. */
#define USER_LEAST_NS ((uint64_t)NS_PER_S)

static const struct column columns[] = {
	[COLUMN_LISTENER] = { .title = "listener", .left = true },
	[COLUMN_ENGINE] = { .title = "engine", .left = true, .rank = 1 },
	[COLUMN_REQUESTS] = { .title = "reqs", .unit = "/s", .apart = true, .optional = true },
	[COLUMN_RATE] = { .title = "ops", .unit = "/s", .apart = true, .rank = 2 },
	[COLUMN_BANDWIDTH] = { .title = "MB", .unit = "/s", .rank = 3 },
	[COLUMN_GENERATOR_BANDWIDTH] = { .title = "genMB",
					 .unit = "/s",
					 .optional = true,
					 .rank = 6 },
	[COLUMN_TRIP50] = { .title = "trip50",
			    .unit = "us",
			    .apart = true,
			    .optional = true,
			    .rank = 5 },
	[COLUMN_TRIP99] = { .title = "trip99", .unit = "us", .optional = true, .rank = 4 },
	[COLUMN_P50] = { .title = "p50", .unit = "us", .apart = true },
	[COLUMN_P99] = { .title = "p99", .unit = "us" },
	[COLUMN_P99_9] = { .title = "p99.9", .unit = "us", .rank = 6 },
	[COLUMN_CPU_PER_REQUEST] = { .title = "CPU/req",
				     .unit = "us",
				     .apart = true,
				     .optional = true },
	[COLUMN_CPU_PER_OP] = { .title = "CPU/op", .unit = "us", .apart = true },
	[COLUMN_CPU_PER_GB] = { .title = "CPU/GB", .unit = "ms", .optional = true },
	[COLUMN_USER] = { .title = "user", .unit = "%", .optional = true, .rank = 7 },
	[COLUMN_RECEIVE] = { .title = "rx", .unit = "us", .optional = true },
	[COLUMN_TRANSMIT] = { .title = "tx", .unit = "us", .optional = true },
	[COLUMN_PEER] = { .title = "peer", .unit = "us", .optional = true, .rank = 7 },
	[COLUMN_SYSCALLS] = { .title = "calls", .unit = "/op", .apart = true },
	[COLUMN_TURN] = { .title = "ops", .unit = "/turn", .rank = 9 },
	[COLUMN_CPU] = { .title = "CPU", .unit = "%", .rank = 8 },
	[COLUMN_GENERATOR] = { .title = "gen", .unit = "%", .optional = true, .rank = 8 },
	[COLUMN_SOFTIRQ] = { .title = "irq",
			     .unit = "%",
			     .optional = true,
			     .apart = true,
			     .rank = 10 },
	[COLUMN_IDLE] = { .title = "idle", .unit = "%", .optional = true, .rank = 11 },
	[COLUMN_STEAL] = { .title = "steal", .unit = "%", .optional = true, .rank = 10 },
	[COLUMN_OTHER] = { .title = "other", .unit = "%", .optional = true, .rank = 12 },
	[COLUMN_UNATTRIBUTED] = { .title = "unatt", .unit = "%", .optional = true, .rank = 10 },
	[COLUMN_AGAINST] = { .title = "vs 1st", .optional = true, .apart = true },
	[COLUMN_VERDICT] = { .title = "verdict", .optional = true, .left = true },
};

/* By what --columns chooses them: the names of JSON and CSV, where they have the figure. */
static const char *const column_names[COLUMN_COUNT] = {
	[COLUMN_LISTENER] = "listener",
	[COLUMN_ENGINE] = "engine",
	[COLUMN_REQUESTS] = "requests_per_s",
	[COLUMN_RATE] = "operations_per_s",
	[COLUMN_BANDWIDTH] = "bytes_per_s",
	[COLUMN_GENERATOR_BANDWIDTH] = "generator_bytes_per_s",
	[COLUMN_TRIP50] = "trip50_ns",
	[COLUMN_TRIP99] = "trip99_ns",
	[COLUMN_P50] = "p50_ns",
	[COLUMN_P99] = "p99_ns",
	[COLUMN_P99_9] = "p99_9_ns",
	[COLUMN_CPU_PER_REQUEST] = "cpu_ns_per_request",
	[COLUMN_CPU_PER_OP] = "cpu_ns_per_operation",
	[COLUMN_CPU_PER_GB] = "cpu_ns_per_byte",
	[COLUMN_USER] = "user",
	[COLUMN_RECEIVE] = "softirq_receive_ns_per_operation",
	[COLUMN_TRANSMIT] = "softirq_transmit_ns_per_operation",
	[COLUMN_PEER] = "softirq_peer_ns_per_operation",
	[COLUMN_SYSCALLS] = "syscalls_per_operation",
	[COLUMN_TURN] = "operations_per_turn",
	[COLUMN_CPU] = "cpu_share",
	[COLUMN_GENERATOR] = "generator_cpu_share",
	[COLUMN_SOFTIRQ] = "machine_softirq_share",
	[COLUMN_IDLE] = "machine_idle_share",
	[COLUMN_STEAL] = "machine_steal_share",
	[COLUMN_OTHER] = "machine_other_share",
	[COLUMN_UNATTRIBUTED] = "machine_softirq_unattributed_share",
	[COLUMN_AGAINST] = "vs",
	[COLUMN_VERDICT] = "verdict",
};
static_assert(COLUMN_COUNT <= 64, "a bit of a column set each");

const char *compare_column_name(unsigned i)
{
	return i < COLUMN_COUNT ? column_names[i] : NULL;
}

bool compare_columns_add(column_set *set, const char *name, size_t bytes)
{
	for (unsigned i = 0; i < COLUMN_COUNT; i++)
		if (strlen(column_names[i]) == bytes && !strncmp(column_names[i], name, bytes)) {
			*set |= UINT64_C(1) << i;
			return true;
		}
	return false;
}

/* ---- Cells ---- */

void compare_quantile_cell(struct table *t, const struct measure *row, double quantile)
{
	uint64_t ns;

	if (measure_quantile(row, quantile, &ns))
		table_cell(t, STYLE_PLAIN, "%s", human_us(ns).text);
	else
		table_cell(t, STYLE_DIM, "-");
}

/* The median of a figure, times scale; empty: cannot be told. */
static void figure_cell(struct table *t, const struct measure *row, enum figure figure,
			double scale)
{
	double value = figure_spread(row, figure).median;

	if (isnan(value))
		table_skip(t, 1);
	else
		table_cell(t, STYLE_PLAIN, "%s", human_number(value * scale).text);
}

static void share_cell(struct table *t, const struct measure *row, enum figure figure)
{
	double value = figure_spread(row, figure).median;

	if (isnan(value))
		table_skip(t, 1);
	else
		table_cell(t, STYLE_PLAIN, "%s", human_percent(value).text);
}

/* A cell with the generator's latency, the median over the visits. */
static void trip_cell(struct table *t, const struct measure *row, double quantile)
{
	uint64_t ns;

	if (measure_trip(row, quantile, &ns))
		table_cell(t, STYLE_PLAIN, "%s", human_us(ns).text);
	else
		table_skip(t, 1);
}

static enum style verdict_style(enum verdict_is is)
{
	return is == VERDICT_LESS ? STYLE_GOOD : is == VERDICT_MORE ? STYLE_BAD : STYLE_DIM;
}

/* The change against the first row, and what is known of it. */
static void verdict_cells(struct table *t, const struct group *g, unsigned i)
{
	if (g->count == 1) {
		table_skip(t, 2);
	} else if (i == 0) {
		table_cell(t, STYLE_PLAIN, "1st");
		table_skip(t, 1);
	} else {
		enum style style = verdict_style(g->verdicts[i].is);

		table_cell(t, style, "%s", group_change_text(g, i).text);
		table_cell(t, style, "%s", group_verdict_text(g, i).text);
	}
}

static void add_row(struct table *t, const struct group *g, unsigned i)
{
	const struct measure *row = g->rows[i];
	char engine[80];

	compare_engine_text(row, engine, sizeof(engine));
	table_cell(t, STYLE_PLAIN, "%s", row->listener);
	table_cell(t, STYLE_PLAIN, "%s", engine);
	figure_cell(t, row, FIGURE_REQUEST_RATE, 1);
	figure_cell(t, row, FIGURE_RATE, 1);
	figure_cell(t, row, FIGURE_BANDWIDTH, 1e-6);
	if (isnan(figure_spread(row, FIGURE_REQUEST_RATE).median))
		figure_cell(t, row, FIGURE_GENERATOR_BANDWIDTH, 1e-6);
	else
		table_skip(t, 1);
	trip_cell(t, row, 0.5);
	trip_cell(t, row, 0.99);
	compare_quantile_cell(t, row, 0.5);
	compare_quantile_cell(t, row, 0.99);
	compare_quantile_cell(t, row, 0.999);
	figure_cell(t, row, FIGURE_CPU_PER_REQUEST, 1e-3);
	figure_cell(t, row, FIGURE_CPU_PER_OP, 1e-3);
	if (g->cost == FIGURE_CPU_PER_BYTE)
		figure_cell(t, row, FIGURE_CPU_PER_BYTE, 1e3);
	else
		table_skip(t, 1);
	if ((row->cpu_user_ns || row->cpu_system_ns) && row->cpu_ns < USER_LEAST_NS)
		table_cell(t, STYLE_DIM, "-");
	else if (row->cpu_user_ns || row->cpu_system_ns)
		table_cell(t, STYLE_PLAIN, "%s",
			   human_percent((double)row->cpu_user_ns / (double)row->cpu_ns).text);
	else
		table_skip(t, 1);
	figure_cell(t, row, FIGURE_RECEIVE_PER_OP, 1e-3);
	figure_cell(t, row, FIGURE_TRANSMIT_PER_OP, 1e-3);
	figure_cell(t, row, FIGURE_PEER_PER_OP, 1e-3);
	table_cell(t, STYLE_PLAIN, "%.2f", figure_spread(row, FIGURE_SYSCALLS_PER_OP).median);
	table_cell(t, STYLE_PLAIN, "%s",
		   row->turns ? human_number(measure_ops_per_turn(row)).text : "-");
	share_cell(t, row, FIGURE_CPU_SHARE);
	share_cell(t, row, FIGURE_GENERATOR_CPU);
	share_cell(t, row, FIGURE_SOFTIRQ);
	share_cell(t, row, FIGURE_IDLE);
	if (figure_spread(row, FIGURE_STEAL).median >= 0.001)
		share_cell(t, row, FIGURE_STEAL);
	else
		table_skip(t, 1);
	if (row->generator.wall_ns && isnan(figure_spread(row, FIGURE_OTHER).median))
		table_cell(t, STYLE_DIM, "-");
	else
		share_cell(t, row, FIGURE_OTHER);
	share_cell(t, row, FIGURE_UNATTRIBUTED);
	verdict_cells(t, g, i);
}

static void add_group_heading(struct table *t, const struct group *g)
{
	char *title = group_title(g);
	unsigned rounds = group_rounds(g);

	if (rounds)
		table_heading(t, STYLE_BOLD, "%s (%s, %u round%s)", title,
			      compare_cost_name(g->cost), rounds, plural(rounds));
	else
		table_heading(t, STYLE_BOLD, "%s", title);
	free(title);
}

/* The columns that answer the question; all others are for --wide. */
static const bool answers[COLUMN_COUNT] = {
	[COLUMN_LISTENER] = true, [COLUMN_REQUESTS] = true, [COLUMN_P50] = true,
	[COLUMN_P99] = true,      [COLUMN_SYSCALLS] = true, [COLUMN_CPU_PER_REQUEST] = true,
	[COLUMN_RECEIVE] = true,  [COLUMN_TRANSMIT] = true, [COLUMN_CPU_PER_GB] = true,
	[COLUMN_AGAINST] = true,  [COLUMN_VERDICT] = true,
};

/* In their place, where there are no requests; and the engine where no name tells it. */
static void choose_columns(struct table *t, const struct groups *all, const char *service)
{
	bool shown[COLUMN_COUNT];

	memcpy(shown, answers, sizeof(shown));
	for (unsigned i = 0; i < all->count; i++) {
		const struct group *g = &all->list[i];

		for (unsigned j = 0; j < g->count && !strcmp(g->service, service); j++) {
			const struct measure *row = g->rows[j];

			shown[COLUMN_ENGINE] |= !strstr(row->listener, row->engine);
			shown[COLUMN_CPU_PER_OP] |= g->cost == FIGURE_CPU_PER_OP;
			shown[COLUMN_RATE] |= g->cost == FIGURE_CPU_PER_OP;
			shown[COLUMN_BANDWIDTH] |= g->cost == FIGURE_CPU_PER_BYTE;
		}
	}
	for (unsigned i = 0; i < COLUMN_COUNT; i++)
		if (!shown[i])
			table_omit(t, i);
}

static void take_columns(struct table *t, column_set set)
{
	set |= UINT64_C(1) << COLUMN_LISTENER;
	for (unsigned i = 0; i < COLUMN_COUNT; i++)
		if (!(set >> i & 1))
			table_omit(t, i);
}

static void render_service(struct output *out, const struct groups *all, const char *service,
			   column_set wanted)
{
	struct table *t = table_new(columns, COLUMN_COUNT);

	if (wanted != COLUMNS_ANSWER)
		take_columns(t, wanted);
	else
		choose_columns(t, all, service);
	for (unsigned i = 0; i < all->count; i++) {
		const struct group *g = &all->list[i];

		if (strcmp(g->service, service))
			continue;
		add_group_heading(t, g);
		for (unsigned j = 0; j < g->count; j++)
			add_row(t, g, j);
	}
	table_print(t, out, 2, true);
	table_free(t);
}

/* ---- Footer ---- */

/* Takes ownership of text; NULL: prints nothing. */
static void render_sentence(struct output *out, enum style style, char *text)
{
	if (text)
		output_wrapped(out, style, 2, "%s", text);
	free(text);
}

static void render_steps(struct output *out, const struct groups *all)
{
	const char *last = "";

	for (unsigned i = 0; i < all->count; i++)
		for (unsigned j = 0; j < all->list[i].count; j++) {
			const struct measure *row = all->list[i].rows[j];
			const char *name = row->generator.name;
			uint64_t step_ns = generator_step_ns(name), ns;

			if (!step_ns || !strcmp(name, last) || !measure_trip(row, 0.99, &ns))
				continue;
			last = name;
			output_wrapped(out, STYLE_DIM, 2,
				       "%s prints round trips in steps of %s: trip50 and trip99 "
				       "are no finer.",
				       name, human_time(step_ns).text);
		}
}

static void render_conditions(struct output *out, const struct groups *all)
{
	char *text = groups_conditions(all);

	for (char *line = text ? strtok(text, "\n") : NULL; line; line = strtok(NULL, "\n"))
		output_wrapped(out, STYLE_WARN, 2, "%s", line);
	free(text);
}

/* What the table does not show and a reader must know. */
static void render_warnings(struct output *out, const struct groups *all)
{
	uint64_t errors = 0;

	for (unsigned i = 0; i < all->count; i++)
		for (unsigned j = 0; j < all->list[i].count; j++)
			errors += all->list[i].rows[j]->errors;
	if (errors)
		output_wrapped(out, STYLE_BAD, 2, "%s operation%s failed.",
			       human_count(errors).text, plural(errors));
	render_sentence(out, STYLE_WARN, groups_holes(all));
	render_sentence(out, STYLE_WARN, groups_generator_limit(all));
	render_sentence(out, STYLE_WARN, groups_shared_cpus(all));
	render_sentence(out, STYLE_WARN, groups_shared_cores(all));
	render_sentence(out, STYLE_WARN, groups_refused_requests(all));
	render_sentence(out, STYLE_WARN, groups_other_programs(all));
	render_steps(out, all);
	if (*all->minor)
		output_wrapped(out, STYLE_DIM, 2,
			       "Not shown, as less than 1 %% of their listener's operations: %s.",
			       all->minor);
}

/* Names the listeners without operations; any: others had some. */
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

void compare_render(struct output *out, const struct measures *m, column_set wanted, bool notes)
{
	unsigned width = out->width;
	struct groups all;

	if (wanted == COLUMNS_ANSWER && (width == 0 || width > NARROW))
		out->width = NARROW;

	groups_init(&all, m);
	render_conditions(out, &all);
	for (unsigned i = 0; i < all.count; i++) {
		unsigned first = 0;

		while (strcmp(all.list[first].service, all.list[i].service))
			first++;
		if (first != i)
			continue;
		render_service(out, &all, all.list[i].service, wanted);
		putc('\n', out->file);
	}
	render_warnings(out, &all);
	if (all.count && notes)
		compare_notes(out, &all);
	render_idle(out, m, all.count > 0);
	groups_fini(&all);
	out->width = width;
}
