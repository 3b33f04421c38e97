/* Rows of a measurement: what it adds to the interval of two documents, and their sums over visits.
 * Pure. */
#pragma once
#include "figure.h"

/* Sets how many connections each row of m from `first` on had, at the most, in any of the documents
 * that were taken meanwhile. */
void measures_set_connections(struct measures *m, unsigned first, const json_t *documents);

/* The operations of all listeners of a document. */
uint64_t measures_operations(const json_t *document);

/* A sum that changes when clients do anything: connections to the listeners of a document,
 * including refused ones, and bytes received. */
uint64_t measures_traffic(const json_t *document);

bool measures_has(const struct measures *m, const char *listener);

/* Names the row, and pairs it with those of its listener in other builds.  Takes ownership of name,
 * a JSON text. */
void measure_set_pair(struct measure *row, json_t *name);

/* Checks the generator's number of requests, as some generators compute it from their options or
 * include requests that failed.  A number becomes unknown if at the generator's own rate it would
 * take longer than the generator ran, or if it is more than the listener's operations or bytes.  To
 * be called once, when the row has its counts and the generator's. */
void measure_check_requests(struct measure *row);

/* Makes the operations of a visit one row, "read+write", as they share the listener's cost.  Those
 * that are less than 2 % of all of their load are left out, and named in m->minor: the limit is not
 * 1 %, so that operations which make up one hundredth, such as sockperf's answers under load, are
 * never in a row by chance.  Then sums rows of the same label, listener, engine, service,
 * operation, setup and build into one, which keeps them as its visits.  Takes the unavailable
 * ones, too. */
void measures_merge(struct measures *m);

/* measures_merge() into new rows, while m stays as it is: the visits of the new rows are m's rows,
 * which must outlive them. */
struct measures measures_merged(const struct measures *m);

/* The intervals that a row consists of; at least one, itself. */
unsigned measure_visits(const struct measure *row);
const struct measure *measure_visit_at(const struct measure *row, unsigned i);

/* The values of the visits, or of blocks of them if it is pooled, in `values`, which has room for
 * each visit; returns how many are known. */
unsigned measure_values(const struct measure *row, enum figure figure, double *values);

/* Its median over the visits of a row; NaN: unknown. */
double measure_median(const struct measure *row, enum figure figure);
