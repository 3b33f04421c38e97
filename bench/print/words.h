/* A result in words.  They are made of what the result has found, and judge nothing.  What is
 * returned as char * is owned by the caller; NULL: there is nothing to say. */
#pragma once
#include "limit.h"
#include "render.h"
#include "result.h"

extern const enum style gate_styles[GATES];
enum style words_style(enum verdict_is is);

/* "-3.1 %", the estimate; "": unknown. */
struct phrase words_change(double change);
/* Of the row's cost; "no verdict: bytes differ" if there is a doubt. */
struct phrase words_row(const struct result_group *g, const struct result_row *row);

/* Of one group, without its title: the figures beside the cost that are decided, all of them or
 * rates and round trips alone, if sentences have the counts; rows with `tls = kernel` against those
 * with `tls = user`; which libraries and ciphers there are.
 */
char *words_sides(const struct result_group *g);
char *words_rates(const struct result_group *g);
char *words_users(const struct result_group *g);
char *words_tls(const struct result_group *g);

/* What a run ends in: a sentence for each finding, one for all that is open, and how many
 * comparisons there were. */
char *words_finding(const struct result *r, unsigned i);
char *words_open(const struct result *r);
char *words_chance(const struct result *r);
/* Why there are no findings and nothing is open. */
const char *words_none(const struct result *r);

/* "48 to 51 % less", "too few runs: 1 now, 5 then, of 5", "no saved row" */
struct phrase words_then(const struct result *r, const struct result_row *row);
char *words_then_summary(const struct result *r); /* how many got worse, better, neither */
char *words_pairs_summary(const struct result *r);
extern const char words_nothing_changed[]; /* a sentence for an empty `changed` */

/* "p99 300 to 320 us", "too few rounds: 2 of 6" */
struct phrase words_limit(const struct limit_case *c);
extern const char *const words_limit_gates[GATES]; /* "failed"; as in JSON */
