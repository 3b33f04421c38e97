/* Output of redis-benchmark, valkey-benchmark and memtier_benchmark.  See generator_text.h. */
#include "generator_text.h"

#include <stdio.h>
#include <string.h>

#include "field.h"
#include "util.h"

/* ---- redis-benchmark: tests of the same number of requests, one after the other ---- */

struct redis {
	double seconds_per_request; /* summed over the tests */
	unsigned tests;
};

static void redis_add(struct redis *sum, double per_s)
{
	if (per_s > 0) {
		sum->seconds_per_request += 1 / per_s;
		sum->tests++;
	}
}

/* "test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_..","p99_..","max_.." */
static void redis_csv_line(const char *line, struct redis *sum, struct generator_result *r)
{
	double v[7];
	unsigned count = 0;

	line = strstr(line, "\",\"");
	while (line && count < ARRAY_SIZE(v) && number_at(line + 3, &v[count], &line)) {
		count++;
		if (strncmp(line, "\",\"", 3))
			break;
	}
	if (count < 1)
		return;
	redis_add(sum, v[0]);
	if (count == ARRAY_SIZE(v) && sum->tests == 1) {
		add_quantile(r, 0.5, v[3] * 1e6);
		add_quantile(r, 0.95, v[4] * 1e6);
		add_quantile(r, 0.99, v[5] * 1e6);
	}
}

/* `-q` and the long form: "SET: 39525.69 requests per second, p50=0.135 msec", "  throughput
 * summary: 66577.90 requests per second". */
static void redis_text_line(const char *line, struct redis *sum, struct generator_result *r)
{
	double value;

	if (number_before(line, " requests per second", &value))
		redis_add(sum, value);
	if (number_after(line, ", p50=", &value, NULL) && sum->tests == 1)
		add_quantile(r, 0.5, value * 1e6);
}

/* "latency summary (msec):", a line of titles, a line of: avg min p50 p95 p99 max. */
static void redis_summary(const char *text, struct generator_result *r)
{
	const char *at = strstr(text, "latency summary (msec):");
	double v[6];
	unsigned count = 0;

	at = at ? strchr(at, '\n') : NULL;
	at = at ? strchr(at + 1, '\n') : NULL;
	while (at && count < ARRAY_SIZE(v) && number_at(at, &v[count], &at))
		count++;
	if (count < ARRAY_SIZE(v))
		return;
	add_quantile(r, 0.5, v[2] * 1e6);
	add_quantile(r, 0.95, v[3] * 1e6);
	add_quantile(r, 0.99, v[4] * 1e6);
}

bool parse_redis(char *const *argv, const char *text, struct generator_result *r)
{
	struct redis sum = { 0 };
	char line[512];

	for (const char *next = text; *next;) {
		size_t bytes = strcspn(next, "\r\n");

		if (bytes < sizeof(line)) {
			memcpy(line, next, bytes);
			line[bytes] = '\0';
			if (line[0] == '"')
				redis_csv_line(line, &sum, r);
			else
				redis_text_line(line, &sum, r);
		}
		next += bytes + strspn(next + bytes, "\r\n");
	}
	if (sum.tests == 0)
		return false;
	if (sum.tests == 1 && r->quantile_count == 0)
		redis_summary(text, r);
	if (sum.tests > 1) /* each test has its own: there is no common one */
		r->quantile_count = 0;
	r->requests = option_number(argv, "-n", 100000) * sum.tests;
	r->requests_per_s = sum.tests / sum.seconds_per_request;
	return true;
}

/* ---- memtier_benchmark: its table, or its JSON where --json-out-file=/dev/stdout prints it ----
 */

static void memtier_json(const json_t *totals, struct generator_result *r)
{
	static const struct {
		const char *name;
		double quantile;
	} wanted[] = { { "p50.00", 0.5 }, { "p99.00", 0.99 }, { "p99.90", 0.999 } };
	json_t *percentiles = json_object_get(totals, "Percentile Latencies");

	r->requests = json_number(totals, "Count");
	r->requests_per_s = json_number(totals, "Ops/sec");
	r->bytes_per_s = json_number(totals, "KB/sec") * 1024;
	for (unsigned i = 0; i < ARRAY_SIZE(wanted); i++) {
		double ms = json_number_value(json_object_get(percentiles, wanted[i].name));

		if (ms > 0)
			add_quantile(r, wanted[i].quantile, ms * 1e6);
	}
}

/* The columns of "Type  Ops/sec  Hits/sec  ...  p99 Latency  ...  KB/sec"; titles have one space
 * at most, columns are two or more apart. */
static unsigned memtier_columns(const char *titles, char names[][24], unsigned max)
{
	unsigned count = 0;

	while (*titles && *titles != '\n' && count < max) {
		const char *end = titles;

		while (*end && *end != '\n' && strncmp(end, "  ", 2) && strncmp(end, " \n", 2))
			end++;
		snprintf(names[count++], sizeof(names[0]), "%.*s", (int)(end - titles), titles);
		titles = end + strspn(end, " ");
	}
	return count;
}

static void memtier_cell(const char *title, double value, struct generator_result *r)
{
	double percent;

	if (!strcmp(title, "Ops/sec"))
		r->requests_per_s = value;
	else if (!strcmp(title, "KB/sec"))
		r->bytes_per_s = value * 1024;
	else if (title[0] == 'p' && number_at(title + 1, &percent, NULL))
		add_quantile(r, percent / 100, value * 1e6);
}

/* The number of requests is only in its JSON; else computed from its options. */
static double memtier_requests(char *const *argv, double per_s)
{
	double seconds = option_number(argv, "--test-time", 0);
	double clients = option_number(argv, "-c", option_number(argv, "--clients", 50));
	double threads = option_number(argv, "-t", option_number(argv, "--threads", 4));

	return seconds > 0 ? per_s * seconds
			   : clients * threads *
				     option_number(argv, "-n",
						   option_number(argv, "--requests", 10000));
}

bool parse_memtier(char *const *argv, const char *text, struct generator_result *r)
{
	json_t *document = json_document(text), *totals = field_get(document, "ALL STATS.Totals");
	const char *titles = strstr(text, "\nType "), *line = last_line(text, "Totals ");
	char names[16][24];
	unsigned count = titles ? memtier_columns(titles + 1, names, ARRAY_SIZE(names)) : 0;
	double value;

	if (totals) {
		memtier_json(totals, r);
	} else if (line && line > titles) {
		for (unsigned i = 1; i < count; i++) {
			line += strcspn(line, " \n");
			line += strspn(line, " ");
			if (number_at(line, &value, NULL))
				memtier_cell(names[i], value, r);
		}
		r->requests = memtier_requests(argv, r->requests_per_s);
	}
	json_decref(document);
	return r->requests_per_s > 0;
}
