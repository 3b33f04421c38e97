/* The style sheets of a report: light, dark and print.  Colours of series and parts are those of
 * Okabe and Ito, which colour-blind people tell apart; marks and patterns say the same. */
#pragma once

extern const char report_chart_style[]; /* of charts; also for an SVG file of its own */
extern const char report_page_style[];  /* of the page around them */
