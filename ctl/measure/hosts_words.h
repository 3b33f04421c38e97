/* A generator on several hosts in words: a table with a row for each host, and sentences.  Pure. */
#pragma once
#include "compare_group.h"
#include "render.h"

/* Nothing, if no row's generator ran on several hosts. */
void hosts_render(struct output *out, const struct groups *all);

/* Sentences, which the caller frees; NULL: nothing to report. */
/* Of rows in which some hosts were at their limit, and others were not. */
char *hosts_limit(const struct groups *all);
/* How far apart they started, and whether they had load at the same time. */
char *hosts_overlap(const struct groups *all);
