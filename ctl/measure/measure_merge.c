/* Sums of rows: the operations of a listener, the visits of a row.  See measure.h. */
#include <stdlib.h>
#include <string.h>

#include "measure.h"
#include "must.h"

static bool same(const struct measure *a, const struct measure *b)
{
	return !strcmp(a->label, b->label) && !strcmp(a->pair, b->pair) &&
	       !strcmp(a->listener, b->listener) && !strcmp(a->engine, b->engine) &&
	       !strcmp(a->service, b->service) && !strcmp(a->operation, b->operation) &&
	       !strcmp(a->visit.setup, b->visit.setup) && !strcmp(a->visit.build, b->visit.build);
}

void measures_merge_operations(struct measures *m)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < m->count; i++) {
		struct measure *row = m->rows[i], *last = kept ? m->rows[kept - 1] : NULL;

		if (!last || last->source != row->source) {
			m->rows[kept++] = row;
			continue;
		}
		last->operation = "";
		last->batch |= row->batch;
		last->count += row->count;
		last->errors += row->errors;
		histogram_sum_add(&last->latency, &row->latency);
		measure_free(row);
	}
	m->count = kept;
}

static void add_visit(struct measure *row, struct measure *visit)
{
	row->visits = must(reallocarray(row->visits, row->visit_count + 1, sizeof(*row->visits)));
	row->visits[row->visit_count++] = visit;
}

/* Takes ownership of `visit`; a row that is a single interval first gets itself as a visit. */
static void merge_visit(struct measure *row, struct measure *visit)
{
	if (row->visit_count == 0) {
		struct measure *first = must(malloc(sizeof(*first)));

		*first = *row;
		json_incref(first->source);
		add_visit(row, first);
	}
	measure_add(row, visit);
	add_visit(row, visit);
}

void measures_merge(struct measures *m)
{
	unsigned kept = 0;

	measures_take_unavailable(m);
	for (unsigned i = 0; i < m->count; i++) {
		struct measure *row = m->rows[i];
		unsigned j = 0;

		while (j < kept && !same(m->rows[j], row))
			j++;
		if (j < kept)
			merge_visit(m->rows[j], row);
		else
			m->rows[kept++] = row;
	}
	m->count = kept;
}

/* A row for the sum of the visits to come, of which `visit` is the first. */
static struct measure *add_sum(struct measures *to, const struct measure *visit)
{
	struct measure *row = measures_add(to);

	*row = *visit;
	json_incref(row->source);
	row->visits = NULL;
	row->visit_count = 0;
	return row;
}

struct measures measures_merged(const struct measures *m)
{
	struct measures merged = { .within = m->within, .borrows = true };

	for (unsigned i = 0; i < m->count; i++) {
		struct measure *visit = m->rows[i];
		unsigned j = 0;

		if (measure_unavailable(visit))
			continue;
		while (j < merged.count && !same(merged.rows[j], visit))
			j++;
		if (j < merged.count)
			measure_add(merged.rows[j], visit);
		else
			add_sum(&merged, visit);
		add_visit(merged.rows[j], visit);
	}
	return merged;
}
