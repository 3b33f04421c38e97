/* lib/rows/figure.c, bench/rows/measure_visits.c: figures of visits, and of blocks of them. */
#include <math.h>

#include "measure_visits.h"
#include "unit.h"
#include "util.h"

CLEANUP_OF(json_t *, json_decref)

/* Visits of `samples` operations each, the i-th with latencies of ns[i]. */
static void add_visits(struct measures *m, unsigned count, const uint64_t *ns, unsigned samples)
{
	for (unsigned i = 0; i < count; i++) {
		struct measure *row = measures_add(m);

		row->label = row->listener = row->engine = row->service = row->operation = "";
		row->count = row->listener_count = samples;
		row->latency.buckets[histogram_bucket(ns[i])] = row->latency.count = samples;
		row->latency.min = row->latency.max = ns[i];
	}
	measures_merge(m);
	assert_int_equal(m->count, 1);
}

TEST(percentiles_of_short_visits_have_their_spread_over_blocks)
{
	static const uint64_t ns[] = { 1000, 1000, 1000, 64000, 64000, 64000, 9000 };
	CLEANUP(measures_free) struct measures m = {};
	double values[ARRAY_SIZE(ns)];

	add_visits(&m, ARRAY_SIZE(ns), ns, 400);
	assert_int_equal(measure_values(m.rows[0], FIGURE_P50, values), 7);
	/* takes 1,000 samples: three visits */
	assert_int_equal(measure_values(m.rows[0], FIGURE_P99, values), 2);
	assert_true(values[0] < 1100 && values[1] > 60000);
	assert_true(measure_median(m.rows[0], FIGURE_P99) > 60000);
	assert_int_equal(measure_values(m.rows[0], FIGURE_P99_9, values), 0);
	assert_true(isnan(measure_median(m.rows[0], FIGURE_P99_9)));
}

/* Ticks of 10 ms say nothing of 0.1 s, but of twenty times that. */
TEST(parts_of_cpu_time_are_unknown_below_a_second)
{
	CLEANUP(measures_free) struct measures m = {};

	for (unsigned i = 0; i < 20; i++) {
		struct measure *row = measures_add(&m);

		row->label = row->listener = row->engine = row->service = row->operation = "";
		row->count = row->listener_count = 1000;
		row->cpu_ns = 100 * NS_PER_MS;
		row->cpu_user_ns = i % 2 ? 0 : 20 * NS_PER_MS;
		row->cpu_system_ns = row->cpu_ns - row->cpu_user_ns;
		assert_true(isnan(figure_value(row, FIGURE_USER_SHARE)));
	}
	measures_merge(&m);
	assert_float_equal(measure_median(m.rows[0], FIGURE_USER_SHARE), 0.1, 1e-6);
}

static json_t *document(unsigned open)
{
	return json_pack("{s:i, s:[{s:s, s:{s:i}, s:{s:{s:i}}}]}", "uptime_ns", 1, "listeners",
			 "name", "a", "connections", "open", open, "operations", "echo", "count",
			 1);
}

TEST(connections_over_rate_are_those_that_were_open_meanwhile)
{
	CLEANUP(json_decref_p)
	json_t *documents = json_pack("[o, o, o]", document(0), document(50), document(3));
	CLEANUP(measures_free) struct measures m = {};

	measures_delta(&m, NULL, json_array_get(documents, 2), NS_PER_S, "");
	measures_set_connections(&m, 0, documents);
	assert_int_equal(m.rows[0]->connections, 50);
	m.rows[0]->count = 100;
	assert_float_equal(figure_value(m.rows[0], FIGURE_CYCLE), 0.5 * NS_PER_S, 1);
	m.rows[0]->generator.result.requests_per_s = 500; /* stands above the operations */
	assert_float_equal(figure_value(m.rows[0], FIGURE_CYCLE), 0.1 * NS_PER_S, 1);
	m.rows[0]->connections = 0; /* saved by an earlier nbctl */
	assert_true(isnan(figure_value(m.rows[0], FIGURE_CYCLE)));
}

/* Most of a datagram listener's connections may be clients of earlier visits: it forgets them only
 * after a time. */
TEST(clients_of_datagrams_make_no_cycle)
{
	json_t *one = document(50), *documents = json_pack("[o]", one);
	CLEANUP(measures_free) struct measures m = {};

	json_object_set_new(json_array_get(json_object_get(one, "listeners"), 0), "udp",
			    json_pack("{s:i}", "in", 100));
	measures_delta(&m, NULL, one, NS_PER_S, "");
	measures_set_connections(&m, 0, documents);
	m.rows[0]->count = 100;
	assert_true(isnan(figure_value(m.rows[0], FIGURE_CYCLE)));
	json_decref(documents);
}

TEST(threads_wait_no_longer_than_all_the_time)
{
	struct measure row = { .interval_ns = 1000, .machine = { .pressure_ns = 1030 } };

	assert_true(figure_value(&row, FIGURE_PRESSURE) == 1);
	row.machine.pressure_ns = 250;
	assert_true(figure_value(&row, FIGURE_PRESSURE) == 0.25);
}

/* 2,000 requests of 10 us, after handshakes of 1 ms each. */
static struct measure after_handshakes(unsigned handshakes)
{
	json_t *document =
		json_pack("{s:i, s:[{s:s, s:{s:s}, s:{s:{s:i}}, s:{s:i, s:i}, s:{s:i, s:i}}]}",
			  "uptime_ns", 1, "listeners", "name", "a", "tls", "mode", "user",
			  "operations", "get", "count", 2000, "sessions", "handshakes", handshakes,
			  "handshake_cpu_ns", handshakes * 1000000, "cost", "cpu_user_ns",
			  handshakes * 1000000, "cpu_system_ns", 2000 * 10000);
	struct measures m = {};
	struct measure row;

	measures_delta(&m, NULL, document, NS_PER_S, "");
	row = *m.rows[0];
	row.source = NULL;
	measures_free(&m);
	json_decref(document);
	row.generator.result.requests = 2000;
	row.bytes_in = 2000;
	return row;
}

TEST(requests_cost_the_same_however_many_connections_they_share)
{
	static const enum figure costs[] = { FIGURE_CPU_PER_REQUEST, FIGURE_CPU_PER_OP,
					     FIGURE_CPU_PER_BYTE };
	struct measure one = after_handshakes(1), hundred = after_handshakes(100);

	for (unsigned i = 0; i < ARRAY_SIZE(costs); i++) {
		assert_float_equal(figure_value(&one, costs[i]), 10000, 0.1);
		assert_float_equal(figure_value(&hundred, costs[i]), 10000, 0.1);
	}
	assert_float_equal(figure_value(&one, FIGURE_CPU_PER_HANDSHAKE), 1000000, 1);
	assert_float_equal(figure_value(&hundred, FIGURE_CPU_PER_HANDSHAKE), 1000000, 1);
	assert_float_equal(figure_value(&hundred, FIGURE_HANDSHAKE_RATE), 100, 0.1);
	assert_float_equal(figure_value(&hundred, FIGURE_CPU_SHARE), 0.12, 0.001);
	hundred.handshakes = hundred.handshake_cpu_ns = 0; /* without TLS, or saved before */
	assert_true(isnan(figure_value(&hundred, FIGURE_HANDSHAKE_RATE)));
	assert_true(isnan(figure_value(&hundred, FIGURE_CPU_PER_HANDSHAKE)));
	assert_float_equal(figure_value(&hundred, FIGURE_CPU_PER_OP), 60000, 1);
}

TEST(the_kernels_threads_are_a_part_of_the_cpu_time)
{
	json_t *document = json_pack("{s:i, s:[{s:s, s:{s:{s:i}}, s:{s:i, s:i, s:{s:i, s:i}}}]}",
				     "uptime_ns", 1, "listeners", "name", "a", "operations", "echo",
				     "count", 1000, "cost", "cpu_user_ns", 100, "cpu_system_ns",
				     900, "kernel_threads", "cpu_ns", 750, "count", 1);
	CLEANUP(measures_free) struct measures m = {};

	measures_delta(&m, NULL, document, NS_PER_S, "");
	assert_float_equal(figure_value(m.rows[0], FIGURE_KERNEL_SHARE), 0.75, 1e-6);
	m.rows[0]->kernel_cpu_ns = 0; /* there are none: the table has no such column */
	assert_true(isnan(figure_value(m.rows[0], FIGURE_KERNEL_SHARE)));
	json_decref(document);
}
