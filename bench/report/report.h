/* `nbbench show`: rows as one page of HTML with pictures, or as one picture.  No script, nothing
 * from the network, and well-formed as XML, too.  The rows are merged. */
#pragma once
#include <stdio.h>

#include "result.h"

/* m has the rows of the result, and their conditions. */
void report_html(FILE *to, const struct result *result, const struct measures *m);

/* The overview, or of a single load its costs, or then and now: a file of its own. */
void report_svg(FILE *to, const struct result *result);

/* The style sheets: light, dark and print.  Colours of series and parts are those of Okabe and Ito,
 * which colour-blind people tell apart; marks and patterns say the same. */
extern const char report_chart_style[]; /* of charts; also for an SVG file of its own */
extern const char report_page_style[];  /* of the page around them */
