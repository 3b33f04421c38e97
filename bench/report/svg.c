/* Writes SVG elements as text.  No state but the FILE of the caller.  See svg.h. */
#include "svg.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "render.h"
#include "text.h"
#include "util.h"

/* ---- Text ---- */

static void escape_arguments(FILE *to, const char *format, va_list arguments)
{
	char *text = text_new_arguments(format, arguments);

	render_escape(to, text);
	free(text);
}

void svg_element(FILE *to, const char *name, const char *format, ...)
{
	va_list arguments;

	fprintf(to, "<%s>", name);
	va_start(arguments, format);
	escape_arguments(to, format, arguments);
	va_end(arguments);
	fprintf(to, "</%.*s>\n", (int)strcspn(name, " "), name);
}

/* ---- Shapes ---- */

void svg_begin(FILE *to, double width, double height, const char *title, const char *style)
{
	fprintf(to, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\"", width,
		height);
	if (style)
		fprintf(to, " width=\"%.0f\" height=\"%.0f\"", width, height);
	fputs(" role=\"img\"><title>", to);
	render_escape(to, title);
	fputs("</title>\n", to);
	if (style)
		fprintf(to,
			"<style>%s</style>\n<rect class=\"page\" width=\"100%%\" height=\"100%%\"/>\n",
			style);
}

void svg_end(FILE *to)
{
	fputs("</svg>\n", to);
}

void svg_rect(FILE *to, const char *class, double x, double y, double width, double height)
{
	if (!(width > 0 && height > 0))
		return;
	fprintf(to,
		"<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"></rect>\n",
		class, x, y, width, height);
}

void svg_line(FILE *to, const char *class, double x1, double y1, double x2, double y2)
{
	fprintf(to, "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", class,
		x1, y1, x2, y2);
}

void svg_text(FILE *to, const char *class, double x, double y, const char *format, ...)
{
	va_list arguments;

	fprintf(to, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\">", class, x, y);
	va_start(arguments, format);
	escape_arguments(to, format, arguments);
	va_end(arguments);
	fputs("</text>\n", to);
}

/* Approximate width of a character of 12 px, slightly too large so that nothing is cut off. */
static const double CHARACTER_WIDTH = 6.7;

void svg_text_fit(FILE *to, const char *class, double x, double y, double width, const char *text)
{
	unsigned room = (unsigned)(width / CHARACTER_WIDTH), shown = 0;
	size_t bytes = 0;

	if (text_width(text) <= room) {
		svg_text(to, class, x, y, "%s", text);
		return;
	}
	while (text[bytes] && (shown + 1 < room || ((unsigned char)text[bytes] & 0xc0) == 0x80)) {
		shown += ((unsigned char)text[bytes] & 0xc0) != 0x80;
		bytes++;
	}
	fprintf(to, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\">", class, x, y);
	svg_element(to, "title", "%s", text);
	svg_element(to, "tspan", "%.*s\xe2\x80\xa6", (int)bytes, text);
	fputs("</text>\n", to);
}

/* ---- Series ---- */

static const char *const series_classes[] = { "s0", "s1", "s2", "s3", "s4", "s5" };

/* Paths around the origin.  Their number and that of the colours have no common divisor, so that
 * 30 series differ. */
static const char *const marks[] = {
	"M-4,0A4,4 0 1 1 4,0A4,4 0 1 1 -4,0Z",
	"M-3.5,-3.5H3.5V3.5H-3.5Z",
	"M0,-4.5L4.5,3.5H-4.5Z",
	"M0,-5L5,0L0,5L-5,0Z",
	"M-4.5,-3.5H4.5L0,4.5Z",
};

const char *svg_series_class(unsigned index)
{
	return series_classes[index % ARRAY_SIZE(series_classes)];
}

void svg_mark(FILE *to, const char *class, unsigned shape, double x, double y)
{
	fprintf(to, "<path class=\"mark %s\" transform=\"translate(%.1f %.1f)\" d=\"%s\"/>\n",
		class, x, y, marks[shape % ARRAY_SIZE(marks)]);
}

/* ---- Axes ---- */

double scale_at(const struct scale *s, double value)
{
	double part = s->logarithmic ? log(value / s->from) / log(s->to / s->from)
				     : (value - s->from) / (s->to - s->from);

	if (!(part > 0))
		part = 0;
	return s->start + fmin(part, 1) * (s->end - s->start);
}

void ticks_add(struct ticks *t, const struct scale *s, double value, double distance)
{
	if (t->count == TICKS_MAX || value < s->from || value > s->to)
		return;
	for (unsigned i = 0; i < t->count; i++)
		if (fabs(scale_at(s, t->values[i]) - scale_at(s, value)) < distance)
			return;
	t->values[t->count++] = value;
}

void ticks_round(struct ticks *t, const struct scale *s, double distance)
{
	/* Whole decades have precedence. */
	static const double parts[] = { 1, 2, 5, 3, 7, 1.5, 8, 1.2, 9, 1.1, 9.5, 1.05 };
	int low = (int)floor(log10(s->from)), high = (int)floor(log10(s->to));

	for (unsigned i = 0; i < ARRAY_SIZE(parts); i++)
		for (int power = low; power <= high; power++)
			ticks_add(t, s, parts[i] * pow(10, power), distance);
}
