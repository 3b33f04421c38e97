/* Parts of a report: charts, each an <svg> element, and what the page has of a group.  Pure. */
#pragma once
#include <stdio.h>

#include "result.h"
#include "svg.h"

/* Further rows appear in the table only. */
enum { CHART_ROWS_MAX = 12, CHART_WIDTH = 400 };

struct report {
	const struct result *result;
	json_t *engines; /* {name: index in order of appearance}; the index selects its colour */
};
void report_init(struct report *r, const struct result *result);
void report_fini(struct report *r);

/* The index of the row's engine in `engines`, less than the number of engines. */
unsigned report_engine(const struct report *r, const struct measure *row);
/* Valid until report_fini(). */
const char *report_engine_name(const struct report *r, const struct measure *row);

/* The colour and mark of row i in the charts of its group: that of its engine, unless the group has
 * an engine twice. */
unsigned report_series(const struct report *r, const struct result_group *g, unsigned i);

/* The unit of the figure's column, with its Greek letter; never NULL. */
const char *page_unit(enum figure figure);

/* Draws a line of coloured squares with words, which is wrapped at the width; y: of the first base
 * line. Returns the y below it. */
struct chart_key {
	const char *class, *text;
	bool shown;
};
double chart_legend(FILE *to, const struct chart_key *keys, unsigned count, double width, double y);

/* The values of an axis below what is drawn from top to bottom, with lines; the last has the unit.
 */
void chart_axis(FILE *to, const struct scale *x, const char *unit, double top, double bottom);

/* Forest plots: the change of each row's cost against the first with its interval; of all groups,
 * of one group, whose rows have their own names, and against the saved rows.  style: for a separate
 * file, see svg_begin(). */
void chart_overview(FILE *to, const struct report *r, double width, const char *style);
void chart_against(FILE *to, const struct report *r, const struct result_group *g);
void chart_then_now(FILE *to, const struct report *r, double width, const char *style);

/* Takes ownership of text; NULL: no element.  See svg_element(). */
void report_paragraph(FILE *to, const char *element, char *text);
/* All figures of the group's rows; the parts of the generator's hosts, if there were several. */
void report_table(FILE *to, const struct result_group *g);
void report_hosts(FILE *to, const struct result_group *g);
/* Rows beside saved ones: the summary, a table, the chart, what changed. */
void report_against(FILE *to, const struct report *r);
/* In which layers the group's rows spend their CPU time: bars, a table.  Nothing if none was
 * sampled. */
void report_layers(FILE *to, const struct result_group *g);
/* A section with the curves of each sweep. */
void report_curves(FILE *to, const struct report *r);
