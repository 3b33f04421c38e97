/* May a change pass?  The exit status of --against, --build and --pair by their verdicts. */
#pragma once
#include "measure.h"
#include "render.h"
#include "verdict.h"

enum gate {
	GATE_PASSED, /* no row costs more by over measures.within */
	GATE_WORSE,  /* a row costs more, and that may be by more than measures.within */
	GATE_UNDECIDED,
	GATE_NOT_COMPARABLE, /* no row to compare with, of another setup, or of too few runs */
	GATES
};
extern const char *const gate_names[GATES]; /* as in JSON */
extern const enum style gate_styles[GATES];
enum style verdict_style(enum verdict_is is);
/* { "change", "low", "high", "is" }, a new reference. */
json_t *verdict_to_json(const struct verdict *v);

enum gate gate_of(const struct verdict *v, double within);
/* Of all rows, by how many there are of each: one that is worse decides, then one that cannot be
 * compared; so does none at all. */
enum gate gate_of_all(const unsigned *counts);

/* Are the new rows of pairs worse than the old ones?  GATE_NOT_COMPARABLE: there is no pair.  Says
 * so on out, or with JSON on stderr. */
enum gate compare_pairs(struct output *out, const struct measures *m);
