/* See layers_group.h. */
#include "layers_group.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "field.h"
#include "must.h"

/* ---- One interval ---- */

static double layer_ns(const json_t *layers, enum layer layer)
{
	return (double)field_uint(field_get(layers, "weights"), layer_infos[layer].name);
}

static double sum_ns(const json_t *layers)
{
	return (double)field_sum(layers, "weights");
}

/* What a visit costs in a layer; NaN: it was not sampled. */
static double visit_cost(const struct measure *visit, enum figure cost, enum layer layer)
{
	double sum = sum_ns(visit->layers);

	return sum > 0 ? figure_value(visit, cost) * layer_ns(visit->layers, layer) / sum : NAN;
}

/* ---- A row ---- */

struct sums {
	double ns[LAYER_COUNT], all_ns, charged_ns;
	bool clock;    /* the samples' weights are nanoseconds */
	json_t *other; /* function: ns */
};

static void add_visit(struct sums *s, struct layers_row *row, const struct measure *visit)
{
	const char *name;
	json_t *ns;

	for (unsigned i = 0; i < LAYER_COUNT; i++)
		s->ns[i] += layer_ns(visit->layers, i);
	s->all_ns += sum_ns(visit->layers);
	s->charged_ns += (double)visit->cpu_ns;
	s->clock = !strcmp(field_text(visit->layers, "event"), "cpu-clock");
	row->samples += field_uint(visit->layers, "samples");
	row->lost += field_uint(visit->layers, "lost");
	row->stripped |= field_bool(visit->layers, "stripped");
	json_object_foreach(field_get(visit->layers, "other"), name, ns)
		json_object_set_new_nocheck(
			s->other, name,
			json_integer(json_integer_value(json_object_get(s->other, name)) +
				     json_integer_value(ns)));
}

/* The largest of them in order, as shares of the sum. */
static json_t *largest(json_t *functions, double sum)
{
	json_t *made = json_object();

	while (json_object_size(functions) && json_object_size(made) < LAYERS_OTHER_SHOWN) {
		json_int_t most = -1;
		const char *name, *found = NULL;
		json_t *ns;

		json_object_foreach(functions, name, ns)
			if (json_integer_value(ns) > most) {
				most = json_integer_value(ns);
				found = name;
			}
		json_object_set_new_nocheck(made, found, json_real((double)most / sum));
		json_object_del(functions, found);
	}
	return made;
}

static void set_row(struct layers_row *row, const struct result_group *g, unsigned index)
{
	const struct measure *measured = g->rows[index].row;
	struct sums s = { .other = json_object() };

	for (unsigned i = 0; i < measure_visits(measured); i++)
		if (measure_visit_at(measured, i)->layers)
			add_visit(&s, row, measure_visit_at(measured, i));
	row->known = s.all_ns > 0 && !isnan(result_cost(g, &g->rows[index])->median);
	row->seen = s.charged_ns > 0 && s.clock ? s.all_ns / s.charged_ns : NAN;
	row->seen_chance = row->samples && s.clock ? 1.96 / sqrt((double)row->samples) : NAN;
	for (unsigned i = 0; i < LAYER_COUNT && row->known; i++)
		row->ns[i] = result_cost(g, &g->rows[index])->median * s.ns[i] / s.all_ns;
	row->other = largest(s.other, s.all_ns);
	json_decref(s.other);
}

/* ---- Judging ---- */

/* The differences of the rounds in which both were sampled. */
static struct verdict judge(const struct result_group *g, unsigned row, enum layer layer,
			    unsigned comparisons)
{
	const struct measure *first = g->rows[0].row;
	double *differences = must(calloc(measure_visits(first), sizeof(*differences)));
	unsigned rounds = 0;
	struct verdict v;

	for (unsigned i = 0; i < measure_visits(first); i++) {
		const struct measure *base = measure_visit_at(first, i);
		const struct measure *beside = visit_beside(g->rows[row].row, base);
		double difference =
			beside ? visit_cost(beside, g->figures[JUDGED_COST], layer) -
					 visit_cost(base, g->figures[JUDGED_COST], layer)
			       : NAN;

		if (!isnan(difference))
			differences[rounds++] = difference;
	}
	v = verdict_of_differences(differences, rounds, comparisons,
				   g->within * result_cost(g, &g->rows[0])->median);
	free(differences);
	return v;
}

struct layers_group *layers_group_new(const struct result_group *g)
{
	struct layers_group *l = must(calloc(1, sizeof(*l)));
	unsigned layers = 0;
	bool any = false;

	l->group = g;
	l->rows = must(calloc(g->count, sizeof(*l->rows)));
	for (unsigned i = 0; i < g->count; i++) {
		set_row(&l->rows[i], g, i);
		any |= l->rows[i].known;
		for (unsigned j = 0; j < LAYER_COUNT; j++)
			l->shown[j] |= l->rows[i].ns[j] > 0;
	}
	for (unsigned j = 0; j < LAYER_COUNT; j++)
		layers += l->shown[j];
	for (unsigned i = 1; i < g->count && any; i++)
		for (unsigned j = 0; j < LAYER_COUNT; j++)
			l->rows[i].verdicts[j] = judge(g, i, j, g->comparisons * layers);
	if (any)
		return l;
	layers_group_free(l);
	return NULL;
}

void layers_group_free(struct layers_group *l)
{
	for (unsigned i = 0; l && i < l->group->count; i++)
		json_decref(l->rows[i].other);
	if (l)
		free(l->rows);
	free(l);
}
