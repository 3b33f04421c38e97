/* Saved rows of `compare`: one JSON object a line.  See measure.h. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "field.h"
#include "generator_json.h"
#include "measure.h"
#include "util.h"

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
	NUMBER(interval_ns), NUMBER(count),         NUMBER(errors),    NUMBER(listener_count),
	NUMBER(workers),     NUMBER(bytes_in),      NUMBER(bytes_out), NUMBER(cpu_ns),
	NUMBER(cpu_user_ns), NUMBER(cpu_system_ns), NUMBER(syscalls),  NUMBER(turns),
	NUMBER(bytes_read),  NUMBER(sampled_reads), NUMBER(zero_reads), NUMBER(connections),
}, softirq_numbers[] = {
	{ "receive_ns", offsetof(struct measure, softirq.receive_ns) },
	{ "transmit_ns", offsetof(struct measure, softirq.transmit_ns) },
	{ "inside_ns", offsetof(struct measure, softirq.inside_ns) },
	{ "peer_ns", offsetof(struct measure, softirq.peer_ns) },
	{ "peer_inside_ns", offsetof(struct measure, softirq.peer_inside_ns) },
	{ "unattributed_ns", offsetof(struct measure, softirq.unattributed_ns) },
	{ "total_ns", offsetof(struct measure, softirq.total_ns) },
};
#undef NUMBER

static uint64_t *number_of(const struct measure *row, const struct number *n)
{
	return (uint64_t *)(void *)((char *)row + n->offset);
}

static json_t *generator_to_json(const struct measure_generator *g)
{
	json_t *made = json_pack("{s:s, s:I, s:I, s:I, s:f, s:I, s:I, s:I, s:b}", "name", g->name,
				 "wall_ns", (json_int_t)g->wall_ns, "cpu_ns", (json_int_t)g->cpu_ns,
				 "busiest_ns", (json_int_t)g->busiest_ns, "peak", g->peak,
				 "shared_cpus", (json_int_t)g->shared_cpus, "sibling_cpus",
				 (json_int_t)g->sibling_cpus, "refused_requests",
				 (json_int_t)g->refused_requests, "elsewhere", g->elsewhere);

	generator_result_to_json(&g->result, made);
	if (g->link)
		json_object_set_new(made, "link", json_deep_copy(g->link));
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
	g->wall_ns = field_uint(json, "wall_ns");
	g->cpu_ns = field_uint(json, "cpu_ns");
	g->busiest_ns = field_uint(json, "busiest_ns");
	g->peak = json_number_value(field_get(json, "peak"));
	g->shared_cpus = field_uint(json, "shared_cpus");
	g->sibling_cpus = field_uint(json, "sibling_cpus");
	g->refused_requests = field_uint(json, "refused_requests");
	g->elsewhere = field_bool(json, "elsewhere");
	g->hosts = field_get(json, "hosts");
	g->link = field_get(json, "link");
	g->overlap = json_number_value(field_get(json, "overlap"));
	g->spread_ns = field_uint(json, "spread_ns");
	generator_result_from_json(&g->result, json);
}

json_t *measure_machine_to_json(const struct measure_machine *m)
{
	json_t *made =
		json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "cpus", (json_int_t)m->cpus, "total_ns",
			  (json_int_t)m->total_ns, "idle_ns", (json_int_t)m->idle_ns, "steal_ns",
			  (json_int_t)m->steal_ns, "softirq_ns", (json_int_t)m->softirq_ns,
			  "pressure_ns", (json_int_t)m->pressure_ns);

	if (m->irq_time != IRQ_TIME_UNKNOWN)
		json_object_set_new(made, "softirq_in_threads",
				    json_boolean(m->irq_time == IRQ_TIME_IN_THREADS));
	return made;
}

void measure_machine_from_json(struct measure_machine *m, const json_t *json)
{
	m->cpus = field_uint(json, "cpus");
	m->total_ns = field_uint(json, "total_ns");
	m->idle_ns = field_uint(json, "idle_ns");
	m->steal_ns = field_uint(json, "steal_ns");
	m->softirq_ns = field_uint(json, "softirq_ns");
	m->pressure_ns = field_uint(json, "pressure_ns");
	if (field_get(json, "softirq_in_threads"))
		m->irq_time = field_bool(json, "softirq_in_threads") ? IRQ_TIME_IN_THREADS
								     : IRQ_TIME_APART;
}

static void numbers_to_json(json_t *to, const struct measure *row, const struct number *list,
			    size_t count)
{
	for (size_t i = 0; i < count; i++)
		json_object_set_new(to, list[i].name,
				    json_integer((json_int_t)*number_of(row, &list[i])));
}

static void numbers_from_json(struct measure *row, const json_t *from, const struct number *list,
			      size_t count)
{
	for (size_t i = 0; i < count; i++)
		*number_of(row, &list[i]) = field_uint(from, list[i].name);
}

static json_t *softirq_to_json(const struct measure *row)
{
	json_t *made = json_object();

	numbers_to_json(made, row, softirq_numbers, ARRAY_SIZE(softirq_numbers));
	return made;
}

static json_t *link_to_json(const struct measure_link *l)
{
	return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I}", "interface", l->interface, "speed_bps",
			 (json_int_t)l->speed_bps, "received_bps", (json_int_t)l->received_bps,
			 "sent_bps", (json_int_t)l->sent_bps, "segments", (json_int_t)l->segments,
			 "retransmitted", (json_int_t)l->retransmitted);
}

struct measure_link measure_link_of(const json_t *link)
{
	return (struct measure_link){
		.host = field_text(link, "host"),
		.interface = field_text(link, "interface"),
		.speed_bps = field_uint(link, "speed_bps"),
		.received_bps = field_uint(link, "received_bps"),
		.sent_bps = field_uint(link, "sent_bps"),
		.segments = field_uint(link, "segments"),
		.retransmitted = field_uint(link, "retransmitted"),
	};
}

static json_t *visit_to_json(const struct measure_visit *v)
{
	return json_pack("{s:s, s:I, s:I, s:I, s:s, s:s}", "run", v->run, "round",
			 (json_int_t)v->round, "position", (json_int_t)v->position, "seed",
			 (json_int_t)v->seed, "setup", v->setup, "build", v->build);
}

json_t *measure_to_json(const struct measure *row)
{
	json_t *saved = json_pack("{s:s, s:s, s:s, s:s, s:s}", "label", row->label, "listener",
				  row->listener, "engine", row->engine, "service", row->service,
				  "operation", row->operation);

	json_object_set_new(saved, "schema", json_integer(MEASURE_SCHEMA));
	if (*row->pair)
		json_object_set_new(saved, "pair", json_string(row->pair));
	if (measure_unavailable(row)) {
		json_object_set_new(saved, "state", json_string("unavailable"));
		json_object_set_new(saved, "reason",
				    json_string(field_text(row->source, "reason")));
	}
	numbers_to_json(saved, row, numbers, ARRAY_SIZE(numbers));
	json_object_set_new(saved, "batch", json_boolean(row->batch));
	json_object_set_new(saved, "features",
			    row->features ? json_deep_copy(row->features) : json_array());
	json_object_set_new(saved, "stores",
			    row->stores ? json_deep_copy(row->stores) : json_array());
	if (row->tls)
		json_object_set_new(saved, "tls", json_deep_copy(row->tls));
	json_object_set_new(saved, "latency_ns", latency_to_json(&row->latency));
	if (row->turn.count)
		json_object_set_new(saved, "turn_ns", latency_to_json(&row->turn));
	if (row->generator.wall_ns)
		json_object_set_new(saved, "generator", generator_to_json(&row->generator));
	if (row->machine.total_ns)
		json_object_set_new(saved, "machine", measure_machine_to_json(&row->machine));
	if (row->softirq.total_ns)
		json_object_set_new(saved, "softirq", softirq_to_json(row));
	if (*row->link.interface && !row->visit_count)
		json_object_set_new(saved, "link", link_to_json(&row->link));
	if (*row->visit.run && !row->visit_count)
		json_object_set_new(saved, "visit", visit_to_json(&row->visit));
	if (row->timeline)
		json_object_set_new(saved, "timeline", json_deep_copy(row->timeline));
	if (row->layers && !row->visit_count)
		json_object_set_new(saved, "layers", json_deep_copy(row->layers));
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
	row->timeline = field_get(source, "timeline");
	row->layers = field_get(source, "layers");
	row->conditions = field_get(source, "conditions");
	measure_set_visit(row, field_get(source, "visit"));
	row->link = measure_link_of(field_get(source, "link"));
	numbers_from_json(row, source, numbers, ARRAY_SIZE(numbers));
	numbers_from_json(row, field_get(source, "softirq"), softirq_numbers,
			  ARRAY_SIZE(softirq_numbers));
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
		rc = -EIO;
	free(text);
	*ret_line = line;
	return rc;
}
