/* Output of wrk, h2load and ab.  See generator_text.h. */
#include "generator_text.h"

#include <string.h>

/* "     99%    6.96ms" (wrk), " 99%   4" in ms (ab) */
static void percent_lines(const char *text, const struct unit *units, double scale,
			  struct generator_result *r)
{
	for (const char *at = text; at; at = strchr(at, '\n')) {
		const char *end;
		double percent, value;

		at += *at == '\n';
		if (!number_at(at, &percent, &end) || *end != '%' || percent >= 100)
			continue;
		if (!number_at(end + 1, &value, &end))
			continue;
		if (!units || unit_at(end, units, &value))
			add_quantile(r, percent / 100, value * scale);
	}
}

bool parse_wrk(char *const *argv, const char *text, struct generator_result *r)
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

bool parse_h2load(char *const *argv, const char *text, struct generator_result *r)
{
	const char *requests = last_line(text, "requests: ");

	(void)argv;
	if (!requests || !number_before(text, " req/s,", &r->requests_per_s))
		return false;
	number_before(requests, " succeeded", &r->requests);
	number_before(requests, " failed", &r->errors);
	return true;
}

bool parse_ab(char *const *argv, const char *text, struct generator_result *r)
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
