/* Engine `rdma`: the states of a connection.  See queue.h. */
#include <assert.h>

#include "conn.h"
#include "queue.h"

#define TO(state) (1U << (state))

/* For each state, the bit mask of states that may follow. */
static const unsigned rdma_states[RDMA_STATE_COUNT] = {
	[RDMA_NEW] = TO(RDMA_OPENING),    [RDMA_OPENING] = TO(RDMA_ACCEPTED) | TO(RDMA_REFUSED),
	[RDMA_ACCEPTED] = TO(RDMA_ENDED), [RDMA_REFUSED] = TO(RDMA_GONE),
	[RDMA_ENDED] = TO(RDMA_GONE),
};

static void rdma_conn_link_ending(struct rdma_conn *r)
{
	struct rdma *e = r->conn->worker->engine_state;

	r->ending_next = e->ending;
	e->ending = r;
}

void rdma_conn_become(struct rdma_conn *r, enum rdma_state state)
{
	assert(rdma_states[r->state] & TO(state));
	r->state = state;
	switch (state) {
	case RDMA_OPENING:
		r->conn->pending++;
		break;
	case RDMA_REFUSED:
	case RDMA_ENDED:
		rdma_conn_link_ending(r);
		break;
	case RDMA_GONE:
		r->conn->pending--;
		conn_ready(r->conn);
		break;
	default:
		break;
	}
}
