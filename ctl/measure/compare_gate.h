/* Gates decide whether a change may pass: the exit status of --against, --build and --pair,
 * from their verdicts. */
#pragma once
#include "measure.h"
#include "render.h"
#include "verdict.h"

enum gate {
	GATE_PASSED, /* no row costs more by over measures.within */
	GATE_WORSE,  /* a row costs more, perhaps by more than measures.within */
	GATE_UNDECIDED,
	GATE_NOT_COMPARABLE, /* the other row is missing, of another setup, or of too few runs */
	GATES
};
extern const char *const gate_names[GATES]; /* as in JSON */
extern const enum style gate_styles[GATES];
enum style verdict_style(enum verdict_is is);
/* { "change", "low", "high", "is" }, a new reference. */
json_t *verdict_to_json(const struct verdict *v);

enum gate gate_of(const struct verdict *v, double within);
/* The gate of all rows, from the number of rows with each result.  One row that is worse decides,
 * then one that cannot be compared; without any row nothing can be compared. */
enum gate gate_of_all(const unsigned *counts);

/* Are the new rows of pairs worse than the old ones?  GATE_NOT_COMPARABLE: there is no pair. Prints
 * the result on out, or with JSON on stderr. */
enum gate compare_pairs(struct output *out, const struct measures *m);
