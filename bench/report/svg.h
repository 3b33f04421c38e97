/* Drawing: the SVG 1.1 shapes that a report's charts need, and text that is valid in both HTML and
 * XML.  Writes to FILE only.
 *
 * Lengths are in user units, which are CSS pixels where nothing scales.  Colours are classes of the
 * style sheet of report.h. */
#pragma once
#include <stdbool.h>
#include <stdio.h>

/* Escapes text from any source; characters that HTML or XML forbid become U+FFFD.  For elements and
 * for attributes in double quotes. */
void svg_escape(FILE *to, const char *text);
void svg_escape_format(FILE *to, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* An element of HTML or XML with text that is escaped, on a line: its name, which
 * attributes may follow. */
void svg_element(FILE *to, const char *name, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* title: description for screen readers.  style: style sheet for a separate file; NULL: the
 * page has it. */
void svg_begin(FILE *to, double width, double height, const char *title, const char *style);
void svg_end(FILE *to);
/* An image of what has been drawn into the stream of text_open(), which it closes; frees *drawn. */
void svg_put(FILE *to, FILE *drawing, char **drawn, double width, double height, const char *title,
	     const char *style);

void svg_rect(FILE *to, const char *class, double x, double y, double width, double height);
/* The same with a tooltip. */
void svg_rect_titled(FILE *to, const char *class, double x, double y, double width, double height,
		     const char *title);
void svg_line(FILE *to, const char *class, double x1, double y1, double x2, double y2);
/* Escaped; y is the base line. */
void svg_text(FILE *to, const char *class, double x, double y, const char *format, ...)
	__attribute__((format(printf, 5, 6)));
/* The text cut to about `width`, with an ellipsis; its tooltip shows all of it. */
void svg_text_fit(FILE *to, const char *class, double x, double y, double width, const char *text);

/* The mark of the series `index`: shape and colour tell it from its neighbours. */
void svg_mark(FILE *to, unsigned index, bool filled, double x, double y);
const char *svg_series_class(unsigned index); /* the class with its colour */

/* A line through points: begin, points, end. */
struct svg_curve {
	FILE *to;
	unsigned count;
};
void svg_curve_begin(struct svg_curve *c, FILE *to, const char *class, unsigned series);
void svg_curve_point(struct svg_curve *c, double x, double y);
void svg_curve_end(struct svg_curve *c);

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
/* Round values: 1, 2 or 5 times a power of ten. */
void ticks_round(struct ticks *t, const struct scale *s, double distance);
