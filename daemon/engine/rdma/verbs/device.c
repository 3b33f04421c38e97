/* Engine `rdma`: a worker's resources on each device: the registered pool, a completion
 * queue, and their events. */
#include "device.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/types.h>
#include <unistd.h>

#include "queue.h"
#include "worker.h"

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

/* The library omits devices that it is not permitted to open. */
int rdma_no_devices(struct reason *reason)
{
	glob_t found;
	bool hidden = glob("/sys/class/infiniband/*", GLOB_NOSORT, NULL, &found) == 0;

	globfree(&found);
	if (hidden)
		return reason_set(reason, -EACCES,
				  "this host's RDMA devices cannot be opened: %s; " RDMA_ACCESS_FIX,
				  strerror(access("/dev/infiniband", F_OK) < 0 ? errno : EACCES));
	return reason_set(reason, -ENODEV, "this host has no RDMA device; " RDMA_BY_HAND);
}

/* ---- Completions and events ---- */

static unsigned poll_device(struct rdma_device *d)
{
	const struct rdma *e = d->worker->engine_state;
	struct ibv_wc wc[RDMA_POLL_MAX];
	int n = ibv_poll_cq(d->cq, ARRAY_SIZE(wc), wc);

	stat_add(d->worker->stats.cq_polls, 1);
	if (n <= 0)
		return 0;
	stat_add(d->worker->stats.cq_completions, (unsigned)n);
	for (int i = 0; i < n; i++) {
		enum rdma_tag tag = wc[i].wr_id & RDMA_TAG_MASK;

		/* The verbs return only a number, wr_id.  NOLINTNEXTLINE(*-no-int-to-ptr) */
		e->calls->completed[tag]((void *)(uintptr_t)(wc[i].wr_id - tag), &wc[i]);
	}
	return (unsigned)n;
}

unsigned rdma_poll(struct rdma *e)
{
	unsigned n = 0;

	for (struct rdma_device *d = e->devices; d; d = d->next)
		n += poll_device(d);
	return n;
}

void rdma_device_drain(struct rdma_device *d)
{
	for (unsigned taken = 0, n = 1; n > 0 && taken < d->cq_size; taken += n)
		n = poll_device(d);
}

unsigned rdma_arm(struct rdma *e)
{
	unsigned asked = 0, refused = 0;

	for (struct rdma_device *d = e->devices; d; d = d->next)
		if (!d->armed) {
			d->armed = ibv_req_notify_cq(d->cq, 0) == 0;
			asked++;
			refused += !d->armed;
		}
	return asked ? rdma_poll(e) + refused : 0;
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
	/* Without a check of what it is: only this event was requested. */
	stat_add(d->worker->stats.cq_events, 1);
	ibv_ack_cq_events(d->cq, 1);
	d->armed = false;
	poll_device(d);
}

/* An asynchronous event of the device.  All workers share its context, so any worker may get the
 * event of any connection.  It therefore makes only calls that any thread may make; the worker that
 * owns the connection learns of the failure by its flushed requests. */
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

/* ---- References to open devices ----
 *
 * The kernel does not release a device (`rdma link delete` blocks) before every process has closed
 * it.  The connection manager's library opens it once for all workers, and closes it when it scans
 * for devices and no reference is held; so each worker holds a reference to the devices that it
 * uses, and triggers a scan after it has released one. */

/* Keeps the device open until rdma_let_go(), even if it is unplugged.  NULL: no memory. */
static struct ibv_context **hold(struct ibv_context *verbs)
{
	struct ibv_context **all = rdma_get_devices(NULL), **one = calloc(2, sizeof(verbs));
	unsigned kept = 0;

	for (unsigned i = 0; all && all[i]; i++) {
		if (all[i] == verbs && one)
			one[0] = verbs;
		else
			all[kept++] = all[i];
	}
	if (!all)
		return one;
	all[kept] = NULL;
	rdma_free_devices(all);
	return one;
}

void rdma_let_go(struct ibv_context **held)
{
	struct ibv_context **all;

	if (held)
		rdma_free_devices(held);
	all = rdma_get_devices(NULL); /* scans, and closes the devices that are dead */
	if (all)
		rdma_free_devices(all);
}

/* ---- Setup and teardown ---- */

void rdma_device_free(struct rdma_device *d)
{
	const struct rdma *e = d->worker->engine_state;

	/* The context stays open for other workers, so the descriptor is removed explicitly. */
	epoll_ctl(e->epoll_fd, EPOLL_CTL_DEL, d->verbs->async_fd, NULL);
	rdma_region_free(d, d->scratch);
	if (d->cq)
		ibv_destroy_cq(d->cq);
	if (d->channel)
		ibv_destroy_comp_channel(d->channel);
	rdma_unregister(d, d->mr);
	if (d->pd)
		ibv_dealloc_pd(d->pd);
	if (d->held)
		rdma_let_go(d->held);
	free(d);
}

/* Returns rc, with a reason that says what could not be allocated, why, and what to do. */
static int rdma_device_refuse(const struct rdma_device *d, int rc, const char *what,
			      const char *fix, struct reason *reason)
{
	return reason_set(reason, rc, "%s: %s: %s%s", ibv_get_device_name(d->verbs->device), what,
			  strerror(-rc), fix);
}

/* A reason from errno, if the verbs have set it. */
static int rdma_device_lacks(const struct rdma_device *d, const char *what, const char *fix,
			     struct reason *reason)
{
	return rdma_device_refuse(d, errno ? -errno : -EIO, what, fix, reason);
}

enum { RDMA_VENDOR_SIW = 0x626d74 };

static void rdma_device_limit(struct rdma_device *d)
{
	d->read_sges = (unsigned)MIN(MAX(d->limits.max_sge_rd, 1), RDMA_SGES);
	d->write_sges = (unsigned)MIN(MAX(d->limits.max_sge, 1), RDMA_SGES);
	/* siw claims this capability, too, but its library cannot post such a request. */
	d->invalidates = (d->limits.device_cap_flags & IBV_DEVICE_MEM_MGT_EXTENSIONS) &&
			 d->verbs->device->transport_type == IBV_TRANSPORT_IB;
	d->sends_late = d->limits.vendor_id == RDMA_VENDOR_SIW;
	d->reads = d->limits.vendor_id == RDMA_VENDOR_SIW ||
		   d->verbs->device->transport_type == IBV_TRANSPORT_IB;
}

static int rdma_device_open(struct rdma_device *d, struct reason *reason)
{
	struct worker *w = d->worker;
	const struct pool *p = &w->pool;
	int rc = 0;

	if (ibv_query_device(d->verbs, &d->limits) != 0)
		return rdma_device_lacks(d, "its limits cannot be queried", "", reason);
	rdma_device_limit(d);
	d->pd = ibv_alloc_pd(d->verbs);
	if (!d->pd)
		return rdma_device_lacks(d, "no protection domain", "", reason);
	d->mr = rdma_register(d, p->slab, (size_t)p->chunk_count * p->chunk_size,
			      IBV_ACCESS_LOCAL_WRITE);
	if (!d->mr)
		return rdma_device_lacks(d, "cannot register the buffers", "; " RDMA_MEMLOCK_FIX,
					 reason);
	if (w->service && w->service->message)
		rc = rdma_region_new(d, (size_t)w->options.region_size, &d->scratch);
	if (rc < 0)
		return rdma_device_refuse(d, rc, "cannot register region-size bytes",
					  "; " RDMA_MEMLOCK_FIX ", or `region-size`", reason);
	d->channel = ibv_create_comp_channel(d->verbs);
	if (!d->channel)
		return rdma_device_lacks(d, "no completion channel", "", reason);
	d->cq_size = rdma_cq_entries(d->limits.max_cqe, p->chunk_count - p->keep);
	d->cq = ibv_create_cq(d->verbs, (int)d->cq_size, d, d->channel, 0);
	if (!d->cq)
		return rdma_device_lacks(d, "no completion queue", "", reason);
	d->event_op.done = rdma_completion_event;
	d->async_op.done = rdma_async_event;
	if (rdma_watch(w, d->channel->fd, &d->event_op) < 0 ||
	    rdma_watch(w, d->verbs->async_fd, &d->async_op) < 0)
		return rdma_device_lacks(d, "cannot be watched", "", reason);
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
	d->held = hold(verbs);
	if (rdma_device_open(d, reason) < 0) {
		rdma_device_free(d);
		return NULL;
	}
	d->next = e->devices;
	e->devices = d;
	return d;
}

int rdma_device_reserve(struct rdma_device *d, unsigned entries)
{
	if (entries > d->cq_size - d->cq_used)
		return -ENOSPC;
	d->cq_used += entries;
	return 0;
}

void rdma_device_unreserve(struct rdma_device *d, unsigned entries)
{
	assert(entries <= d->cq_used);
	d->cq_used -= entries;
}

void rdma_device_sweep(struct rdma *e)
{
	struct rdma_device **at = &e->devices;

	while (*at) {
		struct rdma_device *d = *at;

		if (d->gone && d->users == 0) {
			*at = d->next;
			rdma_device_free(d);
		} else {
			at = &d->next;
		}
	}
}

void rdma_device_gone(struct rdma_device *d)
{
	const struct rdma *e = d->worker->engine_state;

	if (d->gone)
		return;
	d->gone = true;
	e->calls->gone(d);
	for (unsigned i = 0; i < RDMA_PORTS_MAX; i++)
		if (d->ports[i])
			atomic_store(&d->ports[i]->gone, true);
}

/* ---- Ports ---- */

const char *rdma_transport(const struct ibv_device *device, uint8_t link_layer)
{
	if (device->transport_type == IBV_TRANSPORT_IWARP)
		return "iWARP";
	if (device->transport_type != IBV_TRANSPORT_IB)
		return "other";
	return link_layer == IBV_LINK_LAYER_ETHERNET ? "RoCE" : "InfiniBand";
}

/* A device that was unplugged and has returned gets its old entry. */
static struct engine_device *rdma_port_entry(struct worker *w, const char *name, unsigned number)
{
	unsigned count = atomic_load(&w->devices.count);

	for (unsigned i = 0; i < count; i++)
		if (w->devices.list[i].port == number && !strcmp(w->devices.list[i].name, name))
			return &w->devices.list[i];
	return count < WORKER_DEVICES_MAX ? &w->devices.list[count] : NULL;
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
		atomic_fetch_add(&w->devices.count, 1);
	}
	atomic_store(&entry->gone, false);
	d->ports[index] = entry;
	return entry;
}

/* ---- Addresses ---- */

/* Room for the addresses of all ports: the kernel refuses a table that is too small for them. */
static size_t rdma_gid_room(struct ibv_context *verbs)
{
	struct ibv_device_attr device;
	struct ibv_port_attr port;
	size_t room = 0;

	if (ibv_query_device(verbs, &device) != 0)
		return 0;
	for (unsigned i = 1; i <= device.phys_port_cnt; i++)
		if (ibv_query_port(verbs, (uint8_t)i, &port) == 0)
			room += (size_t)MAX(port.gid_tbl_len, 0);
	return room;
}

ssize_t rdma_gid_table(struct ibv_context *verbs, struct ibv_gid_entry **ret_entries)
{
	size_t room = rdma_gid_room(verbs);
	struct ibv_gid_entry *entries = room > 0 ? calloc(room, sizeof(*entries)) : NULL;
	ssize_t count;

	if (!entries)
		return room > 0 ? -ENOMEM : -EIO;
	count = ibv_query_gid_table(verbs, entries, room, 0);
	if (count >= 0)
		*ret_entries = entries;
	else
		free(entries);
	return count;
}

int rdma_gid_find(struct ibv_context *verbs, unsigned port, const void *gid,
		  struct ibv_gid_entry *ret_entry)
{
	struct ibv_gid_entry *entries = NULL;
	ssize_t count = rdma_gid_table(verbs, &entries);
	int rc = count < 0 ? (int)count : -EADDRNOTAVAIL;

	for (ssize_t i = 0; i < count && rc < 0; i++) {
		if (entries[i].gid_type != IBV_GID_TYPE_ROCE_V2 ||
		    entries[i].gid_index > UINT8_MAX || /* more than ibv_global_route can name */
		    (port && entries[i].port_num != port) ||
		    memcmp(&entries[i].gid, gid, sizeof(entries[i].gid)) != 0)
			continue;
		*ret_entry = entries[i];
		rc = 0;
	}
	free(entries);
	return rc;
}
