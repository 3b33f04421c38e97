/* Rows: the difference of two documents, and which of its rows are kept.  See measure.h. */
#include "measure.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "field.h"
#include "must.h"
#include "text.h"
#include "util.h"

/* m takes ownership of it. */
static void measures_append(struct measures *m, struct measure *row)
{
	m->rows = must(reallocarray(m->rows, m->count + 1, sizeof(*m->rows)));
	m->rows[m->count++] = row;
}

struct measure *measures_add(struct measures *m)
{
	struct measure *row = must(calloc(1, sizeof(*row)));

	measures_append(m, row);
	row->generator.name = row->pair = row->link.interface = "";
	row->visit.run = row->visit.setup = row->visit.build = "";
	return row;
}

void measure_free(struct measure *row)
{
	for (unsigned i = 0; i < row->visit_count; i++)
		measure_free(row->visits[i]);
	free(row->visits);
	json_decref(row->source);
	free(row);
}

void measure_join(struct measure *to, struct measure *row)
{
	to->batch |= row->batch;
	to->count += row->count;
	to->errors += row->errors;
	histogram_sum_add(&to->latency, &row->latency);
	measure_free(row);
}

void measures_free(struct measures *m)
{
	for (unsigned i = 0; i < m->count; i++) {
		if (m->borrows)
			m->rows[i]->visit_count = 0;
		measure_free(m->rows[i]);
	}
	free(m->rows);
	json_decref(m->unavailable);
	json_decref(m->minor);
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

/* The increase of a counter.  Restarted counters are never compared (see counters_of()), so a
 * decrease is an inexact reading, which is possible for CPU times, and counts as 0. */
static uint64_t grown(uint64_t before, uint64_t after)
{
	return after > before ? after - before : 0;
}

static uint64_t delta(const json_t *before, const json_t *after, const char *path)
{
	return grown(field_uint(before, path), field_uint(after, path));
}

static void set_names(struct measure *row, json_t *source)
{
	row->source = json_incref(source);
	row->listener = field_text(source, "name");
	row->engine = field_text(source, "engine");
	row->service = field_text(source, "service");
	row->features = field_get(source, "engine_features");
	row->stores = field_get(source, "stores");
	row->tls = field_get(source, "tls");
}

/* The increase of a histogram; *to is empty. */
static void set_histogram(struct histogram_sum *to, const json_t *before, const json_t *after)
{
	struct histogram_sum *past = must(calloc(1, sizeof(*past)));

	measure_add_latency(to, after);
	measure_add_latency(past, before);
	histogram_subtract(to, past);
	free(past);
}

uint64_t measure_operations(const json_t *listener)
{
	json_t *operations = field_get(listener, "operations"), *operation;
	uint64_t count = 0;
	const char *name;

	json_object_foreach(operations, name, operation)
		count += field_uint(operation, "count");
	return count;
}

/* Nothing is known unless both documents have counts, and the CPU counted for 90 % of the time
 * between them: others use its counters as well. */
static void set_counters(struct measure *row, const json_t *before, const json_t *after)
{
	uint64_t enabled_ns = delta(before, after, "hardware.enabled_ns");
	uint64_t running_ns = delta(before, after, "hardware.running_ns");
	uint64_t instructions = delta(before, after, "hardware.instructions");

	if ((before && !field_get(before, "hardware")) || running_ns < enabled_ns / 10 * 9)
		return;
	if (!field_uint(after, "hardware.kernel")) {
		row->user_instructions = instructions;
		return;
	}
	row->cycles = delta(before, after, "hardware.cycles");
	row->instructions = instructions;
}

/* The cost is the listener's: each row of its operations has all of it.  With TLS the bytes are
 * those of the service, so that listeners with and without it are divided by the same. */
static void set_cost(struct measure *row, const json_t *before, const json_t *after)
{
	row->listener_count = grown(measure_operations(before), measure_operations(after));
	row->bytes_in = delta(before, after, row->tls ? "sessions.plain_in" : "bytes_in");
	row->bytes_out = delta(before, after, row->tls ? "sessions.plain_out" : "bytes_out");
	row->cpu_user_ns = delta(before, after, "cost.cpu_user_ns");
	row->cpu_system_ns = delta(before, after, "cost.cpu_system_ns");
	row->cpu_ns = row->cpu_user_ns + row->cpu_system_ns;
	row->kernel_cpu_ns = delta(before, after, "cost.kernel_threads.cpu_ns");
	row->datagrams_in = delta(before, after, "udp.in");
	row->frames_in = delta(before, after, "udp.frames_in");
	row->handshakes = delta(before, after, "sessions.handshakes");
	row->handshake_cpu_ns = delta(before, after, "sessions.handshake_cpu_ns");
	row->workers = field_uint(after, "workers");
	row->syscalls =
		grown(field_sum(before, "cost.syscalls"), field_sum(after, "cost.syscalls"));
	row->turns = delta(before, after, "cost.turns");
	row->wakeups = delta(before, after, "cost.context_switches_voluntary");
	row->switches = row->wakeups + delta(before, after, "cost.context_switches_involuntary");
	set_counters(row, before, after);
	set_histogram(&row->turn, field_get(before, "cost.turn_ns"),
		      field_get(after, "cost.turn_ns"));
}

static void set_operation(struct measure *row, const char *name, const json_t *before,
			  const json_t *after)
{
	row->operation = name;
	row->batch = field_has(row->source, "batches", name);
	row->count = delta(before, after, "count");
	row->errors = delta(before, after, "errors");
	set_histogram(&row->latency, field_get(before, "latency_ns"),
		      field_get(after, "latency_ns"));
}

static struct measure *add_delta(struct measures *m, const json_t *before, json_t *after,
				 const char *operation)
{
	struct measure *row = measures_add(m);

	set_names(row, after);
	set_cost(row, before, after);
	set_operation(row, operation, json_object_get(field_get(before, "operations"), operation),
		      json_object_get(field_get(after, "operations"), operation));
	return row;
}

/* The listener in an earlier document, if its counters are those that `listener` has now; NULL when
 * it was not there, or a reload has replaced it since and all counters began again. */
static const json_t *counters_of(const json_t *before, const json_t *listener)
{
	const json_t *past = field_named(before, "listeners", field_text(listener, "name"));

	return field_uint(past, "since_ns") == field_uint(listener, "since_ns") ? past : NULL;
}

/* Exports count for the whole daemon, so what they have read is a row's only where one listener
 * serves: see measures_delta(). */
static void set_reads(struct measure *row, const json_t *before, const json_t *after)
{
	json_t *export;
	size_t i;

	json_array_foreach(field_get(after, "exports"), i, export) {
		const json_t *past = field_named(before, "exports", field_text(export, "name"));

		row->sampled_reads += delta(past, export, "operations.read.latency_ns.count");
		row->zero_reads += delta(past, export, "zero_reads");
	}
}

/* Tells whether the listener is the same one in other visits. */
static void set_identity(struct measure *row, const json_t *before, const json_t *after)
{
	const json_t *past = field_named(before, "listeners", row->listener);
	uint64_t since_ns = field_uint(row->source, "since_ns");

	row->visit.since_ns = field_uint(after, "started_ns") + since_ns;
	row->visit.generation = field_uint(after, "generation");
	row->visit.changed = past && (field_uint(before, "generation") != row->visit.generation ||
				      field_uint(past, "since_ns") != since_ns ||
				      field_uint(past, "workers") != row->workers);
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
	for (unsigned j = first; j < m->count; j++) {
		set_identity(m->rows[j], before, after);
		m->rows[j]->label = label;
		if (json_array_size(field_get(after, "listeners")) == 1)
			set_reads(m->rows[j], before, after);
	}
}

int measures_interval(const json_t *before, const json_t *after, uint64_t *ret_interval_ns)
{
	uint64_t from = field_uint(before, "uptime_ns"), to = field_uint(after, "uptime_ns");

	/* Each of the three alone can be the same by chance: a pid is used again, and a
	 * clock is set. */
	if (to <= from || field_uint(before, "pid") != field_uint(after, "pid") ||
	    field_uint(before, "started_ns") != field_uint(after, "started_ns"))
		return -ESTALE;
	*ret_interval_ns = to - from;
	return 0;
}

/* ---- Choosing ---- */

/* Rows move from the old list into the new one, which leaves NULL behind; rows that no name wanted
 * are freed.  A name that stands twice therefore finds nothing the second time. */
void measures_select(struct measures *m, const json_t *names)
{
	struct measures kept = { .within = m->within, .unavailable = m->unavailable };
	json_t *name;
	size_t i;

	json_array_foreach(names, i, name) {
		const char *wanted = json_string_value(name);

		for (unsigned j = 0; j < m->count; j++) {
			struct measure *row = m->rows[j];

			if (!row || strcmp(row->listener, wanted))
				continue;
			measures_append(&kept, row);
			m->rows[j] = NULL;
		}
	}
	for (unsigned j = 0; j < m->count; j++)
		if (m->rows[j])
			measure_free(m->rows[j]);
	free(m->rows);
	*m = kept;
}

bool measure_unavailable(const struct measure *row)
{
	return !strcmp(field_text(row->source, "state"), "unavailable");
}

void measures_take_unavailable(struct measures *m)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < m->count; i++) {
		struct measure *row = m->rows[i];

		if (!measure_unavailable(row)) {
			m->rows[kept++] = row;
			continue;
		}
		if (!m->unavailable)
			m->unavailable = json_array();
		/* Each saved file has its own row of the listener. */
		if (!field_named(m->unavailable, "", row->listener))
			json_array_append_new(m->unavailable,
					      json_pack("{s:s, s:s}", "name", row->listener,
							"reason",
							field_text(row->source, "reason")));
		measure_free(row);
	}
	m->count = kept;
}

/* Rows of one listener follow each other and share its document: another document begins the next
 * listener. */
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
			measure_free(row);
	}
	m->count = kept;
}

void measures_drop_silent(struct measures *m)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < m->count; i++)
		if (m->rows[i]->listener_count)
			m->rows[kept++] = m->rows[i];
		else
			measure_free(m->rows[i]);
	m->count = kept;
}

/* ---- Values ---- */

/* Features chosen by configuration that distinguish a listener from others of its engine. */
static const char *const chosen_features[][2] = {
	{ "sqpoll", "+sqpoll" },       { "send_zc", "+zc" }, { "busy_poll", "+busy" },
	{ "napi_busy_poll", "+napi" }, { "drop", "+drop" },  { "zcrx", "+zcrx" },
};

struct phrase measure_engine_name(const struct measure *row)
{
	const char *mode = field_text(row->tls, "mode");
	struct phrase p = { "" };
	json_t *store;
	size_t i;

	field_engine(row->engine, row->features, p.text, sizeof(p.text));
	for (i = 0; i < ARRAY_SIZE(chosen_features); i++)
		if (field_has(row->features, "", chosen_features[i][0]))
			text_append(p.text, sizeof(p.text), "%s", chosen_features[i][1]);
	if (row->tls)
		text_append(p.text, sizeof(p.text), "+%s", strcmp(mode, "user") ? mode : "tls");
	json_array_foreach(row->stores, i, store)
		text_append(p.text, sizeof(p.text), "%c%s", i ? ',' : '/', field_text(store, ""));
	return p;
}

/* The two are of different clocks, the whole one of ticks scaled by the kernel. */
uint64_t measure_serving_ns(const struct measure *row)
{
	return row->cpu_ns - MIN(row->cpu_ns, row->handshake_cpu_ns);
}
