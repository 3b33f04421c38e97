/* Varlink server: the socket, the interfaces, and dispatching of calls; how a call is
 * answered is in varlink_call.c.  Owns the clients, by slot, and the accounts of their users.
 * Main thread.  See varlink.h. */
#include "varlink.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "log.h"
#include "reserve.h"
#include "util.h"
#include "varlink_internal.h"

enum {
	/* Pause of accepting when the process is out of descriptors. */
	ACCEPT_PAUSE_US = 1000 * 1000,
	/* Pause after accepting a client of a user that has used its share of CPU time.  A client
	 * that connects again and again then takes little time, and the backlog still passes in
	 * less than a second. */
	ACCEPT_SHARE_US = 10 * 1000,
	ACCURACY_US = 1000,
	BACKLOG = 64,
};

static bool client_may(const struct varlink_client *c, enum varlink_access access)
{
	if (varlink_user_is_trusted(&c->varlink->users, c->peer.uid))
		return true;
	return access == VARLINK_READ && c->peer.in_group;
}

static const struct varlink_method *find_method(const struct varlink_interface *interface,
						const char *name)
{
	for (const struct varlink_method *m = interface->methods; m->name; m++) {
		if (strcmp(m->name, name) == 0)
			return m;
	}
	return NULL;
}

/* Finds call->method and call->userdata, or answers the call with an error. */
static bool call_resolve(struct varlink_call *call)
{
	static const struct varlink_method unknown = { .name = "" };
	const struct varlink *v = call->client->varlink;
	const char *method = call->request.method, *dot = strrchr(method, '.');
	size_t length = dot ? (size_t)(dot - method) : 0;

	call->method = &unknown;
	if (!dot || length == 0 || dot[1] == '\0') {
		varlink_invalid_parameter(call, "method");
		return false;
	}
	for (unsigned i = 0; i < v->interface_count; i++) {
		const struct varlink_interface *interface = v->interfaces[i].interface;
		const struct varlink_method *found;

		if (strlen(interface->name) != length || memcmp(interface->name, method, length))
			continue;
		found = find_method(interface, dot + 1);
		if (!found) {
			varlink_service_error(call, "MethodNotFound", "method", method);
			return false;
		}
		call->method = found;
		call->userdata = v->interfaces[i].userdata;
		return true;
	}
	varlink_error(call, "org.varlink.service.InterfaceNotFound",
		      json_pack("{s:s%}", "interface", method, length));
	return false;
}

/* Checks the call and runs its handler.  Each failed check is an answer, which ends the call. */
static void on_call(struct varlink_call *call)
{
	const char *invalid;

	if (!call_resolve(call))
		return;
	if (!client_may(call->client, call->method->access)) {
		varlink_service_error(call, "PermissionDenied", NULL, NULL);
		return;
	}
	invalid = varlink_check_parameters(call->method->parameters, call->request.parameters);
	if (invalid) {
		varlink_invalid_parameter(call, invalid);
		return;
	}
	call->method->handle(call, call->request.parameters);
	assert(!call->method || call->cancel); /* the handler has answered or deferred */
}

static int on_accept_resume(sd_event_source *source, uint64_t time_us, void *userdata)
{
	struct varlink *v = userdata;

	(void)source, (void)time_us;
	sd_event_source_set_enabled(v->accept, SD_EVENT_ON);
	return 0;
}

/* Stops watching the listening socket for a while. */
static void accept_pause(struct varlink *v, uint64_t pause_us)
{
	sd_event_source_set_enabled(v->accept, SD_EVENT_OFF);
	sd_event_source_set_time_relative(v->accept_timer, pause_us);
	sd_event_source_set_enabled(v->accept_timer, SD_EVENT_ONESHOT);
}

static void log_refusal(const struct varlink *v, uid_t uid)
{
	static struct log_limit limit;
	unsigned missed;

	if (!log_limited(&limit, &missed))
		return;
	log_warning("%s: uid %u is refused: it has %d clients, or all but root and uid %u have %d",
		    v->socket.address.sun_path, (unsigned)uid, VARLINK_USER_CLIENTS_MAX,
		    (unsigned)v->users.own, VARLINK_OTHERS_MAX);
	if (missed)
		log_info("%u message%s like this dropped", missed, plural(missed));
}

/* Takes ownership of fd.  0 or -errno. */
static int welcome(struct varlink *v, int fd, struct varlink_user **ret_user)
{
	struct unix_peer peer;
	unsigned slot = 0;
	int rc = unix_socket_peer(fd, v->group, &peer);

	if (rc < 0) {
		close(fd);
		return rc;
	}
	*ret_user = varlink_user_find(&v->users, peer.uid);
	if (!varlink_user_enter(&v->users, *ret_user)) {
		log_refusal(v, peer.uid);
		close(fd);
		return 0;
	}
	while (v->clients[slot])
		slot++;
	assert(slot < VARLINK_CLIENTS_MAX); /* there are as many slots as places of all users */
	return varlink_client_new(v, fd, &peer, *ret_user, slot);
}

/* Accepts one client per event, and charges its user for the cost: else a client that connects
 * repeatedly would take the main thread's time for nothing. */
static int on_accept(sd_event_source *source, int listen_fd, uint32_t events, void *userdata)
{
	struct varlink *v = userdata;
	uint64_t begin_ns = clock_thread_ns();
	struct varlink_user *user = NULL;
	int fd, rc;

	(void)source, (void)events;
	do
		fd = accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	while (fd < 0 && reserve_use(errno));
	if (fd < 0) {
		if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)
			return 0;
		log_warning("%s: accept: %s", v->socket.address.sun_path, strerror(errno));
		/* Without the pause the loop would spin, as the socket stays readable. */
		accept_pause(v, ACCEPT_PAUSE_US);
		return 0;
	}
	rc = welcome(v, fd, &user);
	if (rc < 0)
		log_warning("%s: new client: %s", v->socket.address.sun_path, strerror(-rc));
	if (!user)
		return 0;
	varlink_client_charge(user, begin_ns);
	if (varlink_user_wait_us(user, clock_ns() / NS_PER_US) > 0)
		accept_pause(v, ACCEPT_SHARE_US);
	return 0;
}

int varlink_new(sd_event *event, const struct varlink_info *info, struct varlink **ret_varlink)
{
	struct varlink *v = calloc(1, sizeof(*v));

	if (!v)
		return -ENOMEM;
	v->event = sd_event_ref(event);
	v->info = info;
	v->on_call = on_call;
	v->group = (gid_t)-1;
	v->users.own = geteuid();
	v->socket.fd = -1;
	varlink_add_interface(v, &varlink_service, v);
	*ret_varlink = v;
	return 0;
}

void varlink_add_interface(struct varlink *v, const struct varlink_interface *interface,
			   void *userdata)
{
	assert(v->interface_count < VARLINK_INTERFACES_MAX);
	v->interfaces[v->interface_count].interface = interface;
	v->interfaces[v->interface_count++].userdata = userdata;
}

int varlink_listen(struct varlink *v, const char *path, gid_t group, struct reason *reason)
{
	int rc = unix_socket_open(path, group, BACKLOG, &v->socket, reason);

	if (rc < 0)
		return rc;
	v->group = group;
	rc = sd_event_add_io(v->event, &v->accept, v->socket.fd, EPOLLIN, on_accept, v);
	if (rc >= 0)
		rc = sd_event_source_set_priority(v->accept, VARLINK_PRIORITY_TRUSTED);
	if (rc >= 0)
		rc = sd_event_add_time(v->event, &v->accept_timer, CLOCK_MONOTONIC, UINT64_MAX,
				       ACCURACY_US, on_accept_resume, v);
	if (rc < 0)
		return reason_set(reason, rc, "cannot watch %s: %s", path, strerror(-rc));
	return 0;
}

void varlink_free(struct varlink *v)
{
	if (!v)
		return;
	for (unsigned slot = 0; slot < VARLINK_CLIENTS_MAX; slot++) {
		if (v->clients[slot])
			varlink_client_free(v->clients[slot]);
	}
	sd_event_source_disable_unref(v->accept);
	sd_event_source_disable_unref(v->accept_timer);
	unix_socket_close(&v->socket);
	sd_event_unref(v->event);
	free(v);
}
