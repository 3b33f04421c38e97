/* Output of redis-benchmark and valkey-benchmark.  See generator_text.h. */
#include "generator_text.h"

#include <string.h>

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

/* `-q` and the long form: "SET: 39525.69 requests per second, p50=0.135 msec", "  throughput
 * summary: 66577.90 requests per second". */
static void redis_line(const char *line, struct redis *sum, struct generator_result *r)
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
			redis_line(line, &sum, r);
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
