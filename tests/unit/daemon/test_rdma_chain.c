/* Engine `rdma`: the requests that are posted together, and room for their completions. */
#include "conn.h"
#include "queue.h"
#include "unit.h"

enum { OPERATIONS = RDMA_SENDS + 1, VIEWS = 3 };

/* A connection with remote operations that are not posted, each of a given number of views. */
struct operations {
	struct ibv_mr mr;
	struct rdma_device device;
	struct rdma_conn conn;
	struct rdma_send_chain chain;
	struct remote remotes[OPERATIONS];
	struct view views[OPERATIONS * VIEWS];
	uint8_t memory[OPERATIONS * VIEWS];
};

static struct operations o;

static void operations_make(enum remote_kind kind, unsigned views)
{
	memset(&o, 0, sizeof(o));
	o.device = (struct rdma_device){
		.mr = &o.mr,
		.read_sges = RDMA_SGES,
		.write_sges = RDMA_SGES,
	};
	o.conn.device = &o.device;
	rdma_remote_open(&o.conn);
	for (unsigned i = 0; i < OPERATIONS; i++) {
		struct view *first = &o.views[i * views];

		for (unsigned v = 0; v < views; v++)
			first[v] = (struct view){ .next = v + 1 < views ? &first[v + 1] : NULL,
						  .data = &o.memory[i * views + v],
						  .len = 1 };
		o.remotes[i] = (struct remote){ .kind = kind, .unposted = first };
		STAILQ_INSERT_TAIL(&o.conn.unposted, &o.remotes[i], link);
	}
	for (unsigned i = 0; i < RDMA_LANE_COUNT; i++)
		STAILQ_INIT(&o.conn.lanes[i].remotes);
	rdma_send_chain_init(&o.chain, &o.conn);
}

/* Each piece taken is in the chain once and in order, and no request is without a piece. */
static void assert_chain(unsigned requests, unsigned pieces)
{
	unsigned at = 0;

	assert_int_equal(o.chain.count, requests);
	for (unsigned i = 0; i < requests; i++) {
		const struct ibv_send_wr *wr = &o.chain.requests[i];

		assert_true(wr->num_sge > 0);
		for (int k = 0; k < wr->num_sge; k++)
			assert_int_equal(wr->sg_list[k].addr, (uintptr_t)&o.memory[at++]);
	}
	assert_int_equal(at, pieces);
}

TEST(the_last_place_has_its_piece)
{
	for (enum remote_kind kind = 0; kind < REMOTE_KIND_COUNT; kind++) {
		operations_make(kind, 1);
		assert_false(rdma_remote_add(&o.conn, &o.chain));
		assert_chain(RDMA_SENDS, RDMA_SENDS);
		assert_ptr_equal(STAILQ_FIRST(&o.conn.unposted), &o.remotes[RDMA_SENDS]);
	}
}

/* One that runs out of entries has the rest in the next chain. */
TEST(the_last_entry_is_taken)
{
	const struct remote *cut = &o.remotes[RDMA_SGES_MAX / VIEWS];

	operations_make(REMOTE_WRITE, VIEWS);
	assert_false(rdma_remote_add(&o.conn, &o.chain));
	assert_chain(RDMA_SGES_MAX / VIEWS + 1, RDMA_SGES_MAX);
	assert_ptr_equal(STAILQ_FIRST(&o.conn.unposted), cut);
	assert_ptr_equal(cut->unposted, &o.views[RDMA_SGES_MAX]);
	assert_int_equal(cut->progress, RDMA_SGES_MAX % VIEWS);
}

/* It ends when that is sent, which the disconnection must not overtake. */
TEST(the_last_message_of_a_connection_waits_for_its_completion)
{
	static const uint32_t flags[] = { 0, CONN_LAST };
	struct conn c = { .tx.head = o.views };

	for (unsigned i = 0; i < ARRAY_SIZE(flags); i++) {
		operations_make(REMOTE_WRITE, 1);
		o.conn.conn = &c;
		o.conn.inline_max = o.views[0].len;
		c.flags = flags[i];
		assert_true(rdma_send_chain_messages(&o.chain, &o.conn));
		assert_int_equal(o.chain.requests[0].send_flags, flags[i] ? 0 : IBV_SEND_INLINE);
		assert_int_equal(o.conn.lanes[RDMA_LANE_OUT].since.bytes, flags[i] ? 1 : 0);
	}
}

TEST(a_completion_queue_has_room_for_the_clients_of_the_pool)
{
	static const int limits[] = { 1, 100, RDMA_CQ_ENTRIES, 1 << 20, (1 << 22) - 1 };

	for (unsigned i = 0; i < ARRAY_SIZE(limits); i++)
		for (uint32_t chunks = 1; chunks <= 1 << 20; chunks *= 2) {
			unsigned entries = rdma_cq_entries(limits[i], chunks);
			unsigned clients = chunks / RDMA_RECVS_MIN;

			assert_true(entries == (unsigned)limits[i] ||
				    entries / (RDMA_SENDS + RDMA_RECVS) >= clients);
			assert_true(entries <= (unsigned)limits[i]);
			assert_true(entries <= MAX((unsigned)RDMA_CQ_ENTRIES,
						   clients * (RDMA_SENDS + RDMA_RECVS)));
		}
}
