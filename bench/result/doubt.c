/* What cannot be compared: visits that are not judged, and rows that have no verdict because of
 * them.  See steps.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "generator.h"
#include "measure_visits.h"
#include "must.h"
#include "numbers.h"
#include "steps.h"
#include "util.h"

const struct doubt_info doubt_infos[DOUBTS] = {
	[DOUBT_NONE] = { "none", NULL, NULL },
	[DOUBT_FAILED] = { "failed_visits", "visits failed",
			   "COMMAND failed in a tenth of the visits or more" },
	[DOUBT_CHANGED] = { "changed", "it changed",
			    "the listener, its keys or the daemon changed meanwhile" },
	[DOUBT_BYTES] = { "bytes_per_request", "bytes differ",
			  "bytes for each request that the generator counted differ by more than "
			  "5 % between visits or listeners, or the count cannot be right: another "
			  "client was served, or the count is not of what was done" },
	[DOUBT_LATENCY] = { "latency", "p50 is wrong",
			    "p50 in the server is above the generator's round trip: one of the two "
			    "is wrong" },
	[DOUBT_FIRST] = { "first_row", "see the first", NULL },
};

static double bytes_per_request(const struct measure *visit)
{
	double requests = visit->generator.result.requests;

	return requests > 0 ? (double)(visit->bytes_in + visit->bytes_out) / requests : NAN;
}

/* The visits of a group should have as many bytes for each request that the generator counted: they
 * have not if another client was served as well, or if the count is wrong. */
double doubt_usual_bytes(const struct result_group *g)
{
	double *medians = must(calloc(g->count, sizeof(*medians))), usual;
	unsigned count = 0;

	for (unsigned i = 0; i < g->count; i++) {
		const struct measure *row = g->rows[i].row;
		double *values = must(calloc(measure_visits(row), sizeof(*values)));
		unsigned known = 0;

		for (unsigned j = 0; j < measure_visits(row); j++) {
			values[known] = bytes_per_request(measure_visit_at(row, j));
			known += !isnan(values[known]);
		}
		medians[count] = numbers_median(values, known);
		count += !isnan(medians[count]);
		free(values);
	}
	numbers_sort(medians, count);
	/* Of two the lower one, as another client's bytes are added, never taken away. */
	usual = count ? medians[(count - 1) / 2] : NAN;
	free(medians);
	return usual;
}

/* Is the listener not what it was in the row's first visit of that run? */
static bool has_changed(const struct measure *row, const struct measure *visit)
{
	const struct measure_visit *v = &visit->visit;

	if (v->changed)
		return true;
	for (unsigned i = 0; i < measure_visits(row); i++) {
		const struct measure *first = measure_visit_at(row, i);

		if (!strcmp(first->visit.run, v->run))
			return first->workers != visit->workers ||
			       first->visit.since_ns != v->since_ns ||
			       first->visit.generation != v->generation;
	}
	return false;
}

enum doubt doubt_on_visit(const struct result_group *g, const struct result_row *row,
			  const struct measure *visit)
{
	if (has_changed(row->row, visit))
		return DOUBT_CHANGED;
	return fabs(bytes_per_request(visit) / g->usual_bytes - 1) > 0.05 /* false for NaN */
		       ? DOUBT_BYTES
		       : DOUBT_NONE;
}

/* Is p50 in the server above the generator's round trip, of which it is a part?  Then one of the
 * two is wrong. */
static bool takes_longer_inside(const struct result_row *row)
{
	const struct value *inside = &row->values[FIGURE_P50], *trip = &row->values[FIGURE_TRIP50];
	double step = (double)generator_step_ns(row->row->generator.name);

	return inside->median > 1.25 * trip->median + step; /* false for NaN */
}

static unsigned failed_visits(const struct measure *row)
{
	unsigned sum = 0;
	const char *run = "";

	/* Each visit has those of all of its run. */
	for (unsigned i = 0; i < measure_visits(row); i++) {
		const struct measure_visit *visit = &measure_visit_at(row, i)->visit;

		if (strcmp(visit->run, run) != 0)
			sum += (unsigned)visit->failed;
		run = visit->run;
	}
	return sum;
}

void doubt_find(const struct result_group *g, struct result_row *row)
{
	unsigned visits = measure_visits(row->row), counts[DOUBTS] = { 0 };
	enum doubt worst = DOUBT_FAILED;

	row->failed = failed_visits(row->row);
	for (unsigned i = 0; i < visits; i++)
		counts[doubt_on_visit(g, row, measure_visit_at(row->row, i))]++;
	counts[DOUBT_NONE] = 0;
	counts[DOUBT_FAILED] = row->failed;
	for (unsigned i = DOUBT_FAILED; i < DOUBTS; i++) {
		row->doubted += counts[i];
		if (counts[i] > counts[worst])
			worst = i;
	}
	if (10 * row->doubted >= visits + row->failed)
		row->doubt = worst;
	else if (!row->row->batch && takes_longer_inside(row))
		row->doubt = DOUBT_LATENCY;
	else if (row != g->rows && g->rows->doubt != DOUBT_NONE)
		row->doubt = DOUBT_FIRST;
}
