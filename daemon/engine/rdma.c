/* Engine `rdma`: reliable connections through the RDMA connection manager.
 *
 * The receives that are posted are a client's credit; each is a chunk of the pool, which is
 * registered once per worker and device.  Completions are polled; when there are none the worker
 * asks for an event and sleeps in epoll, where the connection manager's and the devices' events
 * arrive as well. */
#include "rdma.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "conn.h"
#include "engine.h"
#include "worker.h"

enum {
	RDMA_UNWATCHED_MAX = 16,       /* turns that completions may keep other events waiting */
	RDMA_EVENTS_MAX = 64,          /* taken at a time */
	RDMA_LOOK_NS = 50 * NS_PER_US, /* who spins looks at other events so often */
};

int rdma_watch(struct worker *w, int fd, struct op *op)
{
	struct rdma *e = w->engine_state;
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = op };
	int flags = fcntl(fd, F_GETFL);

	stat_add(w->stats.sys_epoll_ctl, 1);
	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return -errno;
	return epoll_ctl(e->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

/* ---- Devices ---- */

static void rdma_completion_event(struct op *op, int res, uint32_t flags)
{
	struct rdma_device *d = container_of(op, struct rdma_device, event_op);
	struct ibv_cq *cq;
	void *context;
	unsigned count = 0;

	(void)res, (void)flags;
	while (count < RDMA_EVENTS_MAX && ibv_get_cq_event(d->channel, &cq, &context) == 0)
		count++;
	stat_add(d->worker->stats.sys_other, count + 1);
	stat_add(d->worker->stats.cq_events, count);
	if (count == 0)
		return;
	ibv_ack_cq_events(d->cq, count);
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

static void rdma_device_free(struct rdma_device *d)
{
	struct rdma *e = d->worker->engine_state;

	/* The context stays open for others: leave the set by hand. */
	epoll_ctl(e->epoll_fd, EPOLL_CTL_DEL, d->verbs->async_fd, NULL);
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
	free(d);
}

static int rdma_device_refuse(struct rdma_device *d, const char *what, const char *mend,
			      struct reason *reason)
{
	int error = errno ? errno : EIO;

	return reason_set(reason, -error, "%s: %s: %s%s", ibv_get_device_name(d->verbs->device),
			  what, strerror(error), mend);
}

static int rdma_device_open(struct rdma_device *d, struct reason *reason)
{
	struct worker *w = d->worker;
	const struct pool *p = &w->pool;

	if (ibv_query_device(d->verbs, &d->limits) != 0)
		return rdma_device_refuse(d, "cannot be asked for its limits", "", reason);
	d->pd = ibv_alloc_pd(d->verbs);
	if (!d->pd)
		return rdma_device_refuse(d, "no protection domain", "", reason);
	d->mr = ibv_reg_mr(d->pd, p->slab, (size_t)p->chunk_count * p->chunk_size,
			   IBV_ACCESS_LOCAL_WRITE);
	if (!d->mr)
		return rdma_device_refuse(d, "cannot register the buffers",
					  "; LimitMEMLOCK=infinity in the unit (ulimit -l "
					  "unlimited), or lower `buffers` or `buffer-size`",
					  reason);
	stat_add(w->stats.registered_bytes, d->mr->length);
	d->channel = ibv_create_comp_channel(d->verbs);
	if (!d->channel)
		return rdma_device_refuse(d, "no completion channel", "", reason);
	d->cq_size = (unsigned)MIN(d->limits.max_cqe, RDMA_CQ_ENTRIES);
	d->cq = ibv_create_cq(d->verbs, (int)d->cq_size, d, d->channel, 0);
	if (!d->cq)
		return rdma_device_refuse(d, "no completion queue", "", reason);
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
	if (rdma_device_open(d, reason) < 0) {
		rdma_device_free(d);
		return NULL;
	}
	d->next = e->devices;
	e->devices = d;
	return d;
}

/* One of its connections has ended. */
void rdma_device_put(struct rdma_device *d)
{
	struct rdma *e = d->worker->engine_state;
	struct rdma_device **at = &e->devices;

	if (--d->conns > 0 || !d->gone)
		return;
	while (*at != d)
		at = &(*at)->next;
	*at = d->next;
	rdma_device_free(d);
}

static const char *rdma_transport(const struct ibv_device *device, uint8_t link_layer)
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
	d->gone = true;
	for (unsigned i = 0; i < RDMA_PORTS_MAX; i++)
		if (d->ports[i])
			atomic_store(&d->ports[i]->gone, true);
}

/* ---- Waiting ---- */

unsigned rdma_device_poll(struct rdma_device *d)
{
	struct ibv_wc wc[RDMA_POLL_MAX];
	int n = ibv_poll_cq(d->cq, ARRAY_SIZE(wc), wc);

	stat_add(d->worker->stats.cq_polls, 1);
	if (n <= 0)
		return 0;
	stat_add(d->worker->stats.cq_completions, (unsigned)n);
	for (int i = 0; i < n; i++) {
		/* A number is all that the verbs give back.  NOLINTNEXTLINE(*-no-int-to-ptr) */
		struct rdma_conn *r = (struct rdma_conn *)(uintptr_t)(wc[i].wr_id & ~1ULL);

		rdma_queue_completed(r, &wc[i], wc[i].wr_id & 1);
	}
	return (unsigned)n;
}

unsigned rdma_poll(struct rdma *e)
{
	unsigned n = 0;

	for (struct rdma_device *d = e->devices; d; d = d->next)
		n += rdma_device_poll(d);
	return n;
}

/* What completed before the event was asked for makes none: look again. */
static unsigned rdma_arm(struct rdma *e)
{
	bool asked = false;

	for (struct rdma_device *d = e->devices; d; d = d->next)
		if (!d->armed) {
			d->armed = ibv_req_notify_cq(d->cq, 0) == 0;
			asked = true;
		}
	return asked ? rdma_poll(e) : 0;
}

/* Milliseconds until the deadline, rounded up; -1: no deadline. */
static int rdma_timeout(uint64_t deadline_ns)
{
	uint64_t now = clock_ns();

	if (!deadline_ns)
		return -1;
	if (now >= deadline_ns)
		return 0;
	return (int)MIN((deadline_ns - now + NS_PER_MS - 1) / NS_PER_MS, 3600 * 1000);
}

static int rdma_other_events(struct worker *w, int timeout_ms)
{
	struct rdma *e = w->engine_state;
	struct epoll_event events[RDMA_EVENTS_MAX];
	int n;

	e->unwatched = 0;
	stat_add(w->stats.sys_epoll_wait, 1);
	stat_add(w->stats.cq_sleeps, timeout_ms != 0);
	n = epoll_wait(e->epoll_fd, events, ARRAY_SIZE(events), timeout_ms);
	for (int i = 0; i < n; i++) {
		struct op *op = events[i].data.ptr;

		op->done(op, (int)events[i].events, 0);
	}
	return n;
}

/* Other events are looked at now and then, or who connects would wait for the end. */
static unsigned rdma_spin(struct worker *w)
{
	uint64_t now = clock_ns(), end = now + w->options.busy_poll_ns;
	uint64_t look = now + RDMA_LOOK_NS;
	unsigned n = 0;

	for (; n == 0 && now < end; now = clock_ns()) {
		n = rdma_poll(w->engine_state);
		if (now < look)
			continue;
		look = now + RDMA_LOOK_NS;
		if (rdma_other_events(w, 0) > 0)
			return 1;
	}
	return n;
}

static void rdma_wait(struct worker *w, bool block)
{
	struct rdma *e = w->engine_state;
	unsigned n;

	rdma_cm_end_all(w);
	while (e->hungry) {
		struct rdma_conn *r = e->hungry;

		e->hungry = r->hungry_next;
		r->hungry = false;
		rdma_queue_feed(r);
	}
	block = block && !w->ready;
	n = rdma_poll(e);
	if (n == 0 && block && w->options.busy_poll_ns)
		n = rdma_spin(w);
	if (n == 0 && block)
		n = rdma_arm(e);
	if (n == 0)
		rdma_other_events(w, block ? rdma_timeout(w->deadline_ns) : 0);
	else if (++e->unwatched >= RDMA_UNWATCHED_MAX)
		rdma_other_events(w, 0);
}

/* ---- The engine ---- */

static int rdma_refuse(struct reason *reason, const char *what, int error)
{
	if (error == ENODEV || error == ENOSYS || error == ENOENT)
		return reason_set(reason, -ENODEV,
				  "this host has no RDMA device, or its kernel no rdma_ucm: "
				  "modprobe rdma_ucm ib_uverbs and the device's driver; without "
				  "hardware: rdma link add rxe0 type rxe netdev DEVICE");
	if (error == EACCES || error == EPERM)
		return reason_set(reason, -error,
				  "%s: %s; /dev/infiniband must be readable and writable "
				  "(DeviceAllow= in the unit)",
				  what, strerror(error));
	return reason_set(reason, -error, "%s: %s", what, strerror(error));
}

static int rdma_count_devices(void)
{
	int count = 0;
	struct ibv_device **list = ibv_get_device_list(&count);

	if (list)
		ibv_free_device_list(list);
	return count;
}

static void rdma_fini(struct worker *w)
{
	struct rdma *e = w->engine_state;

	mailbox_run(&w->mailbox); /* connections that were handed over too late */
	rdma_cm_unbind(w);
	while (e->devices) {
		struct rdma_device *d = e->devices;

		e->devices = d->next;
		rdma_device_free(d);
	}
	if (e->channel)
		rdma_destroy_event_channel(e->channel);
	if (e->epoll_fd >= 0)
		close(e->epoll_fd);
	free(e->listeners);
	free(e);
	w->engine_state = NULL;
}

static int rdma_start(struct worker *w, struct reason *reason)
{
	struct rdma *e = w->engine_state;
	int rc;

	if (rdma_count_devices() == 0)
		return rdma_refuse(reason, "", ENODEV);
	e->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (e->epoll_fd < 0)
		return rdma_refuse(reason, "epoll_create1", errno);
	e->channel = rdma_create_event_channel();
	if (!e->channel)
		return rdma_refuse(reason, "/dev/infiniband/rdma_cm", errno);
	e->channel_op.done = rdma_cm_event;
	rc = rdma_watch(w, e->channel->fd, &e->channel_op);
	if (rc < 0)
		return rdma_refuse(reason, "cannot watch the connection manager", -rc);
	return rdma_cm_bind(w, reason);
}

static int rdma_init(struct worker *w, struct reason *reason)
{
	struct rdma *e = calloc(1, sizeof(*e));
	int rc;

	if (!e)
		return reason_set(reason, -ENOMEM, "rdma: no memory");
	e->epoll_fd = -1;
	e->worker = w;
	w->engine_state = e;
	rc = rdma_start(w, reason);
	if (rc < 0) {
		rdma_fini(w);
		return rc;
	}
	worker_feature(w, FEATURE_selective_signalling);
	if (w->options.busy_poll_ns)
		worker_feature(w, FEATURE_busy_poll);
	return 0;
}

/* Sockets are not this engine's. */
static void rdma_no_sockets(struct worker *w, struct acceptor *a, bool on)
{
	(void)w, (void)a, (void)on;
}

static void rdma_recv(struct conn *c, bool on)
{
	if (on)
		rdma_queue_hungry(c->engine_state);
}

static void rdma_release(struct conn *c)
{
	free(c->engine_state);
}

static void rdma_peer(const struct conn *c, struct sockaddr_storage *ret_peer)
{
	const struct rdma_conn *r = c->engine_state;

	*ret_peer = r->peer;
}

static const struct engine_device *rdma_device_of(const struct conn *c)
{
	const struct rdma_conn *r = c->engine_state;

	return r->port;
}

const struct engine engine_rdma = {
	.name = "rdma",
	.transport = TRANSPORT_RDMA,
	.messages = true,
	.sample_turns = 8,
	.init = rdma_init,
	.fini = rdma_fini,
	.listen = rdma_no_sockets,
	.accept = rdma_cm_accept,
	.watch = rdma_watch,
	.wait = rdma_wait,
	.open = rdma_cm_open,
	.recv = rdma_recv,
	.flush = rdma_queue_flush,
	.close = rdma_cm_end,
	.release = rdma_release,
	.peer = rdma_peer,
	.device = rdma_device_of,
};
