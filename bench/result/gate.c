/* What decides the exit status: of a verdict, of pairs, of all that was asked for.  See gate.h. */
#include "gate.h"

#include "limit.h"

const char *const gate_names[GATES] = {
	[GATE_PASSED] = "passed",
	[GATE_FAILED] = "failed",
	[GATE_UNDECIDED] = "undecided",
	[GATE_UNKNOWN] = "unknown",
};

enum gate gate_of(const struct verdict *v, double within)
{
	return v->is == VERDICT_TOO_FEW_ROUNDS || v->is == VERDICT_NOT_COMPARABLE ? GATE_UNKNOWN
	       : v->high <= within                                                ? GATE_PASSED
	       : v->is == VERDICT_MORE                                            ? GATE_FAILED
										  : GATE_UNDECIDED;
}

enum gate gate_of_all(const unsigned *counts)
{
	if (counts[GATE_FAILED])
		return GATE_FAILED;
	if (counts[GATE_UNKNOWN] || counts[GATE_PASSED] + counts[GATE_UNDECIDED] == 0)
		return GATE_UNKNOWN;
	return counts[GATE_UNDECIDED] ? GATE_UNDECIDED : GATE_PASSED;
}

static enum gate pairs_gate(struct result *r)
{
	unsigned counts[GATES] = { 0 };

	for (struct result_at at = { 0 }; result_next(r, &at);)
		if (*at.group->pair && !at.first) {
			at.row->gate = gate_of(&at.row->verdicts[JUDGED_COST], r->within);
			counts[at.row->gate]++;
		}
	return gate_of_all(counts);
}

void gate_set(struct result *r, const struct result_options *o)
{
	unsigned counts[GATES] = { 0 };

	if (r->against)
		counts[r->against_gate]++;
	r->pairs = o->pairs;
	if (r->pairs) {
		r->pairs_gate = pairs_gate(r);
		counts[r->pairs_gate]++;
	}
	if (r->limits)
		counts[r->limits->gate]++;
	r->gate = r->against || r->pairs || r->limits ? gate_of_all(counts) : GATE_PASSED;
}
