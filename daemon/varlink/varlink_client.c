/* The connections of a Varlink server: input, the call being answered, and output.  See varlink.h.
 *
 * A client is freed only from its own event sources (client_run()) and from varlink_free(), never
 * within a handler: code that finds an error marks the client by client_drop(). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "log.h"
#include "reserve.h"
#include "util.h"
#include "varlink_internal.h"

enum {
	READ_BYTES = 64 * 1024,
	OUTPUT_MIN = 4096,
	RUN_MAX = 16, /* messages of one client that are handled in a row */
	US_PER_S = 1000 * 1000,
	ACCURACY_US = 10 * 1000,
};

void varlink_client_kick(struct varlink_client *c)
{
	if (!c->running)
		sd_event_source_set_enabled(c->kick, SD_EVENT_ONESHOT);
}

/* Ends the client; it is freed later, from the event loop. */
static void client_drop(struct varlink_client *c, const char *why)
{
	if (!c->dropped)
		c->dropped = why;
	varlink_client_kick(c);
}

void varlink_client_free(struct varlink_client *c)
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

uint64_t varlink_client_charge(struct varlink_user *user, uint64_t begin_ns)
{
	uint64_t end_ns = clock_thread_ns();

	varlink_user_charge(user, clock_ns() / NS_PER_US, end_ns - begin_ns);
	return end_ns;
}

static uint64_t client_share_wait_us(const struct varlink_client *c)
{
	return varlink_user_wait_us(c->user, clock_ns() / NS_PER_US);
}

bool varlink_client_has_share(const struct varlink_client *c)
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

static bool waits_for_us(enum varlink_wait wait)
{
	return wait == VARLINK_WAIT_NONE || wait == VARLINK_WAIT_TURN;
}

/* Sets the step that the client has to take next; its time limit starts when the step changes. */
static void client_await(struct varlink_client *c, enum varlink_wait wait)
{
	uint64_t limit_us = wait == VARLINK_WAIT_SHARE ? client_share_wait_us(c)
						       : waits[wait].limit_s * (uint64_t)US_PER_S;

	if (c->wait == wait)
		return;
	c->wait = wait;
	sd_event_source_set_time_relative(c->timer, limit_us);
	sd_event_source_set_enabled(c->timer, waits_for_us(wait) ? SD_EVENT_OFF : SD_EVENT_ONESHOT);
}

/* Writes as much output as the kernel takes. */
static void client_flush(struct varlink_client *c)
{
	struct varlink_output *o = &c->output;
	ssize_t sent;

	if (!varlink_client_owed(c))
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
	if (!varlink_client_owed(c)) {
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

void varlink_client_send(struct varlink_client *c, json_t *message)
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
		varlink_client_charge(c->user, begin_ns);
}

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
		c->varlink->on_call(&c->call);
	return true;
}

/* Handles input until something has to be waited for, and returns that.  It returns the cause that
 * stopped it, even if the cause ends a moment later: client_arm() then waits for that cause.
 * Otherwise a message that stopped for lack of a share would stay unhandled in the buffer. */
static enum varlink_wait client_handle(struct varlink_client *c, uint64_t *begin_ns)
{
	for (unsigned handled = 0; handled < RUN_MAX; handled++) {
		if (varlink_client_owed(c))
			return VARLINK_WAIT_TAKE;
		if (c->dropped || c->call.method)
			return VARLINK_WAIT_NONE;
		if (!varlink_client_has_share(c))
			return VARLINK_WAIT_SHARE;
		if (!client_handle_next(c))
			return varlink_reader_pending(&c->reader) ? VARLINK_WAIT_REST
								  : VARLINK_WAIT_CALL;
		*begin_ns = varlink_client_charge(c->user, *begin_ns);
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
		varlink_client_free(c);
	else
		client_arm(c, wait);
	varlink_client_charge(user, begin_ns);
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
	else if (events & (EPOLLHUP | EPOLLERR) && (c->call.method || varlink_client_owed(c)))
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

int varlink_client_new(struct varlink *v, int fd, const struct unix_peer *peer,
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
		varlink_client_free(c);
		return rc;
	}
	client_arm(c, VARLINK_WAIT_CALL);
	return 0;
}
