/* Parts of a report's page: the table of a group, and under what conditions it was measured.  Pure.
 */
#pragma once
#include <stdio.h>

#include "layers_table.h"
#include "report_chart.h"

/* Takes ownership of text; NULL: no element.  See svg_element(). */
void report_paragraph(FILE *to, const char *element, char *text);

/* All figures of the group's rows. */
void report_table(FILE *to, const struct result_group *g);

/* The parts of the generator's hosts, if there were several. */
void report_hosts(FILE *to, const struct result_group *g);

/* Rows beside saved ones: the summary, a table, the chart, what changed. */
void report_against(FILE *to, const struct report *r);

/* In which layers the group's rows spend their CPU time: bars, a table.  Nothing if none was
 * sampled. */
void report_layers(FILE *to, const struct result_group *g);
/* The colours of layers, see chart_legend(). */
double report_layers_legend(FILE *to, const bool shown[LAYER_COUNT], double width, double y);

/* A section with the curves of each sweep. */
void report_curves(FILE *to, const struct report *r);

/* The commands that the group's rows were measured with, with placeholders, if they are known. */
void report_commands(FILE *to, const struct result_group *g);

/* Hosts, versions, dates, listeners. */
void report_conditions(FILE *to, const struct measures *m);

/* Calls `make` on each visit that has conditions; a new array of the different results, of which
 * make() returns a reference or NULL. */
json_t *report_distinct(const struct measures *m, json_t *(*make)(const struct measure *visit));

/* "nbserved 0.1.0 on Linux 6.1.0, 2026-11-22": one line, or nothing when it is unknown. */
void report_subtitle(FILE *to, const struct measures *m);
