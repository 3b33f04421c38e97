/* Grouping and judging of rows.  See compare_group.h. */
#include "compare_group.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "field.h"
#include "human.h"
#include "util.h"

enum { MINOR_PARTS = 100 }; /* an operation of less than this part of its listener's is minor */

static FILE *open_text(char **text, size_t *bytes)
{
	FILE *to = open_memstream(text, bytes);

	if (!to)
		abort();
	return to;
}

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

static void group_add(struct group *group, struct measure *row)
{
	group->rows = reallocarray(group->rows, group->count + 1, sizeof(*group->rows));
	if (!group->rows)
		abort();
	group->rows[group->count++] = row;
}

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

void groups_init(struct groups *g, const struct measures *m)
{
	json_t *minor = json_array();

	*g = (struct groups){};
	for (unsigned i = 0; i < m->count; i++) {
		struct measure *row = m->rows[i];

		if (row->count > 0 && row->count < row->listener_count / MINOR_PARTS)
			add_once(minor, json_sprintf("%s %s", row->service, row->operation));
		else if (row->count > 0)
			group_add(find_group(g, row), row);
	}
	for (unsigned i = 0; i < g->count; i++) {
		struct group *group = &g->list[i];

		group->cost = compare_cost(group->rows, group->count);
		group->noise = compare_noise(group->rows, group->count, group->cost);
	}
	g->minor = field_show(minor);
	json_decref(minor);
}

void groups_fini(struct groups *g)
{
	for (unsigned i = 0; i < g->count; i++)
		free(g->list[i].rows);
	free(g->list);
	free(g->minor);
}

/* ---- Cost ---- */

/* Does the server send no answers?  Then an operation has no request whose size it could match. */
static bool is_one_way(const struct measure *row)
{
	return MIN(row->bytes_in, row->bytes_out) < MAX(row->bytes_in, row->bytes_out) / 100;
}

static bool differ_in_size(struct measure *const *rows, unsigned count)
{
	double low = measure_bytes_per_op(rows[0]), high = low;

	if (rows[0]->batch && is_one_way(rows[0]))
		return true;
	for (unsigned i = 1; i < count; i++) {
		double bytes = measure_bytes_per_op(rows[i]);

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

double compare_noise(struct measure *const *rows, unsigned count, enum figure figure)
{
	double noise = 0;

	for (unsigned i = 0; i < count; i++) {
		struct spread s = figure_spread(rows[i], figure);

		noise = MAX(noise, spread_noise(&s));
		if (isnan(spread_noise(&s)))
			return NAN;
	}
	return noise;
}

double group_cost(const struct group *g, unsigned i)
{
	return figure_spread(g->rows[i], g->cost).median;
}

bool group_is_apart(const struct group *g, double a, double b)
{
	return fabs(b - a) > g->noise * MIN(a, b);
}

const struct measure *group_best(const struct group *g)
{
	unsigned best = 0;

	for (unsigned i = 1; i < g->count; i++)
		if (group_cost(g, i) < group_cost(g, best))
			best = i;
	for (unsigned i = 0; i < g->count; i++)
		if (i != best && !group_is_apart(g, group_cost(g, i), group_cost(g, best)))
			return NULL;
	return g->count > 1 ? g->rows[best] : NULL;
}

/* ---- Names ---- */

/* Features chosen by configuration that distinguish a listener from others of its engine. */
static const char *const chosen_features[][2] = {
	{ "sqpoll", "+sqpoll" },
	{ "send_zc", "+zc" },
	{ "busy_poll", "+busy" },
	{ "napi_busy_poll", "+napi" },
};

void compare_engine_text(const struct measure *row, char *text, size_t bytes)
{
	size_t used = field_engine(row->engine, row->features, text, bytes), index;
	json_t *store;

	for (unsigned i = 0; i < ARRAY_SIZE(chosen_features) && used < bytes; i++)
		if (field_has(row->features, "", chosen_features[i][0]))
			used += (size_t)snprintf(text + used, bytes - used, "%s",
						 chosen_features[i][1]);
	json_array_foreach(row->stores, index, store)
		if (used < bytes)
			used += (size_t)snprintf(text + used, bytes - used, "%c%s",
						 index ? ',' : '/', field_text(store, ""));
}

const char *compare_cost_name(enum figure cost)
{
	return cost == FIGURE_CPU_PER_REQUEST ? "CPU per request"
	       : cost == FIGURE_CPU_PER_BYTE  ? "CPU per GB"
					      : "CPU per operation";
}

char *group_title(const struct group *g)
{
	bool operation = strcmp(g->operation, g->service) != 0;
	char *text;
	size_t bytes;
	FILE *to = open_text(&text, &bytes);

	fprintf(to, "%s%s%s%s%s", g->service, operation ? " " : "", operation ? g->operation : "",
		*g->label ? ": " : "", g->label);
	fclose(to);
	return text;
}

/* ---- Sentences ---- */

/* The change of row i relative to the first; NaN: unknown. */
static double change_of(const struct group *g, unsigned i)
{
	return (group_cost(g, i) - group_cost(g, 0)) / group_cost(g, 0);
}

/* The change of row i against the first one if it is beyond the noise, else 0. */
static double judged_change(const struct group *g, unsigned i)
{
	return group_is_apart(g, group_cost(g, 0), group_cost(g, i)) ? change_of(g, i) : 0;
}

static bool is_judged(const struct group *g)
{
	return g->count > 1 && !isnan(g->noise) && !isnan(group_cost(g, 0));
}

/* Neither of the two rows differs from the baseline by more than the noise. */
static bool same_judgement(const struct group *g, unsigned first, unsigned i)
{
	return judged_change(g, first) == 0 && judged_change(g, i) == 0;
}

char *group_verdict(const struct group *g)
{
	char engine[80], *text;
	size_t bytes;
	FILE *to;

	if (!is_judged(g))
		return NULL;
	to = open_text(&text, &bytes);
	compare_engine_text(g->rows[0], engine, sizeof(engine));
	fprintf(to, "%s against %s: ", compare_cost_name(g->cost), engine);
	for (unsigned i = 1; i < g->count; i++) {
		double change = judged_change(g, i);

		compare_engine_text(g->rows[i], engine, sizeof(engine));
		fputs(engine, to);
		if (i + 1 < g->count && same_judgement(g, i, i + 1)) {
			fputs(i + 2 < g->count && same_judgement(g, i, i + 2) ? ", " : " and ", to);
			continue;
		}
		if (change != 0)
			fprintf(to, " %s %% %s", human_percent(fabs(change)).text,
				change < 0 ? "less" : "more");
		else
			fputs(" no difference beyond the noise", to);
		fputs(i + 1 < g->count ? ", " : "", to);
	}
	fprintf(to, " (noise %s %%).", human_percent(g->noise).text);
	fclose(to);
	return text;
}

/* How often an engine was better, worse and compared at all: { engine: [less, more, all] }. */
static void count_change(json_t *engines, const char *engine, double change)
{
	json_t *counts = json_object_get(engines, engine);

	if (!counts) {
		counts = json_pack("[i, i, i]", 0, 0, 0);
		json_object_set_new(engines, engine, counts);
	}
	for (unsigned i = 0; i < 3; i++) {
		bool counted = i == 0 ? change < 0 : i == 1 ? change > 0 : true;
		json_t *count = json_array_get(counts, i);

		json_integer_set(count, json_integer_value(count) + counted);
	}
}

/* "io_uring costs less CPU in 6 and more in 1 of 11 loads, io_uring-poll more in 2 of 6" */
static void print_counts(FILE *to, json_t *engines)
{
	const char *engine, *separator = "";
	json_t *counts;

	json_object_foreach(engines, engine, counts) {
		int less = (int)json_integer_value(json_array_get(counts, 0));
		int more = (int)json_integer_value(json_array_get(counts, 1));
		int all = (int)json_integer_value(json_array_get(counts, 2));

		if (!less && !more)
			continue;
		fprintf(to, "%s%s costs ", separator, engine);
		if (less)
			fprintf(to, "less CPU in %d", less);
		if (more)
			fprintf(to, "%smore%s in %d", less ? " and " : "", less ? "" : " CPU",
				more);
		fprintf(to, " of %d load%s", all, plural((unsigned)all));
		separator = ", ";
	}
	fputs("; all else is within the noise. ", to);
}

/* The largest change that counts. */
struct largest {
	const struct group *group;
	unsigned row;
	double change;
};

static void print_largest(FILE *to, const struct largest *l)
{
	char engine[80], base[80], *title;

	title = group_title(l->group);
	compare_engine_text(l->group->rows[0], base, sizeof(base));
	compare_engine_text(l->group->rows[l->row], engine, sizeof(engine));
	fprintf(to, "The largest difference is %s with %s %% %s %s than %s (%s).", engine,
		human_percent(fabs(l->change)).text, l->change < 0 ? "less" : "more",
		compare_cost_name(l->group->cost), base, title);
	free(title);
}

/* Counts the group's changes, and keeps the largest. */
static void conclude_group(const struct group *g, json_t *bases, json_t *engines,
			   struct largest *largest)
{
	char engine[80];

	compare_engine_text(g->rows[0], engine, sizeof(engine));
	json_object_set_new(bases, engine, json_true());
	for (unsigned i = 1; i < g->count; i++) {
		double change = judged_change(g, i);

		compare_engine_text(g->rows[i], engine, sizeof(engine));
		count_change(engines, engine, change);
		/* 50 % less is as large as 100 % more. */
		if (change != 0 &&
		    (!largest->group || fabs(log1p(change)) > fabs(log1p(largest->change))))
			*largest = (struct largest){ g, i, change };
	}
}

/* "epoll or epoll/threads" */
static void print_names(FILE *to, json_t *names, const char *separator)
{
	const char *name, *before = "";
	json_t *unused;

	json_object_foreach(names, name, unused) {
		fprintf(to, "%s%s", before, name);
		before = separator;
	}
}

char *groups_conclusion(const struct groups *all)
{
	json_t *bases = json_object(), *engines = json_object();
	struct largest largest = { 0 };
	char *text = NULL;
	size_t bytes;
	FILE *to;

	for (unsigned i = 0; i < all->count; i++)
		if (is_judged(&all->list[i]))
			conclude_group(&all->list[i], bases, engines, &largest);
	if (json_object_size(engines)) {
		to = open_text(&text, &bytes);
		fputs("Against ", to);
		print_names(to, bases, " or ");
		fputs(", ", to);
		if (largest.group) {
			print_counts(to, engines);
			print_largest(to, &largest);
		} else {
			print_names(to, engines, " and ");
			fputs(" make no difference in CPU that is beyond the noise. More or longer "
			      "visits (--repeat), or a quieter machine, make the noise smaller.",
			      to);
		}
		fclose(to);
	}
	json_decref(bases);
	json_decref(engines);
	return text;
}

/* Was one thread of the generator always busy while the server was not? */
static bool measures_generator(const struct measure *row)
{
	double generator = figure_spread(row, FIGURE_GENERATOR_SHARE).median;
	double server = figure_spread(row, FIGURE_CPU_SHARE).median /
			(double)MAX(row->workers, (uint64_t)1);

	return generator >= 0.9 && server < 0.9 * generator;
}

char *groups_generator_limit(const struct groups *all)
{
	const struct measure *first = NULL;
	unsigned count = 0, rows = 0;
	char *text;
	size_t bytes;
	FILE *to;

	for (unsigned i = 0; i < all->count; i++)
		for (unsigned j = 0; j < all->list[i].count; j++) {
			const struct measure *row = all->list[i].rows[j];

			rows++;
			if (!measures_generator(row))
				continue;
			first = first ? first : row;
			count++;
		}
	if (!first)
		return NULL;
	to = open_text(&text, &bytes);
	fprintf(to,
		"The generator was the limit in %u of %u rows (%s: its busiest thread at %s %% of "
		"a CPU, the server at %s %%): rates there are the generator's, CPU per request is "
		"still the server's.",
		count, rows, first->listener,
		human_percent(figure_spread(first, FIGURE_GENERATOR_SHARE).median).text,
		human_percent(figure_spread(first, FIGURE_CPU_SHARE).median).text);
	fclose(to);
	return text;
}

char *groups_shared_cpus(const struct groups *all)
{
	json_t *listeners = json_array();
	char *names, *text = NULL;

	for (unsigned i = 0; i < all->count; i++)
		for (unsigned j = 0; j < all->list[i].count; j++)
			if (all->list[i].rows[j]->generator.shared_cpus)
				add_once(listeners, json_string(all->list[i].rows[j]->listener));
	names = field_show(listeners);
	if (*names &&
	    asprintf(&text,
		     "The generator and %s may run on the same CPUs: pin them apart (`cpus "
		     "= 0` in the listener, taskset -c 1 COMMAND), or they take time from "
		     "each other.",
		     names) < 0)
		abort();
	free(names);
	json_decref(listeners);
	return text;
}

char *groups_other_programs(const struct groups *all)
{
	static const double little = 0.1; /* CPUs; background activity of any machine */
	double most = 0;
	char *text;
	size_t bytes;
	FILE *to;

	for (unsigned i = 0; i < all->count; i++)
		for (unsigned j = 0; j < all->list[i].count; j++)
			most = fmax(most, figure_spread(all->list[i].rows[j], FIGURE_OTHER).median);
	if (most < little)
		return NULL;
	to = open_text(&text, &bytes);
	fprintf(to,
		"Other programs took up to %s %% of a CPU meanwhile (all CPUs together): on a quiet "
		"machine noise and costs are smaller.",
		human_percent(most).text);
	fclose(to);
	return text;
}
