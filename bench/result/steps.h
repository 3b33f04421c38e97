/* The steps of result_new(), in this order; for bench/result/ alone.  Each reads what the steps
 * before it have found. */
#pragma once
#include "curve.h"
#include "limit.h"
#include "result.h"

/* result.c */
char *group_title(const struct result_group *g, const char *label); /* owned by the caller */

/* doubt.c: bytes for each request as usual in the group; a visit that is not judged, and why; a row
 * that has no verdict. */
double doubt_usual_bytes(const struct result_group *g);
enum doubt doubt_on_visit(const struct result_group *g, const struct result_row *row,
			  const struct measure *visit);
void doubt_find(const struct result_group *g, struct result_row *row);

/* comparison.c: which figures are judged, and the verdicts by rounds. */
void comparison_judge(struct result *r);
/* Half of the widest interval of the costs, as a relative change; NaN: there is none. */
double comparison_widest(struct result *r);
/* The figure by which rows are compared.  CPU per request if a generator counted them for all of
 * the rows.  CPU per operation means little when the operations differ in size (a receive batch of
 * discard is whatever arrived): then CPU per byte. */
enum figure comparison_cost(struct measure *const *rows, unsigned count);

/* against_saved.c: the verdicts by runs, against saved rows, which are merged. */
void against_saved_judge(struct result *r, const struct measures *saved, bool force);

/* findings.c, warnings.c */
void findings_make(struct result *r);
void warnings_make(struct result *r);
