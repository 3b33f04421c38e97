/* Parsers of the output of load generators, one function each.  See generator.h. */
#include "generator.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "field.h"
#include "util.h"

/* ---- Numbers in text ---- */

/* Numbers that a program prints are finite and not negative; others are as if not there. */
static bool number_at(const char *text, double *ret_value, const char **ret_end)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || !isfinite(value) || value < 0)
		return false;
	*ret_value = value;
	if (ret_end)
		*ret_end = end;
	return true;
}

/* The number behind the first `key` in text. */
static bool number_after(const char *text, const char *key, double *ret_value, const char **ret_end)
{
	const char *found = strstr(text, key);

	return found && number_at(found + strlen(key), ret_value, ret_end);
}

/* The number that ends right before `key`: `4096 requests`. */
static bool number_before(const char *text, const char *key, double *ret_value)
{
	const char *end = strstr(text, key), *begin = end;

	while (begin && begin > text && strchr("0123456789.", begin[-1]))
		begin--;
	return begin != end && number_at(begin, ret_value, NULL);
}

/* Scales of units by their first letters; the longest that fits comes first. */
struct unit {
	const char *text;
	double scale;
};
static const struct unit time_units[] = { { "us", 1e3 }, { "ms", 1e6 }, { "ns", 1 },
					  { "m", 60e9 }, { "s", 1e9 },  { NULL, 0 } };
static const struct unit byte_units[] = {
	{ "KB", 1024. }, { "MB", 1048576. }, { "GB", 1073741824. }, { "B", 1 }, { NULL, 0 }
};
/* As iperf prints them: bits in thousands. */
static const struct unit bit_units[] = { { "Kbits/sec", 1e3 }, { "Mbits/sec", 1e6 },
					 { "Gbits/sec", 1e9 }, { "Tbits/sec", 1e12 },
					 { "bits/sec", 1 },    { NULL, 0 } };

static bool scale_at(const char *text, const struct unit *units, double *value)
{
	while (*text == ' ')
		text++;
	for (; units->text; units++)
		if (!strncmp(text, units->text, strlen(units->text))) {
			*value *= units->scale;
			return true;
		}
	return false;
}

static bool measure_after(const char *text, const char *key, const struct unit *units,
			  double *ret_value)
{
	const char *end;

	return number_after(text, key, ret_value, &end) && scale_at(end, units, ret_value);
}

static void add_quantile(struct generator_result *r, double quantile, double ns)
{
	unsigned i = r->quantile_count;

	if (i == GENERATOR_QUANTILES_MAX || quantile < 0 || quantile > 1 || !(ns >= 0) ||
	    ns > 9e18 || (i > 0 && r->quantiles[i - 1].quantile >= quantile))
		return;
	r->quantiles[r->quantile_count++] =
		(struct generator_quantile){ quantile, (uint64_t)(ns + 0.5) };
}

/* The last line that begins with `start`; NULL: none. */
static const char *last_line(const char *text, const char *start)
{
	const char *found = NULL;

	for (const char *line = text; line; line = strpbrk(line, "\r\n")) {
		line += strspn(line, "\r\n");
		if (!strncmp(line, start, strlen(start)))
			found = line;
	}
	return found;
}

/* ---- Options of the generator's command line ---- */

/* The number of `-n 1000`, `-n1000` or `--name=1000`; `otherwise` without it. */
static double option_number(char *const *argv, const char *option, double otherwise)
{
	size_t bytes = strlen(option);
	double value;

	for (unsigned i = 1; argv[i]; i++) {
		const char *text = argv[i] + bytes;

		if (strncmp(argv[i], option, bytes))
			continue;
		if (!*text)
			text = argv[i + 1] ? argv[i + 1] : "";
		if (number_at(text + (*text == '='), &value, NULL))
			return value;
	}
	return otherwise;
}

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

static bool parse_redis(char *const *argv, const char *text, struct generator_result *r)
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

/* ---- JSON: fio, iperf3 ---- */

/* The first JSON object that begins a line: warnings may stand before it. */
static json_t *json_document(const char *text)
{
	for (const char *at = strchr(text, '{'); at; at = strchr(at + 1, '{')) {
		json_t *document = at == text || at[-1] == '\n'
					   ? json_loads(at, JSON_DISABLE_EOF_CHECK, NULL)
					   : NULL;

		if (document)
			return document;
	}
	return NULL;
}

static double json_number(const json_t *object, const char *path)
{
	double value = json_number_value(field_get(object, path));

	return isfinite(value) && value > 0 ? value : 0;
}

static void fio_quantiles(const json_t *direction, struct generator_result *r)
{
	json_t *percentiles = json_object_get(field_get(direction, "clat_ns"), "percentile"), *ns;
	static const double wanted[] = { 0.5, 0.9, 0.95, 0.99, 0.999, 0.9999 };
	const char *name;

	for (unsigned i = 0; i < ARRAY_SIZE(wanted); i++)
		json_object_foreach(percentiles, name, ns)
			if (fabs(strtod(name, NULL) - 100 * wanted[i]) < 1e-6)
				add_quantile(r, wanted[i], json_number_value(ns));
}

static bool parse_fio(char *const *argv, const char *text, struct generator_result *r)
{
	static const char *const directions[] = { "read", "write", "trim" };
	json_t *document = json_document(text), *jobs = field_get(document, "jobs"), *job;
	const json_t *main = NULL;
	double most = 0;
	size_t index;

	(void)argv;
	json_array_foreach(jobs, index, job) {
		for (unsigned i = 0; i < ARRAY_SIZE(directions); i++) {
			const json_t *d = json_object_get(job, directions[i]);
			double ios = json_number(d, "total_ios");

			r->requests += ios;
			r->requests_per_s += json_number(d, "iops");
			r->bytes += json_number(d, "io_bytes");
			r->bytes_per_s += json_number(d, "bw_bytes");
			if (ios > most) {
				most = ios;
				main = d;
			}
		}
		r->errors += json_number(job, "error") > 0;
	}
	/* Percentiles of several jobs or directions have no sum. */
	if (main && most >= 0.999 * r->requests)
		fio_quantiles(main, r);
	json_decref(document);
	return r->requests > 0;
}

static void iperf3_sum(const json_t *end, const char *name, struct generator_result *r)
{
	const json_t *sum = json_object_get(end, name);

	r->bytes += json_number(sum, "bytes");
	r->bytes_per_s += json_number(sum, "bits_per_second") / 8;
}

/* "[SUM]  0.00-1.01  sec  1.21 GBytes  10.3 Gbits/sec   receiver": adds the bytes and the rate.
 * Breaks line into words. */
static void iperf_line(char *line, struct generator_result *r)
{
	const char *before = "";
	char *rest;
	double value;

	for (char *word = strtok_r(line, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
		if (number_at(before, &value, NULL)) {
			if (strstr(word, "its/sec") && scale_at(word, bit_units, &value))
				r->bytes_per_s += value / 8;
			else if (strstr(word, "Bytes") && scale_at(word, byte_units, &value))
				r->bytes += value;
		}
		before = word;
	}
}

static void iperf3_text(const char *text, struct generator_result *r)
{
	bool sums = strstr(text, "\n[SUM]");

	for (const char *at = text; (at = strchr(at, '\n')) && *++at;) {
		size_t bytes = strcspn(at, "\n");
		char line[256];

		if (bytes >= sizeof(line) || at[0] != '[' || (sums && strncmp(at, "[SUM]", 5)))
			continue;
		memcpy(line, at, bytes);
		line[bytes] = '\0';
		if (strstr(line, "receiver"))
			iperf_line(line, r);
	}
}

static bool parse_iperf3(char *const *argv, const char *text, struct generator_result *r)
{
	json_t *document = json_document(text), *end = field_get(document, "end");

	(void)argv;
	if (end) {
		iperf3_sum(end, "sum_received", r);
		iperf3_sum(end, "sum_received_bidir_reverse", r);
	} else {
		iperf3_text(text, r);
	}
	json_decref(document);
	return r->bytes_per_s > 0;
}

/* ---- iperf 2: the last line is the sum, or the only connection's ---- */

static bool parse_iperf(char *const *argv, const char *text, struct generator_result *r)
{
	const char *line = last_line(text, "[SUM]");
	char copy[512];
	double value;

	(void)argv;
	for (const char *at = text; !line && (at = strchr(at, '[')); at++)
		if ((at == text || at[-1] == '\n') && strstr(at, "its/sec") &&
		    strcspn(at, "\n") > (size_t)(strstr(at, "its/sec") - at))
			line = at;
	if (!line)
		return false;
	snprintf(copy, sizeof(copy), "%.*s", (int)MIN(strcspn(line, "\n"), sizeof(copy) - 1), line);
	if (strstr(copy, " rps") &&
	    number_after(copy, "its/sec", &value, NULL)) { /* --bounceback */
		r->requests = value;
		number_before(copy, " rps", &r->requests_per_s);
	}
	iperf_line(copy, r);
	return r->bytes_per_s > 0;
}

/* ---- HTTP ---- */

/* "     99%    6.96ms" (wrk), "  99% in 0.0032 secs" (hey), " 99%   4" in ms (ab) */
static void percent_lines(const char *text, const struct unit *units, double scale,
			  struct generator_result *r)
{
	for (const char *at = text; at; at = strchr(at, '\n')) {
		const char *end;
		double percent, value;

		at += *at == '\n';
		if (!number_at(at, &percent, &end) || *end != '%' || percent >= 100)
			continue;
		end += 1 + strspn(end + 1, " in");
		if (!number_at(end, &value, &end))
			continue;
		if (!units || scale_at(end, units, &value))
			add_quantile(r, percent / 100, value * scale);
	}
}

static bool parse_wrk(char *const *argv, const char *text, struct generator_result *r)
{
	const char *latencies = strstr(text, "Latency Distribution");

	(void)argv;
	number_before(text, " requests in ", &r->requests);
	if (!number_after(text, "Requests/sec:", &r->requests_per_s, NULL))
		return false;
	measure_after(text, "Transfer/sec:", byte_units, &r->bytes_per_s);
	if (latencies)
		percent_lines(latencies, time_units, 1, r);
	number_after(text, "Non-2xx or 3xx responses:", &r->errors, NULL);
	return true;
}

static bool parse_h2load(char *const *argv, const char *text, struct generator_result *r)
{
	const char *requests = last_line(text, "requests: ");

	(void)argv;
	if (!requests || !number_before(text, " req/s,", &r->requests_per_s))
		return false;
	number_before(requests, " succeeded", &r->requests);
	number_before(requests, " failed", &r->errors);
	return true;
}

static bool parse_ab(char *const *argv, const char *text, struct generator_result *r)
{
	const char *latencies = strstr(text, "Percentage of the requests");

	(void)argv;
	if (!number_after(text, "Requests per second:", &r->requests_per_s, NULL))
		return false;
	number_after(text, "Complete requests:", &r->requests, NULL);
	number_after(text, "Failed requests:", &r->errors, NULL);
	if (measure_after(text, "Transfer rate:", byte_units, &r->bytes_per_s) ||
	    number_after(text, "Transfer rate:", &r->bytes_per_s, NULL))
		r->bytes_per_s *= r->bytes_per_s > 0 && strstr(text, "[Kbytes/sec]") ? 1024 : 1;
	if (latencies)
		percent_lines(latencies, NULL, 1e6, r);
	return true;
}

static bool parse_hey(char *const *argv, const char *text, struct generator_result *r)
{
	const char *codes = strstr(text, "Status code distribution:");
	const char *latencies = strstr(text, "Latency distribution:");

	(void)argv;
	if (!number_after(text, "Requests/sec:", &r->requests_per_s, NULL))
		return false;
	for (const char *at = codes; at && (at = strchr(at, '[')); at++) {
		const char *end;
		double code, count;

		if (!number_at(at + 1, &code, &end) || *end != ']' ||
		    !number_at(end + 1, &count, NULL))
			break;
		r->requests += count;
		r->errors += code >= 400 ? count : 0;
	}
	if (latencies)
		percent_lines(latencies, NULL, 1e9, r);
	return true;
}

/* ---- sockperf: percentiles fall ---- */

static bool parse_sockperf(char *const *argv, const char *text, struct generator_result *r)
{
	const char *valid = strstr(text, "[Valid Duration] RunTime=");
	struct generator_quantile fall[GENERATOR_QUANTILES_MAX];
	unsigned count = 0;
	double seconds, percent, value;
	const char *at;

	(void)argv;
	if (!valid) { /* throughput: nothing is received */
		number_before(text, " messages sent in", &r->requests);
		return number_after(text, "Message Rate is", &r->requests_per_s, NULL);
	}
	if (!number_after(valid, "RunTime=", &seconds, NULL) || seconds <= 0 ||
	    !number_after(valid, "ReceivedMessages=", &value, NULL))
		return false;
	r->requests_per_s = value / seconds;
	/* The requests of the warm-up are added: the server has counted them, too. */
	number_after(text, "ReceivedMessages=", &r->requests, NULL);
	for (at = valid; count < ARRAY_SIZE(fall) && (at = strstr(at, "---> percentile "));) {
		if (!number_at(at += 16, &percent, &at) || !number_after(at, "=", &value, NULL))
			break;
		fall[count++] = (struct generator_quantile){ percent / 100,
							     (uint64_t)MIN(value * 1e3, 9e18) };
	}
	while (count-- > 0)
		add_quantile(r, fall[count].quantile, (double)fall[count].ns);
	return true;
}

/* ---- qemu-img bench ---- */

static bool parse_qemu_img(char *const *argv, const char *text, struct generator_result *r)
{
	double seconds, size;

	(void)argv;
	if (!number_after(text, "Sending ", &r->requests, NULL) ||
	    !number_before(text, " bytes each", &size) ||
	    !number_after(text, "Run completed in ", &seconds, NULL) || seconds <= 0)
		return false;
	r->requests_per_s = r->requests / seconds;
	r->bytes = r->requests * size;
	r->bytes_per_s = r->bytes / seconds;
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

/* It says how many requests there were in its JSON only: they follow from its options. */
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

static bool parse_memtier(char *const *argv, const char *text, struct generator_result *r)
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

/* ---- nbdcopy says nothing: its run is one request, and its time that one's ---- */

static bool parse_whole_run(char *const *argv, const char *text, struct generator_result *r)
{
	(void)argv, (void)text;
	r->requests = 1;
	return true;
}

/* ---- All of them ---- */

static const struct generator {
	const char *program;
	bool (*parse)(char *const *argv, const char *text, struct generator_result *r);
} generators[] = {
	{ "redis-benchmark", parse_redis },
	{ "valkey-benchmark", parse_redis },
	{ "fio", parse_fio },
	{ "iperf3", parse_iperf3 },
	{ "iperf", parse_iperf },
	{ "wrk", parse_wrk },
	{ "h2load", parse_h2load },
	{ "ab", parse_ab },
	{ "hey", parse_hey },
	{ "sockperf", parse_sockperf },
	{ "qemu-img", parse_qemu_img },
	{ "memtier_benchmark", parse_memtier },
	{ "nbdcopy", parse_whole_run },
};

static const struct generator *generator_of(const char *word)
{
	const char *slash = strrchr(word, '/');

	for (unsigned i = 0; i < ARRAY_SIZE(generators); i++)
		if (!strcmp(slash ? slash + 1 : word, generators[i].program))
			return &generators[i];
	return NULL;
}

/* Programs that run the rest of their arguments. */
static bool is_wrapper(const char *word)
{
	static const char *const wrappers[] = { "taskset", "numactl", "nice", "chrt", "env",
						"timeout", "stdbuf",  "sudo", "ip",   "perf" };
	const char *slash = strrchr(word, '/');

	for (unsigned i = 0; i < ARRAY_SIZE(wrappers); i++)
		if (!strcmp(slash ? slash + 1 : word, wrappers[i]))
			return true;
	return false;
}

/* *argv moves on to the generator's own name. */
static const struct generator *generator_find(char *const **argv)
{
	const struct generator *found = (*argv)[0] ? generator_of((*argv)[0]) : NULL;

	if (found || !(*argv)[0] || !is_wrapper((*argv)[0]))
		return found;
	for (char *const *word = *argv + 1; *word && !found; word++) {
		found = generator_of(*word);
		*argv = found ? word : *argv;
	}
	return found;
}

const char *generator_name(char *const *argv)
{
	const struct generator *found = generator_find(&argv);

	return found ? found->program : NULL;
}

bool generator_parse(char *const *argv, const char *output, uint64_t wall_ns,
		     struct generator_result *ret_result)
{
	const struct generator *found = generator_find(&argv);
	struct generator_result result = { 0 };

	if (!found || !found->parse(argv, output, &result) ||
	    !isfinite(result.requests + result.requests_per_s + result.errors) ||
	    !isfinite(result.bytes + result.bytes_per_s))
		return false;
	if (found->parse == parse_whole_run && wall_ns) {
		result.requests_per_s = 1e9 / (double)wall_ns;
		add_quantile(&result, 0.5, (double)wall_ns);
	}
	*ret_result = result;
	return true;
}

bool generator_quantile(const struct generator_result *result, double quantile, uint64_t *ret_ns)
{
	for (unsigned i = 0; i < result->quantile_count; i++)
		if (fabs(result->quantiles[i].quantile - quantile) < 1e-9) {
			*ret_ns = result->quantiles[i].ns;
			return true;
		}
	return false;
}
