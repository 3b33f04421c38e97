/* Engine `rdma`: what a worker has of each device: its pool registered there, a completion queue,
 * the events of both.  Made when the worker starts, or when a device is plugged in with its first
 * connection. */
#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "conn.h"
#include "rdma.h"
#include "rdma_ud.h"
#include "worker.h"

unsigned rdma_count_devices(void)
{
	int count = 0;
	struct ibv_device **list = ibv_get_device_list(&count);

	if (list)
		ibv_free_device_list(list);
	return (unsigned)count;
}

/* The library leaves out what it may not open. */
int rdma_no_devices(struct reason *reason)
{
	glob_t found;
	bool hidden = glob("/sys/class/infiniband/*", GLOB_NOSORT, NULL, &found) == 0;

	globfree(&found);
	if (hidden)
		return reason_set(
			reason, -EACCES,
			"this host's RDMA devices cannot be opened: %s; " RDMA_ACCESS_MEND,
			strerror(access("/dev/infiniband", F_OK) < 0 ? errno : EACCES));
	return reason_set(reason, -ENODEV,
			  "this host has no RDMA device (nbserved --doctor tells how to make one)");
}

static void rdma_completion_event(struct op *op, int res, uint32_t flags)
{
	struct rdma_device *d = container_of(op, struct rdma_device, event_op);
	struct ibv_cq *cq;
	void *context;

	(void)res, (void)flags;
	stat_add(d->worker->stats.sys_other, 1);
	if (ibv_get_cq_event(d->channel, &cq, &context) != 0)
		return;
	/* Each was asked for: there is no other. */
	stat_add(d->worker->stats.cq_events, 1);
	ibv_ack_cq_events(d->cq, 1);
	d->armed = false;
	rdma_device_poll(d);
}

/* The process shares the device's context, so any worker may get the event of any connection: all
 * it does is what threads may do, and the flushed requests tell the worker whose it is. */
static void rdma_async_event(struct op *op, int res, uint32_t flags)
{
	struct rdma_device *d = container_of(op, struct rdma_device, async_op);
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };
	struct ibv_async_event event;

	(void)res, (void)flags;
	while (ibv_get_async_event(d->verbs, &event) == 0) {
		stat_add(d->worker->stats.sys_other, 1);
		if (event.event_type == IBV_EVENT_QP_FATAL ||
		    event.event_type == IBV_EVENT_QP_REQ_ERR ||
		    event.event_type == IBV_EVENT_QP_ACCESS_ERR)
			ibv_modify_qp(event.element.qp, &error, IBV_QP_STATE);
		ibv_ack_async_event(&event);
	}
}

void rdma_device_free(struct rdma_device *d)
{
	struct rdma *e = d->worker->engine_state;

	/* The context stays open for others: leave the set by hand. */
	epoll_ctl(e->epoll_fd, EPOLL_CTL_DEL, d->verbs->async_fd, NULL);
	rdma_ud_free_all(d);
	rdma_shared_close(d);
	if (d->cq)
		ibv_destroy_cq(d->cq);
	if (d->channel)
		ibv_destroy_comp_channel(d->channel);
	if (d->mr) {
		stat_add(d->worker->stats.registered_bytes, -(uint64_t)d->mr->length);
		ibv_dereg_mr(d->mr);
	}
	if (d->pd)
		ibv_dealloc_pd(d->pd);
	if (d->held)
		rdma_let_go(d->held);
	free(d);
}

static int rdma_device_refuse(struct rdma_device *d, const char *what, const char *mend,
			      struct reason *reason)
{
	int error = errno ? errno : EIO;

	return reason_set(reason, -error, "%s: %s: %s%s", ibv_get_device_name(d->verbs->device),
			  what, strerror(error), mend);
}

/* Events wait until several completions are there, or some time has passed: where the device can.
 */
static void rdma_moderate(struct rdma_device *d)
{
	struct worker *w = d->worker;
	uint64_t period_us = w->options.cq_moderation_ns / NS_PER_US;
	struct ibv_device_attr_ex attr;
	struct ibv_modify_cq_attr moderate = { .attr_mask = IBV_CQ_ATTR_MODERATE };

	if (period_us == 0 || ibv_query_device_ex(d->verbs, NULL, &attr) != 0 ||
	    attr.cq_mod_caps.max_cq_count == 0)
		return;
	moderate.moderate.cq_count =
		(uint16_t)MIN(attr.cq_mod_caps.max_cq_count, (unsigned)RDMA_POLL_MAX);
	moderate.moderate.cq_period = (uint16_t)MIN(attr.cq_mod_caps.max_cq_period, period_us);
	if (ibv_modify_cq(d->cq, &moderate) == 0)
		worker_feature(w, FEATURE_cq_moderation);
}

/* Of a connection's send queue. */
struct rdma_size {
	unsigned requests;
	int sges;
	uint32_t inline_bytes;
};

static const struct rdma_size rdma_size_roomy = { RDMA_SENDS, RDMA_SGES, RDMA_INLINE };
/* A page.  Siw has 128 bytes for each request, whatever is in it, and others are taken for alike:
 * the completion queue has room for a thousand of them.  Rxe has 208 and what is in it, rounded up
 * to a power of two, as is the number of requests and one. */
static const struct rdma_size rdma_size_slim = { RDMA_SENDS, 3, 80 };
static const struct rdma_size rdma_size_slim_rxe = { 7, 3, 48 };

enum { RDMA_VENDOR_RXE = 0xffffff };

/* Who lets connections share their receives wants them to need little memory. */
static void rdma_device_size(struct rdma_device *d)
{
	const struct rdma_size *size = &rdma_size_roomy;

	if (d->worker->options.srq && d->worker->options.qp_type != QP_UD)
		size = d->limits.vendor_id == RDMA_VENDOR_RXE ? &rdma_size_slim_rxe
							      : &rdma_size_slim;
	d->sends_max = size->requests;
	d->inline_wanted = size->inline_bytes;
	d->read_sges = (unsigned)MIN(MAX(d->limits.max_sge_rd, 1), size->sges);
	d->write_sges = (unsigned)MIN(MAX(d->limits.max_sge, 1), size->sges);
}

static int rdma_device_open(struct rdma_device *d, struct reason *reason)
{
	struct worker *w = d->worker;
	const struct pool *p = &w->pool;

	if (ibv_query_device(d->verbs, &d->limits) != 0)
		return rdma_device_refuse(d, "cannot be asked for its limits", "", reason);
	rdma_device_size(d);
	d->pd = ibv_alloc_pd(d->verbs);
	if (!d->pd)
		return rdma_device_refuse(d, "no protection domain", "", reason);
	d->mr = ibv_reg_mr(d->pd, p->slab, (size_t)p->chunk_count * p->chunk_size,
			   IBV_ACCESS_LOCAL_WRITE);
	if (!d->mr)
		return rdma_device_refuse(d, "cannot register the buffers", "; " RDMA_MEMLOCK_MEND,
					  reason);
	stat_add(w->stats.registered_bytes, d->mr->length);
	d->channel = ibv_create_comp_channel(d->verbs);
	if (!d->channel)
		return rdma_device_refuse(d, "no completion channel", "", reason);
	d->cq_size = (unsigned)MIN(d->limits.max_cqe, RDMA_CQ_ENTRIES);
	d->cq = ibv_create_cq(d->verbs, (int)d->cq_size, d, d->channel, 0);
	if (!d->cq)
		return rdma_device_refuse(d, "no completion queue", "", reason);
	rdma_moderate(d);
	if (w->options.srq && rdma_shared_open(d, reason) < 0)
		return -EIO;
	d->event_op.done = rdma_completion_event;
	d->async_op.done = rdma_async_event;
	if (rdma_watch(w, d->channel->fd, &d->event_op) < 0 ||
	    rdma_watch(w, d->verbs->async_fd, &d->async_op) < 0)
		return rdma_device_refuse(d, "cannot be watched", "", reason);
	return 0;
}

struct rdma_device *rdma_device_get(struct worker *w, struct ibv_context *verbs,
				    struct reason *reason)
{
	struct rdma *e = w->engine_state;
	struct rdma_device *d;

	for (d = e->devices; d; d = d->next)
		if (d->verbs == verbs && !d->gone)
			return d;
	d = calloc(1, sizeof(*d));
	if (!d) {
		reason_set(reason, -ENOMEM, "no memory");
		return NULL;
	}
	d->worker = w;
	d->verbs = verbs;
	d->held = rdma_hold(verbs);
	if (rdma_device_open(d, reason) < 0) {
		rdma_device_free(d);
		return NULL;
	}
	d->next = e->devices;
	e->devices = d;
	return d;
}

/* By making a queue pair. */
static int rdma_device_try_uc(struct rdma_device *d, struct reason *reason)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = d->cq,
		.recv_cq = d->cq,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_UC,
	};
	struct ibv_qp *qp = ibv_create_qp(d->pd, &attr);

	if (!qp)
		return rdma_device_refuse(d, "no unreliable connections", "; qp-type = rc", reason);
	ibv_destroy_qp(qp);
	return 0;
}

int rdma_device_serves(struct rdma_device *d, unsigned port, struct reason *reason)
{
	if (d->worker->options.qp_type == QP_UC)
		return rdma_device_try_uc(d, reason);
	if (d->worker->options.qp_type == QP_UD && !rdma_ud_get(d, port, reason))
		return -EIO;
	return 0;
}

void rdma_device_put(struct rdma_device *d)
{
	d->conns--;
}

void rdma_device_sweep(struct rdma *e)
{
	struct rdma_device **at = &e->devices;

	while (*at) {
		struct rdma_device *d = *at;

		if (d->gone && d->conns == 0) {
			*at = d->next;
			rdma_device_free(d);
		} else {
			at = &d->next;
		}
	}
}

const char *rdma_transport(const struct ibv_device *device, uint8_t link_layer)
{
	if (device->transport_type == IBV_TRANSPORT_IWARP)
		return "iWARP";
	if (device->transport_type != IBV_TRANSPORT_IB)
		return "other";
	return link_layer == IBV_LINK_LAYER_ETHERNET ? "RoCE" : "InfiniBand";
}

/* A device that was unplugged and is back has its entry again. */
static struct engine_device *rdma_port_entry(struct worker *w, const char *name, unsigned number)
{
	unsigned count = atomic_load(&w->device_count);

	for (unsigned i = 0; i < count; i++)
		if (w->devices[i].port == number && !strcmp(w->devices[i].name, name))
			return &w->devices[i];
	return count < WORKER_DEVICES_MAX ? &w->devices[count] : NULL;
}

const struct engine_device *rdma_device_port(struct rdma_device *d, unsigned number)
{
	struct worker *w = d->worker;
	struct ibv_device *device = d->verbs->device;
	struct ibv_port_attr attr;
	struct engine_device *entry;
	unsigned index = number % RDMA_PORTS_MAX;

	if (d->ports[index] && d->ports[index]->port == number)
		return d->ports[index];
	entry = rdma_port_entry(w, ibv_get_device_name(device), number);
	if (!entry || ibv_query_port(d->verbs, (uint8_t)number, &attr) != 0)
		return NULL;
	if (!entry->port) {
		strncpy(entry->name, ibv_get_device_name(device), sizeof(entry->name) - 1);
		entry->port = number;
		entry->link_layer =
			attr.link_layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet" : "InfiniBand";
		entry->transport = rdma_transport(device, attr.link_layer);
		atomic_fetch_add(&w->device_count, 1);
	}
	atomic_store(&entry->gone, false);
	d->ports[index] = entry;
	return entry;
}

void rdma_device_gone(struct rdma_device *d)
{
	struct worker *w = d->worker;

	if (d->gone)
		return;
	d->gone = true;
	/* Those of datagrams: see rdma_ud_tend(). */
	for (struct conn *c = d->uds ? NULL : w->conns; c; c = c->next)
		if (((struct rdma_conn *)c->engine_state)->device == d)
			conn_close(c, CONN_END_ERROR);
	for (unsigned i = 0; i < RDMA_PORTS_MAX; i++)
		if (d->ports[i])
			atomic_store(&d->ports[i]->gone, true);
}
