/* Service `nvme`: commands of admin queues, and properties.  See nvme/queue.h. */
#include <string.h>

#include "bytes.h"
#include "queue.h"

static const struct nvme_target *target_of(const struct nvme_command *d)
{
	return d->queue->conn->worker->shared;
}

static struct nvme_controller *controller_of(const struct nvme_command *d)
{
	return d->queue->member->controller;
}

static bool is_rdma(const struct nvme_command *d)
{
	return d->queue->transport->rdma;
}

/* ---- Common checks ---- */

static uint16_t admin_check(struct nvme_command *d)
{
	if (nvme_state(controller_of(d)) != NVME_ENABLED)
		return NVME_SEQUENCE_ERROR | NVME_DNR;
	if ((d->sqe.flags & 0xc3) != 0x40) /* not fused, with an SGL */
		return NVME_INVALID_FIELD | NVME_DNR;
	return NVME_SUCCESS;
}

/* Check of commands that send data. */
static uint16_t data_check(struct nvme_command *d)
{
	uint16_t status = admin_check(d);

	if (status)
		return status;
	if (d->sqe.sgl.type != NVME_SGL_TRANSPORT)
		return NVME_SGL_TYPE_INVALID | NVME_DNR;
	d->length = d->sqe.sgl.length;
	return NVME_SUCCESS;
}

/* data_check(), and a zeroed page for the data. */
static uint16_t page_check(struct nvme_command *d)
{
	uint16_t status = data_check(d);

	if (status)
		return status;
	return nvme_page_new(d, NVME_PAGE) ? NVME_SUCCESS : NVME_INTERRUPTED;
}

static uint16_t page_send(struct nvme_command *d, uint32_t bytes)
{
	d->page_bytes = bytes;
	nvme_command_set(d, NVME_FILL);
	return NVME_STARTED;
}

/* ---- Identify ---- */

static uint16_t identify_check(struct nvme_command *d)
{
	if (d->sqe.sgl.length != NVME_PAGE)
		return NVME_SGL_LENGTH_INVALID | NVME_DNR;
	return page_check(d);
}

static void fill_controller(struct nvme_command *d)
{
	const struct worker *w = d->queue->conn->worker;
	const struct nvme_target *t = w->shared;
	bool discovery = controller_of(d)->discovery, rdma = is_rdma(d);
	struct nvme_controller_info info = {
		.discovery = discovery,
		.cntlid = controller_of(d)->cntlid,
		.serial = t->serial,
		.firmware = NB_VERSION,
		.subnqn = discovery ? NVME_DISCOVERY_NQN : t->nqn,
		.mdts = (uint8_t)(__builtin_ctz(t->transfer_max) - 12),
		.entries = (uint16_t)nvme_entries(w),
		.namespaces = w->mount_count,
		.in_capsule = d->queue->transport->in_capsule(w),
		.ports = nvme_ports_many(t->ports),
		.rdma = rdma,
	};

	nvme_identify_controller(d->page, &info);
}

/* The namespace that the command names; false: there is none. */
static bool find_namespace(const struct nvme_command *d, struct nvme_namespace_info *ret)
{
	const struct worker *w = d->queue->conn->worker;
	const struct nvme_target *t = w->shared;
	const struct export *e;

	if (d->sqe.nsid == 0 || d->sqe.nsid > w->mount_count)
		return false;
	e = w->mounts[d->sqe.nsid - 1].export;
	*ret = (struct nvme_namespace_info){
		.namespace = nvme_namespace_of(t, e),
		.reads_zeros = !e->block_device,
		.rotational = e->rotational,
	};
	nvme_id_uuid(t->nqn, strlen(t->nqn), e->name, ret->uuid);
	return true;
}

static uint16_t fill_namespace(struct nvme_command *d, enum nvme_cns cns)
{
	struct nvme_namespace_info n;

	if (!find_namespace(d, &n))
		return NVME_INVALID_NAMESPACE | NVME_DNR;
	if (cns == NVME_CNS_NAMESPACE)
		nvme_identify_namespace(d->page, &n);
	else if (cns == NVME_CNS_DESCRIPTORS)
		nvme_identify_descriptors(d->page, &n);
	else if (cns == NVME_CNS_INDEPENDENT)
		nvme_identify_independent(d->page, &n);
	return NVME_SUCCESS;
}

static uint16_t fill_active(struct nvme_command *d)
{
	if (d->sqe.nsid >= 0xfffffffe)
		return NVME_INVALID_NAMESPACE | NVME_DNR;
	nvme_identify_active(d->page, d->sqe.nsid, d->queue->conn->worker->mount_count);
	return NVME_SUCCESS;
}

/* Limits for the smallest block size, which are the smallest. */
static void fill_nvm(struct nvme_command *d)
{
	const struct worker *w = d->queue->conn->worker;
	uint8_t shift = UINT8_MAX;

	for (unsigned i = 0; i < w->mount_count; i++)
		shift = MIN(shift, nvme_namespace_of(w->shared, w->mounts[i].export).block_shift);
	nvme_identify_nvm(d->page, shift);
}

static uint16_t identify(struct nvme_command *d)
{
	enum nvme_cns cns = d->sqe.cdw10 & 0xff;
	uint8_t csi = (uint8_t)(d->sqe.cdw11 >> 24);

	if ((cns == NVME_CNS_CSI_CONTROLLER && csi != 0) ||
	    (controller_of(d)->discovery && cns != NVME_CNS_CONTROLLER))
		return NVME_INVALID_FIELD | NVME_DNR;
	switch (cns) {
	case NVME_CNS_CONTROLLER:
		fill_controller(d);
		return NVME_SUCCESS;
	case NVME_CNS_NAMESPACE:
	case NVME_CNS_DESCRIPTORS:
	case NVME_CNS_INDEPENDENT:
		return fill_namespace(d, cns);
	case NVME_CNS_ACTIVE:
		return fill_active(d);
	case NVME_CNS_CSI_CONTROLLER:
		fill_nvm(d);
		return NVME_SUCCESS;
	}
	return NVME_INVALID_FIELD | NVME_DNR;
}

static uint16_t identify_start(struct nvme_command *d)
{
	uint16_t status = identify(d);

	return status ? status : page_send(d, NVME_PAGE);
}

/* ---- Get Log Page ---- */

static uint64_t log_bytes(const struct nvme_command *d)
{
	return (((uint64_t)(d->sqe.cdw11 & 0xffff) << 16 | d->sqe.cdw10 >> 16) + 1) * 4;
}

static enum nvme_log log_asked(const struct nvme_command *d)
{
	return d->sqe.cdw10 & 0xff;
}

static bool log_is_discovery(const struct nvme_command *d)
{
	return controller_of(d)->discovery && log_asked(d) == NVME_LOG_DISCOVERY;
}

static uint16_t log_check(struct nvme_command *d)
{
	if (log_bytes(d) > target_of(d)->transfer_max)
		return NVME_INVALID_FIELD | NVME_DNR;
	if (log_bytes(d) != d->sqe.sgl.length)
		return NVME_SGL_LENGTH_INVALID | NVME_DNR;
	return log_is_discovery(d) ? data_check(d) : page_check(d);
}

/* Sums of all workers of the listener, which have the same mounts; their counters
 * exist as long as it does. */
static size_t log_smart(struct nvme_command *d)
{
	const struct worker *w = d->queue->conn->worker;
	struct nvme_smart smart = { 0 };

	for (unsigned i = 0; i < w->team.count * w->mount_count; i++) {
		const struct worker *of = &w->team.workers[i / w->mount_count];
		const struct mount *m = &of->mounts[i % w->mount_count];

		smart.bytes_read += stat_load(m->bytes_read);
		smart.bytes_written += stat_load(m->bytes_written);
		smart.reads += stat_load(m->operations[IO_read].count);
		smart.writes += stat_load(m->operations[IO_write].count);
	}
	return nvme_log_smart(d->page, &smart);
}

/* Fills d->page with a log page; returns its bytes; 0: unknown log page. */
static size_t log_fill(struct nvme_command *d)
{
	if (controller_of(d)->discovery)
		return 0;
	switch (log_asked(d)) {
	case NVME_LOG_ERROR:
		return 64; /* empty */
	case NVME_LOG_SMART:
		return log_smart(d);
	case NVME_LOG_FIRMWARE:
		return nvme_log_firmware(d->page, NB_VERSION);
	case NVME_LOG_EFFECTS:
		return nvme_log_effects(d->page);
	default:
		return 0;
	}
}

static uint16_t log_discovery(struct nvme_command *d, uint64_t offset)
{
	enum { RETAIN_EVENT = 1 << 15 };
	struct nvme_queue *q = d->queue;
	struct nvme_log_query query = { .local = conn_local_address(q->conn),
					.rdma = is_rdma(d),
					.tls = q->conn->worker->service->identity,
					.offset = offset,
					.bytes = d->length };
	struct nvme_discovery_log log = nvme_ports_log(target_of(d), &query);

	if (!nvme_page_take(d, log.piece))
		return NVME_INTERRUPTED;
	if (offset % 4 || offset > log.bytes)
		return NVME_INVALID_FIELD | NVME_DNR;
	if (!(d->sqe.cdw10 & RETAIN_EVENT)) { /* a later change is another event */
		q->log_reported = false;
		q->log_generation = log.generation;
	}
	return page_send(d, log.piece_bytes);
}

static uint16_t log_start(struct nvme_command *d)
{
	uint64_t offset = (uint64_t)d->sqe.cdw13 << 32 | d->sqe.cdw12;
	size_t bytes;

	if (log_is_discovery(d))
		return log_discovery(d, offset);
	bytes = log_fill(d);
	if (bytes == 0)
		return NVME_INVALID_LOG_PAGE | NVME_DNR;
	if (offset % 4 || offset > bytes)
		return NVME_INVALID_FIELD | NVME_DNR;
	memmove(d->page, d->page + offset, (size_t)(bytes - offset));
	return page_send(d, (uint32_t)(bytes - offset));
}

/* ---- Features ---- */

enum {
	FEATURE_WRITE_CACHE = 0x06,
	FEATURE_QUEUES = 0x07,
	FEATURE_EVENTS = 0x0b,
	FEATURE_KATO = 0x0f,
};

static uint64_t queues_result(const struct nvme_controller *n)
{
	return (n->granted - 1) << 16 | (n->granted - 1);
}

static uint16_t set_queues(struct nvme_command *d)
{
	struct nvme_controller *n = controller_of(d);
	unsigned asked = MAX(d->sqe.cdw11 & 0xffff, d->sqe.cdw11 >> 16);

	if ((d->sqe.cdw11 & 0xffff) == 0xffff || d->sqe.cdw11 >> 16 == 0xffff)
		return NVME_INVALID_FIELD | NVME_DNR;
	if (nvme_queue_count(n) > 0)
		return NVME_SEQUENCE_ERROR | NVME_DNR;
	if (d->queue->transport->queues) /* a refused I/O queue fails the whole host */
		asked = MIN(asked, d->queue->transport->queues(d->queue->conn->worker) - 1);
	atomic_store(&n->granted, MIN(asked + 1, (unsigned)NVME_QUEUES_MAX));
	d->result = queues_result(n);
	return NVME_SUCCESS;
}

/* An event that the controller does not have is refused, rather than never sent, but for critical
 * warnings: every controller with namespaces has them (Base Specification 2.1, 5.1.25.1.5). */
static uint16_t set_events(struct nvme_command *d)
{
	enum { CRITICAL_WARNINGS = 0xff };
	bool discovery = controller_of(d)->discovery;

	if (d->sqe.cdw11 & ~(nvme_oaes(discovery) | (discovery ? 0 : CRITICAL_WARNINGS)))
		return NVME_INVALID_FIELD | NVME_DNR;
	d->queue->event_mask = d->sqe.cdw11;
	return NVME_SUCCESS;
}

static uint16_t set_feature(struct nvme_command *d)
{
	struct nvme_queue *q = d->queue;

	if (d->sqe.cdw10 & 1U << 31)
		return NVME_NOT_SAVEABLE | NVME_DNR;
	switch (d->sqe.cdw10 & 0xff) {
	case FEATURE_QUEUES:
		return set_queues(d);
	case FEATURE_EVENTS:
		return set_events(d);
	case FEATURE_KATO:
		if (d->sqe.cdw11 == 0)
			return NVME_KATO_INVALID | NVME_DNR;
		q->kato_ns = (uint64_t)d->sqe.cdw11 * NS_PER_MS;
		q->alive_ns = q->conn->worker->turn.now_ns + q->kato_ns;
		return NVME_SUCCESS;
	case FEATURE_WRITE_CACHE: /* a property of the exports, not changeable */
		return d->sqe.cdw11 & 1 ? NVME_SUCCESS : NVME_NOT_CHANGEABLE | NVME_DNR;
	default:
		return NVME_INVALID_FIELD | NVME_DNR;
	}
}

static uint16_t get_feature(struct nvme_command *d)
{
	switch (d->sqe.cdw10 & 0x7ff) { /* includes SEL, of which only `current` is supported */
	case FEATURE_WRITE_CACHE:
		d->result = 1;
		break;
	case FEATURE_QUEUES:
		d->result = queues_result(controller_of(d));
		break;
	case FEATURE_EVENTS:
		d->result = d->queue->event_mask;
		break;
	case FEATURE_KATO:
		d->result = d->queue->kato_ns / NS_PER_MS;
		break;
	default:
		return NVME_INVALID_FIELD | NVME_DNR;
	}
	return NVME_SUCCESS;
}

/* ---- Events ---- */

enum {
	/* Error status, "persistent internal error", log page 01h: makes Linux reset its controller
	 * and thus reconnect at once (seen with 6.12). */
	EVENT_COME_BACK = 0x00 | 0x03 << 8 | NVME_LOG_ERROR << 16,
	/* Notice, "discovery log page change", log page 70h. */
	EVENT_LOG_CHANGED = 0x02 | 0xf0 << 8 | NVME_LOG_DISCOVERY << 16,
};

static uint16_t event_start(struct nvme_command *d)
{
	struct nvme_queue *q = d->queue;
	unsigned held = 0;

	for (const struct nvme_command *other = q->held; other; other = other->next)
		held++;
	if (held == NVME_AER_MAX)
		return NVME_AER_LIMIT | NVME_DNR;
	nvme_command_set(d, NVME_HOLD);
	return NVME_STARTED;
}

/* False: the host has no request outstanding.  The event is sent with its next one. */
static bool event_send(struct nvme_queue *q, uint32_t event)
{
	struct nvme_command *d = q->held;

	if (!d)
		return false;
	q->held = d->next;
	d->result = event;
	nvme_command_end(d, NVME_SUCCESS);
	return true;
}

/* Has the Discovery log changed since the host read it, and does the host want the event? */
static bool log_change_is_due(const struct nvme_queue *q)
{
	const struct nvme_target *t = q->conn->worker->shared;

	return (q->event_mask & NVME_OAES_DISCOVERY) && !q->log_reported &&
	       q->log_generation != nvme_ports_generation(t->ports);
}

void nvme_admin_events(struct nvme_queue *q)
{
	if (q->phase != NVME_PHASE_LIVE)
		return;
	if (q->conn->worker->drain.on && !q->drain_reported)
		q->drain_reported = event_send(q, EVENT_COME_BACK);
	if (log_change_is_due(q))
		q->log_reported = event_send(q, EVENT_LOG_CHANGED);
}

/* ---- Properties: a controller's registers ---- */

enum {
	PROPERTY_CAP = 0x00,
	PROPERTY_VS = 0x08,
	PROPERTY_CC = 0x14,
	PROPERTY_CSTS = 0x1c,

	CC_EN = 1 << 0,
	CC_SHN = 3 << 14,
	/* Fields of CC that are checked: command set, page size, arbitration, entry sizes. */
	CC_TERMS = 7 << 4 | 15 << 7 | 7 << 11 | 15 << 16 | 15 << 20,
	CC_OURS = NVME_SQES << 16 | NVME_CQES << 20,

	CSTS_RDY = 1 << 0,
	CSTS_SHUTTING_DOWN = 1 << 2,
	CSTS_SHUT_DOWN = 2 << 2,

	CAP_TIMEOUT = 30, /* maximum time to enable or disable, in units of 500 ms */
};

static uint64_t read_cap(const struct worker *w)
{
	return (nvme_entries(w) - 1) | 1ULL << 16 /* CQR */ | (uint64_t)CAP_TIMEOUT << 24 |
	       1ULL << 37 /* CSS: NVM */;
}

/* CSTS shows ready, or shutdown in progress, as long as queues may have requests in the stores. */
static uint64_t read_csts(const struct nvme_queue *q)
{
	const struct nvme_controller *n = q->member->controller;
	bool busy = nvme_queue_count(n) > 0;
	uint64_t csts = 0;

	if (nvme_state(n) == NVME_ENABLED || (nvme_state(n) == NVME_STOPPING && busy) ||
	    (q->cc & CC_EN))
		csts = CSTS_RDY;
	if (q->cc & CC_SHN)
		csts |= busy ? CSTS_SHUTTING_DOWN : CSTS_SHUT_DOWN;
	return csts;
}

/* The requests for events end without a completion, and no event is enabled. */
static void reset_events(struct nvme_queue *q)
{
	for (struct nvme_command *d; (d = q->held);) {
		q->held = d->next;
		nvme_command_put(d);
	}
	q->event_mask = 0;
	q->log_reported = false;
}

static uint16_t write_cc(struct nvme_queue *q, uint32_t cc)
{
	struct nvme_controller *n = q->member->controller;
	bool runs = (cc & CC_EN) && !(cc & CC_SHN), ran = nvme_state(n) == NVME_ENABLED;

	if (runs && (cc & CC_TERMS) != CC_OURS)
		return NVME_INVALID_FIELD | NVME_DNR;
	if (runs && !ran && nvme_queue_count(n) > 0)
		return NVME_SEQUENCE_ERROR | NVME_DNR;
	q->cc = cc;
	if (runs && !ran)
		nvme_set_state(n, NVME_ENABLED);
	if (runs || !ran)
		return NVME_SUCCESS;
	nvme_set_state(n, NVME_STOPPING);
	reset_events(q);
	/* without keep-alive the host has to enable it again in time, or is disconnected */
	if (!q->alive_ns)
		q->alive_ns = q->conn->worker->turn.now_ns + NVME_ENABLE_NS;
	return NVME_SUCCESS;
}

static uint16_t property_check(struct nvme_command *d)
{
	if (d->sqe.fctype == NVME_CONNECT)
		return NVME_SEQUENCE_ERROR | NVME_DNR;
	if (d->sqe.fctype != NVME_PROPERTY_GET && d->sqe.fctype != NVME_PROPERTY_SET)
		return NVME_INVALID_OPCODE | NVME_DNR;
	return NVME_SUCCESS;
}

static uint16_t property_get(struct nvme_command *d, uint32_t at, unsigned bytes)
{
	const struct nvme_queue *q = d->queue;

	if (at == PROPERTY_CAP && bytes == 8)
		d->result = read_cap(q->conn->worker);
	else if (at == PROPERTY_VS && bytes == 4)
		d->result = NVME_VERSION;
	else if (at == PROPERTY_CC && bytes == 4)
		d->result = q->cc;
	else if (at == PROPERTY_CSTS && bytes == 4)
		d->result = read_csts(q);
	else
		return NVME_INVALID_FIELD | NVME_DNR;
	return NVME_SUCCESS;
}

static uint16_t property_start(struct nvme_command *d)
{
	uint32_t at = d->sqe.cdw11;
	unsigned bytes = d->sqe.cdw10 & 7 ? 8 : 4;

	if (d->sqe.fctype == NVME_PROPERTY_GET)
		return property_get(d, at, bytes);
	if (at == PROPERTY_CC && bytes == 4)
		return write_cc(d->queue, d->sqe.cdw12);
	return NVME_INVALID_FIELD | NVME_DNR;
}

/* ---- Other commands ---- */

static uint16_t abort_start(struct nvme_command *d)
{
	d->result = 1; /* not aborted: stores cannot abort requests */
	return NVME_SUCCESS;
}

static uint16_t keep_alive_start(struct nvme_command *d)
{
	(void)d;
	return NVME_SUCCESS;
}

static const struct nvme_verb admin_verbs[] = {
	{ NVME_FABRICS, NVME_OP_fabrics, property_check, property_start },
	{ NVME_KEEP_ALIVE, NVME_OP_admin, admin_check, keep_alive_start },
	{ NVME_GET_LOG, NVME_OP_admin, log_check, log_start },
	{ NVME_IDENTIFY, NVME_OP_admin, identify_check, identify_start },
	{ NVME_ABORT, NVME_OP_admin, admin_check, abort_start },
	{ NVME_SET_FEATURES, NVME_OP_admin, admin_check, set_feature },
	{ NVME_GET_FEATURES, NVME_OP_admin, admin_check, get_feature },
	{ NVME_AER, NVME_OP_admin, admin_check, event_start },
};
const struct nvme_verbs nvme_admin_verbs = { admin_verbs, ARRAY_SIZE(admin_verbs) };
