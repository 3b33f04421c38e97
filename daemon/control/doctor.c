/* The doctor: tries the actions of a worker on this host.  See doctor.h. */
#include "doctor.h"

#include <errno.h>
#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>

#include "config.h"
#include "counters.h"
#include "cpus.h"
#include "document.h"
#include "energy.h"
#include "exports.h"
#include "listener.h"
#include "reason.h"
#include "registry.h"
#include "ring.h"
#include "ring_keys.h"
#include "server.h"
#include "socket.h"
#include "store.h"
#include "text.h"
#include "util.h"
#include "worker_owner.h"

/* Optional: nothing that the configuration asks for needs it, or the line of the listener or export
 * that does has its own verdict. */
enum doctor_need { DOCTOR_NEEDED, DOCTOR_OPTIONAL };

/* ---- The report: its items ---- */

/* Splits reason into "reason" and "fix"; `fix` is used if it contains none. */
static void doctor_set_reason(json_t *item, const char *reason, const char *fix)
{
	const char *semicolon = strstr(reason, "; "), *own_fix = reason_fix(reason);
	size_t length = semicolon ? (size_t)(semicolon - reason) : strlen(reason);

	json_object_set_new(item, "reason", json_stringn(reason, length));
	json_object_set_new(item, "fix", json_string(own_fix ? own_fix : fix));
}

/* Adds a check.  reason, fix: why it is not ok, and what helps; unused if it is. */
static void doctor_add(json_t *checks, const char *name, enum doctor_need need, bool ok,
		       const char *value, const char *reason, const char *fix)
{
	json_t *item = json_pack("{s:s, s:b, s:b, s:s}", "name", name, "ok", ok, "optional",
				 need == DOCTOR_OPTIONAL, "value", value);

	doctor_set_reason(item, ok ? "" : reason, ok ? "" : fix);
	json_array_append_new(checks, item);
}

bool doctor_passed(const json_t *report)
{
	return json_is_true(json_object_get(report, "passed"));
}

/* ---- The report as text: a line for each check, with the reason and the fix under each failure
 * ---- */

static const char *text_of(const json_t *item, const char *field)
{
	const char *text = json_string_value(json_object_get(item, field));

	return text ? text : "";
}

static bool is_good(const json_t *item)
{
	return json_is_true(json_object_get(item, "ok")) ||
	       json_is_true(json_object_get(item, "available"));
}

/* The feature's name, if the check is one of this engine's features that is there; else NULL. */
static const char *feature_of(const json_t *item, const char *engine)
{
	const char *name = text_of(item, "name"), *colon = strstr(name, ": ");

	if (!colon || strcmp(text_of(item, "value"), "yes") != 0)
		return NULL;
	if (engine && (strncmp(name, engine, (size_t)(colon - name)) || engine[colon - name]))
		return NULL;
	return colon + 2;
}

static bool is_optional(const json_t *item)
{
	return json_is_true(json_object_get(item, "optional"));
}

/* The failures that have been printed, so that a common reason stands there once. */
struct failures {
	json_t *first; /* by reason and fix: the name of the first item with them */
	json_t *fixes; /* of what is not optional */
	unsigned optional;
};

/* Ends the line of a check.  Under a failure it prints the reason and the fix, unless an earlier
 * check has printed the same. */
static void end_line(struct failures *f, const json_t *item, const char *kind, FILE *to)
{
	const char *reason = text_of(item, "reason"), *fix = text_of(item, "fix"), *first;
	json_t *both;

	if (is_good(item)) {
		fputc('\n', to);
		return;
	}
	if (is_optional(item))
		f->optional++;
	else
		json_object_set_new(f->fixes, fix, json_true());
	both = json_sprintf("%s\n%s", reason, fix);
	first = text_of(f->first, json_string_value(both));
	if (*first)
		fprintf(to, "%s\n      as %s, above\n", is_optional(item) ? " (optional)" : "",
			first);
	else
		fprintf(to, "%s\n      why: %s\n      fix: %s\n",
			is_optional(item) ? " (optional)" : "", reason, fix);
	if (!*first)
		json_object_set_new(f->first, json_string_value(both),
				    json_sprintf("%s%s", kind, text_of(item, "name")));
	json_decref(both);
}

/* One line a check; the features of an engine that are there stand in the line of the engine. */
static void print_checks(struct failures *f, const json_t *checks, FILE *to)
{
	const json_t *item, *other;
	size_t i, j;

	json_array_foreach(checks, i, item) {
		const char *name = text_of(item, "name"), *feature, *before = ": ";

		if (is_good(item) && feature_of(item, NULL))
			continue;
		fprintf(to, "%-3s %-36s %s", is_good(item) ? "ok" : "no", name,
			text_of(item, "value"));
		json_array_foreach(checks, j, other) {
			feature = is_good(other) ? feature_of(other, name) : NULL;
			if (feature)
				fprintf(to, "%s%s", before, feature);
			before = feature ? ", " : before;
		}
		end_line(f, item, "", to);
	}
}

/* What a listener or an export would get. */
static void print_served(struct failures *f, const json_t *items, const char *kind,
			 const char *means, const char *features, FILE *to)
{
	const json_t *item, *feature;
	char before[16];
	size_t i, j;

	snprintf(before, sizeof(before), "%s ", kind);
	json_array_foreach(items, i, item) {
		fprintf(to, "%-3s %-8s %-27s %s", is_good(item) ? "ok" : "no", kind,
			text_of(item, "name"), text_of(item, means));
		if (is_good(item))
			json_array_foreach(json_object_get(item, features), j, feature)
				fprintf(to, "%s %s", j ? "," : ":", json_string_value(feature));
		end_line(f, item, before, to);
	}
}

void doctor_print(const json_t *report, FILE *to)
{
	struct failures f = { json_object(), json_object(), 0 };
	size_t count;

	print_checks(&f, json_object_get(report, "checks"), to);
	print_served(&f, json_object_get(report, "listeners"), "listener", "engine",
		     "engine_features", to);
	print_served(&f, json_object_get(report, "exports"), "export", "store", "features", to);
	count = json_object_size(f.fixes);
	if (count)
		fprintf(to, "\n%zu thing%s to fix; %s.\n", count, plural(count),
			doctor_passed(report)
				? "each listener that is not optional, and each export, is served"
				: "a listener that is not optional, or an export, is not served");
	else
		fprintf(to, "\nNothing to fix%s.\n",
			f.optional ? "; what is optional you may leave" : "");
	json_decref(f.first);
	json_decref(f.fixes);
}

/* A fix for an error whose reason has none. */
static const char *error_fix(int error, const char *otherwise)
{
	switch (-error) {
	case ENOMEM:
		return "free memory, lower `buffers`, or raise MemoryMax= of the unit";
	case EMFILE:
	case ENFILE:
		return "LimitNOFILE=65536 in the unit, or ulimit -n 65536";
	case EAGAIN:
		return "TasksMax=infinity in the unit, or ulimit -u unlimited";
	default:
		return otherwise;
	}
}

/* ---- The host: files in /proc and limits of this process ---- */

static void check_kernel(json_t *checks)
{
	struct utsname name;
	char text[64];

	uname(&name);
	doctor_add(checks, "kernel", DOCTOR_NEEDED, true, name.release, "", "");
	if (text_file_line("/proc/sys/kernel/io_uring_disabled", text, sizeof(text)))
		doctor_add(checks, "kernel.io_uring_disabled", DOCTOR_OPTIONAL, text[0] == '0',
			   text,
			   text[0] == '1' ? "only members of kernel.io_uring_group may use io_uring"
					  : "io_uring is disabled for all processes",
			   "sysctl kernel.io_uring_disabled=0");
}

static void check_limit(json_t *checks, const char *name, enum doctor_need need, int resource,
			rlim_t wanted, const char *reason, const char *fix)
{
	struct rlimit limit = { 0 };
	char text[64];

	getrlimit(resource, &limit);
	if (limit.rlim_cur == RLIM_INFINITY)
		snprintf(text, sizeof(text), "unlimited");
	else
		snprintf(text, sizeof(text), "%llu", (unsigned long long)limit.rlim_cur);
	doctor_add(checks, name, need, limit.rlim_cur >= wanted, text, reason, fix);
}

/* Buffers of direct exports, of zero-copy sends, and of RDMA are locked memory. */
static enum doctor_need locks_memory(const struct config *config)
{
	bool needed = false;

	for (unsigned i = 0; i < config->export_count; i++)
		needed |= config->exports[i].options.direct != EXPORT_CACHED;
	for (unsigned i = 0; i < config->listener_count; i++)
		needed |= config->listeners[i].transport == &transport_rdma ||
			  ring_options(&config->listeners[i].options)->zero_copy_min > 0;
	return needed ? DOCTOR_NEEDED : DOCTOR_OPTIONAL;
}

/* With one CPU a load generator on this host takes CPU time from the server, so throughput
 * cannot be compared. */
static void check_cpus(json_t *checks)
{
	char text[32];
	cpu_set_t cpus;
	int count = MAX(cpus_of(0, &cpus), 1);

	snprintf(text, sizeof(text), "%d", count);
	doctor_add(checks, "cpus", DOCTOR_OPTIONAL, count > 1, text,
		   "the load generator and the server share one CPU",
		   "give the process more CPUs, or read CPU time rather than throughput");
}

/* The files are missing in a network namespace of its own on some kernels. */
static void check_buffers(json_t *checks, const struct config *config)
{
	static const char *const names[] = { "net.core.rmem_max", "net.core.wmem_max" };
	bool wanted = false;

	for (unsigned i = 0; i < config->listener_count; i++)
		wanted |= config->listeners[i].transport->datagrams;
	for (unsigned i = 0; wanted && i < ARRAY_SIZE(names); i++) {
		char path[64], text[32], fix[64];

		snprintf(path, sizeof(path), "/proc/sys/net/core/%s",
			 names[i] + strlen("net.core."));
		snprintf(fix, sizeof(fix), "sysctl %s=%d", names[i], UDP_SOCKET_BUFFER);
		if (text_file_line(path, text, sizeof(text)))
			doctor_add(
				checks, names[i], DOCTOR_NEEDED,
				strtoll(text, NULL, 10) >= UDP_SOCKET_BUFFER, text,
				"a socket for datagrams holds no more bytes than these: bursts are lost",
				fix);
	}
}

/* As a worker opens them, for this thread. */
static void check_counters(json_t *checks)
{
	struct counters c = { .mode = COUNTERS_YES };
	struct reason reason = { "" };
	char text[128];
	int rc = counters_open(&c, &reason);

	counters_name(&c, text, sizeof(text));
	counters_close(&c);
	doctor_add(checks, "counters", DOCTOR_OPTIONAL, rc == 0, text, reason.text, "");
}

/* As nbbench reads it, for this user. */
static void check_energy(json_t *checks)
{
	json_t *reading = energy_read(ENERGY_TREE);
	bool refused = !reading && errno == EACCES;

	doctor_add(checks, "energy", DOCTOR_OPTIONAL, reading, reading ? "counted" : "not counted",
		   refused ? "since CVE-2020-8694 only root may read it"
			   : "no CPU package in " ENERGY_TREE ", as in a virtual machine",
		   refused ? "run `nbbench` as root" : "modprobe intel_rapl_msr, on bare metal");
	json_decref(reading);
}

/* ---- Engines and features, each by trying ---- */

/* Options that together ask for every feature, so that each is tried once. */
static const struct doctor_options {
	struct worker_options options;
	struct ring_options ring;
} doctor_options[] = {
	{ { .buffer_size = 16384, .buffers = 64, .busy_poll_ns = 1000 },
	  { .zero_copy_min = 8192 } },
	{ { .buffer_size = 16384, .buffers = 64 }, { .sqpoll = KEY_CPU_ANY } },
	{ { .buffer_size = 65536, .buffers = 64, .datagrams = true }, { 0 } },
	{ { .buffer_size = 16384, .buffers = 64 }, { .zero_copy_receive = "copy" } },
};

/* Starts a worker with the engine, or its variant, and these options.  Adds the features that it
 * uses to *found, and those that it could use to *known.  0, or -errno with the reason. */
static int doctor_try(const struct engine *engine, const struct doctor_options *of, uint64_t *found,
		      uint64_t *known, struct reason *reason)
{
	struct worker_options options = of->options;
	uint64_t features = 0;
	int rc;

	options_set(&options, &ring_key_table, &of->ring);
	engine = registry_variant(engine, &options);
	*known |= engine->features;
	rc = worker_probe(engine, &options, &features, reason);
	if (rc == 0)
		*found |= features;
	return rc;
}

#define ENGINE_FIX "another `engine`: epoll needs the least"

/* The fix of the first failed check (name: of that name): later ones are usually consequences. */
static const char *fix_of(const json_t *checks, const char *name)
{
	const json_t *item;
	size_t i;

	json_array_foreach(checks, i, item)
		if (!json_is_true(json_object_get(item, "ok")) &&
		    (!name || !strcmp(json_string_value(json_object_get(item, "name")), name)))
			return json_string_value(json_object_get(item, "fix"));
	return ENGINE_FIX;
}

static bool is_to_stop(const _Atomic bool *stop)
{
	return stop && atomic_load(stop);
}

static void check_engine(json_t *checks, const struct engine *engine, const json_t *found,
			 const _Atomic bool *stop)
{
	const bool tried[] = { false, engine->features & FEATURE_BIT(sqpoll),
			       registry_engine_carries(engine, &transport_udp),
			       engine->keys == &ring_key_table };
	struct reason reason = { "" }, no_area = { "" };
	uint64_t features = 0, known = 0;
	int rc = doctor_try(engine, &doctor_options[0], &features, &known, &reason);

	doctor_add(checks, engine->name, DOCTOR_OPTIONAL, rc == 0,
		   rc == 0 ? "available" : "unavailable", reason.text,
		   error_fix(rc, fix_of(found, NULL)));
	if (rc < 0)
		return;
	for (unsigned i = 0; i < ARRAY_SIZE(tried) && !is_to_stop(stop); i++)
		if (tried[i])
			doctor_try(engine, &doctor_options[i], &features, &known,
				   i == 3 ? &no_area : &reason);
	for (unsigned f = 0; f < FEATURE_COUNT; f++) {
		const char *needs = engine_feature_needs[f];
		bool has = features & FEATURE_MASK(f) || (needs && !*needs);
		char name[64], fix[128];

		if (!(known & FEATURE_MASK(f)))
			continue;
		snprintf(name, sizeof(name), "%s: %s", engine->name, engine_feature_names[f]);
		snprintf(fix, sizeof(fix), "needs %s", needs ? needs : "a newer kernel");
		doctor_add(checks, name, DOCTOR_OPTIONAL, has, has ? "yes" : "no",
			   f == FEATURE_zcrx ? no_area.text : "this host does not grant it", fix);
	}
}

static void check_found(void *checks, const struct engine_finding *f)
{
	doctor_add(checks, f->name, DOCTOR_OPTIONAL, f->ok, f->value, f->reason, f->fix);
}

/* Adds each engine's own findings. */
static void check_engines(json_t *checks, const _Atomic bool *stop)
{
	for (unsigned i = 0; engines[i] && !is_to_stop(stop); i++) {
		json_t *found = json_array();

		if (engines[i]->examine)
			engines[i]->examine(check_found, found);
		check_engine(checks, engines[i], found, stop);
		json_array_extend(checks, found);
		json_decref(found);
	}
}

/* ---- TLS, in this build and in the kernel ---- */

static void check_tls(json_t *checks)
{
	const char *absent = tls_absent();

	doctor_add(checks, "tls", DOCTOR_OPTIONAL, !absent, tls_library_name(),
		   absent ? absent : "", "");
	for (unsigned i = 0; !absent && tls_ciphers[i]; i++) {
		struct reason reason = { "" };
		bool has = tls_kernel_probe(TLS_KTLS, i, &reason) == 0;
		char name[64];

		snprintf(name, sizeof(name), "ktls %s", tls_ciphers[i]);
		doctor_add(checks, name, DOCTOR_OPTIONAL, has, has ? "yes" : "no", reason.text,
			   "`tls = user`");
	}
}

/* ---- The configuration's listeners ---- */

static json_t *check_listener(const struct listener_config *lc, const json_t *checks)
{
	const struct engine *engine = listener_pick_engine(lc);
	struct reason reason = { "" };
	uint64_t features = 0;
	int rc = worker_probe(registry_variant(engine, &lc->options), &lc->options, &features,
			      &reason);
	json_t *item;

	if (rc == 0 && tls_in_kernel(lc->tls.mode))
		rc = tls_kernel_probe(lc->tls.mode, lc->tls.cipher, &reason);
	item = json_pack("{s:s, s:s, s:o, s:b, s:b}", "name", lc->name, "engine", engine->name,
			 "engine_features", document_features(features, lc->options.features_off),
			 "optional", lc->optional, "available", rc == 0);

	doctor_set_reason(item, rc == 0 ? "" : reason.text,
			  rc == 0 ? "" : error_fix(rc, fix_of(checks, engine->name)));
	return item;
}

/* ---- The configuration's exports ---- */

static json_t *export_features(const struct server_export *x, bool is_new)
{
	const struct export *e = &x->export;
	const struct {
		const char *name;
		bool is;
	} features[] = {
		{ "new", is_new },
		{ "direct", x->config.options.direct },
		{ "read_only", e->read_only },
		{ "block_device", e->block_device },
		{ "rotational", e->rotational },
		{ "holes", e->holes },
	};
	json_t *list = json_array();

	for (size_t i = 0; i < ARRAY_SIZE(features); i++)
		if (features[i].is)
			json_array_append_new(list, json_string(features[i].name));
	return list;
}

static json_t *check_export(struct server_export *x, const struct config *all, uint64_t end_ns)
{
	const struct export_config *config = &x->config;
	bool optional = export_need(x, all) != EXPORT_REQUIRED;
	bool is_new;
	int rc = export_probe_end(x, end_ns, &is_new);
	const struct store *store = x->export.store ? x->export.store : config->options.store;
	json_t *item = json_pack("{s:s, s:s, s:s, s:I, s:o, s:b, s:b}", "name", config->name,
				 "store", store ? store->name : "auto", "path",
				 config->options.path, "size", (json_int_t)x->export.size,
				 "features", rc == 0 ? export_features(x, is_new) : json_array(),
				 "optional", optional, "available", rc == 0);

	doctor_set_reason(
		item, rc == 0 ? "" : x->reason.text,
		rc == 0 ? ""
			: error_fix(rc,
				    "look at its file system or device, or choose another `path`"));
	return item;
}

/* Probes all exports concurrently, as a file system may hang. */
static json_t *check_exports(const struct config *config)
{
	struct server_export *all = calloc(config->export_count + 1, sizeof(*all));
	uint64_t end_ns = clock_ns() + EXPORT_OPEN_NS;
	json_t *exports = json_array();

	for (unsigned i = 0; all && i < config->export_count; i++)
		export_probe_begin(&config->exports[i], &all[i]);
	for (unsigned i = 0; all && i < config->export_count; i++)
		json_array_append_new(exports, check_export(&all[i], config, end_ns));
	free(all);
	return exports;
}

/* ---- The report ---- */

/* Is every item available that is not optional? */
static bool all_served(const json_t *items)
{
	const json_t *item;
	size_t i;

	json_array_foreach(items, i, item)
		if (!json_is_true(json_object_get(item, "available")) &&
		    !json_is_true(json_object_get(item, "optional")))
			return false;
	return true;
}

json_t *doctor_check(const struct config *config, const _Atomic bool *stop)
{
	json_t *checks = json_array(), *listeners = json_array(), *exports;

	check_kernel(checks);
	check_cpus(checks);
	check_limit(checks, "memlock (bytes)", locks_memory(config), RLIMIT_MEMLOCK,
		    ring_locks_freely() ? 0 : RLIM_INFINITY,
		    "rings have the little memory that may be locked: direct exports register no "
		    "buffers, zero-copy-min copies, RDMA may be refused",
		    "LimitMEMLOCK=infinity in the unit, or ulimit -l unlimited");
	check_limit(checks, "nofile", DOCTOR_NEEDED, RLIMIT_NOFILE, 16384,
		    "few connections can be open at once",
		    "LimitNOFILE=65536 in the unit, or ulimit -n 65536");
	check_buffers(checks, config);
	check_counters(checks);
	check_energy(checks);
	check_engines(checks, stop);
	check_tls(checks);
	for (unsigned i = 0; i < config->listener_count && !is_to_stop(stop); i++)
		json_array_append_new(listeners, check_listener(&config->listeners[i], checks));
	exports = is_to_stop(stop) ? json_array() : check_exports(config);
	return json_pack("{s:b, s:o, s:o, s:o}", "passed",
			 all_served(listeners) && all_served(exports), "checks", checks,
			 "listeners", listeners, "exports", exports);
}
