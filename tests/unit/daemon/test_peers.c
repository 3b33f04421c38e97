/* core/peers.c, and of engine/udp*.c what needs no socket. */
#include "peers.h"
#include "udp/udp.h"
#include "unit.h"

enum { MANY = 400 };

static struct peers table;
static struct peer all[MANY];
static unsigned evicted;

static void evict(struct peer *peer)
{
	assert_int_not_equal(peer->list, PEER_UNKNOWN);
	assert_int_not_equal(peer->list, PEER_PINNED);
	evicted++;
	peers_forget(&table, peer);
}

static int begin(void **state)
{
	(void)state;
	assert_int_equal(peers_init(&table), 0);
	table.evict = evict;
	table.max = 128; /* half of it probation */
	memset(all, 0, sizeof(all));
	for (unsigned i = 0; i < MANY; i++)
		all[i].key.words[1] = i;
	evicted = 0;
	return 0;
}

static int end(void **state)
{
	(void)state;
	peers_fini(&table);
	return 0;
}

TEST_WITH(the_oldest_peer_on_probation_is_evicted_first, begin, end, NULL)
{
	for (unsigned i = 0; i < MANY; i++) {
		peers_add(&table, &all[i], 1);
		peers_active(&table, &all[0], 1); /* so soon that counts for nothing */
	}
	assert_int_equal(evicted, MANY - table.max);
	for (unsigned i = 0; i < MANY; i++)
		assert_ptr_equal(peers_find(&table, &all[i].key),
				 i < MANY - table.max ? NULL : &all[i]);
}

TEST_WITH(a_peer_that_sends_again_is_established, begin, end, NULL)
{
	peers_add(&table, &all[0], 1);
	peers_active(&table, &all[0], 1 + PEERS_PROBATION_NS);
	assert_int_equal(all[0].list, PEER_ESTABLISHED);
	for (unsigned i = 1; i < MANY; i++)
		peers_add(&table, &all[i], 2 * PEERS_PROBATION_NS);
	assert_ptr_equal(peers_find(&table, &all[0].key), &all[0]);
	assert_int_equal(peers_count(&table), table.max);
}

/* A forger that sends twice from each address displaces silent peers and no others. */
TEST_WITH(active_peers_are_not_evicted, begin, end, NULL)
{
	uint64_t now = NS_PER_S;

	for (unsigned i = 0; i < 64; i++) {
		peers_add(&table, &all[i], now);
		peers_active(&table, &all[i], now + PEERS_PROBATION_NS);
	}
	now += PEERS_PROBATION_NS;
	for (unsigned i = 64; i < 128; i++) {
		peers_add(&table, &all[i], now);
		peers_active(&table, &all[i], now + PEERS_PROBATION_NS);
		assert_int_equal(all[i].list, PEER_PROBATION);
	}
	assert_int_equal(evicted, 0);
	now += PEERS_ACTIVE_NS;
	for (unsigned i = 0; i < 32; i++)
		peers_active(&table, &all[i], now); /* half of them are still active */
	for (unsigned i = 128; i < 256; i++) {
		peers_add(&table, &all[i], now);
		peers_active(&table, &all[i], now + PEERS_PROBATION_NS);
	}
	for (unsigned i = 0; i < 64; i++)
		assert_int_equal(all[i].list, i < 32 ? PEER_ESTABLISHED : PEER_UNKNOWN);
}

TEST_WITH(a_table_that_got_smaller_keeps_its_bound, begin, end, NULL)
{
	for (unsigned i = 0; i < 64; i++) {
		peers_add(&table, &all[i], NS_PER_S);
		peers_active(&table, &all[i], NS_PER_S + PEERS_PROBATION_NS);
	}
	for (table.max = 4; table.max > 0; table.max--) {
		peers_add(&table, &all[64 + table.max], 2 * (uint64_t)NS_PER_S);
		assert_int_equal(peers_count(&table), table.max);
	}
}

TEST_WITH(pinned_peers_are_not_evicted, begin, end, NULL)
{
	peers_add(&table, &all[0], 1);
	peers_pin(&table, &all[0]);
	for (unsigned i = 1; i < MANY; i++)
		peers_add(&table, &all[i], 10 * (uint64_t)NS_PER_S);
	assert_int_equal(all[0].list, PEER_PINNED);
	peers_active(&table, &all[0], 20 * (uint64_t)NS_PER_S);
	assert_int_equal(all[0].list, PEER_PINNED);
	peers_forget(&table, &all[0]);
	peers_forget(&table, &all[0]);
	assert_null(peers_find(&table, &all[0].key));
}

TEST_WITH(pinned_peers_are_bounded, begin, end, NULL)
{
	for (unsigned i = 0; i < MANY; i++) {
		peers_add(&table, &all[i], 1);
		peers_pin(&table, &all[i]);
		assert_true(peers_count(&table) <= table.max);
	}
	assert_int_equal(table.lists[PEER_PINNED].count, table.max / 2);
	assert_int_equal(all[MANY - 1].list, PEER_PROBATION);
	peers_active(&table, &all[MANY - 1], NS_PER_S); /* there is no place for it */
	assert_int_equal(all[MANY - 1].list, PEER_PROBATION);
	table.max = 1; /* then no peer is left that could be evicted */
	peers_add(&table, &all[64], NS_PER_S);
	assert_int_equal(peers_count(&table), 64 + 1);
}

/* As many on probation as there are places for it remain, so no stranger pushes out an active one.
 */
TEST_WITH(pinned_peers_take_places_of_established_ones, begin, end, NULL)
{
	for (unsigned i = 0; i < 64; i++) {
		peers_add(&table, &all[i], 1);
		peers_active(&table, &all[i], 1 + PEERS_PROBATION_NS);
	}
	for (unsigned i = 64; i < 96; i++) {
		peers_add(&table, &all[i], 1);
		peers_pin(&table, &all[i]);
		assert_int_equal(table.lists[PEER_ESTABLISHED].count, 127 - i);
	}
	for (unsigned i = 96; i < MANY; i++)
		peers_add(&table, &all[i], 1 + PEERS_PROBATION_NS);
	for (unsigned i = 0; i < 96; i++)
		assert_int_equal(all[i].list, i < 32   ? PEER_UNKNOWN
					      : i < 64 ? PEER_ESTABLISHED
						       : PEER_PINNED);
}

TEST_WITH(a_table_grows, begin, end, NULL)
{
	enum { PEERS = 5000 };
	CLEANUP(free_p) struct peer *list = calloc(PEERS, sizeof(*list));

	assert_non_null(list);
	table.max = 8 * PEERS;
	for (uint64_t i = 0; i < PEERS; i++) {
		list[i].key.words[4] = i << 32;
		peers_add(&table, &list[i], i);
	}
	assert_true(table.mask >= PEERS / 2);
	for (unsigned i = 0; i < PEERS; i++)
		assert_ptr_equal(peers_find(&table, &list[i].key), &list[i]);
	assert_int_equal(evicted, 0);
}

/* ---- Runs ---- */

static unsigned run_of(const uint32_t *lengths, unsigned count, size_t *ret_bytes)
{
	struct view views[80] = { 0 };

	for (unsigned i = 0; i < count; i++)
		views[i] = (struct view){ .len = lengths[i],
					  .next = i + 1 < count ? &views[i + 1] : NULL };
	return udp_run(views, UDP_VIEWS, ret_bytes);
}

TEST(runs_are_of_one_length_but_for_the_last)
{
	static const struct {
		uint32_t lengths[4];
		unsigned count, run;
		size_t bytes;
	} cases[] = {
		{ { 100 }, 1, 1, 100 },
		{ { 0 }, 1, 1, 0 },
		{ { 0, 0 }, 2, 1, 0 },
		{ { 100, 100, 100 }, 3, 3, 300 },
		{ { 100, 100, 40, 40 }, 4, 3, 240 },
		{ { 100, 101 }, 2, 1, 100 },
		{ { 100, 0, 100 }, 3, 1, 100 },
		{ { 65507, 1 }, 2, 1, 65507 },
		{ { 32000, 32000, 1487, 1 }, 4, 3, 65487 },
		{ { 32000, 32000, 1488 }, 3, 2, 64000 },
	};
	uint32_t same[80];
	size_t bytes;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(run_of(cases[i].lengths, cases[i].count, &bytes), cases[i].run);
		assert_int_equal(bytes, cases[i].bytes);
	}
	for (unsigned i = 0; i < 80; i++)
		same[i] = 64;
	assert_int_equal(run_of(same, 80, &bytes), UDP_SEGMENTS);
}

/* ---- Whom not to answer ---- */

static bool may_answer(const char *host, uint16_t port)
{

	struct address a;
	char text[64];

	snprintf(text, sizeof(text), strchr(host, ':') ? "[%s]:1" : "%s:1", host);
	assert_int_equal(parse_address(text, &a), 0);
	if (a.sa.ss_family == AF_INET6)
		((struct sockaddr_in6 *)&a.sa)->sin6_port = htons(port);
	else
		((struct sockaddr_in *)&a.sa)->sin_port = htons(port);
	return udp_may_answer((struct sockaddr *)&a.sa);
}

TEST(reflectors_and_own_ports_are_not_answered)
{
	assert_true(may_answer("192.0.2.1", 40000));
	assert_true(may_answer("2001:db8::1", 40000));
	assert_false(may_answer("192.0.2.1", 0));
	assert_false(may_answer("127.0.0.1", 0));
	assert_false(may_answer("192.0.2.1", 7));
	assert_false(may_answer("2001:db8::1", 11211));
	assert_true(may_answer("127.0.0.1", 7));
	assert_true(may_answer("::1", 53));
	assert_false(may_answer("224.0.0.1", 40000));
	assert_false(may_answer("255.255.255.255", 40000));
	assert_false(may_answer("0.0.0.0", 40000));
	assert_false(may_answer("ff02::1", 40000));
	udp_port_taken(40000, true);
	udp_port_taken(40000, true);
	udp_port_taken(40000, false);
	assert_false(may_answer("127.0.0.1", 40000));
	assert_false(may_answer("192.0.2.1", 40000));
	udp_port_taken(40000, false);
	assert_true(may_answer("192.0.2.1", 40000));
}
