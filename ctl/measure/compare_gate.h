/* `compare --against`: are rows worse than saved ones?  Both consist of whole runs, made at
 * different times: these are the units, as all visits of a run share its time. */
#pragma once
#include "measure.h"
#include "render.h"

enum gate {
	GATE_PASSED, /* no row costs more by over measures.within */
	GATE_WORSE,  /* a row costs more, and that may be by more than measures.within */
	GATE_UNDECIDED,
	GATE_NOT_COMPARABLE, /* no row to compare with, of another setup, or of too few runs */
};

/* Rows of both are matched by label, listener, service, operation and setup (not by build, which is
 * what is compared); both are merged.  force: the setups may differ.  Runs that are in `now` are no
 * saved ones.  Prints a line for each row that does not pass, and a summary. */
/* Are the new rows of pairs worse than the old ones?  GATE_NOT_COMPARABLE: there is no pair.  Says
 * so on out, or with JSON on stderr. */
enum gate compare_pairs(struct output *out, const struct measures *m);

enum gate compare_gate(struct output *out, const struct measures *before,
		       const struct measures *now, bool force);
