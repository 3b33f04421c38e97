/* ctl/metrics/metrics_http.c: the requests that a scraper may make. */
#include "metrics_http.h"
#include "unit.h"
#include "util.h"

static const struct {
	const char *text;
	enum metrics_request request;
} cases[] = {
	{ "GET /metrics HTTP/1.1\r\nHost: a:1\r\nAccept: text/plain\r\n\r\n", METRICS_GET },
	{ "GET /metrics?x=1 HTTP/1.0\r\n\r\n", METRICS_GET },
	{ "GET http://localhost:9107/metrics HTTP/1.1\r\n\r\n", METRICS_GET },
	{ "GET /metrics HTTP/1.1\n\n", METRICS_GET },
	{ "HEAD /metrics HTTP/1.1\r\n\r\nrest", METRICS_HEAD },
	{ "GET / HTTP/1.1\r\n\r\n", METRICS_ELSEWHERE },
	{ "HEAD /metrics/ HTTP/1.1\r\n\r\n", METRICS_ELSEWHERE },
	{ "GET /metricsx HTTP/1.1\r\n\r\n", METRICS_ELSEWHERE },
	{ "GET http://metrics HTTP/1.1\r\n\r\n", METRICS_ELSEWHERE },
	{ "POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", METRICS_METHOD },
	{ "GETS /metrics HTTP/1.1\r\n\r\n", METRICS_METHOD },
	{ "GET /metrics\r\n\r\n", METRICS_BAD },
	{ "GET /metrics HTTP/2.0\r\n\r\n", METRICS_BAD },
	{ "GET /metrics HTTP/1.1 \r\n\r\n", METRICS_BAD },
	{ "GET  HTTP/1.1\r\n\r\n", METRICS_BAD },
	{ " /metrics HTTP/1.1\r\n\r\n", METRICS_BAD },
	{ "\r\n\r\n", METRICS_BAD },
	{ "", METRICS_MORE },
	{ "GET /metrics HTTP/1.1\r\n", METRICS_MORE },
	{ "GET /metrics HTTP/1.1\r\nHost: a\r\n", METRICS_MORE },
};

TEST(requests_are_what_they_are)
{
	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++)
		if (metrics_parse(cases[i].text, strlen(cases[i].text)) != cases[i].request)
			fail_msg("%s", cases[i].text);
}

/* A request arrives in pieces: it is not answered before the empty line. */
TEST(an_incomplete_head_waits)
{
	static const char text[] = "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n";

	for (size_t bytes = 0; bytes < strlen(text); bytes++)
		assert_int_equal(metrics_parse(text, bytes), METRICS_MORE);
	assert_int_equal(metrics_parse(text, strlen(text)), METRICS_GET);
}
