/* See compare_gate.h. */
#include "compare_gate.h"

#include "compare_group.h"
#include "field.h"

const char *const gate_names[GATES] = {
	[GATE_PASSED] = "passed",
	[GATE_WORSE] = "worse",
	[GATE_UNDECIDED] = "undecided",
	[GATE_NOT_COMPARABLE] = "not_comparable",
};

const enum style gate_styles[GATES] = {
	[GATE_PASSED] = STYLE_GOOD,
	[GATE_WORSE] = STYLE_BAD,
	[GATE_UNDECIDED] = STYLE_WARN,
	[GATE_NOT_COMPARABLE] = STYLE_WARN,
};

enum style verdict_style(enum verdict_is is)
{
	return is == VERDICT_LESS ? STYLE_GOOD : is == VERDICT_MORE ? STYLE_BAD : STYLE_DIM;
}

json_t *verdict_to_json(const struct verdict *v)
{
	return json_pack("{s:o, s:o, s:o, s:s}", "change", field_real(v->change), "low",
			 field_real(v->low), "high", field_real(v->high), "is",
			 verdict_names[v->is]);
}

enum gate gate_of(const struct verdict *v, double within)
{
	return v->is == VERDICT_TOO_FEW_ROUNDS || v->is == VERDICT_NOT_COMPARABLE
		       ? GATE_NOT_COMPARABLE
	       : v->high <= within     ? GATE_PASSED
	       : v->is == VERDICT_MORE ? GATE_WORSE
				       : GATE_UNDECIDED;
}

enum gate gate_of_all(const unsigned *counts)
{
	if (counts[GATE_WORSE])
		return GATE_WORSE;
	if (counts[GATE_NOT_COMPARABLE] || counts[GATE_PASSED] + counts[GATE_UNDECIDED] == 0)
		return GATE_NOT_COMPARABLE;
	return counts[GATE_UNDECIDED] ? GATE_UNDECIDED : GATE_PASSED;
}

enum gate compare_pairs(struct output *out, const struct measures *m)
{
	struct output said = *out;
	unsigned counts[GATES] = { 0 }, all = 0, less = 0;
	struct groups groups;
	double within = m->within > 0 ? m->within : WITHIN_DEFAULT;
	enum gate is;

	if (out->json)
		said.file = stderr;
	groups_init(&groups, m);
	for (unsigned i = 0; i < groups.count; i++)
		for (unsigned j = 1; *groups.list[i].pair && j < groups.list[i].count; j++, all++) {
			counts[gate_of(&groups.list[i].verdicts[j], within)]++;
			less += groups.list[i].verdicts[j].is == VERDICT_LESS;
		}
	groups_fini(&groups);
	is = gate_of_all(counts);
	output_wrapped(&said, gate_styles[is], 2,
		       "Against the first of each pair %u of %u are worse, %u better, %u not worse "
		       "by more than %.3g %%, %u undecided, %u with too few rounds.",
		       counts[GATE_WORSE], all, less, counts[GATE_PASSED] - less, 100 * within,
		       counts[GATE_UNDECIDED], counts[GATE_NOT_COMPARABLE]);
	return is;
}
