/* bench/generator/nic_link.c: how near to its speed an interface came, and what is said of it;
 * bench/host/interface.c: what this host tells. */
#include "field.h"
#include "interface.h"
#include "measure_case.h"
#include "nic_link.h"
#include "util.h"

enum { MTU = 1500, MBIT = 1000 * 1000 };

/* A reading at that time, when so many frames of 1514 bytes have been sent through eth1. */
static json_t *at_ms(int ms, int sent, int segments)
{
	return json_pack("{s:I, s:{s:{s:i, s:i, s:I, s:i}, s:{s:i, s:i, s:i, s:i}}, s:i, s:i}",
			 "time_ns", (json_int_t)ms * NS_PER_MS, "interfaces", "eth1",
			 "received_bytes", sent / 10 * 100, "received_packets", sent / 10,
			 "sent_bytes", (json_int_t)sent * 1514, "sent_packets", sent, "eth2",
			 "received_bytes", ms, "received_packets", 0, "sent_bytes", 0,
			 "sent_packets", 0, "segments_sent", segments, "segments_retransmitted",
			 segments / 500);
}

/* What is known of the interfaces: eth1 of so many Mbit/s, 0: unknown. */
static json_t *interfaces(int speed_mbit)
{
	return json_pack("{s:{s:i, s:i}, s:{}}", "eth1", "mtu", MTU, "speed_mbit", speed_mbit,
			 "eth2");
}

/* A row over half a second, in which 813 frames of 1538 bytes, 100 Mbit/s, were sent in 100 ms, but
 * for the first and the last 100 ms. */
static void add_row(struct measures *m, int speed_mbit)
{
	static const int sent[] = { 0, 100, 913, 1726, 2539, 2600 };
	CLEANUP(json_decref_p) json_t *readings = json_array(), *nics = interfaces(speed_mbit);

	for (unsigned i = 0; i < ARRAY_SIZE(sent); i++)
		json_array_append_new(readings, at_ms(100 * (int)i, sent[i], 1000 * (int)i));
	add_delta(m, NULL, document("a", "echo", 1000, 1000, 1000, "[]"), "");
	nic_link_set(m, m->count - 1, readings, nics);
}

TEST(frames_are_longer_than_what_is_counted)
{
	assert_int_equal(nic_link_bits(1514, 1, MTU), 1538 * 8);
	/* One packet of software, which is 43 frames. */
	assert_int_equal(nic_link_bits(65102, 1, MTU), (65102 + 43 * 24) * 8);
	assert_int_equal(nic_link_bits(65102, 1, 0), (65102 + 24) * 8);
	assert_int_equal(nic_link_bits(0, 0, MTU), 0);
}

TEST(the_rate_is_the_median_of_the_samples)
{
	CLEANUP(measures_free) struct measures m = {};
	const struct measure_link *link;

	add_row(&m, 100);
	link = &m.rows[0]->link;
	assert_string_equal(link->interface, "eth1");
	assert_int_equal(link->speed_bps, 100 * MBIT);
	assert_int_equal(link->sent_bps, 813 * 1538 * 8 * 10);
	assert_int_equal(link->segments, 5000);
	assert_int_equal(link->retransmitted, 10);
	assert_true(figure_value(m.rows[0], FIGURE_LINK_SENT) > 0.99);
	assert_true(figure_value(m.rows[0], FIGURE_LINK_RECEIVED) < 0.1);
}

/* Of the row alone, after it was saved and loaded. */
static char *said(int speed_mbit)
{
	CLEANUP(measures_free) struct measures m = {}, loaded = {};
	CLEANUP(result_free_p) struct result *r;
	CLEANUP(json_decref_p) json_t *saved;

	add_row(&m, speed_mbit);
	saved = measure_to_json(m.rows[0]);
	assert_int_equal(measures_add_json(&loaded, saved), 0);
	measures_merge(&loaded);
	r = judged(&loaded);
	return warned(r, "link_limit") ? kept(strdup(warned(r, "link_limit"))) : NULL;
}

TEST(a_full_link_was_the_limit)
{
	assert_string_equal(said(100), "The link was the limit of a: rates there are the link's.");
	assert_null(said(200));
	assert_null(said(0)); /* a speed that nobody tells is no limit */
}

TEST(the_link_comes_before_the_generator)
{
	for (unsigned i = 0; i < 2; i++) {
		CLEANUP(measures_free) struct measures m = {};
		CLEANUP(result_free_p) struct result *r;
		bool link, generator;

		add_row(&m, i ? 1000 : 100);
		m.rows[0]->workers = 1;
		m.rows[0]->generator =
			(struct measure_generator){ .name = "g", .wall_ns = 100, .busiest_ns = 99 };
		measures_merge(&m);
		r = judged(&m);
		link = warned(r, "link_limit");
		generator = warned(r, "generator_limit");
		assert_true(i ? !link && generator : link && !generator);
	}
}

TEST(retransmits_are_told)
{
	CLEANUP(measures_free) struct measures m = {};
	CLEANUP(result_free_p) struct result *r;

	add_row(&m, 0);
	measures_merge(&m);
	r = judged(&m);
	assert_has(warned(r, "retransmits"), "sent up to 0.2 % of its TCP segments again");
}

/* The clients were on the same host, and came over loopback. */
TEST(what_others_sent_is_not_the_listeners)
{
	CLEANUP(measures_free) struct measures m = {};
	CLEANUP(json_decref_p) json_t *readings = json_array(), *nics = interfaces(100);

	json_array_append_new(readings, at_ms(0, 0, 0));
	json_array_append_new(readings, at_ms(100, 10, 0));
	add_delta(&m, NULL, document("a", "echo", 1000, 1000 * 1000, 1, "[]"), "");
	nic_link_set(&m, 0, readings, nics);
	assert_string_equal(m.rows[0]->link.interface, "");
}

/* A card's speed is unknown here, but the counters of an interface with an address never fall. */
TEST(this_host_is_read)
{
	json_t *all = interface_describe(), *first = interface_read(all),
	       *second = interface_read(all), *facts;
	const char *name;

	json_object_foreach(all, name, facts) {
		const json_t *then = json_object_get(json_object_get(first, "interfaces"), name);
		const json_t *now = json_object_get(json_object_get(second, "interfaces"), name);

		assert_string_equal(field_text(facts, "name"), name);
		assert_true(field_uint(facts, "mtu") >= 68);
		assert_true(json_is_integer(field_get(then, "received_bytes")));
		assert_true(field_uint(now, "sent_packets") >= field_uint(then, "sent_packets"));
	}
	assert_null(json_object_get(all, "lo"));
	assert_true(field_uint(second, "segments_sent") >= field_uint(first, "segments_sent"));
	assert_true(json_is_integer(field_get(first, "segments_retransmitted")));
	json_decref(all);
	json_decref(first);
	json_decref(second);
}
