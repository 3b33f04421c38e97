/* Drawing: the SVG 1.1 shapes that a page's charts need.  Writes to FILE only.
 *
 * Lengths are in user units, which are CSS pixels where nothing scales.  Colours are classes of the
 * style sheet in report.c.  Texts are escaped, see render_escape(). */
#pragma once
#include <stdbool.h>
#include <stdio.h>

/* An element of HTML or XML with text, on a line: its name, which attributes may follow. */
void svg_element(FILE *to, const char *name, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* title: description for screen readers.  style: style sheet for a separate file; NULL: the
 * page has it. */
void svg_begin(FILE *to, double width, double height, const char *title, const char *style);
void svg_end(FILE *to);

void svg_rect(FILE *to, const char *class, double x, double y, double width, double height);
void svg_line(FILE *to, const char *class, double x1, double y1, double x2, double y2);
/* y is the base line. */
void svg_text(FILE *to, const char *class, double x, double y, const char *format, ...)
	__attribute__((format(printf, 5, 6)));
/* The text cut to about `width`, with an ellipsis; its tooltip shows all of it. */
void svg_text_fit(FILE *to, const char *class, double x, double y, double width, const char *text);

/* The colour of a series, as a class, and its mark; shapes differ from those of its neighbours,
 * too.
 */
const char *svg_series_class(unsigned index);
void svg_mark(FILE *to, const char *class, unsigned shape, double x, double y);

/* Values on an axis.  Both ends are finite and differ; of a logarithmic one they are positive. */
struct scale {
	double from, to;   /* values at the ends */
	double start, end; /* where they are drawn; may fall */
	bool logarithmic;
};
/* The position at which the value is drawn: an end of the axis if it lies beyond. */
double scale_at(const struct scale *s, double value);

enum { TICKS_MAX = 12 };
struct ticks {
	double values[TICKS_MAX];
	unsigned count;
};
/* Adds the value, unless it is beyond the ends or nearer than `distance` to a tick that exists. */
void ticks_add(struct ticks *t, const struct scale *s, double value, double distance);
/* Round values, the roundest first; the axis is logarithmic. */
void ticks_round(struct ticks *t, const struct scale *s, double distance);
