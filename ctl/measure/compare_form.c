/* `compare` in the forms that programs read: JSON and CSV.  See compare_table.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compare_group.h"
#include "compare_table.h"
#include "field.h"
#include "printable.h"
#include "util.h"

/* An unknown figure is null, as 0 would look like a measurement. */
static json_t *real_or_null(double value)
{
	return isnan(value) ? json_null() : json_real(value);
}

static const struct {
	const char *name;
	double quantile;
	bool (*of)(const struct measure *row, double quantile, uint64_t *ret_ns);
} quantiles[] = { { "p50_ns", 0.5, measure_quantile },
		  { "p99_ns", 0.99, measure_quantile },
		  { "p99_9_ns", 0.999, measure_quantile },
		  { "trip50_ns", 0.5, measure_trip },
		  { "trip99_ns", 0.99, measure_trip } };

/* NaN: unknown. */
static double quantile_ns(const struct measure *row, unsigned i)
{
	uint64_t ns;

	return quantiles[i].of(row, quantiles[i].quantile, &ns) ? (double)ns : NAN;
}

static json_t *derived_to_json(const struct measure *row)
{
	json_t *derived = json_object(), *spread = json_object();

	for (unsigned i = 0; i < FIGURE_COUNT; i++) {
		struct spread s = figure_spread(row, i);

		json_object_set_new(derived, figure_names[i], real_or_null(s.median));
		if (s.count > 1)
			json_object_set_new(spread, figure_names[i],
					    json_pack("[f, f]", s.low, s.high));
	}
	for (unsigned i = 0; i < ARRAY_SIZE(quantiles); i++) {
		double ns = quantile_ns(row, i);

		json_object_set_new(derived, quantiles[i].name,
				    isnan(ns) ? json_null() : json_integer((json_int_t)ns));
	}
	json_object_set_new(derived, "visits", json_integer(MAX(row->visit_count, 1U)));
	json_object_set_new(derived, "spread", spread);
	return derived;
}

/* A field of RFC 4180. */
static void csv_text(FILE *to, const char *text)
{
	bool quoted = strpbrk(text, ",\"\r\n") != NULL, printable;

	fputs(quoted ? "\"" : "", to);
	while (*text) {
		size_t bytes = printable_next(text, &printable);

		fputs(*text == '"' ? "\"" : "", to);
		fwrite(printable ? text : "?", 1, printable ? bytes : 1, to);
		text += bytes;
	}
	fputs(quoted ? "\"" : "", to);
}

static void csv_number(FILE *to, double value)
{
	putc(',', to);
	if (!isnan(value))
		fprintf(to, "%.9g", value);
}

static void csv_row(FILE *to, const struct measure *row)
{
	const char *const texts[] = { row->label,   row->listener,  row->engine,
				      row->service, row->operation, row->generator.name };

	for (unsigned i = 0; i < ARRAY_SIZE(texts); i++) {
		if (i)
			putc(',', to);
		csv_text(to, texts[i]);
	}
	csv_number(to, MAX(row->visit_count, 1U));
	for (unsigned i = 0; i < FIGURE_COUNT; i++) {
		struct spread s = figure_spread(row, i);

		csv_number(to, s.median);
		csv_number(to, s.low);
		csv_number(to, s.high);
	}
	for (unsigned i = 0; i < ARRAY_SIZE(quantiles); i++)
		csv_number(to, quantile_ns(row, i));
	fputs(",\r\n", to);
}

/* No figure is known of a listener that was not compared, and the last field says why. */
static void csv_absent(FILE *to, const json_t *listener)
{
	putc(',', to);
	csv_text(to, field_text(listener, "name"));
	fputs(",,,,,0", to);
	for (unsigned i = 0; i < 3 * FIGURE_COUNT + ARRAY_SIZE(quantiles); i++)
		putc(',', to);
	putc(',', to);
	csv_text(to, field_text(listener, "reason"));
	fputs("\r\n", to);
}

void compare_csv(struct output *out, const struct measures *m)
{
	json_t *listener;
	size_t index;

	fputs("label,listener,engine,service,operation,generator,visits", out->file);
	for (unsigned i = 0; i < FIGURE_COUNT; i++)
		fprintf(out->file, ",%s,%s_low,%s_high", figure_names[i], figure_names[i],
			figure_names[i]);
	for (unsigned i = 0; i < ARRAY_SIZE(quantiles); i++)
		fprintf(out->file, ",%s", quantiles[i].name);
	fputs(",reason\r\n", out->file);
	for (unsigned i = 0; i < m->count; i++)
		csv_row(out->file, m->rows[i]);
	json_array_foreach(m->unavailable, index, listener)
		csv_absent(out->file, listener);
	fflush(out->file);
}

json_t *compare_to_json(const struct measures *m)
{
	json_t *rows = json_array(), *absent = json_array(), *listener, *document;
	struct groups groups;
	char *conclusion;
	size_t index;

	for (unsigned i = 0; i < m->count; i++) {
		json_t *row = measure_to_json(m->rows[i]);

		json_object_set_new(row, "derived", derived_to_json(m->rows[i]));
		json_array_append_new(rows, row);
	}
	json_array_foreach(m->unavailable, index, listener)
		json_array_append_new(absent, json_pack("{s:s, s:s}", "listener",
							field_text(listener, "name"), "reason",
							field_text(listener, "reason")));
	groups_init(&groups, m);
	conclusion = groups_conclusion(&groups);
	groups_fini(&groups);
	document = json_pack("{s:o, s:o, s:s?}", "rows", rows, "unavailable", absent, "conclusion",
			     conclusion);
	free(conclusion);
	return document;
}
