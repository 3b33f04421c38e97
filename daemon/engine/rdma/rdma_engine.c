/* Engine `rdma`: waiting, hot plug, start and end. */
#include "rdma_engine.h"

#include <errno.h>
#include <linux/netlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cm.h"
#include "pair_socket.h"
#include "step.h"
#include "worker.h"

enum {
	RDMA_EVENTS_MAX = 64,          /* events taken at a time */
	RDMA_UNWATCHED_MAX = 16,       /* turns for which completions may delay other events */
	RDMA_LOOK_NS = 50 * NS_PER_US, /* how often a spinning worker handles other events */
};

/* ---- Waiting ---- */

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
	if (n < 0)
		worker_wait_failed(w, "epoll_wait", errno);
	if (timeout_ms)
		worker_awake(w); /* on the other paths rdma_wait() does it */
	for (int i = 0; i < n; i++) {
		struct op *op = events[i].data.ptr;

		op->done(op, (int)events[i].events, 0);
	}
	return n;
}

/* Handles other events now and then, or requests to connect would wait until the spinning ends. */
static unsigned rdma_spin(struct worker *w)
{
	uint64_t now = clock_ns(), end = w->spin.begun_ns + w->spin.ns;
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
	int timeout_ms;
	unsigned n;
	bool spins;

	rdma_conn_end_all(e);
	rdma_device_sweep(e);
	rdma_conn_refill_all(e);
	block = block && !w->turn.ready;
	n = rdma_poll(e);
	spins = n == 0 && block && w->spin.max_ns;
	if (spins && worker_begin_spin(w))
		n = rdma_spin(w);
	if (n == 0 && block)
		n = rdma_arm(e);
	if (n > 0) /* receives first: the next message may be on its way */
		rdma_conn_refill_all(e);
	timeout_ms = n == 0 && block ? rdma_timeout(w->deadlines.wake_ns) : 0;
	if (timeout_ms == 0)
		worker_awake(w);
	if (n == 0 || ++e->unwatched >= RDMA_UNWATCHED_MAX)
		rdma_other_events(w, timeout_ms);
	if (spins)
		worker_end_spin(w);
}

/* ---- Devices that are unplugged ----
 *
 * The connection manager sends an event to each identifier on the device.  But workers without one
 * get none, and if the module rdma_cm was loaded before ib_uverbs, the kernel waits until all have
 * closed the device before it notifies the connection manager.  So its file in /dev/infiniband,
 * which is removed first, is watched as well. */

enum { HOTPLUG_EVENTS_BYTES = 4096 };

static void rdma_file_gone(struct rdma *e, const char *name)
{
	for (struct rdma_device *d = e->devices; d; d = d->next)
		if (!strcmp(d->verbs->device->dev_name, name))
			rdma_cm_removed(e->worker, NULL, d->verbs);
}

static void rdma_hotplug_event(struct op *op, int res, uint32_t flags)
{
	struct rdma *e = container_of(op, struct rdma, hotplug_op);
	char events[HOTPLUG_EVENTS_BYTES]
		__attribute__((aligned(__alignof__(struct inotify_event))));
	ssize_t bytes;

	(void)res, (void)flags;
	while ((bytes = read(e->hotplug_fd, events, sizeof(events))) > 0) {
		const struct inotify_event *event;

		for (char *at = events; at < events + bytes; at += sizeof(*event) + event->len) {
			event = (const struct inotify_event *)(void *)at;
			if (event->len > 0)
				rdma_file_gone(e, event->name);
		}
	}
	rdma_let_go(NULL); /* closes devices that the library has opened and no worker uses */
}

static void rdma_hotplug_open(struct rdma *e)
{
	e->hotplug_op.done = rdma_hotplug_event;
	e->hotplug_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (e->hotplug_fd >= 0 &&
	    inotify_add_watch(e->hotplug_fd, "/dev/infiniband", IN_DELETE) >= 0)
		rdma_watch(e->worker, e->hotplug_fd, &e->hotplug_op);
}

/* ---- Setup and teardown ---- */

static void rdma_close(struct worker *w)
{
	struct rdma *e = w->engine_state;

	while (e->devices) {
		struct rdma_device *d = e->devices;

		e->devices = d->next;
		rdma_device_free(d);
	}
	rdma_cm_close(w);
	if (e->hotplug_fd >= 0)
		close(e->hotplug_fd);
	if (e->epoll_fd >= 0)
		close(e->epoll_fd);
	free(e);
	w->engine_state = NULL;
}

/* Opens the host's devices for which want() is true (NULL: all).  At least one must be usable; else
 * -errno with the last reason. */
static int rdma_prepare_all(struct worker *w,
			    bool (*want)(const struct worker *w, const char *name),
			    struct reason *reason)
{
	int count = 0, usable = 0;
	struct ibv_context **list = rdma_get_devices(&count);

	for (int i = 0; list && i < count; i++) {
		if (want && !want(w, ibv_get_device_name(list[i]->device)))
			continue;
		usable += rdma_device_get(w, list[i], reason) != NULL;
	}
	if (list)
		rdma_free_devices(list);
	if (count == 0)
		return rdma_no_devices(reason);
	return usable ? 0 : -EIO;
}

/* Is an address of the first worker on this device? */
static bool rdma_team_uses(const struct worker *w, const char *name)
{
	const struct worker *first = &w->team.workers[0];

	for (unsigned i = 0; i < atomic_load(&first->devices.count); i++)
		if (!strcmp(first->devices.list[i].name, name))
			return true;
	return false;
}

/* Opens the devices of the listener's addresses (all, for a wildcard or a probe) at the start, so
 * that errors show now and not with the first connection. */
static int rdma_prepare(struct worker *w, struct reason *reason)
{
	const struct rdma *e = w->engine_state;
	bool by_address = w->team.count > 0 && atomic_load(&w->team.workers[0].devices.count) > 0;

	if (by_address && w->index == 0)
		return e->devices ? 0 : -ENODEV;
	return rdma_prepare_all(w, by_address ? rdma_team_uses : NULL, reason);
}

/* Is netlink usable?  Without it the libraries find devices, but not all of their addresses. */
static int rdma_try_netlink(struct reason *reason)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA);
	int error = errno;

	if (fd >= 0)
		close(fd);
	if (fd >= 0 || error != EAFNOSUPPORT)
		return 0;
	return reason_set(reason, -error,
			  "netlink sockets: %s; RestrictAddressFamilies=AF_NETLINK in the unit "
			  "(nbserved-rdma.conf has it)",
			  strerror(error));
}

static int rdma_start(struct worker *w, struct reason *reason)
{
	struct rdma *e = w->engine_state;
	int count = 0, rc;
	struct ibv_device **list = ibv_get_device_list(&count);

	if (list)
		ibv_free_device_list(list);
	if (count == 0)
		return rdma_no_devices(reason);
	rc = rdma_try_netlink(reason);
	if (rc < 0)
		return rc;
	e->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (e->epoll_fd < 0)
		return reason_set(reason, -errno, "epoll_create1: %s", strerror(errno));
	rc = rdma_cm_open(w, reason);
	if (rc < 0)
		return rc;
	rdma_hotplug_open(e);
	rc = rdma_cm_bind(w, reason);
	return rc < 0 ? rc : rdma_prepare(w, reason);
}

static int rdma_init(struct worker *w, struct reason *reason)
{
	struct rdma *e = calloc(1, sizeof(*e));
	int rc;

	if (!e)
		return reason_set(reason, -ENOMEM, "rdma: no memory");
	e->epoll_fd = e->hotplug_fd = -1;
	e->worker = w;
	e->calls = &rdma_conn_calls;
	STAILQ_INIT(&e->steps);
	w->engine_state = e;
	rc = rdma_start(w, reason);
	if (rc < 0) {
		rdma_close(w);
		return rc;
	}
	worker_feature(w, FEATURE_selective_signalling);
	if (w->spin.max_ns)
		worker_feature(w, FEATURE_busy_poll);
	rdma_exchanges_open(w);
	return 0;
}

/* Also ends the connections that the core has given up. */
static void rdma_fini(struct worker *w)
{
	rdma_steps_await(w);
	rdma_conn_end_all(w->engine_state);
	for (struct conn *c = w->conns; c; c = c->next)
		rdma_conn_release(c);
	rdma_close(w);
}

static const struct engine_remote rdma_engine_remote = {
	.submit = rdma_remote_submit,
	.region = rdma_region,
	.scratch_region = rdma_scratch_region,
	.send_scratch = rdma_send_scratch,
	.pair_mtu = rdma_pair_mtu,
	.pair = rdma_pair,
	.is_pair = rdma_is_pair,
};

extern const struct engine engine_rdma;

const struct engine engine_rdma = {
	.name = "rdma",
	.transport = &transport_rdma,
	.messages = true,
	.sample_turns = 8,
	.features = FEATURE_BIT(busy_poll) | FEATURE_BIT(selective_signalling) |
		    FEATURE_BIT(relaxed_ordering),
	.init = rdma_init,
	.fini = rdma_fini,
	.examine = rdma_examine,
	.watch_listener = rdma_exchange_watch_listener,
	.accept = rdma_cm_accept,
	.choose = rdma_cm_choose,
	.watch = rdma_watch,
	.wait = rdma_wait,
	.open = rdma_conn_open,
	.recv = rdma_conn_recv,
	.flush = rdma_conn_flush,
	.close = rdma_conn_end,
	.release = rdma_conn_release,
	.clients = &rdma_conn_clients,
	.remote = &rdma_engine_remote,
};
