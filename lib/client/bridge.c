/* The far end of `-H HOST`.  It runs on that host, started by ssh(1), and speaks Varlink on stdin
 * and stdout.
 *
 * Calls of the interface org.nbserved.Host are for the program's own answer().  All other calls are
 * relayed to the daemon's control socket unchanged, one after the other, and so are the daemon's
 * replies.  The daemon sees the user that ssh has logged in, so its access rules are the same as
 * without ssh.
 *
 * One thread.  The bridge ends with its input, which ssh closes when the near end ends or is
 * killed, or when that has been silent for too long, as without a network. */
#include "bridge.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client.h"
#include "ctl.h"
#include "field.h"
#include "util.h"

/* The longest wait until the other end reads a reply of this bridge; then it counts as gone. */
enum { PUT_MS = 10000 };

/* Writes a message and its NUL.  False: the other end has ended, or has read nothing for `ms`
 * milliseconds
 * (-1: no limit). */
static bool put_text(const char *text, size_t bytes, int ms)
{
	struct pollfd out = { .fd = STDOUT_FILENO, .events = POLLOUT };

	for (bytes++; bytes;) {
		int ready = poll(&out, 1, ms);
		ssize_t n = 0;

		if (ready == 0)
			return false;
		if (ready > 0) /* a pipe that is ready takes PIPE_BUF bytes without blocking */
			n = write(STDOUT_FILENO, text, MIN(bytes, (size_t)PIPE_BUF));
		if (n < 0 && errno != EINTR)
			return false;
		text += MAX(n, (ssize_t)0);
		bytes -= (size_t)MAX(n, (ssize_t)0);
	}
	return true;
}

bool bridge_put(json_t *reply)
{
	char *text = json_dumps(reply, JSON_COMPACT);
	bool done = text && put_text(text, strlen(text), PUT_MS);

	free(text);
	json_decref(reply);
	return done;
}

bool bridge_put_error(const char *name, json_t *parameters)
{
	return bridge_put(json_pack("{s:s, s:o}", "error", name, "parameters", parameters));
}

void bridge_set_socket(struct bridge *b, const char *socket)
{
	client_close(b->daemon);
	b->daemon = NULL;
	b->target.socket = socket;
}

/* ---- org.nbserved.Host ---- */

static bool answer_host(struct bridge *b, const struct varlink_request *call, const char *method)
{
	if (call->oneway) /* Alive; or Idle or Stop for a command that has just ended */
		return true;
	if (b->answer)
		return b->answer(b, call, method);
	if (!strcmp(method, "Describe"))
		return bridge_put(json_pack("{s:{s:s}}", "parameters", "version", NB_VERSION));
	return bridge_put_error("org.varlink.service.MethodNotFound",
				json_pack("{s:s}", "method", method));
}

/* ---- The daemon ---- */

static bool unreachable(struct bridge *b, int rc)
{
	client_close(b->daemon);
	b->daemon = NULL;
	return bridge_put_error("org.nbserved.Host.Unreachable",
				json_pack("{s:s, s:i}", "socket", b->target.socket, "errno", -rc));
}

/* Waits until the daemon has sent something.  1: it has; 0: the other end is gone; or -errno,
 * -ETIMEDOUT after `ms`.  Without a stream only stdout tells whether the other end is gone, as
 * stdin may have been closed behind the last call by a user of `bridge <calls`.  A stream has no
 * end of its own, so there the end of stdin ends it. */
static int await_reply(struct bridge *b, bool stream, int ms)
{
	struct pollfd fds[] = { { .fd = client_fd(b->daemon), .events = POLLIN },
				{ .fd = STDOUT_FILENO },
				{ .fd = stream ? STDIN_FILENO : -1, .events = POLLRDHUP } };
	int n = poll(fds, ARRAY_SIZE(fds), ms);

	if (n == 0)
		return -ETIMEDOUT;
	if (n < 0)
		return errno == EINTR ? 1 : -errno;
	return !((fds[1].revents | fds[2].revents) & (POLLRDHUP | POLLHUP | POLLERR));
}

/* A stream may have one reply in each interval. */
static int reply_limit_ms(const struct varlink_request *call)
{
	uint64_t interval_ms = field_uint(call->parameters, "interval_ms");

	return (int)(ctl_limit_ms(call->method) + MIN(interval_ms, (uint64_t)INT_MAX / 2));
}

static bool continues(const char *text, size_t bytes)
{
	json_t *reply = json_loadb(text, bytes, 0, NULL);
	bool is = json_is_true(json_object_get(reply, "continues"));

	json_decref(reply);
	return is;
}

/* Sends a call to the daemon and passes its replies on until the last one; if the daemon has closed
 * its connection since the last call, as in a restart, connects again.  A failure of the daemon's
 * socket is a reply, too.  False: the other end is gone. */
static bool relay(struct bridge *b, const char *message, size_t message_bytes,
		  const struct varlink_request *call)
{
	int rc = 0, limit_ms = reply_limit_ms(call);
	const char *text;
	size_t bytes;

	if (b->daemon && !client_is_open(b->daemon)) {
		client_close(b->daemon);
		b->daemon = NULL;
	}
	if (!b->daemon)
		rc = client_open(&b->target, &b->daemon);
	if (rc == 0)
		rc = client_send_text(b->daemon, message, message_bytes);
	while (rc == 0 && !call->oneway) {
		rc = await_reply(b, call->more, limit_ms);
		if (rc == 0)
			return false;
		if (rc < 0)
			break;
		rc = client_receive_text(b->daemon, 0, &text, &bytes);
		if (rc == -ETIMEDOUT) { /* a part of it has come */
			rc = 0;
			continue;
		}
		if (rc == 0 && !put_text(text, bytes, -1))
			return false;
		if (rc == 0 && !continues(text, bytes))
			return true;
	}
	return rc == 0 || unreachable(b, rc);
}

/* Answers one call.  False: the bridge is to end. */
static bool serve(struct bridge *b, const char *text, size_t bytes)
{
	static const char host[] = "org.nbserved.Host.";
	struct varlink_request call;
	bool more;

	if (varlink_request_parse(text, bytes, &call) < 0) {
		ctl_warn("bridge: expected a Varlink call on stdin, as `%s -H HOST` sends them",
			 ctl_program);
		return false;
	}
	if (!strncmp(call.method, host, strlen(host)))
		more = answer_host(b, &call, call.method + strlen(host));
	else
		more = relay(b, text, bytes, &call);
	varlink_request_free(&call);
	return more;
}

/* Waits for calls.  As read(2); 0 also when the other end has been silent for too long. */
static ssize_t read_calls(const struct bridge *b, char *data, size_t bytes)
{
	struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };
	int ready = poll(&in, 1, b->silence_ms ? b->silence_ms : BRIDGE_SILENCE_MS);

	return ready > 0 ? read(STDIN_FILENO, data, bytes) : ready;
}

void bridge_serve_calls(struct bridge *b)
{
	char data[16 * 1024];
	bool more = true;
	ssize_t n;

	while (more && (n = read_calls(b, data, sizeof(data))) != 0) {
		const char *text;
		size_t bytes;

		if (n < 0 && errno == EINTR)
			continue;
		more = n > 0 && varlink_reader_append(&b->reader, data, (size_t)n) == 0;
		while (more && varlink_reader_next(&b->reader, &text, &bytes) == 1)
			more = serve(b, text, bytes);
		more = more && varlink_reader_next(&b->reader, &text, &bytes) == 0;
	}
	varlink_reader_free(&b->reader);
	client_close(b->daemon);
}
