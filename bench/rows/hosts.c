/* See hosts.h. */
#include "hosts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "field.h"
#include "measure_file.h"
#include "measure_visits.h"
#include "must.h"
#include "numbers.h"
#include "util.h"

static const json_t *hosts_of(const struct measure *row)
{
	return measure_visit_at(row, 0)->generator.hosts;
}

unsigned hosts_count(const struct measure *row)
{
	return (unsigned)json_array_size(hosts_of(row));
}

const char *hosts_name(const struct measure *row, unsigned host)
{
	return field_text(json_array_get(hosts_of(row), host), "host");
}

/* The part of a host in a visit is the generator of a row. */
static double value_in(const struct measure *visit, unsigned host, enum figure figure,
		       struct measure *part)
{
	const json_t *from = json_array_get(visit->generator.hosts, host);
	struct measure_generator *g = &part->generator;

	*g = visit->generator;
	if (from) {
		*g = (struct measure_generator){ .wall_ns = field_uint(from, "wall_ns"),
						 .cpu_ns = field_uint(from, "cpu_ns"),
						 .busiest_ns = field_uint(from, "busiest_ns"),
						 .peak = json_number_value(
							 field_get(from, "peak")) };
		measure_result_from_json(&g->result, from);
	}
	return figure_value(part, figure);
}

double hosts_value(const struct measure *row, unsigned host, enum figure figure)
{
	unsigned visits = measure_visits(row), count = 0;
	struct measure *part = must(calloc(1, sizeof(*part)));
	double *values = must(calloc(visits, sizeof(*values))), median;

	for (unsigned i = 0; i < visits; i++) {
		values[count] = value_in(measure_visit_at(row, i), host, figure, part);
		count += !isnan(values[count]);
	}
	median = numbers_median(values, count);
	free(values);
	free(part);
	return median;
}

json_t *hosts_to_json(const struct measure *row)
{
	static const enum figure list[] = { FIGURE_REQUEST_RATE, FIGURE_GENERATOR_BANDWIDTH,
					    FIGURE_TRIP50, FIGURE_TRIP99, FIGURE_GENERATOR_SHARE };
	unsigned count = hosts_count(row);
	json_t *made = count ? json_array() : NULL;

	for (unsigned i = 0; i < count; i++) {
		json_t *host = json_pack("{s:s}", "host", hosts_name(row, i));

		for (unsigned j = 0; j < ARRAY_SIZE(list); j++)
			json_object_set_new(host, figures[list[j]].name,
					    field_real(hosts_value(row, i, list[j])));
		json_array_append_new(made, host);
	}
	return made;
}

double hosts_least_share(const struct measure *row)
{
	double least = NAN;

	for (unsigned i = 0; i < hosts_count(row); i++) {
		double share = hosts_value(row, i, FIGURE_GENERATOR_SHARE);

		if (isnan(share))
			return NAN;
		least = fmin(least, share);
	}
	return least;
}

bool hosts_bounds(const struct measure *row, enum figure figure, char text[HOSTS_BOUNDS_BYTES])
{
	double low = NAN, high = NAN;
	unsigned highest = 0;

	if (figure != FIGURE_TRIP50 && figure != FIGURE_TRIP99)
		return false;
	for (unsigned i = 0; i < hosts_count(row); i++) {
		double value = hosts_value(row, i, figure);

		if (isnan(value))
			return false;
		if (isnan(high) || value > high)
			highest = i;
		low = fmin(low, value);
		high = fmax(high, value);
	}
	if (isnan(high))
		return false;
	if (figure == FIGURE_TRIP50)
		snprintf(text, HOSTS_BOUNDS_BYTES, "%s-%s", figure_text(figure, low).text,
			 figure_text(figure, high).text);
	else
		snprintf(text, HOSTS_BOUNDS_BYTES, "<=%s (%.24s)", figure_text(figure, high).text,
			 hosts_name(row, highest));
	return true;
}
