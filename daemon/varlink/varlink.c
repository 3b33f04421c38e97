/* Varlink server: its connections, the answers to their calls, the socket, the interfaces, and the
 * dispatching of calls.  Owns the clients, by slot, and the accounts of their users.
 *
 * A client is freed only from its own event sources (client_run()) and from varlink_free(), never
 * within a handler: code that finds an error marks the client by client_drop().  Main thread.  See
 * varlink.h. */
#include "varlink.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "log.h"
#include "reserve.h"
#include "util.h"
#include "varlink_user.h"

struct varlink_call {
	struct varlink_client *client;
	struct varlink_request request;
	const struct varlink_method *method; /* NULL: no call is being answered */
	void (*cancel)(struct varlink_call *call, void *state);
	void *state;
};

/* Output that the kernel has not taken yet: bytes [start, bytes) of data. */
struct varlink_output {
	char *data;
	size_t start, bytes, room;
};

/* The step that a client has to take within a time limit, see client_await(). */
enum varlink_wait {
	VARLINK_WAIT_NONE, /* no step: the client waits for us */
	VARLINK_WAIT_TURN, /* no step: the client waits for us, and other clients come first */
	VARLINK_WAIT_CALL, /* to begin a call */
	VARLINK_WAIT_REST, /* to finish the message that it began */
	VARLINK_WAIT_TAKE, /* to read its answers */
	/* No step: the client waits until its user has a share of CPU time again. */
	VARLINK_WAIT_SHARE,
};

struct varlink_client {
	struct varlink *varlink;
	struct varlink_user *user;
	unsigned slot; /* in varlink->clients */
	int fd;
	struct unix_peer peer;
	const char *dropped; /* the reason for which it is being dropped; NULL: it is not */
	bool eof;            /* it has closed its sending side */
	bool running;        /* in client_run() */
	struct varlink_reader reader;
	struct varlink_output output;
	enum varlink_wait wait;
	sd_event_source *io, *timer, *kick;
	struct varlink_call call;
};

struct varlink {
	sd_event *event;
	const struct varlink_interface *interface; /* besides org.varlink.service */
	void *userdata;                            /* of its handlers */
	gid_t group;
	struct unix_socket socket;
	sd_event_source *accept, *accept_timer;
	struct varlink_users users;
	struct varlink_client *clients[VARLINK_CLIENTS_MAX];
};

/* Of sd-event: new clients and those of root and our own user are dispatched before others'. */
enum {
	VARLINK_PRIORITY_TRUSTED = SD_EVENT_PRIORITY_NORMAL - 2,
	VARLINK_PRIORITY_OTHERS = SD_EVENT_PRIORITY_NORMAL,
};

/* True: the kernel has not taken all output for the client. */
static bool client_output_pending(const struct varlink_client *c)
{
	return c->output.start < c->output.bytes;
}

/* ---- Connections: input, the call being answered, and output ---- */

enum {
	READ_BYTES = 64 * 1024,
	OUTPUT_MIN = 4096,
	RUN_MAX = 16, /* messages of one client that are handled in a row */
	US_PER_S = 1000 * 1000,
	ACCURACY_US = 10 * 1000,
};

/* To be called when the client's call has ended or there is output: the event loop then runs it. */
static void client_kick(struct varlink_client *c)
{
	if (!c->running)
		sd_event_source_set_enabled(c->kick, SD_EVENT_ONESHOT);
}

/* Ends the client; it is freed later, from the event loop. */
static void client_drop(struct varlink_client *c, const char *why)
{
	if (!c->dropped)
		c->dropped = why;
	client_kick(c);
}

static void client_free(struct varlink_client *c)
{
	struct varlink *v = c->varlink;

	if (c->dropped)
		log_debug("%s: client of uid %u, pid %d: dropped: %s", v->socket.address.sun_path,
			  (unsigned)c->peer.uid, (int)c->peer.pid, c->dropped);
	c->dropped = "gone";
	if (c->call.method && c->call.cancel)
		c->call.cancel(&c->call, c->call.state);
	varlink_request_free(&c->call.request);
	varlink_reader_free(&c->reader);
	free(c->output.data);
	sd_event_source_disable_unref(c->io);
	sd_event_source_disable_unref(c->timer);
	sd_event_source_disable_unref(c->kick);
	close(c->fd);
	reserve_refill();
	v->clients[c->slot] = NULL;
	varlink_user_leave(c->user);
	free(c);
}

/* Charges the user for CPU time since begin_ns, see clock_thread_ns(), and returns now. */
static uint64_t client_charge(struct varlink_user *user, uint64_t begin_ns)
{
	uint64_t end_ns = clock_thread_ns();

	varlink_user_charge(user, clock_ns() / NS_PER_US, end_ns - begin_ns);
	return end_ns;
}

static uint64_t client_share_wait_us(const struct varlink_client *c)
{
	return varlink_user_wait_us(c->user, clock_ns() / NS_PER_US);
}

static bool client_has_share(const struct varlink_client *c)
{
	return client_share_wait_us(c) == 0;
}

/* A json_dump_callback_t. */
static int output_append(const char *data, size_t bytes, void *userdata)
{
	struct varlink_output *o = userdata;

	if (o->bytes + bytes > VARLINK_OUTPUT_MAX)
		return -1;
	if (o->bytes + bytes > o->room) {
		size_t room = MAX(MAX(o->room * 2, (size_t)OUTPUT_MIN), o->bytes + bytes);
		char *grown = realloc(o->data, room);

		if (!grown)
			return -1;
		o->data = grown;
		o->room = room;
	}
	memcpy(o->data + o->bytes, data, bytes);
	o->bytes += bytes;
	return 0;
}

static const struct {
	unsigned limit_s;
	const char *dropped;
} waits[] = {
	[VARLINK_WAIT_CALL] = { VARLINK_SILENCE_S, "it was silent" },
	[VARLINK_WAIT_REST] = { VARLINK_TIMEOUT_S, "an unfinished message" },
	[VARLINK_WAIT_TAKE] = { VARLINK_TIMEOUT_S, "it does not read" },
};

/* Sets the step that the client has to take next; its time limit starts when the step changes. */
static void client_await(struct varlink_client *c, enum varlink_wait wait)
{
	uint64_t limit_us = wait == VARLINK_WAIT_SHARE ? client_share_wait_us(c)
						       : waits[wait].limit_s * (uint64_t)US_PER_S;

	if (c->wait == wait)
		return;
	c->wait = wait;
	sd_event_source_set_time_relative(c->timer, limit_us);
	sd_event_source_set_enabled(c->timer, wait == VARLINK_WAIT_NONE || wait == VARLINK_WAIT_TURN
						      ? SD_EVENT_OFF
						      : SD_EVENT_ONESHOT);
}

/* Writes as much output as the kernel takes. */
static void client_flush(struct varlink_client *c)
{
	struct varlink_output *o = &c->output;
	ssize_t sent;

	if (!client_output_pending(c))
		return;
	sent = send(c->fd, o->data + o->start, o->bytes - o->start, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (sent < 0 && errno != EAGAIN && errno != EINTR) {
		client_drop(c, "it went away");
		return;
	}
	if (sent > 0) {
		o->start += (size_t)sent;
		client_await(c, VARLINK_WAIT_NONE); /* restarts the time limit */
	}
	if (!client_output_pending(c)) {
		free(o->data);
		*o = (struct varlink_output){ 0 };
	}
}

/* Appends message as `{...}\n\0`. */
static int client_queue(struct varlink_client *c, const json_t *message)
{
	int rc = json_dump_callback(message, output_append, &c->output, JSON_COMPACT);

	return rc < 0 ? rc : output_append("\n", 2, &c->output);
}

/* Takes ownership of message; NULL: no memory.  A failure drops the client. */
static void client_send(struct varlink_client *c, json_t *message)
{
	uint64_t begin_ns = clock_thread_ns();

	if (!message)
		client_drop(c, "no memory");
	else if (c->dropped)
		;
	else if (client_queue(c, message) < 0)
		client_drop(c, "an answer is too large");
	else
		client_flush(c);
	json_decref(message);
	if (!c->running)
		client_charge(c->user, begin_ns);
}

static void on_call(struct varlink_call *call);

static bool client_handle_next(struct varlink_client *c)
{
	const char *text;
	size_t bytes;
	int rc = varlink_reader_next(&c->reader, &text, &bytes);

	if (rc == -EMSGSIZE)
		client_drop(c, "a message is too long");
	if (rc <= 0)
		return false;
	client_await(c, VARLINK_WAIT_NONE);
	rc = varlink_request_parse(text, bytes, &c->call.request);
	if (rc < 0)
		client_drop(c, rc == -ENOMEM ? "no memory" : "not a Varlink call");
	else
		on_call(&c->call);
	return true;
}

/* Handles input until something has to be waited for, and returns that.  It returns the cause that
 * stopped it, even if the cause ends a moment later: client_arm() then waits for that cause.
 * Otherwise a message that stopped for lack of a share would stay unhandled in the buffer. */
static enum varlink_wait client_handle(struct varlink_client *c, uint64_t *begin_ns)
{
	for (unsigned handled = 0; handled < RUN_MAX; handled++) {
		if (client_output_pending(c))
			return VARLINK_WAIT_TAKE;
		if (c->dropped || c->call.method)
			return VARLINK_WAIT_NONE;
		if (!client_has_share(c))
			return VARLINK_WAIT_SHARE;
		if (!client_handle_next(c))
			return varlink_reader_pending(&c->reader) ? VARLINK_WAIT_REST
								  : VARLINK_WAIT_CALL;
		*begin_ns = client_charge(c->user, *begin_ns);
	}
	return VARLINK_WAIT_TURN;
}

static bool is_for_input(enum varlink_wait wait)
{
	return wait == VARLINK_WAIT_CALL || wait == VARLINK_WAIT_REST;
}

/* Makes the event loop wait for the event that continues the client. */
static void client_arm(struct varlink_client *c, enum varlink_wait wait)
{
	/* The socket is not watched while the client waits for its share: epoll always reports
	 * EPOLLHUP, although the client's calls may still have to be carried out. */
	sd_event_source_set_enabled(c->io, wait == VARLINK_WAIT_SHARE ? SD_EVENT_OFF : SD_EVENT_ON);
	sd_event_source_set_io_events(c->io, is_for_input(wait)          ? EPOLLIN
					     : wait == VARLINK_WAIT_TAKE ? EPOLLOUT
									 : 0U);
	sd_event_source_set_enabled(c->kick,
				    wait == VARLINK_WAIT_TURN ? SD_EVENT_ONESHOT : SD_EVENT_OFF);
	client_await(c, wait);
}

/* Handles input, and charges the user for the CPU time since begin_ns.  May free c. */
static void client_run(struct varlink_client *c, uint64_t begin_ns)
{
	struct varlink_user *user = c->user;
	enum varlink_wait wait;

	c->running = true;
	wait = client_handle(c, &begin_ns);
	c->running = false;
	if (c->dropped || (c->eof && is_for_input(wait)))
		client_free(c);
	else
		client_arm(c, wait);
	client_charge(user, begin_ns);
}

static void client_receive(struct varlink_client *c)
{
	char data[READ_BYTES];
	ssize_t received = recv(c->fd, data, sizeof(data), MSG_DONTWAIT);

	if (received == 0)
		c->eof = true;
	else if (received > 0 && varlink_reader_append(&c->reader, data, (size_t)received) < 0)
		client_drop(c, "no memory");
	else if (received < 0 && errno != EAGAIN && errno != EINTR)
		client_drop(c, "it went away");
}

static int client_on_io(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct varlink_client *c = userdata;
	uint64_t begin_ns = clock_thread_ns();

	(void)source, (void)fd;
	if (events & EPOLLIN)
		client_receive(c);
	else if (events & (EPOLLHUP | EPOLLERR) && (c->call.method || client_output_pending(c)))
		client_drop(c, "it went away");
	if (events & EPOLLOUT)
		client_flush(c);
	client_run(c, begin_ns);
	return 0;
}

static int client_on_timer(sd_event_source *source, uint64_t time_us, void *userdata)
{
	struct varlink_client *c = userdata;

	(void)source, (void)time_us;
	if (c->wait == VARLINK_WAIT_SHARE)
		client_await(c, VARLINK_WAIT_NONE);
	else
		client_drop(c, waits[c->wait].dropped);
	client_run(c, clock_thread_ns());
	return 0;
}

static int client_on_kick(sd_event_source *source, void *userdata)
{
	(void)source;
	client_run(userdata, clock_thread_ns());
	return 0;
}

/* Takes ownership of fd and of the user's place in every case.  0 or -errno. */
static int client_new(struct varlink *v, int fd, const struct unix_peer *peer,
		      struct varlink_user *user, unsigned slot)
{
	struct varlink_client *c = calloc(1, sizeof(*c));
	int64_t priority = VARLINK_PRIORITY_OTHERS;
	int rc;

	if (!c) {
		varlink_user_leave(user);
		close(fd);
		return -ENOMEM;
	}
	c->varlink = v;
	c->slot = slot;
	c->fd = fd;
	c->peer = *peer;
	c->user = user;
	c->call.client = c;
	v->clients[slot] = c;
	if (varlink_user_is_trusted(&v->users, peer->uid))
		priority = VARLINK_PRIORITY_TRUSTED;
	rc = sd_event_add_io(v->event, &c->io, fd, EPOLLIN, client_on_io, c);
	if (rc >= 0)
		rc = sd_event_source_set_priority(c->io, priority);
	if (rc >= 0)
		rc = sd_event_add_time(v->event, &c->timer, CLOCK_MONOTONIC, UINT64_MAX,
				       ACCURACY_US, client_on_timer, c);
	/* Runs after the client's own events: if this thread stood still, the client may have made
	 * its step in time. */
	if (rc >= 0)
		rc = sd_event_source_set_priority(c->timer, priority + 1);
	if (rc >= 0)
		rc = sd_event_add_defer(v->event, &c->kick, client_on_kick, c);
	if (rc >= 0)
		rc = sd_event_source_set_priority(c->kick, priority);
	if (rc >= 0)
		rc = sd_event_source_set_enabled(c->kick, SD_EVENT_OFF);
	if (rc < 0) {
		client_free(c);
		return rc;
	}
	client_arm(c, VARLINK_WAIT_CALL);
	return 0;
}

/* ---- A call and its answer: for handlers ---- */

/* Sends one message of the answer, unless the client wants none. */
static void call_send(struct varlink_call *call, json_t *message)
{
	if (call->request.oneway)
		json_decref(message);
	else
		client_send(call->client, message);
	client_kick(call->client);
}

/* Ends a call with its only or last message.  The client may then handle its next call, from the
 * event loop and not within this handler. */
static void call_finish(struct varlink_call *call, json_t *message)
{
	assert(call->method);
	call_send(call, message);
	varlink_request_free(&call->request);
	call->method = NULL;
	call->state = NULL;
	call->cancel = NULL;
}

void *varlink_call_userdata(const struct varlink_call *call)
{
	return call->client->varlink->userdata;
}

const struct unix_peer *varlink_call_peer(const struct varlink_call *call)
{
	return &call->client->peer;
}

bool varlink_call_more(const struct varlink_call *call)
{
	return call->request.more && call->method->more;
}

/* A call without cancel() is not deferred: see call_send(). */
void varlink_defer(struct varlink_call *call,
		   void (*cancel)(struct varlink_call *call, void *state), void *state)
{
	call->cancel = cancel;
	call->state = state;
}

void varlink_reply(struct varlink_call *call, json_t *parameters)
{
	call_finish(call, json_pack("{s:o}", "parameters", parameters));
}

void varlink_error(struct varlink_call *call, const char *error, json_t *parameters)
{
	call_finish(call, json_pack("{s:s, s:o}", "error", error, "parameters", parameters));
}

void varlink_notify(struct varlink_call *call, json_t *parameters)
{
	assert(varlink_call_more(call) && call->cancel);
	call_send(call, json_pack("{s:o, s:b}", "parameters", parameters, "continues", 1));
}

bool varlink_can_notify(const struct varlink_call *call)
{
	const struct varlink_client *c = call->client;

	return !c->dropped && !client_output_pending(c) && client_has_share(c);
}

void varlink_charge(const struct varlink_call *call, uint64_t begin_ns)
{
	client_charge(call->client->user, begin_ns);
}

void varlink_charge_wait(const struct varlink_call *call, uint64_t since_ns)
{
	struct varlink_client *c = call->client;
	uint64_t now_ns = clock_ns();

	if (!varlink_user_is_trusted(&c->varlink->users, c->peer.uid))
		varlink_user_charge(c->user, now_ns / NS_PER_US, now_ns - since_ns);
}

/* ---- The interface org.varlink.service: product, version, interfaces, descriptions ---- */

#define SERVICE "org.varlink.service"

static const char description[] =
	"# Describes a Varlink service; every service implements it.\n"
	"interface " SERVICE "\n"
	"\n"
	"# The vendor of this service, and its interfaces.\n"
	"method GetInfo() -> (\n"
	"  vendor: string,\n"
	"  product: string,\n"
	"  version: string,\n"
	"  url: string,\n"
	"  interfaces: []string\n"
	")\n"
	"\n"
	"# The definition of one of its interfaces.\n"
	"method GetInterfaceDescription(interface: string) -> (description: string)\n"
	"\n"
	"error InterfaceNotFound(interface: string)\n"
	"error MethodNotFound(method: string)\n"
	"# The definition has it, this version of the service does not.\n"
	"error MethodNotImplemented(method: string)\n"
	"# Missing, unknown, of the wrong type or out of range.\n"
	"error InvalidParameter(parameter: string)\n"
	"error PermissionDenied()\n"
	"# The method answers with a stream: call it with `more`.\n"
	"error ExpectedMore()\n";

/* Answers org.varlink.service.NAME with one parameter, or none (key == NULL). */
static void service_error(struct varlink_call *call, const char *name, const char *key,
			  const char *value)
{
	char error[64];

	snprintf(error, sizeof(error), SERVICE ".%s", name);
	varlink_error(call, error, key ? json_pack("{s:s}", key, value) : json_object());
}

void varlink_invalid_parameter(struct varlink_call *call, const char *parameter)
{
	service_error(call, "InvalidParameter", "parameter", parameter);
}

static const struct varlink_interface service;

/* The interface whose name is the first `length` bytes of name; NULL: there is none. */
static const struct varlink_interface *find_interface(const struct varlink_call *call,
						      const char *name, size_t length)
{
	const struct varlink_interface *all[] = { &service, call->client->varlink->interface };

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		if (strlen(all[i]->name) == length && !memcmp(all[i]->name, name, length))
			return all[i];
	return NULL;
}

static void get_info(struct varlink_call *call, json_t *parameters)
{
	(void)parameters;
	varlink_reply(call,
		      json_pack("{s:s, s:s, s:s, s:s, s:[s, s]}", "vendor", "nbserved", "product",
				"nbserved", "version", NB_VERSION, "url", NB_URL, "interfaces",
				SERVICE, call->client->varlink->interface->name));
}

static void get_interface_description(struct varlink_call *call, json_t *parameters)
{
	const char *name = json_string_value(json_object_get(parameters, "interface"));
	const struct varlink_interface *interface = find_interface(call, name, strlen(name));

	if (interface)
		varlink_reply(call, json_pack("{s:s}", "description", interface->description));
	else
		service_error(call, "InterfaceNotFound", "interface", name);
}

static const struct varlink_parameter interface_parameter[] = {
	{ "interface", VARLINK_STRING, .optional = false },
	{ 0 },
};

static const struct varlink_method methods[] = {
	{ "GetInfo", VARLINK_READ, false, NULL, get_info },
	{ "GetInterfaceDescription", VARLINK_READ, false, interface_parameter,
	  get_interface_description },
	{ 0 },
};

static const struct varlink_interface service = { SERVICE, description, methods };

/* ---- The socket, and dispatching ---- */

enum {
	/* Pause of accepting when the process is out of descriptors. */
	ACCEPT_PAUSE_US = 1000 * 1000,
	/* Pause after accepting a client of a user that has used its share of CPU time.  A client
	 * that connects again and again then takes little time, and the backlog still passes in
	 * less than a second. */
	ACCEPT_SHARE_US = 10 * 1000,
	RESUME_ACCURACY_US = 1000,
	BACKLOG = 64,
};

static bool client_may(const struct varlink_client *c, enum varlink_access access)
{
	if (varlink_user_is_trusted(&c->varlink->users, c->peer.uid))
		return true;
	return access == VARLINK_READ && c->peer.in_group;
}

/* Finds call->method, or answers the call with an error. */
static bool call_resolve(struct varlink_call *call)
{
	static const struct varlink_method unknown = { .name = "" };
	const char *method = call->request.method, *dot = strrchr(method, '.');
	size_t length = dot ? (size_t)(dot - method) : 0;
	const struct varlink_interface *interface;

	call->method = &unknown;
	if (!dot || length == 0 || dot[1] == '\0') {
		varlink_invalid_parameter(call, "method");
		return false;
	}
	interface = find_interface(call, method, length);
	if (!interface) {
		varlink_error(call, SERVICE ".InterfaceNotFound",
			      json_pack("{s:s%}", "interface", method, length));
		return false;
	}
	for (const struct varlink_method *m = interface->methods; m->name; m++)
		if (strcmp(m->name, dot + 1) == 0) {
			call->method = m;
			return true;
		}
	service_error(call, "MethodNotFound", "method", method);
	return false;
}

/* Checks the call and runs its handler.  Each failed check is an answer, which ends the call. */
static void on_call(struct varlink_call *call)
{
	const struct varlink_method *method;
	const char *invalid;

	if (!call_resolve(call))
		return;
	method = call->method;
	if (!client_may(call->client, method->access)) {
		service_error(call, "PermissionDenied", NULL, NULL);
		return;
	}
	invalid = varlink_check_parameters(method->parameters, call->request.parameters);
	if (invalid) {
		varlink_invalid_parameter(call, invalid);
		return;
	}
	method->handle(call, call->request.parameters);
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
static void varlink_pause_accept(struct varlink *v, uint64_t pause_us)
{
	sd_event_source_set_enabled(v->accept, SD_EVENT_OFF);
	sd_event_source_set_time_relative(v->accept_timer, pause_us);
	sd_event_source_set_enabled(v->accept_timer, SD_EVENT_ONESHOT);
}

static void log_refusal(const struct varlink *v, uid_t uid)
{
	static struct log_limit limit;

	if (!log_limited(&limit))
		return;
	log_warning("%s: uid %u is refused: it has %d clients, or all but root and uid %u have %d",
		    v->socket.address.sun_path, (unsigned)uid, VARLINK_USER_CLIENTS_MAX,
		    (unsigned)v->users.own, VARLINK_OTHERS_MAX);
}

/* Takes ownership of fd.  0 or -errno. */
static int client_accept(struct varlink *v, int fd, struct varlink_user **ret_user)
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
	return client_new(v, fd, &peer, *ret_user, slot);
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
		varlink_pause_accept(v, ACCEPT_PAUSE_US);
		return 0;
	}
	rc = client_accept(v, fd, &user);
	if (rc < 0)
		log_warning("%s: new client: %s", v->socket.address.sun_path, strerror(-rc));
	if (!user)
		return 0;
	client_charge(user, begin_ns);
	if (varlink_user_wait_us(user, clock_ns() / NS_PER_US) > 0)
		varlink_pause_accept(v, ACCEPT_SHARE_US);
	return 0;
}

int varlink_new(sd_event *event, const struct varlink_interface *interface, void *userdata,
		struct varlink **ret_varlink)
{
	struct varlink *v = calloc(1, sizeof(*v));

	if (!v)
		return -ENOMEM;
	v->event = sd_event_ref(event);
	v->interface = interface;
	v->userdata = userdata;
	v->group = (gid_t)-1;
	v->users.own = geteuid();
	v->socket.fd = -1;
	*ret_varlink = v;
	return 0;
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
				       RESUME_ACCURACY_US, on_accept_resume, v);
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
			client_free(v->clients[slot]);
	}
	sd_event_source_disable_unref(v->accept);
	sd_event_source_disable_unref(v->accept_timer);
	unix_socket_close(&v->socket);
	sd_event_unref(v->event);
	free(v);
}
