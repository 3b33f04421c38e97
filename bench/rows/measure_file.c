/* The numbers of rows: saved, loaded and added up by the same tables.  See measure_file.h. */
#include "measure_file.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "field.h"
#include "util.h"

/* ---- Numbers ---- */

/* In the sum of several intervals a number is that of the first, their sum or the largest. */
enum summed { FIRST, SUM, LARGEST };
struct number {
	const char *name; /* as it is saved; NULL: the end */
	size_t offset;
	enum summed summed;
};

/* clang-format off */
#define NUMBER(of, field, summed) { #field, offsetof(struct of, field), summed }
static const struct number row_numbers[] = {
	NUMBER(measure, interval_ns, SUM), NUMBER(measure, count, SUM),
	NUMBER(measure, errors, SUM), NUMBER(measure, listener_count, SUM),
	NUMBER(measure, workers, FIRST), NUMBER(measure, bytes_in, SUM),
	NUMBER(measure, bytes_out, SUM), NUMBER(measure, cpu_ns, SUM),
	NUMBER(measure, cpu_user_ns, SUM), NUMBER(measure, cpu_system_ns, SUM),
	NUMBER(measure, syscalls, SUM), NUMBER(measure, turns, SUM),
	NUMBER(measure, kernel_cpu_ns, SUM), NUMBER(measure, handshakes, SUM), NUMBER(measure, handshake_cpu_ns, SUM),
	NUMBER(measure, switches, SUM), NUMBER(measure, wakeups, SUM),
	NUMBER(measure, cycles, SUM), NUMBER(measure, instructions, SUM), NUMBER(measure, user_instructions, SUM),
	NUMBER(measure, sampled_reads, SUM),
	NUMBER(measure, zero_reads, SUM), NUMBER(measure, connections, LARGEST),
	NUMBER(measure, datagrams_in, SUM), NUMBER(measure, frames_in, SUM), { .name = NULL },
}, generator_numbers[] = {
	NUMBER(measure_generator, wall_ns, SUM), NUMBER(measure_generator, lived_ns, SUM), NUMBER(measure_generator, cpu_ns, SUM),
	NUMBER(measure_generator, busiest_ns, SUM), NUMBER(measure_generator, shared_cpus, FIRST),
	NUMBER(measure_generator, sibling_cpus, FIRST),
	NUMBER(measure_generator, refused_requests, FIRST), { .name = NULL },
}, machine_numbers[] = {
	NUMBER(measure_machine, cpus, FIRST), NUMBER(measure_machine, total_ns, SUM),
	NUMBER(measure_machine, idle_ns, SUM), NUMBER(measure_machine, steal_ns, SUM),
	NUMBER(measure_machine, softirq_ns, SUM), NUMBER(measure_machine, served_softirq_ns, SUM),
	NUMBER(measure_machine, pressure_ns, SUM),
	{ .name = NULL },
}, link_numbers[] = {
	NUMBER(measure_link, speed_bps, FIRST), NUMBER(measure_link, received_bps, FIRST),
	NUMBER(measure_link, sent_bps, FIRST), NUMBER(measure_link, segments, SUM),
	NUMBER(measure_link, retransmitted, SUM), { .name = NULL },
}, visit_numbers[] = {
	NUMBER(measure_visit, round, FIRST), NUMBER(measure_visit, position, FIRST),
	NUMBER(measure_visit, seed, FIRST), NUMBER(measure_visit, since_ns, FIRST),
	NUMBER(measure_visit, generation, FIRST), NUMBER(measure_visit, changed, FIRST),
	NUMBER(measure_visit, failed, FIRST), { .name = NULL },
};
/* clang-format on */

static uint64_t *number_of(const void *of, const struct number *n)
{
	return (uint64_t *)(void *)((char *)of + n->offset);
}

/* Returns `to`. */
static json_t *save(json_t *to, const void *of, const struct number *n)
{
	for (; n->name; n++)
		json_object_set_new(to, n->name, json_integer((json_int_t)*number_of(of, n)));
	return to;
}

static void load(void *of, const json_t *from, const struct number *n)
{
	for (; n->name; n++)
		*number_of(of, n) = field_uint(from, n->name);
}

static void add(void *to, const void *from, const struct number *n)
{
	for (; n->name; n++) {
		uint64_t *sum = number_of(to, n), value = *number_of(from, n);

		if (n->summed == SUM)
			*sum += value;
		else if (n->summed == LARGEST)
			*sum = MAX(*sum, value);
	}
}

struct measure_machine measure_machine_delta(const struct measure_machine *before,
					     const struct measure_machine *after)
{
	struct measure_machine delta = *after;

	for (const struct number *n = machine_numbers; n->name; n++)
		if (n->summed == SUM) { /* iowait may go back: proc(5) */
			uint64_t *value = number_of(&delta, n);

			*value -= MIN(*value, *number_of(before, n));
		}
	return delta;
}

void measure_add(struct measure *to, const struct measure *from)
{
	struct generator_result *sum = &to->generator.result;

	add(to, from, row_numbers);
	add(&to->machine, &from->machine, machine_numbers);
	add(&to->link, &from->link, link_numbers);
	add(&to->generator, &from->generator, generator_numbers);
	to->generator.peak = MAX(to->generator.peak, from->generator.peak);
	to->generator.hosts = NULL; /* those of each visit: see hosts.h */
	sum->requests += from->generator.result.requests;
	sum->bytes += from->generator.result.bytes;
	sum->errors += from->generator.result.errors;
	histogram_sum_add(&to->latency, &from->latency);
	histogram_sum_add(&to->turn, &from->turn);
}

/* ---- Saved rows ---- */

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

static const struct {
	const char *name;
	size_t offset;
} result_numbers[] = {
	{ "requests", offsetof(struct generator_result, requests) },
	{ "requests_per_s", offsetof(struct generator_result, requests_per_s) },
	{ "bytes", offsetof(struct generator_result, bytes) },
	{ "bytes_per_s", offsetof(struct generator_result, bytes_per_s) },
	{ "errors", offsetof(struct generator_result, errors) },
};

void measure_result_to_json(const struct generator_result *r, json_t *to)
{
	json_t *quantiles = json_array();

	for (unsigned i = 0; i < ARRAY_SIZE(result_numbers); i++)
		json_object_set_new(
			to, result_numbers[i].name,
			json_real(*(const double *)(const void *)((const char *)r +
								  result_numbers[i].offset)));
	for (unsigned i = 0; i < r->quantile_count; i++)
		json_array_append_new(quantiles, json_pack("[f, I]", r->quantiles[i].quantile,
							   (json_int_t)r->quantiles[i].ns));
	json_object_set_new(to, "latency_ns", quantiles);
}

void measure_result_from_json(struct generator_result *r, const json_t *from)
{
	json_t *pair;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(result_numbers); i++)
		*(double *)(void *)((char *)r + result_numbers[i].offset) =
			json_number_value(field_get(from, result_numbers[i].name));
	json_array_foreach(field_get(from, "latency_ns"), i, pair)
		if (r->quantile_count < GENERATOR_QUANTILES_MAX)
			r->quantiles[r->quantile_count++] = (struct generator_quantile){
				json_number_value(json_array_get(pair, 0)),
				field_uint(json_array_get(pair, 1), ""),
			};
}

static json_t *generator_to_json(const struct measure_generator *g)
{
	json_t *made = save(json_pack("{s:s, s:f, s:b}", "name", g->name, "peak", g->peak,
				      "elsewhere", g->elsewhere),
			    g, generator_numbers);

	measure_result_to_json(&g->result, made);
	if (g->hosts) {
		json_object_set_new(made, "hosts", json_deep_copy(g->hosts));
		json_object_set_new(made, "overlap", json_real(g->overlap));
		json_object_set_new(made, "spread_ns", json_integer((json_int_t)g->spread_ns));
	}
	return made;
}

static void generator_from_json(struct measure_generator *g, const json_t *json)
{
	g->name = field_text(json, "name");
	g->peak = json_number_value(field_get(json, "peak"));
	load(g, json, generator_numbers);
	g->elsewhere = field_bool(json, "elsewhere");
	g->hosts = field_get(json, "hosts");
	g->overlap = json_number_value(field_get(json, "overlap"));
	g->spread_ns = field_uint(json, "spread_ns");
	measure_result_from_json(&g->result, json);
}

json_t *measure_machine_to_json(const struct measure_machine *m)
{
	json_t *made = save(json_object(), m, machine_numbers);

	if (m->irq_time != IRQ_TIME_UNKNOWN)
		json_object_set_new(made, "softirq_in_threads",
				    json_boolean(m->irq_time == IRQ_TIME_IN_THREADS));
	return made;
}

void measure_machine_from_json(struct measure_machine *m, const json_t *json)
{
	load(m, json, machine_numbers);
	if (field_get(json, "softirq_in_threads"))
		m->irq_time = field_bool(json, "softirq_in_threads") ? IRQ_TIME_IN_THREADS
								     : IRQ_TIME_APART;
}

static json_t *link_to_json(const struct measure_link *l)
{
	return save(json_pack("{s:s}", "interface", l->interface), l, link_numbers);
}

struct measure_link measure_link_of(const json_t *link)
{
	struct measure_link made = { .interface = field_text(link, "interface") };

	load(&made, link, link_numbers);
	return made;
}

static void measure_set_visit(struct measure *row, const json_t *visit)
{
	row->visit.run = field_text(visit, "run");
	row->visit.setup = field_text(visit, "setup");
	row->visit.build = field_text(visit, "build");
	load(&row->visit, visit, visit_numbers);
}

void measures_set_conditions(struct measures *m, const struct measure *row, json_t *conditions,
			     json_t *visit)
{
	/* The document owns them, as it does the texts. */
	json_object_set_new(row->source, "conditions", conditions);
	json_object_set_new(row->source, "visit", visit);
	for (unsigned i = 0; i < m->count; i++)
		if (m->rows[i]->source == row->source) {
			m->rows[i]->conditions = conditions;
			measure_set_visit(m->rows[i], visit);
		}
}

static json_t *visit_to_json(const struct measure_visit *v)
{
	return save(
		json_pack("{s:s, s:s, s:s}", "run", v->run, "setup", v->setup, "build", v->build),
		v, visit_numbers);
}

json_t *measure_to_json(const struct measure *row)
{
	bool absent = measure_unavailable(row), one = row->visit_count <= 1;
	json_t *saved = json_pack(
		"{s:s, s:s, s:s, s:s, s:s, s:i, s:s*, s:s*, s:s*, s:b, s:o, s:o, s:o*}", "label",
		row->label, "listener", row->listener, "engine", row->engine, "service",
		row->service, "operation", row->operation, "schema", MEASURE_SCHEMA, "pair",
		*row->pair ? row->pair : NULL, "state", absent ? "unavailable" : NULL, "reason",
		absent ? field_text(row->source, "reason") : NULL, "batch", row->batch, "features",
		row->features ? json_deep_copy(row->features) : json_array(), "stores",
		row->stores ? json_deep_copy(row->stores) : json_array(), "tls",
		json_deep_copy(row->tls));

	save(saved, row, row_numbers);
	json_object_set_new(saved, "latency_ns", latency_to_json(&row->latency));
	if (row->turn.count)
		json_object_set_new(saved, "turn_ns", latency_to_json(&row->turn));
	if (row->generator.wall_ns)
		json_object_set_new(saved, "generator", generator_to_json(&row->generator));
	if (row->machine.total_ns)
		json_object_set_new(saved, "machine", measure_machine_to_json(&row->machine));
	if (*row->link.interface && one)
		json_object_set_new(saved, "link", link_to_json(&row->link));
	if (*row->visit.run && one)
		json_object_set_new(saved, "visit", visit_to_json(&row->visit));
	if (row->conditions)
		json_object_set_new(saved, "conditions", json_deep_copy(row->conditions));
	return saved;
}

int measures_add_json(struct measures *m, json_t *source)
{
	struct measure *row;

	if (!*field_text(source, "listener") || !json_is_integer(field_get(source, "count")))
		return -EINVAL;
	if (field_uint(source, "schema") > MEASURE_SCHEMA)
		return -EPROTONOSUPPORT;
	row = measures_add(m);
	row->source = json_incref(source);
	row->label = field_text(source, "label");
	row->listener = field_text(source, "listener");
	row->engine = field_text(source, "engine");
	row->service = field_text(source, "service");
	row->operation = field_text(source, "operation");
	row->pair = field_text(source, "pair");
	row->batch = field_bool(source, "batch");
	row->features = field_get(source, "features");
	row->stores = field_get(source, "stores");
	row->tls = field_get(source, "tls");
	row->conditions = field_get(source, "conditions");
	measure_set_visit(row, field_get(source, "visit"));
	row->link = measure_link_of(field_get(source, "link"));
	load(row, source, row_numbers);
	generator_from_json(&row->generator, field_get(source, "generator"));
	measure_machine_from_json(&row->machine, field_get(source, "machine"));
	return measure_add_latency(&row->latency, field_get(source, "latency_ns")) &&
			       measure_add_latency(&row->turn, field_get(source, "turn_ns"))
		       ? 0
		       : -EINVAL;
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
		rc = -errno;
	free(text);
	*ret_line = line;
	return rc;
}
