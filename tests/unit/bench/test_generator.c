/* bench/generator/generator.c: reads the results of real runs, recorded from the programs of Debian
 * 12, and refuses other text. */
#include <math.h>

#include "generator.h"
#include "unit.h"
#include "util.h"

/* From the top of the tree, where make runs the tests. */
static char *recorded(const char *name)
{
	char path[128], *text = calloc(1, 65536);
	FILE *from;

	snprintf(path, sizeof(path), "tests/unit/bench/generator/%s.txt", name);
	from = fopen(path, "re");
	assert_non_null(from);
	assert_true(fread(text, 1, 65535, from) > 0);
	fclose(from);
	return text;
}

static struct generator_result parse(const char *name, const char *command)
{
	struct generator_result result = { 0 };
	char words[256], *argv[32], *rest, *text = recorded(name);
	unsigned count = 0;

	snprintf(words, sizeof(words), "%s", command);
	for (char *w = strtok_r(words, " ", &rest); w; w = strtok_r(NULL, " ", &rest))
		argv[count++] = w;
	argv[count] = NULL;
	if (!generator_parse(argv, text, &result))
		fail_msg("%s: not understood", name);
	free(text);
	return result;
}

static void assert_about(double value, double expected)
{
	if (!(fabs(value - expected) <= 0.001 * expected))
		fail_msg("%f instead of %f", value, expected);
}

static void assert_quantile(const struct generator_result *r, double quantile, uint64_t expected)
{
	uint64_t ns = 0;

	assert_true(generator_quantile(r, quantile, &ns));
	assert_int_equal(ns, expected);
}

struct expected {
	const char *file, *command;
	double requests, requests_per_s, bytes, bytes_per_s;
	uint64_t p50_ns, p99_ns; /* 0: it does not say */
};

/* Read off the recordings by eye. */
static const struct expected results[] = {
	{ "redis-q", "redis-benchmark -c 20 -n50000 -q", 100000, 0, 0, 0, 0, 0 },
	{ "redis", "taskset -c 1 /usr/bin/redis-benchmark -n 50000", 50000, 66577.90, 0, 0, 143000,
	  335000 },
	{ "fio-json", "fio --rw=randrw --output-format=json", 0, 0, 0, 0, 0, 0 },
	{ "fio-net-json", "fio --rw=write --output-format=json", 28837, 28808.19, 118116352,
	  117998353, 0, 0 },
	{ "iperf3-json", "iperf3 -c 127.0.0.1 -J", 0, 0, 343244800, 2725472616.74 / 8, 0, 0 },
	{ "wrk", "wrk -t1 -c16 -d1 --latency URL", 70554, 68772.99, 0, 4.79 * 1048576., 109000,
	  6960000 },
	{ "wrk-plain", "wrk -t1 -c16 -d1 URL", 92357, 87841.42, 0, 6.12 * 1048576., 0, 0 },
	{ "h2load", "h2load --h1 -n 20000 URL", 20000, 155990.42, 0, 0, 0, 0 },
	{ "ab", "ab -k -n 20000 URL", 20000, 111644.52, 0, 10575.70 * 1024, 0, 0 },
	{ "sockperf", "sockperf ping-pong --tcp", 48754, 34657 / 0.552, 0, 0, 2 * 4855, 2 * 9200 },
	{ "sockperf-ul", "sockperf under-load --tcp", 10005, 5201 / 0.524, 0, 0, 2 * 28038,
	  2 * 2019439 },
	{ "sockperf-tp", "sockperf throughput --tcp", 641183, 640864, 0, 0, 0, 0 },
	{ "netperf", "netperf -t TCP_RR -j -- -k all", 2000, 15144.52, 0, 0, 18000, 2250000 },
	{ "netperf-stream", "netperf -t TCP_STREAM -- -k all", 0, 0, 0, 4579.08e6 / 8, 0, 0 },
	{ "qemu-img", "qemu-img bench -d 32", 20000, 20000 / 0.434, 20000 * 4096.,
	  20000 * 4096. / 0.434, 0, 0 },
};

TEST(recorded_runs_are_read)
{
	for (unsigned i = 0; i < ARRAY_SIZE(results); i++) {
		const struct expected *e = &results[i];
		struct generator_result r = parse(e->file, e->command);

		print_message("%s: %.0f requests, %.2f/s, %.0f bytes, %.0f/s\n", e->file,
			      r.requests, r.requests_per_s, r.bytes, r.bytes_per_s);
		if (e->requests > 0)
			assert_about(r.requests, e->requests);
		if (e->requests_per_s > 0)
			assert_about(r.requests_per_s, e->requests_per_s);
		if (e->bytes > 0)
			assert_about(r.bytes, e->bytes);
		if (e->bytes_per_s > 0)
			assert_about(r.bytes_per_s, e->bytes_per_s);
		if (e->p50_ns)
			assert_quantile(&r, 0.5, e->p50_ns);
		if (e->p99_ns)
			assert_quantile(&r, 0.99, e->p99_ns);
		assert_true(r.errors == 0);
	}
}

/* sockperf prints half of the round trip, unless its options ask for all of it. */
TEST(a_full_round_trip_of_sockperf_is_not_doubled)
{
	char *argv[] = { "sockperf", "ping-pong", "--full-rtt", NULL };
	struct generator_result r;

	assert_true(generator_parse(argv,
				    "sockperf: [Total Run] ReceivedMessages=10\n"
				    "sockperf: [Valid Duration] RunTime=0.5 sec; SentMessages=9; "
				    "ReceivedMessages=9\n"
				    "sockperf: Summary: Round trip is 30.278 usec\n"
				    "sockperf: ---> percentile 50.000 =   21.631\n",
				    &r));
	assert_quantile(&r, 0.5, 21631);
}

TEST(versions_are_asked_of_the_generator)
{
	char *const wrapped[] = { (char *)"taskset",      (char *)"-c",  (char *)"1",
				  (char *)"/usr/bin/wrk", (char *)"URL", NULL };
	char *const other[] = { (char *)"true", NULL };
	const char *program;

	assert_string_equal(generator_version(wrapped, &program), "-v");
	assert_string_equal(program, "/usr/bin/wrk");
	assert_null(generator_version(other, &program));
}

/* What fio did in ramp_time is in the listener's counts alone. */
TEST(fio_with_a_ramp_has_rates_and_no_count)
{
	char *const argv[] = { (char *)"fio", NULL };
	struct generator_result r = { 0 };

	assert_true(generator_parse(argv,
				    "{\"global options\": {\"ramp_time\": \"1\"}, \"jobs\": "
				    "[{\"read\": {\"total_ios\": 9, \"iops\": 3}}]}",
				    &r));
	assert_true(r.requests == 0 && r.requests_per_s == 3);
}

/* fio's two directions have no common percentiles, unless one had nearly all requests. */
TEST(percentiles_of_two_directions_are_not_mixed)
{
	struct generator_result mixed = parse("fio-json", "fio"),
				one = parse("fio-net-json", "fio");
	uint64_t ns;

	assert_false(generator_quantile(&mixed, 0.5, &ns));
	assert_true(generator_quantile(&one, 0.5, &ns));
	assert_true(generator_quantile(&one, 0.999, &ns));
}

TEST(of_repeated_options_the_last_counts)
{
	static char *const argv[] = { "redis-benchmark", "-n", "1000", "-q", "-n2000", NULL };
	struct generator_result r;

	assert_true(generator_parse(argv, "SET: 1000.00 requests per second, p50=0.1 msec\n", &r));
	assert_true(r.requests == 2000);
}

/* ab counts whole milliseconds: 0 is a time too short for it, not no time. */
TEST(times_below_the_resolution_of_ab_are_unknown)
{
	struct generator_result r = parse("ab", "ab");
	uint64_t ns;

	assert_false(generator_quantile(&r, 0.5, &ns));
	assert_int_equal(r.quantile_count, 0);
}

TEST(text_other_than_a_result_is_refused)
{
	static char *const lines[][3] = {
		{ "redis-benchmark", "-q", NULL },
		{ "fio", NULL },
		{ "iperf3", NULL },
		{ "wrk", NULL },
		{ "h2load", NULL },
		{ "ab", NULL },
		{ "sockperf", NULL },
		{ "netperf", NULL },
		{ "qemu-img", "bench", NULL },
		{ "sleep", "1", NULL },
	};
	static const char *const texts[] = { "",
					     "{",
					     "{}",
					     "connect: Connection refused\n",
					     "[ ID] Interval\n[",
					     "Requests/sec: nan",
					     "\"SET\",\"-1\"",
					     "requests: total" };
	struct generator_result r;

	for (unsigned i = 0; i < ARRAY_SIZE(lines); i++)
		for (unsigned j = 0; j < ARRAY_SIZE(texts); j++)
			assert_false(generator_parse(lines[i], texts[j], &r));
}

TEST(programs_are_found_behind_wrappers)
{
	char *pinned[] = { "taskset", "-c", "1", "/opt/bin/wrk", "-t1", NULL };
	char *other[] = { "sh", "-c", "wrk", NULL }, *none[] = { NULL };

	assert_string_equal(generator_name(pinned), "wrk");
	assert_null(generator_name(other)); /* a shell prints any text */
	assert_null(generator_name(none));
}
