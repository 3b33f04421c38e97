/* See compare_gate.h. */
#include "compare_gate.h"

#include <math.h>
#include <string.h>

#include "compare_group.h"
#include "figure.h"
#include "human.h"
#include "util.h"

static struct measure *find(const struct measures *m, const struct measure *row)
{
	for (unsigned i = 0; i < m->count; i++) {
		struct measure *r = m->rows[i];

		if (r->count && !strcmp(r->label, row->label) &&
		    !strcmp(r->listener, row->listener) && !strcmp(r->service, row->service) &&
		    !strcmp(r->operation, row->operation))
			return r;
	}
	return NULL;
}

/* The fraction by which `now` is worse than `before`; 0: not by more than the noise. */
static double worse_by(struct measure *before, struct measure *now, enum figure figure, bool higher)
{
	struct measure *rows[] = { before, now };
	double was = figure_spread(before, figure).median, is = figure_spread(now, figure).median;
	double change = (higher ? is - was : was - is) / was;
	double noise = compare_noise(rows, ARRAY_SIZE(rows), figure);

	return change > noise ? change : 0; /* false for NaN */
}

/* The rate of what the cost is counted by: operations that differ in size have no common one. */
static enum figure rate_of(enum figure cost)
{
	if (cost == FIGURE_CPU_PER_REQUEST)
		return FIGURE_REQUEST_RATE;
	return cost == FIGURE_CPU_PER_BYTE ? FIGURE_BANDWIDTH : FIGURE_RATE;
}

static bool judge(struct output *out, struct measure *before, struct measure *now)
{
	struct measure *rows[] = { before, now };
	enum figure cost = compare_cost(rows, ARRAY_SIZE(rows)), rate = rate_of(cost);
	double costs = worse_by(before, now, cost, true),
	       slower = worse_by(before, now, rate, false);

	if (costs > 0)
		output_wrapped(out, STYLE_BAD, 2, "worse: %s %s%s%s: %s up by %s %% (noise %s %%)",
			       now->listener, now->operation, *now->label ? ", " : "", now->label,
			       figure_names[cost], human_percent(costs).text,
			       human_percent(compare_noise(rows, ARRAY_SIZE(rows), cost)).text);
	if (slower > 0)
		output_wrapped(out, STYLE_BAD, 2,
			       "worse: %s %s%s%s: %s down by %s %% (noise %s %%)", now->listener,
			       now->operation, *now->label ? ", " : "", now->label,
			       figure_names[rate], human_percent(slower).text,
			       human_percent(compare_noise(rows, ARRAY_SIZE(rows), rate)).text);
	return costs > 0 || slower > 0;
}

bool compare_gate(struct output *out, const struct measures *before, const struct measures *now)
{
	unsigned matched = 0, single = 0, worse = 0;
	struct output said = *out;

	if (out->json) /* the document is on stdout */
		said.file = stderr;
	for (unsigned i = 0; i < now->count; i++) {
		struct measure *row = now->rows[i], *past = row->count ? find(before, row) : NULL;

		if (!past)
			continue;
		matched++;
		single += row->visit_count < 2 || past->visit_count < 2;
		worse += judge(&said, past, row);
	}
	if (matched == 0)
		output_wrapped(&said, STYLE_WARN, 2,
			       "No saved row is of the same listener, label and "
			       "operation: nothing was compared with them.");
	else
		output_wrapped(&said, worse ? STYLE_BAD : STYLE_GOOD, 2,
			       "%u of %u rows worse than the saved ones.", worse, matched);
	if (single)
		output_wrapped(
			&said, STYLE_WARN, 2,
			"%u row%s of a single visit could not be judged: the noise is unknown "
			"(--repeat 3).",
			single, plural(single));
	return worse > 0;
}
