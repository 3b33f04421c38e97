/* Colours, axes and legends.  See report_chart.h. */
#include "report_chart.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "must.h"
#include "render.h"
#include "svg.h"
#include "text.h"
#include "util.h"

enum { EDGE = 10, LEGEND_LINE = 18 }; /* EDGE: left and right of everything */

/* ---- Colours ---- */

static void *engine_of(const struct report *r, const struct measure *row)
{
	return json_object_iter_at(r->engines, measure_engine_name(row).text);
}

unsigned report_engine(const struct report *r, const struct measure *row)
{
	return (unsigned)json_integer_value(json_object_iter_value(engine_of(r, row)));
}

const char *report_engine_name(const struct report *r, const struct measure *row)
{
	return json_object_iter_key(engine_of(r, row));
}

static void add_engine(struct report *r, const struct measure *row)
{
	json_int_t count = (json_int_t)json_object_size(r->engines);
	struct phrase engine = measure_engine_name(row);

	if (!json_object_get(r->engines, engine.text))
		json_object_set_new_nocheck(r->engines, engine.text, json_integer(count));
}

void report_init(struct report *r, const struct result *result)
{
	*r = (struct report){ .result = result, .engines = json_object() };
	for (struct result_at at = { 0 }; result_next(result, &at);)
		add_engine(r, at.row->row);
}

void report_fini(struct report *r)
{
	json_decref(r->engines);
}

unsigned report_series(const struct report *r, const struct result_group *g, unsigned i)
{
	bool *seen = must(calloc(json_object_size(r->engines), sizeof(*seen)));
	unsigned series = report_engine(r, g->rows[i].row);

	for (unsigned j = 0; j < g->count; j++) {
		unsigned engine = report_engine(r, g->rows[j].row);

		if (seen[engine])
			series = i;
		seen[engine] = true;
	}
	free(seen);
	return series;
}

/* ---- Units ---- */

const char *page_unit(enum figure figure)
{
	const char *unit = figures[figure].unit;

	return !unit ? "" : !strcmp(unit, "us") ? "\xc2\xb5s" : unit;
}

/* ---- What charts share ---- */

void chart_axis(FILE *to, const struct scale *x, const char *unit, double top, double bottom)
{
	struct ticks ticks = { .count = 0 };

	ticks_round(&ticks, x, 60);
	for (unsigned i = 0; i < ticks.count; i++) {
		double at = scale_at(x, ticks.values[i]);
		const char *class = i == 0                        ? "dim"
				    : at > CHART_WIDTH - 4 * EDGE ? "dim end"
								  : "dim middle";

		svg_line(to, "grid", at, top, at, bottom);
		svg_text(to, class, at, bottom + 15, "%.9g%s%s", ticks.values[i],
			 i + 1 == ticks.count ? " " : "", i + 1 == ticks.count ? unit : "");
	}
}

double chart_legend(FILE *to, const struct chart_key *keys, unsigned count, double width, double y)
{
	double x = EDGE;

	for (unsigned i = 0; i < count; i++) {
		double room = 18 + 6.2 * text_width(keys[i].text) + 12;

		if (!keys[i].shown)
			continue;
		if (x > EDGE && x + room > width) {
			x = EDGE;
			y += LEGEND_LINE;
		}
		svg_rect(to, keys[i].class, x, y - 10, 12, 12);
		svg_text(to, "dim", x + 18, y, "%s", keys[i].text);
		x += room;
	}
	return y + LEGEND_LINE - 10;
}
