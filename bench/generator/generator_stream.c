/* Output of iperf3, sockperf and netperf.  See generator_text.h. */
#include "generator_text.h"

#include <string.h>

#include "field.h"
#include "util.h"

/* ---- iperf3 -J ---- */

static void iperf3_sum(const json_t *end, const char *name, struct generator_result *r)
{
	const json_t *sum = json_object_get(end, name);

	r->bytes += json_number(sum, "bytes");
	r->bytes_per_s += json_number(sum, "bits_per_second") / 8;
}

bool parse_iperf3(char *const *argv, const char *text, struct generator_result *r)
{
	json_t *document = json_document(text), *end = field_get(document, "end");

	(void)argv;
	iperf3_sum(end, "sum_received", r);
	iperf3_sum(end, "sum_received_bidir_reverse", r);
	json_decref(document);
	return r->bytes_per_s > 0;
}

/* ---- sockperf: percentiles fall, and are half of the round trip but for --full-rtt ---- */

/* The words before the number of messages that count as requests.  Under load only each hundredth
 * message is answered (--reply-every), but the server's work is all messages that were sent. */
static const char *messages_counted(char *const *argv)
{
	for (; *argv; argv++)
		if (!strcmp(*argv, "under-load") || !strcmp(*argv, "ul"))
			return "SentMessages=";
	return "ReceivedMessages=";
}

bool parse_sockperf(char *const *argv, const char *text, struct generator_result *r)
{
	const char *valid = strstr(text, "[Valid Duration] RunTime=");
	struct generator_quantile fall[GENERATOR_QUANTILES_MAX];
	unsigned count = 0;
	double seconds, percent, value, trip = strstr(text, "Summary: Round trip") ? 1 : 2;
	const char *counted = messages_counted(argv), *at;

	if (!valid) { /* throughput: nothing is received */
		number_before(text, " messages sent in", &r->requests);
		return number_after(text, "Message Rate is", &r->requests_per_s, NULL);
	}
	if (!number_after(valid, "RunTime=", &seconds, NULL) || seconds <= 0 ||
	    !number_after(valid, counted, &value, NULL))
		return false;
	r->requests_per_s = value / seconds;
	/* The requests of the warm-up are added: the server has counted them, too. */
	number_after(text, counted, &r->requests, NULL);
	for (at = valid; count < ARRAY_SIZE(fall) && (at = strstr(at, "---> percentile "));) {
		if (!number_at(at += 16, &percent, &at) || !number_after(at, "=", &value, NULL))
			break;
		fall[count++] =
			(struct generator_quantile){ percent / 100,
						     (uint64_t)MIN(trip * value * 1e3, 9e18) };
	}
	while (count-- > 0)
		add_quantile(r, fall[count].quantile, (double)fall[count].ns);
	return true;
}

/* ---- netperf: what its -k selects, as KEY=VALUE; its tables differ with the test ---- */

static bool netperf_value(const char *text, const char *key, double *ret_value)
{
	const char *line = last_line(text, key);

	return line && number_at(line + strlen(key), ret_value, NULL);
}

bool parse_netperf(char *const *argv, const char *text, struct generator_result *r)
{
	static const struct {
		const char *key;
		double quantile;
	} latencies[] = { { "P50_LATENCY=", 0.5 },
			  { "P90_LATENCY=", 0.9 },
			  { "P99_LATENCY=", 0.99 } };
	double rate, us;

	(void)argv;
	if (!netperf_value(text, "THROUGHPUT=", &rate))
		return false;
	if (last_line(text, "THROUGHPUT_UNITS=Trans/s")) {
		r->requests_per_s = rate;
		netperf_value(text, "LOCAL_SEND_CALLS=", &r->requests);
	} else if (last_line(text, "THROUGHPUT_UNITS=10^6bits/s")) {
		r->bytes_per_s = rate * 1e6 / 8;
	}
	for (unsigned i = 0; i < ARRAY_SIZE(latencies); i++)
		if (netperf_value(text, latencies[i].key, &us))
			add_quantile(r, latencies[i].quantile, us * 1e3);
	return r->requests_per_s + r->bytes_per_s > 0;
}
