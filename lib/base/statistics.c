/* The tables of the schema.  See statistics.h. */
#include "statistics.h"

const struct statistic *statistic_next(const struct statistic *row)
{
	unsigned depth = 0;

	do {
		if (row->type >= STATISTIC_OBJECT)
			depth++;
		else if (row->type == STATISTIC_END)
			depth--;
		row++;
	} while (depth > 0);
	return row;
}

/* clang-format off */
#define ROW(type_, name_, varlink_, metric_, help_, ...)                                           \
	{ .type = STATISTIC_##type_, .name = name_, .varlink = varlink_, .metric = metric_,        \
	  .help = help_, __VA_ARGS__ }
/* clang-format on */
#define AT(numbers, member) .offset = offsetof(struct numbers, member)

/* ---- Latency and operations ---- */

const struct statistic latency_statistics[] = {
	ROW(GAUGE, "count", NULL, NULL, "Of the samples.", AT(histogram_sum, count)),
	ROW(GAUGE, "sum", NULL, NULL, NULL, AT(histogram_sum, sum)),
	ROW(GAUGE, "min", NULL, NULL, NULL, AT(histogram_sum, min)),
	ROW(QUANTILE, "p50", NULL, NULL, NULL, .quantile = 0.5),
	ROW(QUANTILE, "p90", NULL, NULL, NULL, .quantile = 0.9),
	ROW(QUANTILE, "p99", NULL, NULL, NULL, .quantile = 0.99),
	ROW(QUANTILE, "p99_9", NULL, NULL, NULL, .quantile = 0.999),
	ROW(GAUGE, "max", NULL, NULL, NULL, AT(histogram_sum, max)),
	ROW(BUCKETS, "buckets", "[]object", NULL,
	    "[upper bound, count] of each that is not empty, in ascending order."),
	{ .type = STATISTIC_END },
};

/* Varlink has one type for operations of listeners and of exports; their metrics differ. */
#define OPERATION(metric, done, failed, took)                                                      \
	ROW(COUNTER, "count", NULL, metric "s", done, AT(operation_numbers, count)),               \
		ROW(COUNTER, "errors", NULL, metric "_errors", failed,                             \
		    AT(operation_numbers, errors)),                                                \
		ROW(LATENCY, "latency_ns", "Latency", metric "_latency_seconds", took,             \
		    AT(operation_numbers, latency), .each = latency_statistics)

const struct statistic operation_statistics[] = {
	OPERATION("nbserved_operation", "Operations done.", "Operations that failed.",
		  "Latency of a sample of the operations: _count is less than "
		  "nbserved_operations_total."),
	{ .type = STATISTIC_END },
};

const struct statistic request_statistics[] = {
	OPERATION("nbserved_export_operation", "Requests to the store.",
		  "Requests that the store failed.",
		  "Time that the store took for a sample of the requests."),
	{ .type = STATISTIC_END },
};

/* ---- Documents ---- */

const struct statistic document_about[] = {
	ROW(INFO, "version", "string", "nbserved", "The daemon."),
	ROW(GAUGE, "generation", NULL, "nbserved_generation",
	    "Number of the configuration in force."),
	ROW(GIVEN, "pid", "int", NULL, NULL),
	ROW(GIVEN, "started_ns", "int", NULL, "By CLOCK_MONOTONIC."),
	ROW(GAUGE, "uptime_ns", NULL, "nbserved_uptime_seconds", "Since the start."),
	ROW(GIVEN, "time", "string", NULL, NULL),
	{ .type = STATISTIC_END },
};

/* ---- Listeners ---- */

const struct statistic listener_about[] = {
	ROW(GIVEN, "name", "string", NULL, NULL),
	ROW(GIVEN, "transport", "string", NULL, NULL),
	ROW(GIVEN, "engine", "string", NULL, "What `auto` became."),
	ROW(GIVEN, "engine_features", "[]string", NULL, NULL),
	ROW(GIVEN, "service", "string", NULL, NULL),
	ROW(GIVEN, "batches", "[]string", NULL,
	    "Operations that count batches (the data of one receive or send), not requests."),
	ROW(GIVEN, "stores", "[]string", NULL, "Stores by which it reaches its exports."),
	ROW(GIVEN, "addresses", "[]string", NULL, "As bound."),
	ROW(INFO, "state", "State", "nbserved_listener",
	    "A listener, with its state and transport."),
	ROW(GAUGE, "workers", NULL, "nbserved_workers", "Threads."),
	ROW(GIVEN, "threads", "[]int", NULL, "Ids of the threads whose CPU time is its cost."),
	ROW(GIVEN, "worker", "?int", NULL, "Only with by_worker: all of this is of that worker."),
	ROW(GIVEN, "devices", "?[]Device", NULL, "Those of RDMA that its workers use."),
	ROW(GIVEN, "tls", "?Tls", NULL, NULL),
	ROW(GIVEN, "reason", "?string", NULL, "Why it is unavailable."),
	{ .type = STATISTIC_END },
};

const struct statistic listener_status[] = {
	ROW(GIVEN, "connections_open", "int", NULL, NULL),
	ROW(GIVEN, "example", "?string", NULL, "A command to try it with."),
	{ .type = STATISTIC_END },
};

const struct statistic listener_statistics[] = {
#define NUMBER(type, member, name, metric, help)                                                   \
	ROW(type, #name, NULL, metric, help, AT(listener_numbers, member)),
#define COUNTER(member, name, metric, help) NUMBER(COUNTER, member, name, metric, help)
#define GAUGE(member, name, metric, help)   NUMBER(GAUGE, member, name, metric, help)
#define MAP(member, name, varlink, rows)                                                           \
	ROW(MAP, #name, varlink, NULL, NULL, AT(listener_numbers, member), .each = (rows)),
#define SPAN(member, name, metric, help)                                                           \
	ROW(LATENCY, #name, "Latency", metric, help, AT(listener_numbers, member),                 \
	    .each = latency_statistics),
#define OBJECT(name, varlink, metric, help, ...)                                                   \
	ROW(OBJECT, #name, varlink, metric, help), __VA_ARGS__{ .type = STATISTIC_END },
#define OPTIONAL(member, name, varlink, help, ...)                                                 \
	ROW(OPTIONAL, #name, varlink, NULL, help, AT(listener_numbers, member)),                   \
		__VA_ARGS__{ .type = STATISTIC_END },
	LISTENER_STATISTICS(COUNTER, GAUGE, NUMBER, MAP, SPAN, OBJECT,
			    OPTIONAL){ .type = STATISTIC_END },
};

/* ---- Exports ---- */

const struct statistic export_about[] = {
	ROW(GIVEN, "name", "string", NULL, NULL),
	ROW(GIVEN, "path", "string", NULL, "Of the file or device; empty for memory and null."),
	ROW(INFO, "state", "ExportState", "nbserved_export", "An export, with its state and path."),
	ROW(GIVEN, "store", "string", NULL, "What opens it; `auto` when nothing can."),
	ROW(GAUGE, "size", NULL, "nbserved_export_size_bytes", "Size of an export."),
	ROW(GIVEN, "read_only", "bool", NULL, NULL),
	ROW(GIVEN, "reason", "?string", NULL, "Why it is not ok."),
	{ .type = STATISTIC_END },
};

const struct statistic export_listeners[] = {
	ROW(GIVEN, "listeners", "[]ExportListener", NULL, NULL),
	{ .type = STATISTIC_END },
};

const struct statistic share_about[] = {
	ROW(GIVEN, "listener", "string", NULL, NULL),
	ROW(GIVEN, "store", "string", NULL, NULL),
	ROW(GIVEN, "features", "[]string", NULL, "Of the store, in use."),
	ROW(GIVEN, "reason", "?string", NULL, "Why one that was asked for is not in use."),
	ROW(GIVEN, "choice", "?string", NULL, "What `store = auto` chose, and why."),
	{ .type = STATISTIC_END },
};

const struct statistic share_statistics[] = {
	ROW(MAP, "operations", "[string]Operation", NULL, NULL, AT(share_numbers, operations),
	    .each = request_statistics),
	ROW(COUNTER, "bytes_read", NULL, "nbserved_export_read_bytes", "Bytes read from an export.",
	    AT(share_numbers, bytes_read)),
	ROW(COUNTER, "bytes_written", NULL, "nbserved_export_written_bytes",
	    "Bytes written to an export.", AT(share_numbers, bytes_written)),
	ROW(COUNTER, "zero_reads", NULL, NULL, NULL, AT(share_numbers, zero_reads)),
	ROW(GAUGE, "in_flight", NULL, "nbserved_export_in_flight",
	    "Requests that the store has not finished.", AT(share_numbers, in_flight)),
	ROW(MAP, "errors", "[string]int", "nbserved_export_errors errno=*",
	    "Requests that the store failed, by errno.", AT(share_numbers, errors)),
	{ .type = STATISTIC_END },
};
