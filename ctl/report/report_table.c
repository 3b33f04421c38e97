/* The figures of a group.  See report_page.h. */
#include <math.h>
#include <string.h>

#include "human.h"
#include "report_chart.h"
#include "report_page.h"
#include "svg.h"
#include "util.h"

struct cell {
	char text[96], small[80]; /* "": there is none; small is below text */
};

enum column_kind {
	COLUMN_LISTENER,
	COLUMN_ENGINE,
	COLUMN_VISITS,
	COLUMN_FIGURE,  /* its median */
	COLUMN_PERCENT, /* the same as a percentage */
	COLUMN_COST,    /* the figure by which the group is compared */
	COLUMN_AGAINST,
	COLUMN_USER,
	COLUMN_SERVER, /* a percentile in the server */
	COLUMN_TRIP,   /* a percentile by the generator */
	COLUMN_SAMPLES,
};

static const struct column {
	const char *title, *unit;
	enum column_kind kind;
	enum figure figure;
	bool spread; /* shows lowest and highest, too */
	double factor, quantile;
} columns[] = {
	{ "listener", "", COLUMN_LISTENER, 0, false, 0, 0 },
	{ "engine", "", COLUMN_ENGINE, 0, false, 0, 0 },
	{ "cost", NULL, COLUMN_COST, 0, true, 0, 0 },
	{ "vs first", "", COLUMN_AGAINST, 0, false, 0, 0 },
	{ "user", "%", COLUMN_USER, 0, false, 0, 0 },
	{ "requests", "/s", COLUMN_FIGURE, FIGURE_REQUEST_RATE, true, 1, 0 },
	{ "operations", "/s", COLUMN_FIGURE, FIGURE_RATE, false, 1, 0 },
	{ "bytes", "MB/s", COLUMN_FIGURE, FIGURE_BANDWIDTH, false, 1e-6, 0 },
	{ "by the generator", "MB/s", COLUMN_FIGURE, FIGURE_GENERATOR_BANDWIDTH, false, 1e-6, 0 },
	{ "trip p50", "\xc2\xb5s", COLUMN_TRIP, 0, false, 0, 0.5 },
	{ "trip p99", "\xc2\xb5s", COLUMN_TRIP, 0, false, 0, 0.99 },
	{ "p50", "\xc2\xb5s", COLUMN_SERVER, 0, false, 0, 0.5 },
	{ "p99", "\xc2\xb5s", COLUMN_SERVER, 0, false, 0, 0.99 },
	{ "p99.9", "\xc2\xb5s", COLUMN_SERVER, 0, false, 0, 0.999 },
	{ "p99.99", "\xc2\xb5s", COLUMN_SERVER, 0, false, 0, 0.9999 },
	{ "samples", "", COLUMN_SAMPLES, 0, false, 0, 0 },
	{ "system calls", "/op", COLUMN_FIGURE, FIGURE_SYSCALLS_PER_OP, false, 1, 0 },
	{ "ops", "/turn", COLUMN_FIGURE, FIGURE_OPS_PER_TURN, false, 1, 0 },
	{ "visits", "", COLUMN_VISITS, 0, false, 0, 0 },
	{ "server", "% CPU", COLUMN_PERCENT, FIGURE_CPU_SHARE, false, 0, 0 },
	{ "generator", "% CPU", COLUMN_PERCENT, FIGURE_GENERATOR_CPU, false, 0, 0 },
	{ "softirq, all", "% CPU", COLUMN_PERCENT, FIGURE_SOFTIRQ, false, 0, 0 },
	{ "softirq rx", "\xc2\xb5s/op", COLUMN_FIGURE, FIGURE_RECEIVE_PER_OP, false, 1e-3, 0 },
	{ "softirq tx", "\xc2\xb5s/op", COLUMN_FIGURE, FIGURE_TRANSMIT_PER_OP, false, 1e-3, 0 },
	{ "softirq, clients", "\xc2\xb5s/op", COLUMN_FIGURE, FIGURE_PEER_PER_OP, false, 1e-3, 0 },
	{ "softirq, unattributed", "% CPU", COLUMN_PERCENT, FIGURE_UNATTRIBUTED, false, 0, 0 },
	{ "idle, all", "% CPU", COLUMN_PERCENT, FIGURE_IDLE, false, 0, 0 },
	{ "steal, all", "% CPU", COLUMN_PERCENT, FIGURE_STEAL, false, 0, 0 },
	{ "other programs", "% CPU", COLUMN_PERCENT, FIGURE_OTHER, false, 0, 0 },
};

static bool is_left(const struct column *c)
{
	return c->kind == COLUMN_LISTENER || c->kind == COLUMN_ENGINE;
}

#define CELL(...) snprintf(cell->text, sizeof(cell->text), __VA_ARGS__)

static void figure_cell(struct cell *cell, const struct measure *row, enum figure figure,
			double factor, bool with_spread)
{
	struct spread s = figure_spread(row, figure);

	if (isnan(s.median))
		return;
	CELL("%s", human_number(s.median * factor).text);
	if (with_spread && s.count > 1)
		snprintf(cell->small, sizeof(cell->small), "%s\xe2\x80\x93%s",
			 human_number(s.low * factor).text, human_number(s.high * factor).text);
}

static void against_cell(struct cell *cell, const struct group *g, unsigned i)
{
	if (g->count == 1)
		return;
	CELL("%s", i == 0 ? "the first" : group_change_text(g, i).text);
	if (i > 0)
		snprintf(cell->small, sizeof(cell->small), "%s", group_verdict_text(g, i).text);
}

static void latency_cell(struct cell *cell, const struct measure *row, const struct column *c)
{
	uint64_t ns;

	if (c->kind == COLUMN_TRIP ? measure_trip(row, c->quantile, &ns)
				   : measure_quantile(row, c->quantile, &ns))
		CELL("%s", human_us(ns).text);
}

static void share_cell(struct cell *cell, double share)
{
	if (!isnan(share))
		CELL("%s", human_percent(share).text);
}

static void fill_cell(struct cell *cell, const struct column *c, const struct group *g, unsigned i)
{
	const struct measure *row = g->rows[i];

	*cell = (struct cell){ 0 };
	switch (c->kind) {
	case COLUMN_LISTENER:
		CELL("%s", row->listener);
		break;
	case COLUMN_ENGINE:
		compare_engine_text(row, cell->text, sizeof(cell->text));
		break;
	case COLUMN_VISITS:
		CELL("%u", measure_visits(row));
		break;
	case COLUMN_FIGURE:
		figure_cell(cell, row, c->figure, c->factor, c->spread);
		break;
	case COLUMN_PERCENT:
		share_cell(cell, figure_spread(row, c->figure).median);
		break;
	case COLUMN_COST:
		figure_cell(cell, row, g->cost, chart_cost_scale(g->cost), true);
		break;
	case COLUMN_AGAINST:
		against_cell(cell, g, i);
		break;
	case COLUMN_USER:
		if (row->cpu_ns && (row->cpu_user_ns || row->cpu_system_ns))
			share_cell(cell, (double)row->cpu_user_ns / (double)row->cpu_ns);
		break;
	case COLUMN_SERVER:
	case COLUMN_TRIP:
		latency_cell(cell, row, c);
		break;
	case COLUMN_SAMPLES:
		CELL("%s", human_count(row->latency.count).text);
		break;
	}
}

static bool is_empty(const struct column *c, const struct group *g)
{
	struct cell cell;

	for (unsigned i = 0; i < g->count; i++) {
		fill_cell(&cell, c, g, i);
		if (*cell.text)
			return false;
	}
	return true;
}

static void put_header(FILE *to, const struct column *c, const struct group *g)
{
	bool cost = c->kind == COLUMN_COST;

	fprintf(to, "<th scope=\"col\"%s>%s", is_left(c) ? " class=\"left\"" : "",
		cost ? compare_cost_name(g->cost) : c->title);
	fprintf(to, "<br/>%s</th>\n", cost ? chart_cost_unit(g->cost) : c->unit);
}

static void put_cell(FILE *to, const struct column *c, const struct group *g, unsigned i)
{
	struct cell cell;

	fill_cell(&cell, c, g, i);
	fprintf(to, "<td%s>", is_left(c) ? " class=\"left\"" : "");
	svg_escape(to, cell.text);
	if (*cell.small) {
		fputs("<br/><small>", to);
		svg_escape(to, cell.small);
		fputs("</small>", to);
	}
	fputs("</td>", to);
}

void report_table(FILE *to, const struct group *g)
{
	bool shown[ARRAY_SIZE(columns)];

	fputs("<div class=\"scroll\"><table>\n<thead><tr>", to);
	for (unsigned c = 0; c < ARRAY_SIZE(columns); c++) {
		shown[c] = !is_empty(&columns[c], g);
		if (shown[c])
			put_header(to, &columns[c], g);
	}
	fputs("</tr></thead>\n<tbody>\n", to);
	for (unsigned i = 0; i < g->count; i++) {
		fputs("<tr>", to);
		for (unsigned c = 0; c < ARRAY_SIZE(columns); c++)
			if (shown[c])
				put_cell(to, &columns[c], g, i);
		fputs("</tr>\n", to);
	}
	fputs("</tbody></table></div>\n", to);
}
