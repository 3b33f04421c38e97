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

/* The number of comparisons among which the chance of error is divided.  That is the rows of a
 * group but the first; for --pair and --build those of all pairs, and for --sweep those of all its
 * values, as the user looks for a difference in any of them. */
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
			field_add_once(minor, json_sprintf("%s %s", row->service, row->operation));
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

bool groups_next(const struct groups *all, struct groups_at *at)
{
	at->index = at->row ? at->index + 1 : 0;
	for (; at->group_index < all->count; at->group_index++, at->index = 0) {
		at->group = &all->list[at->group_index];
		if (at->index < at->group->count) {
			at->row = at->group->rows[at->index];
			at->verdict = at->index ? &at->group->verdicts[at->index] : NULL;
			return true;
		}
	}
	return false;
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

/* The verdict on row `row` against row `to`, from the rounds in which both were visited: a slow
 * moment of the machine is in both visits of its round, and cancels in their ratio. */
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

/* Was the rate limited by the link or the generator, and not by the server? */
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
	if (!isnan(g->verdicts[i].change))
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

struct phrase compare_engine_text(const struct measure *row)
{
	const char *mode = field_text(row->tls, "mode");
	struct phrase p = { "" };
	json_t *store;
	size_t i;

	field_engine(row->engine, row->features, p.text, sizeof(p.text));
	for (i = 0; i < ARRAY_SIZE(chosen_features); i++)
		if (field_has(row->features, "", chosen_features[i][0]))
			text_append(p.text, sizeof(p.text), "%s", chosen_features[i][1]);
	if (row->tls)
		text_append(p.text, sizeof(p.text), "+%s", strcmp(mode, "user") ? mode : "tls");
	json_array_foreach(row->stores, i, store)
		text_append(p.text, sizeof(p.text), "%c%s", i ? ',' : '/', field_text(store, ""));
	return p;
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
			field_add_once(ways,
				       json_sprintf("tls by %s with %s", field_text(tls, "library"),
						    field_text(tls, "cipher")));
		if (*field_text(tls, "driver"))
			field_add_once(ways,
				       json_sprintf("the kernel by %s", field_text(tls, "driver")));
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

	for (struct groups_at at = { 0 }; groups_next(all, &at); rows++) {
		if (!measures_generator(at.row))
			continue;
		first = first ? first : at.row;
		apart = fmax(apart, group_rate_apart(at.group, at.index));
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
