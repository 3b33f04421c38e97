/* ctl/metrics/openmetrics.c: what Prometheus gets. */
#include "openmetrics.h"
#include "unit.h"

#define LISTENER                                                                                   \
	"{\"name\":\"e\\\"1\\\\\\n\",\"engine\":\"epoll\",\"service\":\"echo\",\"bytes_in\":42,"   \
	"\"connections\":{\"open\":3,\"refused\":{\"limit\":1,\"denied\":2}},"                     \
	"\"operations\":{\"echo\":{\"count\":9,\"errors\":0,\"latency_ns\":{\"count\":6,"          \
	"\"sum\":1500000007,\"buckets\":[[999,1],[1007,2],[9983,2],[20000000000,1]]}}},"           \
	"\"cost\":{\"cpu_user_ns\":1,\"cpu_system_ns\":2000000000,"                                \
	"\"syscalls\":{\"recv\":5,\"send\":6}}}"

static char *text_of(const char *document)
{
	json_t *stats = json_loads(document, 0, NULL);
	char *text = WRITTEN(to, openmetrics_write(to, stats));

	json_decref(stats);
	return text;
}

#define SHARE  "export=\"d\",listener=\"l\",store=\"threads\""
#define LABELS "listener=\"e\\\"1\\\\\\n\",engine=\"epoll\",service=\"echo\""

static void assert_line(const char *text, const char *line)
{
	const char *found = strstr(text, line);

	if (!found || (found > text && found[-1] != '\n'))
		fail_msg("no line '%s' in:\n%s", line, text);
}

TEST(counters_have_total_labels_and_exact_seconds)
{
	const char *text = text_of("{\"listeners\":[" LISTENER "]}");

	assert_line(text, "# HELP nbserved_received_bytes_total Bytes received.\n"
			  "# TYPE nbserved_received_bytes_total counter\n"
			  "nbserved_received_bytes_total{" LABELS "} 42\n");
	assert_line(text, "nbserved_connections_open{" LABELS "} 3\n");
	assert_line(text, "nbserved_connections_refused_total{" LABELS ",reason=\"denied\"} 2\n");
	assert_line(text, "nbserved_operations_total{" LABELS ",operation=\"echo\"} 9\n");
	assert_line(text, "nbserved_cpu_seconds_total{" LABELS ",mode=\"user\"} 0.000000001\n"
			  "nbserved_cpu_seconds_total{" LABELS ",mode=\"system\"} 2.000000000\n");
	assert_line(text, "nbserved_syscalls_total{" LABELS ",syscall=\"send\"} 6\n");
}

TEST(rdma_is_there_if_a_listener_has_it)
{
	const char *without = text_of("{\"listeners\":[" LISTENER "]}");
	char *with = text_of("{\"listeners\":[{\"name\":\"r\",\"engine\":\"rdma\",\"service\":"
			     "\"echo\",\"rdma\":{\"posted\":{\"send\":7},\"sleeps\":3,"
			     "\"errors\":{\"rnr\":2}}}]}");

	assert_has_not(without, "rdma");
	assert_line(with, "nbserved_rdma_work_requests_posted_total{listener=\"r\",engine=\"rdma\","
			  "service=\"echo\",opcode=\"send\"} 7\n");
	assert_line(with, "nbserved_rdma_work_request_errors_total{listener=\"r\",engine=\"rdma\","
			  "service=\"echo\",status=\"rnr\"} 2\n");
}

TEST(unavailable_listeners_show_their_state_and_no_zeros)
{
	static const char *const far =
		"{\"name\":\"f\",\"engine\":\"epoll\",\"service\":\"echo\",\"transport\":\"tcp\","
		"\"state\":\"unavailable\",\"workers\":0,\"bytes_in\":0,\"connections\":"
		"{\"open\":0},\"operations\":{\"echo\":{\"count\":0}}}";
	char document[2000], *text;
	const char *found;

	snprintf(document, sizeof(document),
		 "{\"listeners\":[%s," LISTENER "],\"exports\":[{\"name\":\"d\",\"path\":\"/d\","
		 "\"state\":\"unavailable\",\"store\":\"null\",\"size\":0}]}",
		 far);
	text = text_of(document);
	assert_line(text, "nbserved_listener_info{listener=\"f\",engine=\"epoll\",service=\"echo\","
			  "state=\"unavailable\",transport=\"tcp\"} 1\n");
	assert_line(text, "nbserved_received_bytes_total{" LABELS "} 42\n");
	found = strstr(text, "listener=\"f\"");
	assert_has_not(found + 1, "listener=\"f\"");
	assert_line(text, "nbserved_export_info{export=\"d\",state=\"unavailable\",store=\"null\","
			  "path=\"/d\"} 1\n");
	assert_has_not(text, "size_bytes");
	snprintf(document, sizeof(document), "{\"listeners\":[%s]}", far);
	text = text_of(document);
	assert_has_not(text, "_total");
}

/* A bucket whose upper bound lies above a `le` counts under the next one. */
TEST(histogram_is_cumulative)
{
	const char *text = text_of("{\"listeners\":[" LISTENER "]}");
	const char *prefix = "nbserved_operation_latency_seconds";
	char line[200];
	static const char *const expected[] = {
		"_bucket{" LABELS ",operation=\"echo\",le=\"1e-06\"} 1\n",
		"_bucket{" LABELS ",operation=\"echo\",le=\"2.5e-06\"} 3\n",
		"_bucket{" LABELS ",operation=\"echo\",le=\"1e-05\"} 5\n",
		"_bucket{" LABELS ",operation=\"echo\",le=\"10.0\"} 5\n",
		"_bucket{" LABELS ",operation=\"echo\",le=\"+Inf\"} 6\n",
		"_count{" LABELS ",operation=\"echo\"} 6\n",
		"_sum{" LABELS ",operation=\"echo\"} 1.500000007\n",
	};

	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
		snprintf(line, sizeof(line), "%s%s", prefix, expected[i]);
		assert_line(text, line);
	}
}

/* The operations of an export's listeners add up to those of the export: one of the two is enough.
 */
TEST(exports_are_told_by_listener)
{
	char *text = text_of("{\"exports\":[{\"name\":\"d\",\"path\":\"/d\",\"state\":\"ok\","
			     "\"store\":\"io_uring\",\"size\":512,\"bytes_read\":9,\"listeners\":[{"
			     "\"listener\":\"l\",\"store\":\"threads\",\"bytes_read\":7,"
			     "\"errors\":{\"EIO\":2},\"operations\":{\"read\":{\"count\":3,"
			     "\"errors\":2,\"latency_ns\":{\"count\":1,\"sum\":1500,"
			     "\"buckets\":[[1503,1]]}}}}]}]}");

	assert_line(text, "nbserved_export_info{export=\"d\",state=\"ok\",store=\"io_uring\","
			  "path=\"/d\"} 1\n");
	assert_line(text, "nbserved_export_size_bytes{export=\"d\"} 512\n");
	assert_line(text, "# HELP nbserved_export_read_bytes_total Bytes read from an export.\n"
			  "# TYPE nbserved_export_read_bytes_total counter\n"
			  "nbserved_export_read_bytes_total{" SHARE "} 7\n");
	assert_line(text, "nbserved_export_errors_total{" SHARE ",errno=\"EIO\"} 2\n");
	assert_line(text, "nbserved_export_operations_total{" SHARE ",operation=\"read\"} 3\n");
	assert_line(text, "nbserved_export_operation_latency_seconds_bucket{" SHARE
			  ",operation=\"read\",le=\"1e-06\"} 0\n");
	assert_line(text, "nbserved_export_operation_latency_seconds_sum{" SHARE
			  ",operation=\"read\"} 0.000001500\n");
}
