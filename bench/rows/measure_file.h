/* Rows as JSON objects, one a line of a file, and the sums of their numbers.  Pure. */
#pragma once
#include <stdio.h>

#include "measure.h"

/* Takes ownership of conditions and visit (its saved form), and sets them for all rows of the row's
 * listener and interval. */
void measures_set_conditions(struct measures *m, const struct measure *row, json_t *conditions,
			     json_t *visit);

/* From the saved form, which owns its texts; NULL: unknown. */
struct measure_link measure_link_of(const json_t *link);

/* Adds the counts and histograms of an interval to those of another. */
void measure_add(struct measure *to, const struct measure *from);

/* What a generator printed, as members of an object in a saved row.  *r is zeroed. */
void measure_result_to_json(const struct generator_result *r, json_t *to);
void measure_result_from_json(struct generator_result *r, const json_t *from);

enum { MEASURE_SCHEMA = 2 }; /* of saved rows; 1: without visits */

/* measure_to_json(): the row in its saved form, a new reference.  measures_add_json(): appends a
 * saved row, and takes ownership of source: 0, -EINVAL, or
 * -EPROTONOSUPPORT: its schema is newer. */
json_t *measure_to_json(const struct measure *row);
int measures_add_json(struct measures *m, json_t *source);

/* The difference of two readings. */
struct measure_machine measure_machine_delta(const struct measure_machine *before,
					     const struct measure_machine *after);

/* The machine in its saved form. */
json_t *measure_machine_to_json(const struct measure_machine *m);
void measure_machine_from_json(struct measure_machine *m, const json_t *json);

/* Reads a file of saved rows, one per line.  0, or -errno; with -EINVAL and -EPROTONOSUPPORT
 * *ret_line is the invalid line. */
int measures_load(struct measures *m, FILE *from, unsigned *ret_line);
