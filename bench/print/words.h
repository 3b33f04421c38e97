/* A result in words.  They are made of what the result has found, and judge nothing.  What is
 * returned as char * is owned by the caller; NULL: there is nothing to say. */
#pragma once
#include "render.h"
#include "result.h"

enum style words_style(enum verdict_is is);

/* "-3.1 %", the estimate; "": unknown. */
struct phrase words_change(double change);
/* The verdict on the row's cost, or "no verdict: bytes differ" if there is a doubt. */
struct phrase words_row(const struct result_group *g, const struct result_row *row);

/* What is decided of a group's other figures, from `from` on; and its libraries and ciphers of TLS.
 * Both without the group's title. */
char *words_sides(const struct result_group *g, enum judged from);
char *words_tls(const struct result_group *g);

/* What a run ends in: a sentence for each finding, and one for all that is open. */
char *words_finding(const struct result *r, unsigned i);
char *words_open(const struct result *r);
/* Why there are no findings and nothing is open. */
const char *words_none(const struct result *r);

/* "48 to 51 % less", "too few runs: 1 now, 5 then, of 5", "no saved row" */
struct phrase words_against(const struct result *r, const struct result_row *row);
