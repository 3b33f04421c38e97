/* Engine `rdma`: listening and requests to connect.
 *
 * The first worker of a listener binds its addresses and receives the requests; it distributes them
 * over all workers.  See cm.h. */
#include "cm.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "parse.h"
#include "sockaddr.h"
#include "worker.h"

enum {
	REJECT_MAX = 128, /* bytes of the reason that a client gets; InfiniBand takes 148 */
	BACKLOG = 1024,
	EVENTS_MAX = 16,            /* that one turn handles */
	RETRY_NS = 500 * NS_PER_MS, /* until an address that was lost is bound again */
};

/* ---- The event channel ---- */

/* Counted, as an identifier that is handed over needs the old channel until it is moved, and the
 * worker that made the channel may end before. */
struct rdma_channel {
	struct rdma_event_channel *events;
	_Atomic unsigned refs;
};

/* NULL: it cannot be made. */
static struct rdma_channel *channel_new(void)
{
	struct rdma_channel *channel = calloc(1, sizeof(*channel));

	if (channel)
		channel->events = rdma_create_event_channel();
	if (!channel || !channel->events) {
		free(channel);
		return NULL;
	}
	atomic_init(&channel->refs, 1);
	return channel;
}

/* Any thread. */
static void channel_put(struct rdma_channel *channel)
{
	if (atomic_fetch_sub(&channel->refs, 1) > 1)
		return;
	rdma_destroy_event_channel(channel->events);
	free(channel);
}

/* The state of a worker. */
struct rdma_cm {
	struct worker *worker;
	struct rdma_channel *channel;
	struct op op, retry_op;
	int retry_fd;
	struct rdma_cm_id *
		*listeners;   /* by index of w->accept.endpoints; NULL: not bound, or lost */
	unsigned next_worker; /* index in w->team.workers */
	bool listening;       /* accepting on w->accept.endpoints */
};

static struct rdma_cm *rdma_cm_of(const struct worker *w)
{
	const struct rdma *e = w->engine_state;

	return e->cm;
}

/* ---- Listening ---- */

static const char *rdma_cm_advice(int error)
{
	switch (error) {
	case EADDRINUSE:
		return "; another listener has that port, or a connection (rdma resource show "
		       "cm_id shows both): choose another port";
	case ENODEV:
	case EADDRNOTAVAIL:
		return "; no RDMA device of this host has that address (rdma link shows the devices, "
		       "ip address their addresses)";
	case EACCES:
		return "; ports below 1024 need CAP_NET_BIND_SERVICE";
	default:
		return "";
	}
}

static int rdma_cm_create(struct rdma_cm *cm, const struct sockaddr_storage *address,
			  struct rdma_cm_id **ret_id)
{
	int on = 1;

	if (rdma_create_id(cm->channel->events, ret_id, NULL, RDMA_PS_TCP) < 0)
		return -errno;
	rdma_set_option(*ret_id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on, sizeof(on));
	return rdma_bind_addr(*ret_id, (struct sockaddr *)address) < 0 ? -errno : 0;
}

static int rdma_cm_bind_one(struct worker *w, unsigned index, struct reason *reason)
{
	struct sockaddr_storage *address = &w->accept.endpoints[index];
	struct rdma_cm *cm = rdma_cm_of(w);
	struct rdma_cm_id **id = &cm->listeners[index];
	char text[ADDRESS_TEXT_MAX];
	struct rdma_device *d;
	int rc = rdma_cm_create(cm, address, id);

	if (rc < 0)
		return reason_set(reason, rc, "bind %s: %s%s", format_sockaddr(address, text),
				  strerror(-rc), rdma_cm_advice(-rc));
	memcpy(address, rdma_get_local_addr(*id), sockaddr_size(address));
	if (!(*id)->verbs) /* a wildcard address has no device */
		return 0;
	d = rdma_device_get(w, (*id)->verbs, reason);
	if (!d)
		return -EIO;
	rdma_device_port(d, (*id)->port_num);
	return 0;
}

/* The kernel takes the port of an iWARP device from TCP now, not when the address was bound; a
 * wildcard address listens on all devices or, when one of them fails, on none. */
static int rdma_cm_listen(struct worker *w, unsigned index, struct reason *reason)
{
	struct rdma_cm *cm = rdma_cm_of(w);
	char text[ADDRESS_TEXT_MAX];
	int rc = rdma_listen(cm->listeners[index], BACKLOG) < 0 ? -errno : 0;

	if (rc == 0)
		return 0;
	return reason_set(reason, rc, "listen %s: %s%s",
			  format_sockaddr(&w->accept.endpoints[index], text), strerror(-rc),
			  rc == -EADDRINUSE
				  ? "; another listener or program has this port on one of the "
				    "devices (iWARP devices take their ports from TCP): choose "
				    "another port, or the address of a single device"
				  : rdma_cm_advice(-rc));
}

static void rdma_cm_drop(struct rdma_cm *cm, unsigned index)
{
	if (cm->listeners[index])
		rdma_destroy_id(cm->listeners[index]);
	cm->listeners[index] = NULL;
}

/* Binds an address and listens at it.  0, or -errno: its device is missing, or not ready yet. */
static int rdma_cm_listen_one(struct worker *w, unsigned index, struct reason *reason)
{
	int rc = rdma_cm_bind_one(w, index, reason);

	if (rc == 0)
		rc = rdma_cm_listen(w, index, reason);
	if (rc < 0)
		rdma_cm_drop(rdma_cm_of(w), index);
	return rc;
}

int rdma_cm_bind(struct worker *w, struct reason *reason)
{
	int rc = 0;

	for (unsigned i = 0; i < w->accept.endpoint_count && rc == 0; i++)
		rc = rdma_cm_listen_one(w, i, reason);
	return rc;
}

static void rdma_cm_unbind(struct worker *w)
{
	struct rdma_cm *cm = rdma_cm_of(w);

	for (unsigned i = 0; cm->listeners && i < w->accept.endpoint_count; i++)
		rdma_cm_drop(cm, i);
}

void rdma_cm_accept(struct worker *w, bool on)
{
	struct rdma_cm *cm = rdma_cm_of(w);

	cm->listening = on;
	if (!on)
		rdma_cm_unbind(w);
}

static bool rdma_cm_listen_again(struct worker *w)
{
	struct rdma_cm *cm = rdma_cm_of(w);
	struct reason reason = { "" };
	bool all = true;

	for (unsigned i = 0; cm->listening && i < w->accept.endpoint_count; i++)
		if (!cm->listeners[i] && rdma_cm_listen_one(w, i, &reason) < 0)
			all = false;
	return all;
}

/* ---- Addresses that were lost with a device ---- */

static void rdma_cm_retry(const struct rdma_cm *cm)
{
	struct itimerspec when = { .it_value.tv_nsec = RETRY_NS };

	timerfd_settime(cm->retry_fd, 0, &when, NULL);
}

static void rdma_cm_retry_event(struct op *op, int res, uint32_t flags)
{
	struct rdma_cm *cm = container_of(op, struct rdma_cm, retry_op);
	uint64_t times;

	(void)res, (void)flags;
	if (read(cm->retry_fd, &times, sizeof(times)) > 0 && !rdma_cm_listen_again(cm->worker))
		rdma_cm_retry(cm);
}

/* ---- Requests to connect ---- */

void rdma_cm_reject(const struct worker *w, struct rdma_cm_id *id, const char *why)
{
	struct connect_data connect_data = { 0 };
	char text[REJECT_MAX] = "";

	if (w->service->connect && w->service->connect(w, &connect_data) < 0) {
		rdma_reject(id, connect_data.reply, connect_data.reply_bytes);
		return;
	}
	strncpy(text, why, sizeof(text) - 1);
	rdma_reject(id, text, (uint8_t)(strlen(text) + 1));
}

void rdma_request_free(struct rdma_request *request)
{
	if (request->channel)
		channel_put(request->channel);
	free(request);
}

void rdma_request_refuse(struct rdma_request *request, const char *why)
{
	rdma_cm_reject(request->worker, request->id, why);
	rdma_destroy_id(request->id);
	rdma_request_free(request);
}

void rdma_request_refuse_connect(struct rdma_request *request,
				 const struct connect_data *connect_data)
{
	rdma_reject(request->id, connect_data->reply, connect_data->reply_bytes);
	rdma_destroy_id(request->id);
	rdma_request_free(request);
}

/* ---- From worker to worker ---- */

/* Runs on the new worker: moves the identifier, and so its events, to this worker's channel; waits
 * until events of the old channel have been acknowledged.  If the worker has ended, runs on the
 * owner's thread instead. */
static void rdma_request_handed_over(struct call *call)
{
	struct rdma_request *request = container_of(call, struct rdma_request, call);
	struct worker *w = request->worker;
	const struct rdma *e = w->engine_state;

	if (!e) {
		rdma_request_refuse(request, "stopping");
	} else if (rdma_migrate_id(request->id, e->cm->channel->events) < 0) {
		rdma_request_refuse(request, "no memory");
	} else {
		channel_put(request->channel);
		request->channel = NULL;
		e->calls->requested(w, request);
	}
}

/* Accesses nothing of the other worker but its mailbox, which its owner empties after its end. */
static void rdma_request_hand_over(struct worker *to, struct rdma_request *request)
{
	request->channel = rdma_cm_of(request->worker)->channel;
	atomic_fetch_add(&request->channel->refs, 1);
	request->worker = to;
	request->call.fn = rdma_request_handed_over;
	mailbox_post(&to->mailbox, &request->call);
}

/* Round robin, or by address (SERVICE_SAME_WORKER). */
struct worker *rdma_cm_choose(const struct worker *w, const struct sockaddr_storage *peer)
{
	struct in6_addr address = sockaddr_mapped(peer);
	unsigned hash = 0;

	if (!(w->service->flags & SERVICE_SAME_WORKER))
		hash = rdma_cm_of(w)->next_worker++;
	else
		for (unsigned i = 0; i < sizeof(address); i++)
			hash = hash * 31 + address.s6_addr[i];
	return &w->team.workers[hash % w->team.count];
}

static void rdma_cm_requested(struct worker *w, struct rdma_cm_id *id, struct rdma_request *request)
{
	const struct rdma *e = w->engine_state;
	const void *peer = rdma_get_peer_addr(id);
	struct worker *to = w;

	if (!request || !rdma_cm_of(w)->listening) {
		rdma_cm_reject(w, id, request ? "not serving yet" : "no memory");
		rdma_destroy_id(id);
		free(request);
		return;
	}
	request->worker = w;
	request->id = id;
	memcpy(&request->peer, peer, sockaddr_size(peer));
	if (w->team.count > 1 && !w->turn.stop)
		to = rdma_cm_choose(w, &request->peer);
	if (to == w)
		e->calls->requested(w, request);
	else
		rdma_request_hand_over(to, request);
}

/* ---- Events ---- */

/* A client's request, copied from its event: the event is acknowledged before the request is looked
 * at.  NULL: no memory. */
static struct rdma_request *rdma_cm_read(const struct rdma_conn_param *wanted)
{
	struct rdma_request *request = calloc(1, sizeof(*request));

	if (!request)
		return NULL;
	request->responder_resources = wanted->responder_resources;
	request->initiator_depth = wanted->initiator_depth;
	request->data_bytes = (uint8_t)MIN(wanted->private_data_len, CONNECT_DATA_MAX);
	if (wanted->private_data)
		memcpy(request->data, wanted->private_data, request->data_bytes);
	return request;
}

void rdma_cm_removed(struct worker *w, const struct rdma_cm_id *id, const struct ibv_context *verbs)
{
	struct rdma *e = w->engine_state;

	for (struct rdma_device *d = e->devices; d; d = d->next)
		if (d->verbs == verbs)
			rdma_device_gone(d);
	for (unsigned i = 0; i < w->accept.endpoint_count; i++) {
		struct rdma_cm_id *own = e->cm->listeners[i];

		if (!own || (own != id && (!verbs || own->verbs != verbs)))
			continue;
		rdma_cm_drop(e->cm, i);
		rdma_cm_retry(e->cm);
	}
}

/* An event is acknowledged before it is handled, since an identifier with an unacknowledged event
 * can neither be moved nor destroyed.  After that, an identifier without a context may belong to
 * another worker, so only those known to belong to this worker are accessed. */
static void rdma_cm_handle(struct worker *w, struct rdma_cm_event *event)
{
	const struct rdma *e = w->engine_state;
	struct rdma_cm_id *id = event->id;
	const struct ibv_context *verbs = id->verbs;
	enum rdma_cm_event_type type = event->event;
	bool wish = type == RDMA_CM_EVENT_CONNECT_REQUEST;
	struct rdma_request *request = wish ? rdma_cm_read(&event->param.conn) : NULL;
	void *context = wish ? NULL : id->context;

	rdma_ack_cm_event(event);
	if (wish)
		rdma_cm_requested(w, id, request);
	else if (type == RDMA_CM_EVENT_DEVICE_REMOVAL)
		rdma_cm_removed(w, id, verbs);
	else if (context)
		e->calls->event(context, type);
}

static void rdma_cm_event(struct op *op, int res, uint32_t flags)
{
	struct rdma_cm *cm = container_of(op, struct rdma_cm, op);
	struct rdma_cm_event *event;

	(void)res, (void)flags;
	/* A flood of requests leaves the turn to the connections; the descriptor stays ready. */
	for (unsigned i = 0; i < EVENTS_MAX && rdma_get_cm_event(cm->channel->events, &event) == 0;
	     i++) {
		stat_add(cm->worker->stats.sys_other, 1);
		rdma_cm_handle(cm->worker, event);
	}
}

/* ---- Setup and teardown ---- */

int rdma_cm_identify(const struct worker *w, void *context, bool datagrams,
		     struct rdma_cm_id **ret_id)
{
	enum rdma_port_space space = datagrams ? RDMA_PS_UDP : RDMA_PS_TCP;

	return rdma_create_id(rdma_cm_of(w)->channel->events, ret_id, context, space) < 0 ? -errno
											  : 0;
}

bool rdma_cm_is_iwarp(const struct worker *w, unsigned index)
{
	const struct rdma_cm_id *id = rdma_cm_of(w)->listeners[index];

	return id && id->verbs && id->verbs->device->transport_type == IBV_TRANSPORT_IWARP;
}

static int rdma_cm_refuse(struct reason *reason, const char *what, int error)
{
	return reason_set(
		reason, -error, "%s: %s%s", what, strerror(error),
		error == EACCES || error == EPERM || error == ENOENT ? "; " RDMA_ACCESS_FIX : "");
}

int rdma_cm_open(struct worker *w, struct reason *reason)
{
	struct rdma *e = w->engine_state;
	struct rdma_cm *cm = calloc(1, sizeof(*cm));
	int rc;

	if (!cm)
		return reason_set(reason, -ENOMEM, "rdma: no memory");
	e->cm = cm;
	cm->worker = w;
	cm->op.done = rdma_cm_event;
	cm->retry_op.done = rdma_cm_retry_event;
	cm->retry_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	cm->listeners = calloc(w->accept.endpoint_count + 1, sizeof(struct rdma_cm_id *));
	if (cm->retry_fd < 0 || !cm->listeners)
		return reason_set(reason, -ENOMEM, "rdma: no memory");
	cm->channel = channel_new();
	if (!cm->channel) { /* the library's errno is of an earlier attempt */
		rc = access(RDMA_MANAGER, R_OK | W_OK) < 0 ? errno : ENODEV;
		return rdma_cm_refuse(reason, RDMA_MANAGER, rc);
	}
	rc = rdma_watch(w, cm->channel->events->fd, &cm->op);
	if (rc == 0)
		rc = rdma_watch(w, cm->retry_fd, &cm->retry_op);
	return rc < 0 ? rdma_cm_refuse(reason, "cannot watch the connection manager", -rc) : 0;
}

void rdma_cm_close(struct worker *w)
{
	struct rdma *e = w->engine_state;
	struct rdma_cm *cm = e->cm;

	if (!cm)
		return;
	rdma_cm_unbind(w);
	if (cm->channel)
		channel_put(cm->channel);
	if (cm->retry_fd >= 0)
		close(cm->retry_fd);
	free(cm->listeners);
	free(cm);
	e->cm = NULL;
}
