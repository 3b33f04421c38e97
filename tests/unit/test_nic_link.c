/* ctl/measure/nic_link.c: how near to its speed an interface came, and what is said of it. */
#include "measure_case.h"

#include <stdio.h>

#include "compare_group.h"
#include "figure.h"
#include "nic_link.h"
#include "util.h"

enum { MTU = 1500, MBIT = 1000 * 1000 };

/* The document of `a` at that time, which has sent so many frames of 1514 bytes through eth1. */
static json_t *at_ms(int ms, int sent, int segments)
{
	json_t *made = document("a", "echo", 1000 + ms, 0, 1000, "[]");

	json_object_set_new(made, "uptime_ns", json_integer((json_int_t)ms * NS_PER_MS));
	json_object_set_new(made, "interfaces",
			    json_pack("[{s:s, s:i, s:i, s:I, s:i}, {s:s, s:i, s:i, s:i, s:i}]",
				      "name", "eth1", "received_bytes", sent / 10 * 100,
				      "received_packets", sent / 10, "sent_bytes",
				      (json_int_t)sent * 1514, "sent_packets", sent, "name", "eth2",
				      "received_bytes", ms, "received_packets", 0, "sent_bytes", 0,
				      "sent_packets", 0));
	json_object_set_new(made, "host_tcp",
			    json_pack("{s:i, s:i}", "segments_sent", segments,
				      "segments_retransmitted", segments / 500));
	return made;
}

/* What a daemon says of its interfaces: eth1 of so many Mbit/s, 0: unknown; eth2; eth3 of others.
 */
static json_t *interfaces(int speed_mbit)
{
	return json_pack("[{s:s, s:[s], s:{s:i, s:i}}, {s:s, s:[s], s:{}}, {s:s, s:[s], s:{}}]",
			 "name", "eth1", "listeners", "a", "nic", "mtu", MTU, "speed_mbit",
			 speed_mbit, "name", "eth2", "listeners", "a", "nic", "name", "eth3",
			 "listeners", "b", "nic");
}

/* A row over half a second, in which 813 frames of 1538 bytes, 100 Mbit/s, were sent in 100 ms, but
 * for the first and the last 100 ms. */
static void add_row(struct measures *m, int speed_mbit, uint64_t link_bps)
{
	static const int sent[] = { 0, 100, 913, 1726, 2539, 2600 };
	json_t *documents = json_array(), *nics = interfaces(speed_mbit);
	uint64_t ns;

	for (unsigned i = 0; i < ARRAY_SIZE(sent); i++)
		json_array_append_new(documents, at_ms(100 * (int)i, sent[i], 1000 * (int)i));
	assert_int_equal(
		measures_interval(json_array_get(documents, 0), json_array_get(documents, 5), &ns),
		0);
	measures_delta(m, json_array_get(documents, 0), json_array_get(documents, 5), ns, "");
	link_set(m, m->count - 1, documents, nics, link_bps);
	json_decref(documents);
	json_decref(nics);
}

static void frames_are_longer_than_what_is_counted(void **state)
{
	(void)state;
	assert_int_equal(link_bits(1514, 1, MTU), 1538 * 8);
	/* One packet of software, which is 43 frames. */
	assert_int_equal(link_bits(65102, 1, MTU), (65102 + 43 * 24) * 8);
	assert_int_equal(link_bits(65102, 1, 0), (65102 + 24) * 8);
	assert_int_equal(link_bits(0, 0, MTU), 0);
}

static void the_rate_is_the_median_of_the_samples(void **state)
{
	struct measures m = {};
	const struct measure_link *link;

	(void)state;
	add_row(&m, 100, 0);
	link = &m.rows[0]->link;
	assert_string_equal(link->interface, "eth1");
	assert_int_equal(link->speed_bps, 100 * MBIT);
	assert_int_equal(link->sent_bps, 813 * 1538 * 8 * 10);
	assert_int_equal(link->segments, 5000);
	assert_int_equal(link->retransmitted, 10);
	assert_true(figure_value(m.rows[0], FIGURE_LINK_SENT) > 0.99);
	assert_true(figure_value(m.rows[0], FIGURE_LINK_RECEIVED) < 0.1);
	measures_free(&m);
}

static void names_are_those_of_a_listener_or_all(void **state)
{
	json_t *all = interfaces(0), *names = link_names(all, "a");

	(void)state;
	assert_int_equal(json_array_size(names), 2);
	json_decref(names);
	names = link_names(all, NULL);
	assert_int_equal(json_array_size(names), 3);
	json_decref(names);
	names = link_names(NULL, "a");
	assert_int_equal(json_array_size(names), 0);
	json_decref(names);
	assert_int_equal(json_integer_value(json_object_get(link_nic(all, "eth1"), "mtu")), MTU);
	assert_null(link_nic(all, "eth9"));
	json_decref(all);
}

/* Of the row alone, after it was saved and loaded. */
static char *said(int speed_mbit, uint64_t link_bps)
{
	struct measures m = {}, loaded = {};
	struct groups groups;
	json_t *saved;
	char *text;

	add_row(&m, speed_mbit, link_bps);
	saved = measure_to_json(m.rows[0]);
	assert_int_equal(measures_add_json(&loaded, saved), 0);
	json_decref(saved);
	measures_merge(&loaded);
	groups_init(&groups, &loaded);
	text = groups_link_limit(&groups);
	groups_fini(&groups);
	measures_free(&m);
	measures_free(&loaded);
	return text;
}

static void a_full_link_was_the_limit(void **state)
{
	char *text = said(100, 0);

	(void)state;
	assert_string_equal(text, "The link was the limit in 1 of 1 rows (a: eth1 sent 0.1 of 0.1 "
				  "Gbit/s, 100 %): rates there are the link's.");
	free(text);
	assert_null(said(200, 0));
	assert_null(said(0, 0)); /* a speed that nobody tells is no limit */
	text = said(0, 100 * MBIT);
	assert_non_null(text);
	free(text);
	assert_null(said(100, (uint64_t)1000 * MBIT));
}

static void the_link_comes_before_the_generator(void **state)
{
	struct measures m = {};
	struct groups groups;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		char *link, *generator;

		add_row(&m, i ? 1000 : 100, 0);
		m.rows[0]->workers = 1;
		m.rows[0]->generator =
			(struct measure_generator){ .name = "g", .wall_ns = 100, .busiest_ns = 99 };
		measures_merge(&m);
		groups_init(&groups, &m);
		link = groups_link_limit(&groups);
		generator = groups_generator_limit(&groups);
		assert_true(i ? !link && generator : link && !generator);
		free(link);
		free(generator);
		groups_fini(&groups);
		measures_free(&m);
		m = (struct measures){};
	}
}

static void retransmits_are_told(void **state)
{
	struct measures m = {};
	struct groups groups;
	char *text;

	(void)state;
	add_row(&m, 0, 0);
	measures_merge(&m);
	groups_init(&groups, &m);
	text = groups_conditions(&groups);
	assert_non_null(strstr(text, "sent up to 0.2 % of its TCP segments again"));
	free(text);
	groups_fini(&groups);
	measures_free(&m);
}

static void more_workers_than_queues_are_told(void **state)
{
	static const struct {
		const char *nic;
		bool told;
	} cases[] = {
		{ "{\"name\": \"eth1\", \"card\": true, \"rx_queues\": 2}", true },
		{ "{\"name\": \"eth1\", \"card\": true, \"rx_queues\": 4}", false },
		{ "{\"name\": \"eth1\", \"card\": false, \"rx_queues\": 1}", false },
		{ "{\"name\": \"eth1\", \"card\": true, \"rx_queues\": 1, \"rps_cpus\": \"0-3\"}",
		  false },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		struct measures m = {};
		struct groups groups;
		char *text;

		add_delta(&m, NULL, document("a", "echo", 1000, 1000, 1, "[]"), "");
		m.rows[0]->workers = 4;
		measures_set_conditions(
			&m, m.rows[0], json_pack("{s:o}", "nic", json_loads(cases[i].nic, 0, NULL)),
			json_pack("{s:s}", "run", "r"));
		measures_merge(&m);
		groups_init(&groups, &m);
		text = groups_conditions(&groups);
		assert_int_equal(text && strstr(text, "a has 4 workers, and eth1 2 receive queues"),
				 cases[i].told);
		free(text);
		groups_fini(&groups);
		measures_free(&m);
	}
}

/* The clients were on the same host, and came over loopback. */
static void what_others_sent_is_not_the_listeners(void **state)
{
	struct measures m = {};
	json_t *documents = json_array(), *nics = interfaces(100);

	(void)state;
	json_array_append_new(documents, at_ms(0, 0, 0));
	json_array_append_new(documents, at_ms(100, 10, 0));
	add_delta(&m, NULL, document("a", "echo", 1000, 1000 * 1000, 1, "[]"), "");
	link_set(&m, 0, documents, nics, 0);
	assert_string_equal(m.rows[0]->link.interface, "");
	measures_free(&m);
	json_decref(documents);
	json_decref(nics);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(frames_are_longer_than_what_is_counted),
		cmocka_unit_test(the_rate_is_the_median_of_the_samples),
		cmocka_unit_test(names_are_those_of_a_listener_or_all),
		cmocka_unit_test(a_full_link_was_the_limit),
		cmocka_unit_test(the_link_comes_before_the_generator),
		cmocka_unit_test(retransmits_are_told),
		cmocka_unit_test(more_workers_than_queues_are_told),
		cmocka_unit_test(what_others_sent_is_not_the_listeners),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
