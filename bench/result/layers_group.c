/* See layers_group.h. */
#include "layers_group.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "field.h"
#include "human.h"
#include "must.h"
#include "text.h"

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

/* Inserts a function among the row's largest ones, in order, if it is large enough.  The name is
 * borrowed, and lives as long as the row's visits. */
static void keep_function(struct layers_row *row, const char *name, double share)
{
	struct layers_function new = { name, share };

	for (unsigned i = 0; i < LAYERS_OTHER_SHOWN; i++) {
		struct layers_function kept = row->other[i];

		if (kept.name && kept.share >= new.share)
			continue;
		row->other[i] = new;
		new = kept;
		if (!kept.name)
			return;
	}
}

static const char *lasting_name(const struct measure *row, const char *name)
{
	for (unsigned i = 0; i < measure_visits(row); i++) {
		json_t *other = field_get(measure_visit_at(row, i)->layers, "other");
		void *at = json_object_iter_at(other, name);

		if (at)
			return json_object_iter_key(at);
	}
	return NULL;
}

static void set_row(struct layers_row *row, const struct result_group *g, unsigned index)
{
	const struct measure *measured = g->rows[index].row;
	struct sums s = { .other = json_object() };
	const char *name;
	json_t *ns;

	for (unsigned i = 0; i < measure_visits(measured); i++)
		if (measure_visit_at(measured, i)->layers)
			add_visit(&s, row, measure_visit_at(measured, i));
	row->known = s.all_ns > 0 && !isnan(result_cost(g, &g->rows[index])->median);
	row->seen = s.charged_ns > 0 && s.clock ? s.all_ns / s.charged_ns : NAN;
	row->seen_chance = row->samples && s.clock ? 1.96 / sqrt((double)row->samples) : NAN;
	for (unsigned i = 0; i < LAYER_COUNT && row->known; i++)
		row->ns[i] = result_cost(g, &g->rows[index])->median * s.ns[i] / s.all_ns;
	json_object_foreach(s.other, name, ns)
		keep_function(row, lasting_name(measured, name),
			      (double)json_integer_value(ns) / s.all_ns);
	json_decref(s.other);
}

/* ---- Judging ---- */

static double *numbers(unsigned count)
{
	return must(calloc(count + 1, sizeof(double)));
}

/* The differences of the rounds in which both were sampled. */
static struct verdict judge(const struct result_group *g, unsigned row, enum layer layer,
			    unsigned comparisons)
{
	const struct measure *first = g->rows[0].row;
	double *differences = numbers(measure_visits(first));
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
	if (l)
		free(l->rows);
	free(l);
}

/* ---- Sentences ---- */

char *layers_warnings(const struct layers_group *l)
{
	bool stripped = false, fewer = false, more = false;

	for (unsigned i = 0; i < l->group->count; i++) {
		const struct layers_row *row = &l->rows[i];
		double off = LAYERS_SEEN_WITHIN + row->seen_chance;

		stripped |= row->stripped;
		fewer |= row->seen < 1 - off;
		more |= row->seen > 1 + off;
	}
	if (!stripped && !fewer && !more)
		return NULL;
	return text_new(
		"%s%s%s%s%s",
		more ? "The time of the samples is more than a listener's CPU time by more than "
		       "2 % and chance: the shares of layers may be wrong by as much."
		     : "",
		more && fewer ? " " : "",
		fewer ? "Samples find less than the time charged, which begins before the "
			"kernel has switched to a thread: scheduling costs more than is "
			"shown, by up to that, and other layers less."
		      : "",
		(more || fewer) && stripped ? " " : "",
		stripped ? "nbserved has no symbols (it was stripped): service, engine and "
			   "store are part of its core."
			 : "");
}

char *layers_other(const struct layers_group *l, unsigned row)
{
	const struct layers_function *other = l->rows[row].other;
	char *text;
	FILE *to;

	if (!other[0].name)
		return NULL;
	to = text_open(&text);
	fprintf(to, "Other, of %s: ", l->group->rows[row].row->listener);
	for (unsigned i = 0; i < LAYERS_OTHER_SHOWN && other[i].name; i++)
		fprintf(to, "%s%s %s %%", i ? ", " : "", other[i].name,
			human_percent(other[i].share).text);
	fputs(".", to);
	fclose(to);
	return text;
}
