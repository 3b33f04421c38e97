/* The charts of a page, each an <svg> element, with all rows of a result.  Pure. */
#pragma once
#include <stdio.h>

#include "curve.h"
#include "result.h"

/* The unit of the figure's column, with its Greek letter; never NULL. */
const char *chart_unit(enum figure figure);

/* A forest plot: the change of each row's cost, its interval, and the verdict in words; against the
 * first row of each group, or with `against` against the saved rows.  style: for a separate file,
 * see svg_begin(). */
void chart_forest(FILE *to, const struct result *r, bool against, const char *style);

/* A figure over the values of a sweep, or over the figure x, unless that is FIGURE_COUNT.  False:
 * nothing was drawn, as no value is known. */
bool chart_curve(FILE *to, const struct result_curve *c, enum figure y, enum figure x);
