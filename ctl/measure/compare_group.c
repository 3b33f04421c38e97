/* Grouping and judging of rows.  See compare_group.h. */
#include "compare_group.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "curve.h"
#include "field.h"
#include "hosts.h"
#include "human.h"
#include "must.h"
#include "nic_link.h"
#include "text.h"
#include "util.h"

/* ---- Grouping ---- */

static struct group *find_group(struct groups *g, const struct measure *row)
{
	for (unsigned i = 0; i < g->count; i++) {
		struct group *group = &g->list[i];

		if (!strcmp(group->service, row->service) && !strcmp(group->label, row->label) &&
		    !strcmp(group->operation, row->operation) && !strcmp(group->pair, row->pair))
			return group;
	}
	g->list = must(reallocarray(g->list, g->count + 1, sizeof(*g->list)));
	g->list[g->count] = (struct group){
		.service = row->service,
		.label = row->label,
		.operation = row->operation,
		.pair = row->pair,
	};
	return &g->list[g->count++];
}

static void group_add(struct group *group, struct measure *row)
{
	group->rows = must(reallocarray(group->rows, group->count + 1, sizeof(*group->rows)));
	group->rows[group->count++] = row;
}

static void group_judge(struct group *g);

/* Takes ownership of name. */
static void add_once(json_t *names, json_t *name)
{
	json_t *other;
	size_t i;

	json_array_foreach(names, i, other)
		if (json_equal(name, other)) {
			json_decref(name);
			return;
		}
	json_array_append_new(names, name);
}

/* All pairs hold together, and all values of a sweep. */
static unsigned count_comparisons(const struct groups *all, const struct group *g)
{
	unsigned count = 0;

	for (unsigned i = 0; i < all->count; i++) {
		const struct group *other = &all->list[i];

		if (other == g || (*g->pair && *other->pair) || curve_has_both(g, other))
			count += other->count - 1;
	}
	return count;
}

void groups_init(struct groups *g, const struct measures *m)
{
	json_t *minor = json_array();

	*g = (struct groups){};
	for (unsigned i = 0; i < m->count; i++) {
		struct measure *row = m->rows[i];

		if (measure_is_minor(row))
			add_once(minor, json_sprintf("%s %s", row->service, row->operation));
		else if (row->count > 0)
			group_add(find_group(g, row), row);
	}
	for (unsigned i = 0; i < g->count; i++) {
		struct group *group = &g->list[i];

		group->comparisons = count_comparisons(g, group);
		group->cost = compare_cost(group->rows, group->count);
		group->within = m->within > 0 ? m->within : WITHIN_DEFAULT;
		group_judge(group);
	}
	g->minor = field_show(minor);
	json_decref(minor);
}

void groups_fini(struct groups *g)
{
	for (unsigned i = 0; i < g->count; i++) {
		free(g->list[i].rows);
		free(g->list[i].verdicts);
	}
	free(g->list);
	free(g->minor);
}

/* ---- Cost ---- */

/* Does the server send no answers?  Then an operation has no request whose size it could match. */
static bool is_one_way(const struct measure *row)
{
	return MIN(row->bytes_in, row->bytes_out) < MAX(row->bytes_in, row->bytes_out) / 100;
}

static double bytes_per_op(const struct measure *row)
{
	return row->listener_count
		       ? (double)(row->bytes_in + row->bytes_out) / (double)row->listener_count
		       : 0;
}

static bool differ_in_size(struct measure *const *rows, unsigned count)
{
	double low = bytes_per_op(rows[0]), high = low;

	if (rows[0]->batch && is_one_way(rows[0]))
		return true;
	for (unsigned i = 1; i < count; i++) {
		double bytes = bytes_per_op(rows[i]);

		low = MIN(low, bytes);
		high = MAX(high, bytes);
	}
	return low > 0 && high > low * 1.1;
}

enum figure compare_cost(struct measure *const *rows, unsigned count)
{
	bool counted = true;

	for (unsigned i = 0; i < count; i++)
		counted &= !isnan(figure_spread(rows[i], FIGURE_CPU_PER_REQUEST).median);
	if (counted)
		return FIGURE_CPU_PER_REQUEST;
	return differ_in_size(rows, count) ? FIGURE_CPU_PER_BYTE : FIGURE_CPU_PER_OP;
}

double group_cost(const struct group *g, unsigned i)
{
	return figure_spread(g->rows[i], g->cost).median;
}

/* ---- Judging ---- */

static bool same_round(const struct measure *a, const struct measure *b)
{
	return a->visit.round > 0 && a->visit.round == b->visit.round &&
	       !strcmp(a->visit.run, b->visit.run);
}

const struct measure *visit_beside(const struct measure *row, const struct measure *like)
{
	for (unsigned i = 0; i < measure_visits(row); i++)
		if (same_round(measure_visit_at(row, i), like))
			return measure_visit_at(row, i);
	return NULL;
}

/* Row `row` against row `to`. */
static struct verdict judge(const struct group *g, unsigned to, unsigned row, enum figure figure,
			    unsigned comparisons)
{
	const struct measure *first = g->rows[to];
	unsigned visits = measure_visits(first), rounds = 0;
	double *values = must(calloc(2 * (size_t)visits, sizeof(*values)));
	struct verdict v;

	for (unsigned i = 0; i < visits; i++) {
		const struct measure *base = measure_visit_at(first, i),
				     *beside = visit_beside(g->rows[row], base);

		if (!beside)
			continue;
		values[rounds] = figure_value(base, figure);
		values[visits + rounds++] = figure_value(beside, figure);
	}
	v = verdict_of(values, values + visits, rounds, comparisons, g->within);
	free(values);
	return v;
}

/* Was one thread of the generator, on each of its hosts, always busy while the server was not? */
static bool measures_generator(const struct measure *row)
{
	double generator = hosts_count(row) ? hosts_least_share(row)
					    : figure_spread(row, FIGURE_GENERATOR_SHARE).median;
	double server = figure_spread(row, FIGURE_CPU_SHARE).median /
			(double)MAX(row->workers, (uint64_t)1);

	return generator >= 0.9 && server < 0.9 * generator && !link_is_limit(row);
}

/* Is the rate that of another part than the server? */
static bool is_limited(const struct measure *row)
{
	return link_is_limit(row) || measures_generator(row);
}

const enum figure group_side_figures[GROUP_SIDE_FIGURES] = { FIGURE_REQUEST_RATE, FIGURE_TRIP50,
							     FIGURE_TRIP99 };

struct verdict group_side_verdict(const struct group *g, unsigned row, unsigned side)
{
	enum figure figure = group_side_figures[side];
	struct verdict v = judge(g, 0, row, figure, g->comparisons * GROUP_SIDE_FIGURES);

	if (figure == FIGURE_REQUEST_RATE && (is_limited(g->rows[0]) || is_limited(g->rows[row])))
		v.is = VERDICT_TOO_FEW_ROUNDS;
	return v;
}

static void group_judge(struct group *g)
{
	g->verdicts = must(calloc(g->count, sizeof(*g->verdicts)));
	for (unsigned i = 1; i < g->count; i++)
		g->verdicts[i] = judge(g, 0, i, g->cost, g->comparisons);
}

static bool is_user(const struct measure *row)
{
	return !strcmp(field_text(row->tls, "mode"), "user");
}

unsigned group_user_row(const struct group *g, unsigned i)
{
	if (!g->rows[i]->tls || is_user(g->rows[i]))
		return 0;
	for (unsigned j = 1; j < g->count; j++)
		if (is_user(g->rows[j]) && !strcmp(g->rows[j]->engine, g->rows[i]->engine))
			return j;
	return 0;
}

struct verdict group_user_verdict(const struct group *g, unsigned i)
{
	unsigned comparisons = 0;

	for (unsigned j = 0; j < g->count; j++)
		comparisons += group_user_row(g, j) > 0;
	return judge(g, group_user_row(g, i), i, g->cost, comparisons);
}

double group_change(const struct group *g, unsigned i)
{
	if (g->verdicts[i].rounds > 0)
		return g->verdicts[i].change;
	return group_cost(g, i) / group_cost(g, 0) - 1;
}

bool group_is_judged(const struct group *g)
{
	for (unsigned i = 1; i < g->count; i++)
		if (g->verdicts[i].is != VERDICT_TOO_FEW_ROUNDS)
			return true;
	return false;
}

unsigned group_rounds(const struct group *g)
{
	unsigned most = 0;

	for (unsigned i = 1; i < g->count; i++)
		most = MAX(most, g->verdicts[i].rounds);
	return most;
}

/* ---- Names ---- */

/* Features chosen by configuration that distinguish a listener from others of its engine. */
static const char *const chosen_features[][2] = {
	{ "sqpoll", "+sqpoll" },       { "send_zc", "+zc" }, { "busy_poll", "+busy" },
	{ "napi_busy_poll", "+napi" }, { "drop", "+drop" },  { "zcrx", "+zcrx" },
};

void compare_engine_text(const struct measure *row, char *text, size_t bytes)
{
	size_t used = field_engine(row->engine, row->features, text, bytes), index;
	json_t *store;

	for (unsigned i = 0; i < ARRAY_SIZE(chosen_features) && used < bytes; i++)
		if (field_has(row->features, "", chosen_features[i][0]))
			used += (size_t)snprintf(text + used, bytes - used, "%s",
						 chosen_features[i][1]);
	if (row->tls && used < bytes) {
		const char *mode = field_text(row->tls, "mode");

		used += (size_t)snprintf(text + used, bytes - used, "+%s",
					 strcmp(mode, "user") != 0 ? mode : "tls");
	}
	json_array_foreach(row->stores, index, store)
		if (used < bytes)
			used += (size_t)snprintf(text + used, bytes - used, "%c%s",
						 index ? ',' : '/', field_text(store, ""));
}

char *group_title(const struct group *g)
{
	bool operation = strcmp(g->operation, g->service) != 0;
	char *text;
	FILE *to = text_open(&text);

	fprintf(to, "%s%s%s%s%s%s%s", g->service, operation ? " " : "",
		operation ? g->operation : "", *g->pair ? ", " : "", g->pair, *g->label ? ": " : "",
		g->label);
	fclose(to);
	return text;
}

char *group_tls(const struct group *g)
{
	json_t *ways = json_array();
	char *text;

	for (unsigned i = 0; i < g->count; i++) {
		const json_t *tls = g->rows[i]->tls;

		if (tls)
			add_once(ways, json_sprintf("tls by %s with %s", field_text(tls, "library"),
						    field_text(tls, "cipher")));
		if (*field_text(tls, "driver"))
			add_once(ways, json_sprintf("the kernel by %s", field_text(tls, "driver")));
	}
	text = json_array_size(ways) ? field_show(ways) : NULL;
	json_decref(ways);
	return text;
}

/* ---- Warnings ---- */

double group_rate_apart(const struct group *g, unsigned row)
{
	enum figure rate = g->cost == FIGURE_CPU_PER_REQUEST ? FIGURE_REQUEST_RATE
			   : g->cost == FIGURE_CPU_PER_BYTE  ? FIGURE_BANDWIDTH
							     : FIGURE_RATE;

	return fabs(figure_spread(g->rows[row], rate).median /
			    figure_spread(g->rows[0], rate).median -
		    1);
}

char *groups_generator_limit(const struct groups *all)
{
	const struct measure *first = NULL;
	unsigned count = 0, rows = 0;
	double apart = 0;
	char *text;
	FILE *to;

	for (unsigned i = 0; i < all->count; i++)
		for (unsigned j = 0; j < all->list[i].count; j++) {
			const struct measure *row = all->list[i].rows[j];

			rows++;
			if (!measures_generator(row))
				continue;
			first = first ? first : row;
			apart = fmax(apart, group_rate_apart(&all->list[i], j));
			count++;
		}
	if (!first)
		return NULL;
	to = text_open(&text);
	fprintf(to,
		"The generator was the limit in %u of %u rows (%s: its busiest thread at %s %% of "
		"a CPU, the server at %s %%): rates there are the generator's",
		count, rows, first->listener,
		figure_text(FIGURE_GENERATOR_SHARE,
			    figure_spread(first, FIGURE_GENERATOR_SHARE).median)
			.text,
		figure_text(FIGURE_CPU_SHARE, figure_spread(first, FIGURE_CPU_SHARE).median).text);
	if (apart > 0)
		fprintf(to, ", which differ by up to %s %%", human_percent(apart).text);
	fputs("; CPU per request is still the server's.", to);
	fclose(to);
	return text;
}

static bool shares_cpu(const struct measure *row)
{
	return row->generator.shared_cpus > 0;
}

static bool shares_core(const struct measure *row)
{
	return row->generator.sibling_cpus > 0;
}

/* The sentence about the listeners of which `is` is true; NULL: there are none. */
static char *name_rows(const struct groups *all, bool (*is)(const struct measure *row),
		       const char *before, const char *after)
{
	json_t *listeners = json_array();
	char *names, *text = NULL;

	for (unsigned i = 0; i < all->count; i++)
		for (unsigned j = 0; j < all->list[i].count; j++)
			if (is(all->list[i].rows[j]))
				add_once(listeners, json_string(all->list[i].rows[j]->listener));
	names = field_show(listeners);
	if (*names)
		text = text_new("%s%s%s", before, names, after);
	free(names);
	json_decref(listeners);
	return text;
}

char *groups_shared_cpus(const struct groups *all)
{
	char *pinning = groups_pinning(all);
	char *after = text_new(" may run on the same CPUs: %s.", pinning);
	char *text = name_rows(all, shares_cpu, "The generator and ", after);

	free(pinning);
	free(after);
	return text;
}

char *groups_shared_cores(const struct groups *all)
{
	return name_rows(
		all, shares_core, "The generator and ",
		" run on hardware threads of the same core, which slow each other down: pin "
		"them to different cores (`lscpu -e` lists them).");
}

static bool is_saturated(const struct measure *row)
{
	return !isnan(figure_value(row, FIGURE_TURN_P99));
}

char *groups_saturated(const struct groups *all)
{
	return name_rows(all, is_saturated, "",
			 " had no time to sleep: requests also waited in their sockets, as long as "
			 "a turn (turn99), before p50 and p99 began to count; connections over "
			 "rate (cycle) has all of it.");
}

static bool does_not_add_up(const struct measure *row)
{
	return row->generator.wall_ns && row->machine.total_ns &&
	       row->machine.irq_time != IRQ_TIME_UNKNOWN && isnan(figure_value(row, FIGURE_OTHER));
}

char *groups_inexact(const struct groups *all)
{
	return name_rows(all, does_not_add_up, "The CPU times of ",
			 " and of the generator are more than the machine was busy, by more than "
			 "2 % and its clock ticks: they are not exact.");
}

static bool has_refused(const struct measure *row)
{
	for (unsigned i = 0; i < measure_visits(row); i++)
		if (measure_visit_at(row, i)->generator.refused_requests)
			return true;
	return false;
}

char *groups_refused_requests(const struct groups *all)
{
	return name_rows(all, has_refused, "The generator's count of requests does not fit ",
			 ": it is more than there was time for at its rate, or than the listener "
			 "counted. It is not used.");
}
