/* OpenMetrics exposition: one table of metrics, walked once, listeners inside each.
 *
 * Both of Prometheus's parsers take it, that of OpenMetrics and that of its older text format,
 * which promtool, node_exporter's textfile collector and many others have.  Where the two formats
 * disagree the older one wins: TYPE and HELP of a counter name its samples (with _total), there is
 * no UNIT, and an info is a gauge of 1.
 *
 * Latency buckets are coarser than the daemon's: a fine bucket that reaches over a bound is counted
 * under the next one, so that the error (at most 1.6 % of the bound) never flatters. */
#include "openmetrics.h"

#include <inttypes.h>
#include <string.h>

#include "field.h"
#include "histogram.h"
#include "measure.h"
#include "util.h"

enum metric_type { COUNTER, GAUGE, HISTOGRAM, INFO };

/* Where the value stands in the document. */
enum metric_scope {
	SERVER,
	LISTENER,
	OPERATION, /* of a listener */
	EXPORT,
	SHARE,           /* of an export, what one listener had of it */
	SHARE_OPERATION, /* of that */
};

struct metric {
	const char *name; /* lines of the same name follow each other */
	enum metric_type type;
	enum metric_scope scope;
	const char *path;  /* of a number; of an object when label ends with '*' */
	const char *label; /* `reason=*`: one sample per key; `mode=user`: this label; NULL: none */
	const char *unit;  /* "seconds" are nanoseconds in the document; NULL: as it is */
	const char *help;
};

static const struct metric metrics[] = {
	{ "nbserved", INFO, SERVER, "version", NULL, NULL, "The daemon." },
	{ "nbserved_uptime_seconds", GAUGE, SERVER, "uptime_ns", NULL, "seconds",
	  "Since the start." },
	{ "nbserved_generation", GAUGE, SERVER, "generation", NULL, NULL,
	  "Number of the configuration in force." },
	{ "nbserved_listener", INFO, LISTENER, "state", NULL, NULL,
	  "A listener, with its state and transport." },
	{ "nbserved_workers", GAUGE, LISTENER, "workers", NULL, NULL, "Threads." },
	{ "nbserved_connections_open", GAUGE, LISTENER, "connections.open", NULL, NULL,
	  "Connections open now." },
	{ "nbserved_connections_accepted", COUNTER, LISTENER, "connections.accepted", NULL, NULL,
	  "Connections accepted." },
	{ "nbserved_connections_refused", COUNTER, LISTENER, "connections.refused", "reason=*",
	  NULL, "Connections refused." },
	{ "nbserved_connections_closed", COUNTER, LISTENER, "connections.closed", "reason=*", NULL,
	  "Connections closed." },
	{ "nbserved_accept_pauses", COUNTER, LISTENER, "accept_paused", NULL, NULL,
	  "Times accepting stopped for want of descriptors." },
	{ "nbserved_received_bytes", COUNTER, LISTENER, "bytes_in", NULL, NULL, "Bytes received." },
	{ "nbserved_sent_bytes", COUNTER, LISTENER, "bytes_out", NULL, NULL, "Bytes sent." },
	{ "nbserved_copied_bytes", COUNTER, LISTENER, "bytes_copied", NULL, NULL,
	  "Bytes copied in user space." },
	{ "nbserved_operations", COUNTER, OPERATION, "count", NULL, NULL, "Operations done." },
	{ "nbserved_operation_errors", COUNTER, OPERATION, "errors", NULL, NULL,
	  "Operations that failed." },
	{ "nbserved_operation_latency_seconds", HISTOGRAM, OPERATION, "latency_ns", NULL, "seconds",
	  "Latency of a sample of the operations: _count is less than nbserved_operations_total." },
	{ "nbserved_cpu_seconds", COUNTER, LISTENER, "cost.cpu_user_ns", "mode=user", "seconds",
	  "CPU time of the listener's threads, with the kernel's threads that serve it." },
	{ "nbserved_cpu_seconds", COUNTER, LISTENER, "cost.cpu_system_ns", "mode=system", "seconds",
	  NULL },
	{ "nbserved_kernel_threads", GAUGE, LISTENER, "cost.kernel_threads.count", NULL, NULL,
	  "Threads of the kernel that serve the listener's rings." },
	{ "nbserved_kernel_threads_cpu_seconds", COUNTER, LISTENER, "cost.kernel_threads.cpu_ns",
	  NULL, "seconds", "Their CPU time, a part of nbserved_cpu_seconds_total." },
	{ "nbserved_context_switches", COUNTER, LISTENER, "cost.context_switches_voluntary",
	  "kind=voluntary", NULL, "Context switches of the listener's threads." },
	{ "nbserved_context_switches", COUNTER, LISTENER, "cost.context_switches_involuntary",
	  "kind=involuntary", NULL, NULL },
	{ "nbserved_syscalls", COUNTER, LISTENER, "cost.syscalls", "syscall=*", NULL,
	  "System calls of the listener's workers." },
	{ "nbserved_turns", COUNTER, LISTENER, "cost.turns", NULL, NULL,
	  "Rounds of the listener's workers." },
	{ "nbserved_pool_chunks", GAUGE, LISTENER, "pool.chunks", NULL, NULL,
	  "Buffers of all workers." },
	{ "nbserved_pool_free_chunks", GAUGE, LISTENER, "pool.free", NULL, NULL,
	  "Buffers that are free." },
	{ "nbserved_pool_starved", COUNTER, LISTENER, "pool.starved", NULL, NULL,
	  "Times a connection found no free buffer." },
	{ "nbserved_tx_blocked", COUNTER, LISTENER, "tx_blocked", NULL, NULL,
	  "Times the peer did not take all that was sent." },
	{ "nbserved_throttled", COUNTER, LISTENER, "throttled", NULL, NULL,
	  "Times receiving paused because too much was held." },
	{ "nbserved_zero_copy_sends", COUNTER, LISTENER, "zero_copy", "result=*", NULL,
	  "Zero-copy sends, by what the kernel made of them." },
	{ "nbserved_rdma_work_requests_posted", COUNTER, LISTENER, "rdma.posted", "opcode=*", NULL,
	  "RDMA work requests posted." },
	{ "nbserved_rdma_work_requests_completed", COUNTER, LISTENER, "rdma.completed", "opcode=*",
	  NULL, "RDMA work requests known to be completed." },
	{ "nbserved_rdma_work_request_errors", COUNTER, LISTENER, "rdma.errors", "status=*", NULL,
	  "RDMA work requests that did not succeed." },
	{ "nbserved_rdma_inline_sends", COUNTER, LISTENER, "rdma.inline", NULL, NULL,
	  "Sends whose bytes were in the request." },
	{ "nbserved_rdma_signalled", COUNTER, LISTENER, "rdma.signalled", NULL, NULL,
	  "Requests that asked for a completion." },
	{ "nbserved_rdma_doorbells", COUNTER, LISTENER, "rdma.doorbells", NULL, NULL,
	  "Calls that posted requests." },
	{ "nbserved_rdma_polls", COUNTER, LISTENER, "rdma.polls", NULL, NULL,
	  "Polls of completion queues." },
	{ "nbserved_rdma_completions", COUNTER, LISTENER, "rdma.completions", NULL, NULL,
	  "Completions taken." },
	{ "nbserved_rdma_events", COUNTER, LISTENER, "rdma.events", NULL, NULL,
	  "Completion events that woke a worker." },
	{ "nbserved_rdma_sleeps", COUNTER, LISTENER, "rdma.sleeps", NULL, NULL,
	  "Times a worker waited for an event." },
	{ "nbserved_rdma_datagrams_dropped", COUNTER, LISTENER, "rdma.dropped", NULL, NULL,
	  "Datagrams of those who hold too much or may not send." },
	{ "nbserved_rdma_registered_bytes", GAUGE, LISTENER, "rdma.registered_bytes", NULL, NULL,
	  "Memory registered with RDMA devices, once for each." },
	{ "nbserved_udp_datagrams_received", COUNTER, LISTENER, "udp.in", NULL, NULL,
	  "Datagrams that were received." },
	{ "nbserved_udp_datagrams_sent", COUNTER, LISTENER, "udp.out", NULL, NULL,
	  "Datagrams that were sent." },
	{ "nbserved_udp_datagrams_truncated", COUNTER, LISTENER, "udp.truncated", NULL, NULL,
	  "Datagrams dropped as longer than buffer-size." },
	{ "nbserved_udp_datagrams_refused", COUNTER, LISTENER, "udp.refused", NULL, NULL,
	  "Datagrams from an address that must not be answered." },
	{ "nbserved_udp_datagrams_withheld", COUNTER, LISTENER, "udp.withheld", NULL, NULL,
	  "Replies that are more than a stranger has sent." },
	{ "nbserved_udp_datagrams_unsent", COUNTER, LISTENER, "udp.unsent", NULL, NULL,
	  "Datagrams that the host could not send." },
	{ "nbserved_udp_datagrams_overflowed", COUNTER, LISTENER, "udp.overflowed", NULL, NULL,
	  "Datagrams for which the socket's queue had no room." },
	{ "nbserved_udp_datagrams_merged", COUNTER, LISTENER, "udp.merged", NULL, NULL,
	  "Datagrams received as part of a larger one (GRO)." },
	{ "nbserved_udp_datagrams_split", COUNTER, LISTENER, "udp.split", NULL, NULL,
	  "Datagrams sent as part of a larger one (GSO)." },
	{ "nbserved_udp_clients_evicted", COUNTER, LISTENER, "udp.evicted", NULL, NULL,
	  "Clients that were forgotten for others." },
	{ "nbserved_udp_datagrams_dropped", COUNTER, LISTENER, "udp.dropped", NULL, NULL,
	  "Datagrams of those who may not send." },
	{ "nbserved_export", INFO, EXPORT, "state", NULL, NULL,
	  "An export, with its state and path." },
	{ "nbserved_export_size_bytes", GAUGE, EXPORT, "size", NULL, NULL, "Size of an export." },
	{ "nbserved_export_in_flight", GAUGE, SHARE, "in_flight", NULL, NULL,
	  "Requests that the store has not finished." },
	{ "nbserved_export_read_bytes", COUNTER, SHARE, "bytes_read", NULL, NULL,
	  "Bytes read from an export." },
	{ "nbserved_export_written_bytes", COUNTER, SHARE, "bytes_written", NULL, NULL,
	  "Bytes written to an export." },
	{ "nbserved_export_errors", COUNTER, SHARE, "errors", "errno=*", NULL,
	  "Requests that the store failed, by errno." },
	{ "nbserved_export_operations", COUNTER, SHARE_OPERATION, "count", NULL, NULL,
	  "Requests to the store." },
	{ "nbserved_export_operation_errors", COUNTER, SHARE_OPERATION, "errors", NULL, NULL,
	  "Requests that the store failed." },
	{ "nbserved_export_operation_latency_seconds", HISTOGRAM, SHARE_OPERATION, "latency_ns",
	  NULL, "seconds", "Time that the store took for a sample of the requests." },
};

/* 1-2.5-5 steps from 1 us to 10 s. */
static const uint64_t latency_bounds_ns[] = {
	1000,       2500,        5000,        10000,        25000,     50000,
	100000,     250000,      500000,      1000000,      2500000,   5000000,
	10000000,   25000000,    50000000,    100000000,    250000000, 500000000,
	1000000000, 2500000000U, 5000000000U, 10000000000U,
};

/* ---- Pieces of a line ---- */

void openmetrics_escape(FILE *to, const char *text)
{
	for (; *text; text++) {
		if (*text == '\n')
			fputs("\\n", to);
		else if (*text == '\\' || *text == '"')
			fprintf(to, "\\%c", *text);
		else
			putc(*text, to);
	}
}

static void put_label(FILE *to, const char **separator, const char *name, size_t name_bytes,
		      const char *value)
{
	fprintf(to, "%s%.*s=\"", *separator, (int)name_bytes, name);
	openmetrics_escape(to, value);
	putc('"', to);
	*separator = ",";
}

/* Labels and the fields that have their values. */
struct label {
	const char *name, *field;
};

/* Labels that name the owner of a sample, by scope. */
static const struct label owner_labels[][4] = {
	[LISTENER] = { { "listener", "name" }, { "engine", "engine" }, { "service", "service" } },
	[OPERATION] = { { "listener", "name" }, { "engine", "engine" }, { "service", "service" } },
	[EXPORT] = { { "export", "name" } },
	[SHARE] = { { "listener", "listener" }, { "store", "store" } },
	[SHARE_OPERATION] = { { "listener", "listener" }, { "store", "store" } },
};

/* Labels that only samples of type INFO have, by scope. */
static const struct label info_labels[][4] = {
	[LISTENER] = { { "state", "state" }, { "transport", "transport" } },
	[EXPORT] = { { "state", "state" }, { "store", "store" }, { "path", "path" } },
};

static void put_labels(FILE *to, const char **separator, const struct label *labels,
		       const json_t *owner)
{
	for (; labels->name; labels++)
		put_label(to, separator, labels->name, strlen(labels->name),
			  field_text(owner, labels->field));
}

/* Where a sample comes from. */
struct source {
	const struct metric *metric;
	const json_t *owner;   /* the listener, export or share; NULL: the server */
	const json_t *export;  /* the share's; NULL: no share */
	const char *operation; /* NULL: none */
	const char *label;     /* value of metric->label; NULL: none */
	const json_t *value;
};

/* The suffix of the names of a metric's samples; histograms have others. */
static const char *suffix_of(const struct metric *m)
{
	return m->type == COUNTER ? "_total" : m->type == INFO ? "_info" : "";
}

/* Everything up to the value; `bound`: a bucket's le, or NULL. */
static void put_name(FILE *to, const struct source *s, const char *suffix, const char *bound)
{
	const char *separator = "{";

	fprintf(to, "%s%s", s->metric->name, suffix);
	if (s->export)
		put_label(to, &separator, "export", 6, field_text(s->export, "name"));
	put_labels(to, &separator, owner_labels[s->metric->scope], s->owner);
	if (s->operation)
		put_label(to, &separator, "operation", 9, s->operation);
	if (s->label)
		put_label(to, &separator, s->metric->label, strcspn(s->metric->label, "="),
			  s->label);
	if (bound)
		put_label(to, &separator, "le", 2, bound);
	if (s->metric->type == INFO && s->owner)
		put_labels(to, &separator, info_labels[s->metric->scope], s->owner);
	else if (s->metric->type == INFO)
		put_label(to, &separator, "version", 7, field_text(s->value, ""));
	fputs(*separator == ',' ? "} " : " ", to);
}

/* Exact decimals: no rounding by way of floating point. */
static void put_seconds(FILE *to, uint64_t ns)
{
	fprintf(to, "%" PRIu64 ".%09" PRIu64 "\n", ns / NS_PER_S, ns % NS_PER_S);
}

static void put_value(FILE *to, const struct metric *m, uint64_t value)
{
	if (m->unit && !strcmp(m->unit, "seconds"))
		put_seconds(to, value);
	else
		fprintf(to, "%" PRIu64 "\n", value);
}

/* ---- Samples ---- */

static void put_histogram(FILE *to, const struct source *s)
{
	struct histogram_sum h = {};
	uint64_t seen = 0;
	unsigned bucket = 0;

	measure_add_latency(&h, s->value);
	for (unsigned i = 0; i < ARRAY_SIZE(latency_bounds_ns); i++) {
		char bound[32];

		while (bucket < HISTOGRAM_BUCKETS &&
		       histogram_bucket_max(bucket) <= latency_bounds_ns[i])
			seen += h.buckets[bucket++];
		snprintf(bound, sizeof(bound), "%.7g", (double)latency_bounds_ns[i] / NS_PER_S);
		if (!strpbrk(bound, ".e"))
			strcat(bound, ".0");
		put_name(to, s, "_bucket", bound);
		fprintf(to, "%" PRIu64 "\n", seen);
	}
	put_name(to, s, "_bucket", "+Inf");
	fprintf(to, "%" PRIu64 "\n", h.count);
	put_name(to, s, "_count", NULL);
	fprintf(to, "%" PRIu64 "\n", h.count);
	put_name(to, s, "_sum", NULL);
	put_seconds(to, h.sum);
}

static void put_sample(FILE *to, const struct source *s)
{
	switch (s->metric->type) {
	case HISTOGRAM:
		put_histogram(to, s);
		break;
	case INFO:
		put_name(to, s, suffix_of(s->metric), NULL);
		fputs("1\n", to);
		break;
	default:
		put_name(to, s, suffix_of(s->metric), NULL);
		put_value(to, s->metric, field_uint(s->value, ""));
	}
}

/* The samples of one metric in one object; nothing when the daemon does not have it. */
static void put_samples(FILE *to, struct source *s, const json_t *object)
{
	const char *label = s->metric->label, *key;
	json_t *value = field_get(object, s->metric->path), *element;

	if (!value)
		return;
	if (!label || !strchr(label, '*')) {
		s->label = label ? strchr(label, '=') + 1 : NULL;
		s->value = value;
		put_sample(to, s);
		return;
	}
	json_object_foreach(value, key, element) {
		s->label = key;
		s->value = element;
		put_sample(to, s);
	}
}

/* The samples of one listener, export or share. */
static void put_owner(FILE *to, struct source *s, const json_t *owner)
{
	json_t *operation;
	const char *name;

	s->owner = owner;
	if (s->metric->scope != OPERATION && s->metric->scope != SHARE_OPERATION) {
		put_samples(to, s, owner);
		return;
	}
	json_object_foreach(field_get(owner, "operations"), name, operation) {
		s->operation = name;
		put_samples(to, s, operation);
	}
}

/* The listeners or the exports. */
static const json_t *owners_of(const struct metric *m, const json_t *stats)
{
	return field_get(stats, m->scope < EXPORT ? "listeners" : "exports");
}

/* A listener or export that is unavailable has its INFO only: zeros would look measured. */
static bool has_metric(const struct metric *m, const json_t *owner)
{
	if (!strcmp(field_text(owner, "state"), "unavailable"))
		return m->type == INFO;
	if (!strncmp(m->path, "udp.", 4))
		return field_get(owner, "udp");
	return strncmp(m->path, "rdma.", 5) != 0 || field_get(owner, "rdma");
}

static void put_metric(FILE *to, const struct metric *m, const json_t *stats)
{
	struct source s = { .metric = m };
	json_t *owner, *share;
	size_t i, j;

	if (m->scope == SERVER) {
		put_samples(to, &s, stats);
		return;
	}
	json_array_foreach(owners_of(m, stats), i, owner) {
		if (!has_metric(m, owner))
			continue;
		if (m->scope <= EXPORT) {
			put_owner(to, &s, owner);
			continue;
		}
		s.export = owner;
		json_array_foreach(field_get(owner, "listeners"), j, share)
			put_owner(to, &s, share);
	}
}

/* A metric that no listener and no export can have is left out with its HELP, not 0. */
static bool is_absent(const struct metric *m, const json_t *stats)
{
	json_t *owner;
	size_t i;

	if (m->scope == SERVER)
		return false;
	json_array_foreach(owners_of(m, stats), i, owner)
		if (has_metric(m, owner))
			return false;
	return true;
}

void openmetrics_write(FILE *to, const json_t *stats)
{
	static const char *const types[] = {
		[COUNTER] = "counter",
		[GAUGE] = "gauge",
		[HISTOGRAM] = "histogram",
		[INFO] = "gauge",
	};

	for (unsigned i = 0; i < ARRAY_SIZE(metrics); i++) {
		const struct metric *m = &metrics[i];

		if (is_absent(m, stats))
			continue;
		if (m->help) {
			fprintf(to, "# HELP %s%s %s\n", m->name, suffix_of(m), m->help);
			fprintf(to, "# TYPE %s%s %s\n", m->name, suffix_of(m), types[m->type]);
		}
		put_metric(to, m, stats);
	}
	fputs("# EOF\n", to);
}
