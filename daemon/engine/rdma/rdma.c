/* Engine `rdma`: reliable connections through the RDMA connection manager.
 *
 * The receives that are posted are a client's credit; each is a chunk of the pool, which is
 * registered once per worker and device.  Completions are polled; when there are none the worker
 * asks for an event and sleeps in epoll, where the connection manager's and the devices' events
 * arrive as well. */
#include "rdma.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "conn.h"
#include "engine.h"
#include "rdma_ud.h"
#include "worker.h"

enum {
	RDMA_UNWATCHED_MAX = 16,       /* turns that completions may keep other events waiting */
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
		enum rdma_tag tag = wc[i].wr_id & RDMA_TAG_MASK;
		/* A number is all that the verbs give back.  NOLINTNEXTLINE(*-no-int-to-ptr) */
		void *of = (void *)(uintptr_t)(wc[i].wr_id - tag);

		switch (tag) {
		case RDMA_TAG_SHARED:
			rdma_shared_received(d, of, &wc[i]);
			break;
		case RDMA_TAG_DATAGRAM:
			rdma_ud_received(d, of, &wc[i]);
			break;
		case RDMA_TAG_DATAGRAM_SENT:
			rdma_ud_sent(of, &wc[i]);
			break;
		default:
			rdma_queue_completed(of, &wc[i], tag == RDMA_TAG_RECV);
		}
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
	if (timeout_ms)
		worker_awake(w); /* rdma_wait() does it for the others */
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
	bool gone = false;
	int timeout_ms;
	unsigned n;

	rdma_cm_end_all(w);
	for (struct rdma_device *d = e->devices; d; d = d->next) {
		if (d->uds)
			rdma_ud_tend(d);
		gone |= d->gone;
	}
	if (unlikely(gone))
		rdma_device_sweep(e);
	for (struct rdma_device *d = e->devices; d; d = d->next)
		if (d->srq) /* what came back with those that are gone is for the others */
			rdma_shared_feed(d);
	while (e->hungry) {
		struct rdma_conn *r = e->hungry;

		e->hungry = r->hungry_next;
		r->hungry = false;
		rdma_queue_feed(r);
		if (r->remote_unposted)
			rdma_queue_flush(r->conn);
	}
	block = block && !w->ready;
	n = rdma_poll(e);
	if (n == 0 && block && w->options.busy_poll_ns)
		n = rdma_spin(w);
	if (n == 0 && block)
		n = rdma_arm(e);
	timeout_ms = n == 0 && block ? rdma_timeout(w->deadline_ns) : 0;
	if (timeout_ms == 0)
		worker_awake(w);
	if (n == 0 || ++e->unwatched >= RDMA_UNWATCHED_MAX)
		rdma_other_events(w, timeout_ms);
}

/* ---- The engine ---- */

static int rdma_refuse(struct reason *reason, const char *what, int error)
{
	return reason_set(reason, -error, "%s: %s; %s", what, strerror(error),
			  error == EACCES || error == EPERM || error == ENOENT ? RDMA_ACCESS_MEND
									       : "");
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
	rdma_hotplug_close(e);
	if (e->epoll_fd >= 0)
		close(e->epoll_fd);
	free(e->listeners);
	free(e);
	w->engine_state = NULL;
}

/* One of the devices at least must be usable; the last reason why not. */
static int rdma_prepare_any(struct worker *w, struct reason *reason)
{
	int count = 0, usable = 0;
	struct ibv_context **list = rdma_get_devices(&count);

	for (int i = 0; list && i < count; i++) {
		struct rdma_device *d = rdma_device_get(w, list[i], reason);

		usable += d && rdma_device_serves(d, 1, reason) == 0;
	}
	if (list)
		rdma_free_devices(list);
	if (count == 0)
		return rdma_no_devices(reason);
	return usable ? 0 : -EIO;
}

/* Better now than with the first connection is found out what the devices refuse: those of the
 * addresses, or of a wildcard or a probe all. */
static int rdma_prepare(struct worker *w, struct reason *reason)
{
	const struct rdma *first = w->team_count ? w->team[0].engine_state : NULL;

	if (!first || !first->devices)
		return rdma_prepare_any(w, reason);
	for (const struct rdma_device *d = first->devices; d && w->index > 0; d = d->next) {
		struct rdma_device *own = rdma_device_get(w, d->verbs, reason);

		if (!own)
			return -EIO;
		for (const struct rdma_ud *ud = d->uds; ud; ud = ud->next)
			if (!rdma_ud_get(own, ud->port, reason))
				return -EIO;
	}
	return 0;
}

/* The libraries find devices without it, but not all of their addresses. */
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
	int rc;

	if (rdma_count_devices() == 0)
		return rdma_no_devices(reason);
	rc = rdma_try_netlink(reason);
	if (rc < 0)
		return rc;
	e->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (e->epoll_fd < 0)
		return rdma_refuse(reason, "epoll_create1", errno);
	e->channel = rdma_create_event_channel();
	if (!e->channel) { /* errno is that of some other attempt */
		rc = access(RDMA_MANAGER, R_OK | W_OK) < 0 ? errno : ENODEV;
		return rdma_refuse(reason, RDMA_MANAGER, rc);
	}
	e->channel_op.done = rdma_cm_event;
	rc = rdma_watch(w, e->channel->fd, &e->channel_op);
	if (rc < 0)
		return rdma_refuse(reason, "cannot watch the connection manager", -rc);
	rdma_hotplug_open(e);
	rc = rdma_cm_bind(w, reason);
	return rc < 0 ? rc : rdma_prepare(w, reason);
}

static const struct engine engine_rdma_datagrams;

static int rdma_init(struct worker *w, struct reason *reason)
{
	struct rdma *e = calloc(1, sizeof(*e));
	int rc;

	if (!e)
		return reason_set(reason, -ENOMEM, "rdma: no memory");
	e->epoll_fd = e->hotplug_fd = e->retry_fd = -1;
	e->worker = w;
	w->engine_state = e;
	if (w->options.qp_type == QP_UD)
		w->engine = &engine_rdma_datagrams;
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

#define RDMA_ENGINE                                                                                \
	.name = "rdma", .transport = TRANSPORT_RDMA, .messages = true, .sample_turns = 8,          \
	.init = rdma_init, .fini = rdma_fini, .examine = rdma_examine, .listen = rdma_no_sockets,  \
	.accept = rdma_cm_accept, .watch = rdma_watch, .wait = rdma_wait

const struct engine engine_rdma = {
	RDMA_ENGINE,
	.open = rdma_cm_open,
	.recv = rdma_recv,
	.flush = rdma_queue_flush,
	.close = rdma_cm_end,
	.release = rdma_release,
	.peer = rdma_peer,
	.device = rdma_device_of,
	.remote = rdma_remote_submit,
	.region = rdma_region,
};

/* What a worker with `qp-type = ud` goes on with: the same, but for its connections. */
static const struct engine engine_rdma_datagrams = {
	RDMA_ENGINE,
	.open = rdma_ud_open,
	.recv = rdma_ud_recv,
	.flush = rdma_ud_flush,
	.close = rdma_ud_close,
	.release = rdma_ud_release,
	.peer = rdma_ud_peer,
	.device = rdma_ud_device,
};
