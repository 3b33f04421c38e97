/* Rows of `compare`: differences, sums, saving and loading.  See measure.h. */
#include "measure.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "field.h"
#include "util.h"

static void append(struct measures *m, struct measure *row)
{
	struct measure **rows = reallocarray(m->rows, m->count + 1, sizeof(*rows));

	if (!rows || !row)
		abort();
	m->rows = rows;
	m->rows[m->count++] = row;
}

static struct measure *add_row(struct measures *m)
{
	struct measure *row = calloc(1, sizeof(*row));

	append(m, row);
	return row;
}

static void free_row(struct measure *row)
{
	json_decref(row->source);
	free(row);
}

void measures_free(struct measures *m)
{
	for (unsigned i = 0; i < m->count; i++)
		free_row(m->rows[i]);
	free(m->rows);
	*m = (struct measures){};
}

/* ---- Two documents ---- */

bool measure_add_latency(struct histogram_sum *sum, const json_t *latency)
{
	uint64_t min = field_uint(latency, "min"), max = field_uint(latency, "max");
	json_t *buckets = field_get(latency, "buckets"), *pair;
	size_t i;

	if (buckets && !json_is_array(buckets))
		return false;
	json_array_foreach(buckets, i, pair) {
		uint64_t bound = field_uint(json_array_get(pair, 0), "");
		uint64_t count = field_uint(json_array_get(pair, 1), "");

		if (json_array_size(pair) != 2)
			return false;
		sum->buckets[histogram_bucket(bound)] += count;
		sum->count += count;
		sum->max = MAX(sum->max, bound);
		sum->min = sum->min ? MIN(sum->min, bound) : bound;
	}
	if (max)
		sum->max = MIN(sum->max, max);
	if (min)
		sum->min = MIN(sum->min, min);
	sum->sum += field_uint(latency, "sum");
	return true;
}

/* What was added to a counter.  Those that began anew are never compared (see counters_of()): one
 * that is less than before was read inexactly, as CPU times may be, and nothing was added. */
static uint64_t grown(uint64_t before, uint64_t after)
{
	return after > before ? after - before : 0;
}

static uint64_t delta(const json_t *before, const json_t *after, const char *path)
{
	return grown(field_uint(before, path), field_uint(after, path));
}

static uint64_t operations_count(const json_t *listener)
{
	json_t *operations = field_get(listener, "operations"), *operation;
	uint64_t count = 0;
	const char *name;

	json_object_foreach(operations, name, operation)
		count += field_uint(operation, "count");
	return count;
}

static void set_names(struct measure *row, json_t *source)
{
	row->source = json_incref(source);
	row->listener = field_text(source, "name");
	row->engine = field_text(source, "engine");
	row->service = field_text(source, "service");
	row->features = field_get(source, "engine_features");
	row->stores = field_get(source, "stores");
}

static void set_cost(struct measure *row, const json_t *before, const json_t *after)
{
	row->listener_count = grown(operations_count(before), operations_count(after));
	row->bytes_in = delta(before, after, "bytes_in");
	row->bytes_out = delta(before, after, "bytes_out");
	row->cpu_ns = delta(before, after, "cost.cpu_user_ns") +
		      delta(before, after, "cost.cpu_system_ns");
	row->syscalls =
		grown(field_sum(before, "cost.syscalls"), field_sum(after, "cost.syscalls"));
	row->turns = delta(before, after, "cost.turns");
}

static void set_operation(struct measure *row, const char *name, const json_t *before,
			  const json_t *after)
{
	struct histogram_sum *past = calloc(1, sizeof(*past));

	if (!past)
		abort();
	row->operation = name;
	row->count = delta(before, after, "count");
	row->errors = delta(before, after, "errors");
	measure_add_latency(&row->latency, field_get(after, "latency_ns"));
	measure_add_latency(past, field_get(before, "latency_ns"));
	histogram_subtract(&row->latency, past);
	free(past);
}

static struct measure *add_delta(struct measures *m, const json_t *before, json_t *after,
				 const char *operation)
{
	struct measure *row = add_row(m);

	set_names(row, after);
	set_cost(row, before, after);
	set_operation(row, operation, json_object_get(field_get(before, "operations"), operation),
		      json_object_get(field_get(after, "operations"), operation));
	return row;
}

/* The listener in an earlier document, if its counters are those that `listener` has now; NULL when
 * it was not there, or a reload has replaced it since and all counters began anew. */
static const json_t *counters_of(const json_t *before, const json_t *listener)
{
	const json_t *past = field_named(before, "listeners", field_text(listener, "name"));

	return field_uint(past, "since_ns") == field_uint(listener, "since_ns") ? past : NULL;
}

void measures_delta(struct measures *m, const json_t *before, const json_t *after,
		    uint64_t interval_ns, const char *label)
{
	json_t *listener, *operations, *operation;
	unsigned first = m->count;
	const char *name;
	size_t i;

	json_array_foreach(field_get(after, "listeners"), i, listener) {
		const json_t *past = counters_of(before, listener);

		operations = field_get(listener, "operations");
		if (json_object_size(operations) == 0)
			add_delta(m, past, listener, "")->interval_ns = interval_ns;
		json_object_foreach(operations, name, operation)
			add_delta(m, past, listener, name)->interval_ns = interval_ns;
	}
	for (unsigned j = first; j < m->count; j++)
		m->rows[j]->label = label;
}

int measures_interval(const json_t *before, const json_t *after, uint64_t *ret_interval_ns)
{
	uint64_t from = field_uint(before, "uptime_ns"), to = field_uint(after, "uptime_ns");

	if (to <= from)
		return -ESTALE;
	*ret_interval_ns = to - from;
	return 0;
}

/* ---- Choosing and adding up ---- */

bool measures_has(const struct measures *m, const char *listener)
{
	for (unsigned i = 0; i < m->count; i++)
		if (!strcmp(m->rows[i]->listener, listener))
			return true;
	return false;
}

void measures_select(struct measures *m, const json_t *names)
{
	struct measures kept = {};
	json_t *name;
	size_t i;

	json_array_foreach(names, i, name) {
		const char *wanted = json_string_value(name);

		for (unsigned j = 0; j < m->count; j++) {
			struct measure *row = m->rows[j];

			if (!row || strcmp(row->listener, wanted))
				continue;
			append(&kept, row);
			m->rows[j] = NULL;
		}
	}
	for (unsigned j = 0; j < m->count; j++)
		if (m->rows[j])
			free_row(m->rows[j]);
	free(m->rows);
	*m = kept;
}

static bool same(const struct measure *a, const struct measure *b)
{
	return !strcmp(a->label, b->label) && !strcmp(a->listener, b->listener) &&
	       !strcmp(a->engine, b->engine) && !strcmp(a->service, b->service) &&
	       !strcmp(a->operation, b->operation);
}

static void add_histogram(struct histogram_sum *to, const struct histogram_sum *from)
{
	to->count += from->count;
	to->sum += from->sum;
	to->max = MAX(to->max, from->max);
	if (from->min && (to->min == 0 || from->min < to->min))
		to->min = from->min;
	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
		to->buckets[i] += from->buckets[i];
}

bool measure_unavailable(const struct measure *row)
{
	return !strcmp(field_text(row->source, "state"), "unavailable");
}

json_t *measures_take_unavailable(struct measures *m)
{
	json_t *listeners = json_array();
	const json_t *last = NULL;
	unsigned kept = 0;

	for (unsigned i = 0; i < m->count; i++) {
		struct measure *row = m->rows[i];

		if (!measure_unavailable(row)) {
			m->rows[kept++] = row;
			continue;
		}
		if (row->source != last)
			json_array_append(listeners, row->source);
		last = row->source;
		free_row(row);
	}
	m->count = kept;
	return listeners;
}

void measures_drop_idle(struct measures *m)
{
	const json_t *last = NULL;
	unsigned kept = 0;

	for (unsigned i = 0; i < m->count; i++) {
		struct measure *row = m->rows[i];
		bool first = row->source != last;

		last = row->source;
		if (row->count || (first && !row->listener_count))
			m->rows[kept++] = row;
		else
			free_row(row);
	}
	m->count = kept;
}

void measures_merge_operations(struct measures *m)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < m->count; i++) {
		struct measure *row = m->rows[i], *last = kept ? m->rows[kept - 1] : NULL;

		if (!last || last->source != row->source) {
			m->rows[kept++] = row;
			continue;
		}
		last->operation = "";
		last->count += row->count;
		last->errors += row->errors;
		add_histogram(&last->latency, &row->latency);
		free_row(row);
	}
	m->count = kept;
}

static void add_measure(struct measure *to, const struct measure *from)
{
	to->interval_ns += from->interval_ns;
	to->count += from->count;
	to->errors += from->errors;
	to->listener_count += from->listener_count;
	to->bytes_in += from->bytes_in;
	to->bytes_out += from->bytes_out;
	to->cpu_ns += from->cpu_ns;
	to->syscalls += from->syscalls;
	to->turns += from->turns;
	add_histogram(&to->latency, &from->latency);
}

void measures_merge(struct measures *m)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < m->count; i++) {
		struct measure *row = m->rows[i];
		unsigned j = 0;

		while (j < kept && !same(m->rows[j], row))
			j++;
		if (j < kept) {
			add_measure(m->rows[j], row);
			free_row(row);
		} else {
			m->rows[kept++] = row;
		}
	}
	m->count = kept;
}

/* ---- Files ---- */

static json_t *latency_to_json(const struct histogram_sum *h)
{
	json_t *buckets = json_array();

	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
		if (h->buckets[i])
			json_array_append_new(
				buckets, json_pack("[I, I]", (json_int_t)histogram_bucket_max(i),
						   (json_int_t)h->buckets[i]));
	return json_pack("{s:I, s:I, s:I, s:I, s:o}", "count", (json_int_t)h->count, "sum",
			 (json_int_t)h->sum, "min", (json_int_t)h->min, "max", (json_int_t)h->max,
			 "buckets", buckets);
}

/* The numbers of a row that are saved and loaded. */
#define NUMBER(name)                                                                               \
	{                                                                                          \
#name, offsetof(struct measure, name)                                              \
	}
static const struct number {
	const char *name;
	size_t offset;
} numbers[] = {
	NUMBER(interval_ns),    NUMBER(count),    NUMBER(errors),
	NUMBER(listener_count), NUMBER(bytes_in), NUMBER(bytes_out),
	NUMBER(cpu_ns),         NUMBER(syscalls), NUMBER(turns),
};
#undef NUMBER

static uint64_t *number_of(const struct measure *row, const struct number *n)
{
	return (uint64_t *)(void *)((char *)row + n->offset);
}

json_t *measure_to_json(const struct measure *row)
{
	json_t *saved = json_pack("{s:s, s:s, s:s, s:s, s:s}", "label", row->label, "listener",
				  row->listener, "engine", row->engine, "service", row->service,
				  "operation", row->operation);

	for (unsigned i = 0; i < ARRAY_SIZE(numbers); i++)
		json_object_set_new(saved, numbers[i].name,
				    json_integer((json_int_t)*number_of(row, &numbers[i])));
	json_object_set_new(saved, "features",
			    row->features ? json_deep_copy(row->features) : json_array());
	json_object_set_new(saved, "stores",
			    row->stores ? json_deep_copy(row->stores) : json_array());
	json_object_set_new(saved, "latency_ns", latency_to_json(&row->latency));
	return saved;
}

int measures_add_json(struct measures *m, json_t *source)
{
	struct measure *row;

	if (!*field_text(source, "listener") || !json_is_integer(field_get(source, "count")))
		return -EINVAL;
	row = add_row(m);
	row->source = json_incref(source);
	row->label = field_text(source, "label");
	row->listener = field_text(source, "listener");
	row->engine = field_text(source, "engine");
	row->service = field_text(source, "service");
	row->operation = field_text(source, "operation");
	row->features = field_get(source, "features");
	row->stores = field_get(source, "stores");
	for (unsigned i = 0; i < ARRAY_SIZE(numbers); i++)
		*number_of(row, &numbers[i]) = field_uint(source, numbers[i].name);
	return measure_add_latency(&row->latency, field_get(source, "latency_ns")) ? 0 : -EINVAL;
}

int measures_load(struct measures *m, FILE *from, unsigned *ret_line)
{
	unsigned line = 0;
	char *text = NULL;
	size_t room = 0;
	int rc = 0;

	while (rc == 0 && getline(&text, &room, from) >= 0) {
		json_t *source;

		line++;
		if (text[strspn(text, " \t\r\n")] == '\0')
			continue;
		source = json_loads(text, 0, NULL);
		rc = measures_add_json(m, source);
		json_decref(source);
	}
	if (rc == 0 && ferror(from))
		rc = -EIO;
	free(text);
	*ret_line = line;
	return rc;
}

/* ---- Derived ---- */

bool measure_quantile(const struct measure *row, double quantile, uint64_t *ret_ns)
{
	if ((1 - quantile) * (double)row->latency.count < 0.999)
		return false;
	*ret_ns = histogram_quantile(&row->latency, quantile);
	return true;
}

static double ratio(uint64_t a, uint64_t b)
{
	return b ? (double)a / (double)b : 0;
}

double measure_rate(const struct measure *row)
{
	return ratio(row->count, row->interval_ns) * NS_PER_S;
}

double measure_bandwidth(const struct measure *row)
{
	return ratio(row->bytes_in + row->bytes_out, row->interval_ns) * NS_PER_S;
}

double measure_cpu_per_op(const struct measure *row)
{
	return ratio(row->cpu_ns, row->listener_count);
}

double measure_cpu_per_byte(const struct measure *row)
{
	return ratio(row->cpu_ns, row->bytes_in + row->bytes_out);
}

double measure_bytes_per_op(const struct measure *row)
{
	return ratio(row->bytes_in + row->bytes_out, row->listener_count);
}

double measure_syscalls_per_op(const struct measure *row)
{
	return ratio(row->syscalls, row->listener_count);
}

double measure_ops_per_turn(const struct measure *row)
{
	return ratio(row->listener_count, row->turns);
}

double measure_cpu_share(const struct measure *row)
{
	return ratio(row->cpu_ns, row->interval_ns);
}
