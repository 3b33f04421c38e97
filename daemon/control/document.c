/* Builds the documents of the control socket from the listeners' state and the workers' counters.
 * It reads counters while workers write them: each is exact, their sums are of slightly different
 * moments.  See document.h. */
#include "document.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "boot_id.h"
#include "build_id.h"
#include "document_internal.h"
#include "listener.h"
#include "log.h"
#include "log_level.h"
#include "owner.h"
#include "ring_keys.h"
#include "server.h"
#include "store.h"
#include "util.h"

/* Workers of a listener: all, or one of them, of which a document tells as of a listener. */
struct part {
	struct listener *listener;
	unsigned first, count;
	bool alone; /* one of them */
};

static struct part all_of(struct listener *l)
{
	return (struct part){ l, 0, l->worker_count, false };
}

/* ---- Properties of a listener ---- */

json_t *document_features(uint64_t mask, uint64_t off)
{
	json_t *features = json_array();
	char name[64];

	for (unsigned f = 0; f < FEATURE_COUNT; f++) {
		snprintf(name, sizeof(name), "-%s", engine_feature_names[f]);
		if ((mask | off) & FEATURE_MASK(f))
			json_array_append_new(features,
					      json_string(name + !(off & FEATURE_MASK(f))));
	}
	return features;
}

/* The features that all workers have; on one host they usually agree. */
static json_t *part_features(const struct part *p)
{
	const struct listener *l = p->listener;
	uint64_t mask = p->count ? UINT64_MAX : 0;

	for (unsigned i = p->first; i < p->first + p->count; i++)
		mask &= stat_load(l->workers[i].features);
	return document_features(mask, l->config->options.features_off);
}

/* Addresses as bound, or as configured if the listener is unavailable. */
static json_t *listener_addresses(const struct listener *l)
{
	json_t *addresses = json_array();
	char address[ADDRESS_TEXT_MAX];

	for (unsigned i = 0; i < l->address_count; i++)
		json_array_append_new(addresses, json_text(l->addresses[i].text));
	for (unsigned i = 0; l->address_count == 0 && i < l->config->address_count; i++)
		json_array_append_new(addresses,
				      json_text(format_address(&l->config->addresses[i], address)));
	return addresses;
}

static const char *listener_engine_name(const struct listener *l)
{
	const struct engine *engine = l->engine ? l->engine : l->config->engine;

	return engine ? engine->name : "auto";
}

static json_t *listener_batches(const struct listener *l)
{
	const struct service *service = l->config->service;
	json_t *list = json_array();

	for (unsigned i = 0; service->operations[i]; i++)
		if (service->batches & 1U << i)
			json_array_append_new(list, json_string(service->operations[i]));
	return list;
}

/* The stores in use, each once, in the order of the exports. */
static json_t *listener_stores(const struct listener *l)
{
	json_t *list = json_array();

	for (unsigned i = 0; l->exports && i < l->config->export_count; i++) {
		const struct store *store = listener_store(l, i);
		unsigned first = 0;

		while (listener_store(l, first) != store)
			first++;
		if (first == i)
			json_array_append_new(list, json_string(store->name));
	}
	return list;
}

static json_t *document_device(const struct engine_device *d)
{
	return json_pack("{s:s, s:i, s:s, s:s}", "name", d->name, "port", (int)d->port,
			 "link_layer", d->link_layer, "transport", d->transport);
}

static bool is_same_device(const json_t *json, const struct engine_device *d)
{
	return !strcmp(json_string_value(json_object_get(json, "name")), d->name) &&
	       json_integer_value(json_object_get(json, "port")) == d->port;
}

/* The devices that the workers use, each once.  A worker appends to its list and then
 * raises the count, so entries below the count are constant except for `gone`. */
static json_t *part_devices(const struct part *p)
{
	json_t *list = json_array(), *known;
	size_t i;

	for (unsigned w = p->first; w < p->first + p->count; w++) {
		const struct worker *worker = &p->listener->workers[w];
		unsigned devices = atomic_load(&worker->devices.count);

		for (unsigned j = 0; j < devices; j++) {
			const struct engine_device *d = &worker->devices.list[j];
			bool found = atomic_load(&d->gone);

			json_array_foreach(list, i, known)
				found |= is_same_device(known, d);
			if (!found)
				json_array_append_new(list, document_device(d));
		}
	}
	return list;
}

/* The threads whose CPU time listener_cost() charges to the workers. */
static json_t *part_threads(const struct part *p)
{
	const struct listener *l = p->listener;
	const struct proc_threads *others = listeners_scan_threads(l->all);
	json_t *list = json_array();

	for (unsigned i = p->first; i < p->first + p->count; i++)
		if (l->workers[i].thread.tid)
			json_array_append_new(list, json_integer(l->workers[i].thread.tid));
	for (unsigned i = 0; i < others->count; i++) {
		unsigned at = listener_worker_of(l, others->list[i].worker);

		if (at >= p->first && at - p->first < p->count)
			json_array_append_new(list, json_integer(others->list[i].tid));
	}
	return list;
}

static json_t *listener_tls(const struct listener *l)
{
	const struct tls_certificate *certificate = tls_stage_certificate(l->tls);
	struct reason warning = { "" };
	char driver[TLS_DRIVER_MAX] = "";
	json_t *json =
		json_pack("{s:s, s:s, s:s}", "mode", tls_modes[l->config->tls.mode], "library",
			  tls_library_name(), "cipher", tls_ciphers[l->config->tls.cipher]);

	if (tls_in_kernel(l->config->tls.mode))
		tls_kernel_driver(l->config->tls.cipher, driver);
	if (*driver)
		json_object_set_new(json, "driver", json_text(driver));
	if (certificate->shared_keys) {
		json_object_set_new(json, "shared_keys", json_integer(certificate->shared_keys));
		return json;
	}
	json_object_set_new(json, "subject", json_text(certificate->subject));
	json_object_set_new(json, "issuer", json_text(certificate->issuer));
	json_object_set_new(json, "days_left", json_integer(tls_days_left(certificate)));
	if (tls_certificate_warning(certificate, &warning))
		json_object_set_new(json, "warning", json_text(warning.text));
	return json;
}

/* Fields that are in both GetStatus and GetStats. */
static json_t *part_to_json(const struct part *p)
{
	const struct listener *l = p->listener;
	bool unavailable = l->state == LISTENER_UNAVAILABLE;

	return json_pack(
		"{s:o, s:s, s:s, s:o, s:s, s:o, s:o, s:o, s:s, s:i, s:o, s:o*, s:o*, s:o*, s:o*}",
		"name", json_text(l->config->name), "transport", l->config->transport->name,
		"engine", listener_engine_name(l), "engine_features", part_features(p), "service",
		l->config->service->name, "batches", listener_batches(l), "stores",
		listener_stores(l), "addresses", listener_addresses(l), "state",
		listener_state_names[l->state], "workers", (int)p->count, "threads",
		part_threads(p), "worker", p->alone ? json_integer(p->first) : NULL, "devices",
		l->config->transport->verbs ? part_devices(p) : NULL, "tls",
		l->tls ? listener_tls(l) : NULL, "reason",
		unavailable ? json_text(l->reason.text) : NULL);
}

/* ---- Counters ---- */

/* Adds the numbers from /proc: CPU time, context switches, kernel threads. */
static void add_cost(const struct part *p, struct listener_numbers *n)
{
	struct listener_cost cost;

	listener_cost(p->listener, p->first, p->count, &cost);
	n->cpu_user_ns = cost.all.cpu_user_ns;
	n->cpu_system_ns = cost.all.cpu_system_ns;
	n->switches_voluntary = cost.all.switches_voluntary;
	n->switches_involuntary = cost.all.switches_involuntary;
	n->kernel_cpu_ns = cost.kernel.cpu_user_ns + cost.kernel.cpu_system_ns;
	n->kernel_threads = cost.kernel_threads;
}

/* Adds a worker's counters.  The macro expands to one line for each row of the schema. */
static void add_worker(struct listener_numbers *n, const struct worker *w)
{
#define KEPT(member, ...) n->member += stat_load(w->stats.member);
#define SPAN(member, ...) histogram_merge(&n->member, &w->stats.member);
	LISTENER_STATISTICS(KEPT, KEPT, STATISTICS_NONE, STATISTICS_NONE, SPAN, STATISTICS_ROWS,
			    STATISTICS_ROWS)
#undef KEPT
#undef SPAN
	n->batch_delay_ns = MAX(n->batch_delay_ns, stat_load(w->stats.batch_delay_ns));
	if (w->thread.begun)
		n->chunks += w->pool.chunk_count;
}

static json_t *operations_to_json(const struct part *p)
{
	const struct listener *l = p->listener;
	const char *const *names = l->config->service->operations;
	json_t *operations = json_object();

	for (unsigned i = 0; names[i]; i++) {
		struct operation_numbers n = { 0 };

		for (unsigned j = p->first; j < p->first + p->count; j++) {
			const struct operation_stats *o = &l->workers[j].stats.operations[i];

			n.count += stat_load(o->count);
			n.errors += stat_load(o->errors);
			histogram_merge(&n.latency, &o->latency);
		}
		json_object_set_new(operations, names[i],
				    document_fields(json_object(), operation_statistics, &n));
	}
	return operations;
}

static json_t *part_to_stats(const struct part *p)
{
	const struct listener *l = p->listener;
	const struct transport *transport = l->config->transport;
	struct listener_numbers n = {
		.since_ns = l->started_ns - l->all->started_ns,
		.operations = operations_to_json(p),
		.has_zcrx = ring_wants_area(&l->config->options),
		.has_rdma = transport->verbs,
		.has_udp = transport->datagrams,
		.has_tls = l->config->tls.mode,
	};

	for (unsigned i = p->first; i < p->first + p->count; i++)
		add_worker(&n, &l->workers[i]);
	n.rdma_dropped = n.datagrams_dropped;
	add_cost(p, &n);
	return document_fields(part_to_json(p), listener_statistics, &n);
}

/* A listener without workers gets one element even if by_worker. */
static void append_stats(json_t *list, struct listener *l, bool by_worker)
{
	struct part part = all_of(l);

	if (!by_worker || l->worker_count == 0)
		json_array_append_new(list, part_to_stats(&part));
	for (unsigned i = 0; by_worker && i < l->worker_count; i++) {
		part = (struct part){ l, i, 1, true };
		json_array_append_new(list, part_to_stats(&part));
	}
}

/* ---- Documents ---- */

/* Fields with which every document begins. */
static json_t *document_new(const struct server *s)
{
	uint64_t started_ns = s->listeners.started_ns;

	return json_pack("{s:s, s:o, s:i, s:o, s:o, s:o}", "version", NB_VERSION, "generation",
			 json_count(s->generation), "pid", (int)getpid(), "started_ns",
			 json_count(started_ns), "uptime_ns", json_count(clock_ns() - started_ns),
			 "time", json_time());
}

/* Workers that sleep with unreaped sends count them first, which takes some milliseconds. */
json_t *document_stats(struct server *s, const json_t *names, bool by_worker)
{
	json_t *document = document_new(s), *listeners = json_array();

	listeners_flush_counters(&s->listeners);
	for (unsigned i = 0; i < s->listeners.count; i++) {
		if (document_is_wanted(names, s->listeners.list[i]->config->name))
			append_stats(listeners, s->listeners.list[i], by_worker);
	}
	json_object_set_new(document, "listeners", listeners);
	json_object_set_new(document, "exports", document_exports_stats(s, names));
	json_object_set_new(document, "reload", reload_document(s));
	return document;
}

static json_t *listener_to_status(struct listener *l)
{
	const struct part all = all_of(l);
	json_t *json = part_to_json(&all);
	char *example = listener_example(l);
	uint64_t open = 0;

	for (unsigned i = 0; i < l->worker_count; i++)
		open += stat_load(l->workers[i].stats.open);
	json_object_set_new(json, "connections_open", json_count(open));
	if (example)
		json_object_set_new(json, "example", json_text(example));
	free(example);
	return json;
}

json_t *document_status(struct server *s)
{
	json_t *document = document_new(s), *listeners = json_array(), *leaving = json_array();

	json_object_set_new(document, "build", json_string(build_id()));
	json_object_set_new(document, "boot", json_string(boot_id()));
	for (unsigned i = 0; i < s->listeners.count; i++)
		json_array_append_new(listeners, listener_to_status(s->listeners.list[i]));
	for (struct listener *l = s->listeners.leaving; l; l = l->next)
		json_array_append_new(leaving, listener_to_status(l));
	json_object_set_new(document, "log_level", json_string(log_level_name(log_get_level())));
	json_object_set_new(document, "stopping", json_boolean(s->listeners.stopping));
	json_object_set_new(document, "listeners", listeners);
	json_object_set_new(document, "leaving", leaving);
	json_object_set_new(document, "exports", document_exports_status(s));
	json_object_set_new(document, "reload", reload_document(s));
	return document;
}

json_t *document_connection(const char *listener, unsigned worker, const struct conn_info *info)
{
	return json_pack(
		"{s:o, s:i, s:o, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o*, s:o*}",
		"listener", json_text(listener), "worker", (int)worker, "id", json_count(info->id),
		"peer", info->peer, "state", info->state, "age_ns", json_count(info->age_ns),
		"idle_ns", json_count(info->idle_ns), "bytes_in", json_count(info->bytes_in),
		"bytes_out", json_count(info->bytes_out), "held_bytes",
		json_count(info->held_bytes), "unsent_bytes", json_count(info->unsent_bytes),
		"rtt_us", json_count(info->rtt_us), "retransmits", json_count(info->retransmits),
		"device", info->device ? document_device(info->device) : NULL, "about",
		info->about[0] ? json_text(info->about) : NULL);
}
