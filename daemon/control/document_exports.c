/* The exports in documents: their properties, and statistics of their stores for
 * each listener.  See document.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "document_internal.h"
#include "registry.h"
#include "server.h"
#include "store.h"

/* The mounts of one export, of the workers of some listeners. */
struct share {
	const struct mount **mounts;
	unsigned count;
};

/* ---- Properties of an export ---- */

static json_t *export_to_json(const struct server_export *x)
{
	const struct store *store = x->export.store ? x->export.store : x->config.options.store;
	struct reason reason;
	enum export_state state = export_state(x, &reason);

	return json_pack("{s:o, s:o, s:s, s:s, s:o, s:b, s:o*}", "name", json_text(x->config.name),
			 "path", json_text(x->config.options.path), "state",
			 export_state_names[state], "store", store ? store->name : "auto", "size",
			 json_count(x->export.size), "read_only",
			 x->export.read_only || x->config.options.read_only, "reason",
			 reason.text[0] ? json_text(reason.text) : NULL);
}

json_t *document_exports_status(const struct server *s)
{
	json_t *exports = json_array();

	for (unsigned i = 0; i < s->listeners.exports.count; i++)
		json_array_append_new(exports, export_to_json(s->listeners.exports.list[i]));
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
	return document_fields(json_object(), request_statistics, &n);
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
	document_fields(json, share_statistics, &n);
}

/* ---- The listeners that serve it ---- */

/* Appends l's mounts of x to share; returns their number. */
static unsigned share_add(struct share *share, const struct listener *l,
			  const struct server_export *x)
{
	unsigned before = share->count, index = 0;

	while (l->exports && index < l->config->export_count && l->exports[index] != x)
		index++;
	if (!l->exports || index == l->config->export_count)
		return 0;
	for (unsigned i = 0; i < l->worker_count; i++)
		share->mounts[share->count++] = &l->workers[i].mounts[index];
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
	struct reason reason = m->reason;
	uint32_t mask = stat_load(m->features);

	for (unsigned i = 0; i < MOUNT_FEATURE_COUNT; i++)
		if (mask & 1U << i)
			json_array_append_new(features, json_string(mount_feature_names[i]));
	if (!reason.text[0] && m->export->options->direct == EXPORT_POLLED &&
	    m->store == store_find("io_uring") &&
	    /* Polling was switched off after the start, because the file refused it. */
	    !(mask & 1U << MOUNT_iopoll))
		reason_set(&reason, 0, IO_POLL_REFUSED, strerror(EOPNOTSUPP));
	return json_pack("{s:o, s:s, s:o, s:o*, s:s*}", "listener", json_text(l->config->name),
			 "store", m->store->name, "features", features, "reason",
			 reason.text[0] ? json_text(reason.text) : NULL, "choice", m->choice);
}

/* NULL: no listener in names serves x. */
static json_t *export_to_stats(const struct server *s, const struct server_export *x,
			       const json_t *names)
{
	bool wanted = json_array_size(names) == 0;
	json_t *json = export_to_json(x), *listeners = json_array();
	struct share all = share_new(s);

	for (unsigned i = 0; i < s->listeners.count; i++) {
		const struct listener *l = s->listeners.list[i];
		struct share its = { &all.mounts[all.count], share_add(&all, l, x) };
		json_t *served;

		if (its.count == 0)
			continue;
		wanted |= document_is_wanted(names, l->config->name);
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

json_t *document_exports_stats(const struct server *s, const json_t *names)
{
	json_t *exports = json_array();

	for (unsigned i = 0; i < s->listeners.exports.count; i++) {
		json_t *json = export_to_stats(s, s->listeners.exports.list[i], names);

		if (json)
			json_array_append_new(exports, json);
	}
	return exports;
}
