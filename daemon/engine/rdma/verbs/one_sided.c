/* Engine `rdma`: one-sided operations, and memory that clients read and write by themselves.
 *
 * Operations are posted in order of submission, before messages that were queued after them.  Each
 * lane of the send queue completes in order as well: a signalled request tells how many operations
 * have ended with it. */
#include "queue.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>

#include "conn.h"
#include "remote.h"

/* ---- Operations ---- */

static const struct {
	enum ibv_wr_opcode opcode;
	uint8_t kind; /* enum rdma_request_kind */
} rdma_remote_kinds[REMOTE_KIND_COUNT] = {
	[REMOTE_READ] = { IBV_WR_RDMA_READ, RDMA_REQUEST_READ },
	[REMOTE_WRITE] = { IBV_WR_RDMA_WRITE, RDMA_REQUEST_WRITE },
	[REMOTE_WRITE_IMMEDIATE] = { IBV_WR_RDMA_WRITE_WITH_IMM, RDMA_REQUEST_WRITE },
};

void rdma_remote_submit(struct remote *remote)
{
	struct conn *c = remote->conn;
	struct rdma_conn *r = c->engine_state;

	if (!rdma_conn_is_open(r)) {
		remote_finish(remote, -ECANCELED);
		return;
	}
	STAILQ_INSERT_TAIL(&r->unposted, remote, link);
	if (remote->kind == REMOTE_READ && !r->reads) /* such a read would never complete */
		conn_close(c, CONN_END_PROTOCOL);
	rdma_queue_want_receives(r);
}

/* Adds one request, with as many views as fit. */
static void rdma_remote_add_one(struct rdma_conn *r, struct remote *remote,
				struct rdma_send_chain *chain)
{
	const struct rdma_device *d = r->device;
	unsigned max = remote->kind == REMOTE_READ ? d->read_sges : d->write_sges;
	struct ibv_send_wr *wr =
		rdma_send_chain_add(chain, r, rdma_remote_kinds[remote->kind].kind);

	wr->opcode = rdma_remote_kinds[remote->kind].opcode;
	wr->imm_data = htobe32(remote->immediate);
	wr->wr.rdma.rkey = remote->key;
	wr->wr.rdma.remote_addr = remote->address + remote->progress;
	/* Room for the request was reserved; the entries of the chain's scatter/gather list
	 * may run out.  A request without an entry must not be posted: siw would read into an
	 * entry of an earlier request. */
	while (remote->unposted && (unsigned)wr->num_sge < max &&
	       chain->sge_count < ARRAY_SIZE(chain->sges)) {
		rdma_send_chain_view(chain, wr, d, remote->unposted);
		remote->progress += remote->unposted->len;
		remote->unposted = remote->unposted->next;
	}
	assert(wr->num_sge > 0);
	if (remote->unposted && remote->kind == REMOTE_WRITE_IMMEDIATE)
		wr->opcode = IBV_WR_RDMA_WRITE; /* only the last request notifies the client */
}

bool rdma_remote_add(struct rdma_conn *r, struct rdma_send_chain *chain)
{
	struct remote *remote;

	while ((remote = STAILQ_FIRST(&r->unposted))) {
		struct rdma_lane *lane =
			&r->lanes[rdma_lane_of(rdma_remote_kinds[remote->kind].kind)];

		while (remote->unposted) {
			if (!rdma_send_chain_has_room(chain))
				return false;
			rdma_remote_add_one(r, remote, chain);
		}
		STAILQ_REMOVE_HEAD(&r->unposted, link);
		STAILQ_INSERT_TAIL(&lane->remotes, remote, link);
		lane->since.remotes++;
	}
	return true;
}

void rdma_remote_completed(struct rdma_lane *lane, unsigned count)
{
	while (count-- > 0) {
		struct remote *remote = STAILQ_FIRST(&lane->remotes);

		assert(remote);
		STAILQ_REMOVE_HEAD(&lane->remotes, link);
		remote_finish(remote, 0);
	}
}

/* ---- Regions ---- */

int rdma_region(struct conn *c, size_t bytes, struct region *ret_region)
{
	struct rdma_conn *r = c->engine_state;
	struct rdma_region *region;
	int rc;

	if (!rdma_conn_is_open(r))
		return -ECANCELED;
	rc = rdma_region_new(r->device, bytes, &region);
	if (rc < 0)
		return rc;
	region->next = r->regions;
	r->regions = region;
	*ret_region = (struct region){ region->base, bytes, region->mr->rkey };
	return 0;
}

/* ---- The scratch region ---- */

void rdma_scratch_region(const struct conn *c, struct region *ret_region)
{
	const struct rdma_conn *r = c->engine_state;
	const struct rdma_region *s = r->device->scratch;

	*ret_region = (struct region){ s->base, s->bytes, s->mr->rkey };
}

unsigned rdma_send_scratch(struct conn *c, uint32_t bytes)
{
	struct rdma_conn *r = c->engine_state;

	if (!rdma_conn_is_open(r) || bytes > r->device->scratch->bytes ||
	    (r->scratch_sends.count > 0 && r->scratch_sends.bytes != bytes))
		return 0;
	r->scratch_sends.bytes = bytes;
	rdma_queue_want_receives(r);
	return ++r->scratch_sends.count;
}

void rdma_remote_open(struct rdma_conn *r)
{
	STAILQ_INIT(&r->unposted);
	for (unsigned i = 0; i < RDMA_LANE_COUNT; i++)
		STAILQ_INIT(&r->lanes[i].remotes);
}

static void rdma_remotes_cancel(struct rdma_remotes *list)
{
	for (struct remote *remote; (remote = STAILQ_FIRST(list));) {
		STAILQ_REMOVE_HEAD(list, link);
		remote_finish(remote, -ECANCELED);
	}
}

void rdma_remote_close(struct rdma_conn *r)
{
	for (unsigned i = 0; i < RDMA_LANE_COUNT; i++)
		rdma_remotes_cancel(&r->lanes[i].remotes);
	rdma_remotes_cancel(&r->unposted);
	while (r->regions) {
		struct rdma_region *region = r->regions;

		r->regions = region->next;
		rdma_region_free(r->device, region);
	}
}
