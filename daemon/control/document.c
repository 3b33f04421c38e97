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
#include "histogram.h"
#include "json.h"
#include "listener.h"
#include "log.h"
#include "log_level.h"
#include "ring_keys.h"
#include "server.h"
#include "statistics.h"
#include "store.h"
#include "util.h"
#include "worker_owner.h"

/* ---- Objects from the rows of the schema (base/statistics.h) ---- */

static json_t *buckets_to_json(const struct histogram_sum *h)
{
	json_t *buckets = json_array();

	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
		if (h->buckets[i])
			json_array_append_new(
				buckets, json_pack("[o, o]", json_count(histogram_bucket_max(i)),
						   json_count(h->buckets[i])));
	}
	return buckets;
}

static json_t *set_fields(json_t *object, const struct statistic *row, const void *numbers);

/* NULL: the field is absent, or set by the code that makes the document. */
static json_t *value_of(const struct statistic *row, const void *numbers)
{
	const void *value = (const char *)numbers + row->offset;

	switch (row->type) {
	case STATISTIC_COUNTER:
	case STATISTIC_GAUGE:
		return json_count(*(const uint64_t *)value);
	case STATISTIC_QUANTILE:
		return json_count(histogram_quantile(numbers, row->quantile));
	case STATISTIC_BUCKETS:
		return buckets_to_json(numbers);
	case STATISTIC_LATENCY:
		return set_fields(json_object(), row->each, value);
	case STATISTIC_MAP:
		return *(json_t *const *)value;
	case STATISTIC_OPTIONAL:
		if (!*(const uint64_t *)value)
			return NULL;
		/* fall through */
	case STATISTIC_OBJECT:
		return set_fields(json_object(), row + 1, numbers);
	default:
		return NULL;
	}
}

/* Sets the fields of a table, or of an object from its first row on, in the order of the rows; the
 * values are in `numbers`, the struct to which the rows refer.  Takes ownership of the json_t of a
 * MAP in it.  Returns the object. */
static json_t *set_fields(json_t *object, const struct statistic *row, const void *numbers)
{
	for (; row->type != STATISTIC_END; row = statistic_next(row)) {
		json_t *value = value_of(row, numbers);

		if (value)
			json_object_set_new(object, row->name, value);
	}
	return object;
}

/* Is name one of names?  True if names is NULL or empty. */
static bool is_wanted(const json_t *names, const char *name)
{
	size_t wanted = json_array_size(names);

	for (size_t i = 0; i < wanted; i++) {
		if (strcmp(json_string_value(json_array_get(names, i)), name) == 0)
			return true;
	}
	return wanted == 0;
}

/* ---- Listeners ---- */

/* The workers of a listener that one element of `listeners` is about: all of them, or one. */
struct part {
	struct listener *listener;
	unsigned first, count;
	bool alone; /* one of them */
};

static struct part all_of(struct listener *l)
{
	return (struct part){ l, 0, l->worker_count, false };
}

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
	return json;
}

/* Fields that are in both GetStatus and GetStats. */
static json_t *part_to_json(const struct part *p)
{
	const struct listener *l = p->listener;
	const struct engine *engine = l->engine ? l->engine : l->config->engine;
	bool unavailable = l->state == LISTENER_UNAVAILABLE;

	return json_pack(
		"{s:o, s:s, s:s, s:o, s:s, s:o, s:o, s:o, s:s, s:i, s:o, s:o*, s:o*, s:o*, s:o*}",
		"name", json_text(l->config->name), "transport", l->config->transport->name,
		"engine", engine ? engine->name : "auto", "engine_features", part_features(p),
		"service", l->config->service->name, "batches", listener_batches(l), "stores",
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

/* Reads one group of all workers; false: not all of them have it.  kernel: are all of user space
 * and the kernel? */
static bool read_group(const struct part *p, enum counters_group_id id, bool *kernel,
		       struct counters_reading *ret)
{
	struct worker *workers = p->listener->workers;
	bool all = p->count > 0;

	*ret = (struct counters_reading){ 0 };
	for (unsigned i = p->first; i < p->first + p->count; i++) {
		all &= counters_read(&workers[i].counters, id, ret);
		*kernel &= !workers[i].counters.groups[id].user_alone;
	}
	return all;
}

/* Adds the events that the kernel counts.  One setting of the kernel grants it all groups. */
static void add_counters(const struct part *p, struct listener_numbers *n)
{
	struct counters_reading r;
	bool kernel = true;

	n->has_hardware = read_group(p, COUNTERS_HARDWARE, &kernel, &r);
	n->hardware_enabled_ns = r.enabled_ns;
	n->hardware_running_ns = r.running_ns;
	n->cycles = r.values[0];
	n->instructions = r.values[1];
	n->has_misses = read_group(p, COUNTERS_MISSES, &kernel, &r);
	n->misses_enabled_ns = r.enabled_ns;
	n->misses_running_ns = r.running_ns;
	n->cache_misses = r.values[0];
	n->branch_misses = r.values[1];
	n->counts_kernel = kernel;
	n->has_software = read_group(p, COUNTERS_SOFTWARE, &kernel, &r);
	n->task_clock_ns = r.values[0];
	n->counted_switches = r.values[1];
	n->page_faults = r.values[2];
	n->migrations = r.values[3];
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
				    set_fields(json_object(), operation_statistics, &n));
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
	add_cost(p, &n);
	add_counters(p, &n);
	return set_fields(part_to_json(p), listener_statistics, &n);
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

/* ---- Exports: their properties, and statistics of their stores for each listener ---- */

/* The mounts of one export, of the workers of some listeners. */
struct share {
	const struct mount **mounts;
	unsigned count;
};

/* Why the first listener that serves x lacks something that x asks for: "listener 'nbd': why". */
static void find_shortfall(const struct server *s, const struct server_export *x,
			   struct reason *reason)
{
	for (unsigned i = 0; i < s->listeners.count && !reason->text[0]; i++) {
		const struct listener *l = s->listeners.list[i];
		const struct mount *m = listener_mount_of(l, x);
		struct reason shortfall = m ? export_shortfall(m) : (struct reason){ "" };

		if (shortfall.text[0])
			reason_set(reason, 0, "listener '%s': %s", l->name, shortfall.text);
	}
}

static json_t *export_to_json(const struct server *s, const struct server_export *x)
{
	const struct store *store = x->export.store ? x->export.store : x->config.options.store;
	struct reason reason;
	enum export_state state = export_state(x, &reason);

	if (!reason.text[0])
		find_shortfall(s, x, &reason);
	return json_pack("{s:o, s:o, s:s, s:s, s:o, s:b, s:o*}", "name", json_text(x->config.name),
			 "path", json_text(x->config.options.path), "state",
			 export_state_names[state], "store", store ? store->name : "auto", "size",
			 json_count(x->export.size), "read_only",
			 x->export.read_only || x->config.options.read_only, "reason",
			 reason.text[0] ? json_text(reason.text) : NULL);
}

static json_t *exports_status(const struct server *s)
{
	json_t *exports = json_array();

	for (unsigned i = 0; i < s->listeners.exports.count; i++)
		json_array_append_new(exports, export_to_json(s, s->listeners.exports.list[i]));
	return exports;
}

/* ---- Counters ---- */

#define SUM(share, field)                                                                          \
	({                                                                                         \
		uint64_t sum = 0;                                                                  \
		for (unsigned m = 0; m < (share)->count; m++)                                      \
			sum += stat_load((share)->mounts[m]->field);                               \
		sum;                                                                               \
	})

static json_t *share_operation(const struct share *share, enum io_kind kind)
{
	struct operation_numbers n = { 0 };

	n.count = SUM(share, operations[kind].count);
	n.errors = SUM(share, operations[kind].errors);
	/* Skips empty histograms, which are the majority: merging them
	 * would take noticeable time. */
	for (unsigned i = 0; n.count && i < share->count; i++)
		histogram_merge(&n.latency, &share->mounts[i]->operations[kind].latency);
	return set_fields(json_object(), request_statistics, &n);
}

static void share_to_json(const struct share *share, json_t *json)
{
	struct share_numbers n = { .operations = json_object(), .errors = json_object() };

	for (unsigned i = 0; i < IO_KIND_COUNT; i++)
		json_object_set_new(n.operations, io_kind_names[i], share_operation(share, i));
	for (unsigned i = 0; i < IO_ERROR_COUNT; i++)
		json_object_set_new(n.errors, io_error_names[i], json_count(SUM(share, errors[i])));
	n.bytes_read = SUM(share, bytes_read);
	n.bytes_written = SUM(share, bytes_written);
	n.zero_reads = SUM(share, zero_reads);
	n.in_flight = SUM(share, in_flight);
	set_fields(json, share_statistics, &n);
}

/* Appends l's mounts of x to share; returns their number. */
static unsigned share_add(struct share *share, const struct listener *l,
			  const struct server_export *x)
{
	const struct mount *first = listener_mount_of(l, x);
	unsigned before = share->count;

	for (unsigned i = 0; first && i < l->worker_count; i++)
		share->mounts[share->count++] = &l->workers[i].mounts[first - l->workers[0].mounts];
	return share->count - before;
}

static struct share share_new(const struct server *s)
{
	struct share share = { 0 };
	unsigned workers = 0;

	for (unsigned i = 0; i < s->listeners.count; i++)
		workers += s->listeners.list[i]->worker_count;
	share.mounts = calloc(workers + 1, sizeof(*share.mounts));
	if (!share.mounts)
		abort();
	return share;
}

/* How a listener accesses the export, by one mount, as all workers do the same. */
static json_t *mount_to_json(const struct listener *l, const struct mount *m)
{
	json_t *features = json_array();
	struct reason reason = export_shortfall(m);
	uint32_t mask = stat_load(m->features);

	for (unsigned i = 0; i < MOUNT_FEATURE_COUNT; i++)
		if (mask & 1U << i)
			json_array_append_new(features, json_string(mount_feature_names[i]));
	return json_pack("{s:o, s:s, s:o, s:o*, s:s*}", "listener", json_text(l->config->name),
			 "store", m->store->name, "features", features, "reason",
			 reason.text[0] ? json_text(reason.text) : NULL, "choice", m->choice);
}

/* NULL: no listener in names serves x. */
static json_t *export_to_stats(const struct server *s, const struct server_export *x,
			       const json_t *names)
{
	bool wanted = json_array_size(names) == 0;
	json_t *json = export_to_json(s, x), *listeners = json_array();
	struct share all = share_new(s);

	for (unsigned i = 0; i < s->listeners.count; i++) {
		const struct listener *l = s->listeners.list[i];
		struct share its = { &all.mounts[all.count], share_add(&all, l, x) };
		json_t *served;

		if (its.count == 0)
			continue;
		wanted |= is_wanted(names, l->config->name);
		served = mount_to_json(l, its.mounts[0]);
		share_to_json(&its, served);
		json_array_append_new(listeners, served);
	}
	share_to_json(&all, json);
	json_object_set_new(json, "listeners", listeners);
	free(all.mounts);
	if (wanted)
		return json;
	json_decref(json);
	return NULL;
}

static json_t *exports_stats(const struct server *s, const json_t *names)
{
	json_t *exports = json_array();

	for (unsigned i = 0; i < s->listeners.exports.count; i++) {
		json_t *json = export_to_stats(s, s->listeners.exports.list[i], names);

		if (json)
			json_array_append_new(exports, json);
	}
	return exports;
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
		if (is_wanted(names, s->listeners.list[i]->config->name))
			append_stats(listeners, s->listeners.list[i], by_worker);
	}
	json_object_set_new(document, "listeners", listeners);
	json_object_set_new(document, "exports", exports_stats(s, names));
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
	json_object_set_new(document, "exports", exports_status(s));
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
