/* The steps of result_new(), in this order; for bench/result/ alone.  Each reads what the steps
 * before it have found. */
#pragma once
#include "limit.h"
#include "result.h"

/* result.c */
char *group_title(const struct result_group *g, const char *label); /* owned by the caller */
enum gate gate_of(const struct verdict *v, double within);
enum gate gate_of_all(const unsigned *counts); /* by how many of each there are */

/* judge.c: which figures are judged, doubts, and the verdicts by rounds. */
void judge_groups(struct result *r);
/* Half of the widest interval of the costs, as a relative change; NaN: there is none. */
double judge_widest(struct result *r);
/* The figure by which rows are compared.  CPU per request if a generator counted them for all of
 * the rows.  CPU per operation means little when the operations differ in size (a receive batch of
 * discard is whatever arrived): then CPU per byte. */
enum figure judge_cost_figure(struct measure *const *rows, unsigned count);

/* then.c: `then` is merged. */
void then_judge(struct result *r, const struct measures *then, bool force);

/* curve.c */
void curves_make(struct result *r);
void curves_free(struct result *r);
/* Do both groups belong to the same sweep, whatever their values?  The intervals of a
 * sweep hold together. */
bool curve_has_both(const struct result_group *a, const struct result_group *b);

/* answer.c */
void answer_find(struct result *r);

/* warning.c */
void warnings_find(struct result *r);
