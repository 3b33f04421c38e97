/* What a measurement adds to the interval of two documents, and the sums of intervals.  See
 * measure_visits.h. */
#include "measure_visits.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "field.h"
#include "measure_file.h"
#include "must.h"
#include "numbers.h"
#include "text.h"
#include "util.h"

/* ---- Documents of the daemon ---- */

static uint64_t traffic_of(const json_t *listener)
{
	return field_uint(listener, "connections.accepted") +
	       field_sum(listener, "connections.refused") + field_uint(listener, "bytes_in");
}

static uint64_t sum_of(const json_t *document, uint64_t (*of)(const json_t *listener))
{
	json_t *listener;
	uint64_t sum = 0;
	size_t i;

	json_array_foreach(field_get(document, "listeners"), i, listener)
		sum += of(listener);
	return sum;
}

uint64_t measures_operations(const json_t *document)
{
	return sum_of(document, measure_operations);
}

uint64_t measures_traffic(const json_t *document)
{
	return sum_of(document, traffic_of);
}

void measures_set_connections(struct measures *m, unsigned first, const json_t *documents)
{
	for (unsigned i = first; i < m->count; i++) {
		struct measure *row = m->rows[i];
		json_t *document;
		size_t at;

		json_array_foreach(documents, at, document) {
			const json_t *listener = field_named(document, "listeners", row->listener);

			/* That of datagrams forgets a client only when it was silent for long:
			 * those of earlier visits are open, too. */
			if (!field_get(listener, "udp"))
				row->connections = MAX(row->connections,
						       field_uint(listener, "connections.open"));
		}
	}
}

void measure_check_requests(struct measure *row)
{
	struct measure_generator *g = &row->generator;
	const struct generator_result *r = &g->result;
	double lived_s = (double)g->lived_ns / NS_PER_S;
	bool fits = r->requests <= (double)row->bytes_in + (double)row->bytes_out;

	/* The generator's own clock may tick in 10 ms. */
	if (r->requests_per_s > 0 && g->lived_ns)
		fits &= r->requests / r->requests_per_s <= 1.05 * lived_s + 0.02;
	if (!row->batch) /* requests in flight at the ends may be counted on one side only */
		fits &= r->requests <= 1.02 * (double)row->listener_count + 10;
	if (fits || r->requests <= 0)
		return;
	g->refused_requests = (uint64_t)r->requests;
	g->result.requests = 0;
}

void measure_set_pair(struct measure *row, json_t *name)
{
	/* Rows of a listener share their source, and the texts that it owns. */
	if (!json_object_get(row->source, "row_name"))
		json_object_set(row->source, "row_name", name);
	json_decref(name);
	row->pair = row->listener;
	row->listener = field_text(row->source, "row_name");
}

/* ---- Rows ---- */

bool measures_has(const struct measures *m, const char *listener)
{
	for (unsigned i = 0; i < m->count; i++)
		if (!strcmp(m->rows[i]->listener, listener))
			return true;
	return false;
}

static bool same(const struct measure *a, const struct measure *b)
{
	return !strcmp(a->label, b->label) && !strcmp(a->pair, b->pair) &&
	       !strcmp(a->listener, b->listener) && !strcmp(a->engine, b->engine) &&
	       !strcmp(a->service, b->service) && !strcmp(a->operation, b->operation) &&
	       !strcmp(a->visit.setup, b->visit.setup) && !strcmp(a->visit.build, b->visit.build);
}

/* ---- Operations of a visit ---- */

/* How often each operation was done in all visits, of a load and of each of its listeners:
 * { "nbd\tfio": { "read": 100 }, "nbd\tfio\ta": { "read": 50 } }. */
static char *load_key(const struct measure *row)
{
	return text_new("%s\t%s", row->service, row->label);
}

static char *listener_key(const struct measure *row)
{
	return text_new("%s\t%s\t%s", row->service, row->label, row->listener);
}

/* Takes ownership of key. */
static void count_up(json_t *all, char *key, const struct measure *row)
{
	json_t *counts = json_object_get(all, key);
	json_int_t before;

	if (!counts) {
		counts = json_object();
		json_object_set_new(all, key, counts);
	}
	before = json_integer_value(json_object_get(counts, row->operation));
	json_object_set_new(counts, row->operation, json_integer(before + (json_int_t)row->count));
	free(key);
}

/* Removes operations that are less than 2 % of their load, and adds their names to `minor`. */
static void drop_minor(json_t *loads, json_t *minor)
{
	json_t *counts, *count;
	const char *load, *name;
	void *after;

	json_object_foreach(loads, load, counts) {
		uint64_t all = field_sum(counts, "");

		json_object_foreach_safe(counts, after, name, count) {
			uint64_t some = field_uint(count, "");

			if (some >= all / 50)
				continue;
			if (some)
				field_add_once(minor,
					       json_sprintf("%.*s %s", (int)strcspn(load, "\t"),
							    load, name));
			json_object_del(counts, name);
		}
	}
}

static bool is_of_visit(const struct measure *a, const struct measure *b)
{
	if (a->source && a->source == b->source)
		return true;
	return *a->visit.run && !strcmp(a->visit.run, b->visit.run) &&
	       a->visit.round == b->visit.round && a->visit.position == b->visit.position &&
	       !strcmp(a->label, b->label) && !strcmp(a->listener, b->listener) &&
	       !strcmp(a->service, b->service);
}

/* Operations of the load that the listener has done: "read+write". */
static json_t *joined_name(const json_t *of_load, json_t *of_listener)
{
	const char *name;
	json_t *count;
	char *text;
	FILE *to = text_open(&text);
	json_t *made;

	json_object_foreach((json_t *)of_load, name, count)
		if (json_integer_value(json_object_get(of_listener, name)) > 0)
			fprintf(to, "%s%s", ftell(to) ? "+" : "", name);
	fclose(to);
	made = json_string(text);
	free(text);
	return made;
}

/* Names the row, the first of its visit that counts, by all operations of the visit that count. */
static void name_joined(struct measure *row, const json_t *of_load, const json_t *listeners)
{
	char *key = listener_key(row);
	json_t *name = joined_name(of_load, json_object_get(listeners, key));

	row->joined = true;
	if (strcmp(json_string_value(name), row->operation) != 0) {
		json_object_set(row->source, "joined", name); /* which owns it */
		row->operation = field_text(row->source, "joined");
	}
	json_decref(name);
	free(key);
}

/* Joins the rows of each visit, which stand together, into the first one whose operation counts.
 * If all its operations are rare, or none was done, the visit keeps its first row. */
static void join_operations(struct measures *m)
{
	json_t *loads = json_object(), *listeners = json_object();
	unsigned kept = 0;

	for (unsigned i = 0; i < m->count; i++) {
		count_up(loads, load_key(m->rows[i]), m->rows[i]);
		count_up(listeners, listener_key(m->rows[i]), m->rows[i]);
	}
	m->minor = m->minor ? m->minor : json_array();
	drop_minor(loads, m->minor);
	for (unsigned i = 0; i < m->count; i++) {
		struct measure *row = m->rows[i], *last = kept ? m->rows[kept - 1] : NULL;
		char *key = load_key(row);
		json_t *of_load = json_object_get(loads, key);
		bool counts = row->count && json_object_get(of_load, row->operation);

		free(key);
		if (!last || !is_of_visit(last, row)) {
			m->rows[kept++] = row;
		} else if (counts && last->joined) {
			measure_join(last, row);
			continue;
		} else if (counts) {
			m->rows[kept - 1] = row;
			measure_free(last);
		} else {
			measure_free(row);
			continue;
		}
		if (counts)
			name_joined(row, of_load, listeners);
	}
	m->count = kept;
	json_decref(loads);
	json_decref(listeners);
}

/* ---- Visits of a row ---- */

static void add_visit(struct measure *row, struct measure *visit)
{
	row->visits = must(reallocarray(row->visits, row->visit_count + 1, sizeof(*row->visits)));
	row->visits[row->visit_count++] = visit;
}

/* Adds a row for the sum of several visits, of which `visit` is the first. */
static struct measure *add_sum(struct measures *to, const struct measure *visit)
{
	struct measure *row = measures_add(to);

	*row = *visit;
	json_incref(row->source);
	row->visits = NULL;
	row->visit_count = 0;
	return row;
}

void measures_merge(struct measures *m)
{
	struct measures merged;

	measures_take_unavailable(m);
	join_operations(m);
	merged = measures_merged(m);
	free(m->rows);
	m->rows = merged.rows;
	m->count = merged.count;
}

struct measures measures_merged(const struct measures *m)
{
	struct measures merged = { .within = m->within, .borrows = true };

	for (unsigned i = 0; i < m->count; i++) {
		struct measure *visit = m->rows[i];
		unsigned j = 0;

		if (measure_unavailable(visit))
			continue;
		while (j < merged.count && !same(merged.rows[j], visit))
			j++;
		if (j < merged.count)
			measure_add(merged.rows[j], visit);
		else
			add_sum(&merged, visit);
		add_visit(merged.rows[j], visit);
	}
	return merged;
}

unsigned measure_visits(const struct measure *row)
{
	return MAX(row->visit_count, 1U);
}

const struct measure *measure_visit_at(const struct measure *row, unsigned i)
{
	return row->visit_count ? row->visits[i] : row;
}

unsigned measure_values(const struct measure *row, enum figure figure, double *values)
{
	bool pooled = figures[figure].pooled;
	struct measure *block = pooled ? must(malloc(sizeof(*block))) : NULL;
	unsigned count = 0, joined = 0;

	for (unsigned i = 0; i < measure_visits(row); i++) {
		const struct measure *visit = measure_visit_at(row, i);

		if (pooled && joined++ == 0)
			*block = *visit;
		else if (pooled)
			measure_add(block, visit);
		values[count] = figure_value(pooled ? block : visit, figure);
		if (isnan(values[count]))
			continue;
		count++;
		joined = 0;
	}
	free(block);
	return count;
}

double measure_median(const struct measure *row, enum figure figure)
{
	double *values, median;

	if (figures[figure].pooled)
		return figure_value(row, figure);
	values = must(calloc(measure_visits(row), sizeof(*values)));
	median = numbers_median(values, measure_values(row, figure, values));
	free(values);
	return median;
}
