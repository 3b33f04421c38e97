/* Varlink client: one JSON object and a NUL per message.  Blocking, with a deadline for
 * each step; one thread.  Owns the socket, the received bytes and, for another host, its
 * ssh.  See client.h. */
#include "client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "remote.h"
#include "util.h"
#include "varlink_frame.h"

enum {
	CLIENT_SEND_TIMEOUT_MS = 5000,
	CLIENT_MESSAGE_MAX = 256 << 20, /* bytes; enough for thousands of listeners */
	CLIENT_READ = 64 << 10,
};

struct client {
	int fd;
	const struct client_target *target;
	struct remote remote; /* the ssh process of a daemon on another host */
	struct varlink_reader reader;
};

/* 0 or -errno. */
static int connect_here(const char *path, int *ret_fd)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	struct timeval limit = { .tv_sec = CLIENT_SEND_TIMEOUT_MS / 1000 };
	int fd;

	if (strlen(path) >= sizeof(sa.sun_path))
		return -ENAMETOOLONG;
	strcpy(sa.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	/* connect() waits while the daemon's backlog is full, for SO_SNDTIMEO at most. */
	if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) < 0 ||
	    connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 ||
	    fcntl(fd, F_SETFL, O_NONBLOCK) < 0) {
		int error = errno == EAGAIN ? ETIMEDOUT : errno;

		close(fd);
		return -error;
	}
	*ret_fd = fd;
	return 0;
}

int client_open(const struct client_target *target, struct client **ret_client)
{
	struct client *c = calloc(1, sizeof(*c));
	int rc;

	if (!c)
		return -ENOMEM;
	c->target = target;
	c->reader.max = CLIENT_MESSAGE_MAX;
	rc = target->host ? remote_open(target, &c->remote, &c->fd)
			  : connect_here(target->socket, &c->fd);
	if (rc < 0)
		free(c);
	else
		*ret_client = c;
	return rc;
}

void client_close(struct client *c)
{
	if (!c)
		return;
	close(c->fd);
	if (c->target->host)
		remote_close(&c->remote);
	varlink_reader_free(&c->reader);
	free(c);
}

/* The bytes received that no caller has taken. */
static const char *unread_of(const struct client *c)
{
	return c->reader.bytes ? c->reader.data + c->reader.start : "";
}

/* The message that varlink_reader_next() has returned is found again by the next call. */
static void put_back(struct client *c, const char *text)
{
	c->reader.start = c->reader.scanned = (size_t)(text - c->reader.data);
}

void client_explain(struct client *c, int error, char *text, size_t bytes)
{
	remote_explain(&c->remote, c->target, error, unread_of(c),
		       c->reader.bytes - c->reader.start, text, bytes);
}

/* The daemon sends nothing between two calls: input can only be the end of the connection. */
bool client_is_open(const struct client *c)
{
	struct pollfd p = { .fd = c->fd, .events = POLLIN };

	return poll(&p, 1, 0) == 0;
}

int client_fd(const struct client *c)
{
	return c->fd;
}

/* Waits for events until deadline_ns.  0, -ETIMEDOUT or -errno. */
static int wait_for(int fd, short events, uint64_t deadline_ns)
{
	for (;;) {
		struct pollfd p = { .fd = fd, .events = events };
		uint64_t now = clock_ns();
		int left_ms = now >= deadline_ns ? 0 : (int)((deadline_ns - now) / NS_PER_MS) + 1;
		int n = poll(&p, 1, left_ms);

		if (n > 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 0 && left_ms == 0)
			return -ETIMEDOUT;
	}
}

int client_send_text(struct client *c, const char *text, size_t bytes)
{
	uint64_t deadline_ns = clock_ns() + CLIENT_SEND_TIMEOUT_MS * (uint64_t)NS_PER_MS;

	/* With the NUL behind it, which ends a message. */
	for (bytes++; bytes;) {
		ssize_t n = send(c->fd, text, bytes, MSG_NOSIGNAL);
		int rc = 0;

		if (n >= 0) {
			text += n;
			bytes -= (size_t)n;
		} else if (errno == EAGAIN) {
			rc = wait_for(c->fd, POLLOUT, deadline_ns);
		} else if (errno != EINTR) {
			rc = -errno;
		}
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* flag: the name of a member that is true; NULL: none.  Takes ownership of parameters. */
static int send_call(struct client *c, const char *method, json_t *parameters, const char *flag)
{
	json_t *call = json_pack("{s:s, s:o*}", "method", method, "parameters", parameters);
	char *text;
	int rc;

	if (!call)
		return -ENOMEM;
	if (flag)
		json_object_set_new(call, flag, json_true());
	text = json_dumps(call, JSON_COMPACT);
	json_decref(call);
	if (!text)
		return -ENOMEM;
	rc = client_send_text(c, text, strlen(text));
	free(text);
	return rc;
}

int client_send(struct client *c, const char *method, json_t *parameters, bool more)
{
	return send_call(c, method, parameters, more ? "more" : NULL);
}

int client_tell(struct client *c, const char *method, json_t *parameters)
{
	return send_call(c, method, parameters, "oneway");
}

/* Reads some bytes.  0 or -errno. */
static int fill(struct client *c, uint64_t deadline_ns)
{
	int rc = wait_for(c->fd, POLLIN, deadline_ns);
	char data[CLIENT_READ];
	ssize_t n;

	if (rc < 0)
		return rc;
	n = recv(c->fd, data, sizeof(data), 0);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	return n ? varlink_reader_append(&c->reader, data, (size_t)n) : -ECONNRESET;
}

/* Both results are new references; *ret_error is NULL if the call succeeded. */
static int parse_reply(const char *text, size_t bytes, json_t **ret_parameters, json_t **ret_error,
		       bool *ret_continues)
{
	json_t *reply = json_loadb(text, bytes, 0, NULL);
	json_t *parameters = json_object_get(reply, "parameters");
	json_t *error = json_object_get(reply, "error");

	if (!json_is_object(reply) || (parameters && !json_is_object(parameters)) ||
	    (error && !json_is_string(error))) {
		json_decref(reply);
		return -EPROTO;
	}
	*ret_parameters = parameters ? json_incref(parameters) : json_object();
	*ret_error = json_incref(error);
	*ret_continues = json_is_true(json_object_get(reply, "continues"));
	json_decref(reply);
	return 0;
}

/* Is the input a line that a shell has printed, such as a greeting in .bashrc?  A reply begins with
 * a brace.  Nothing more is read then, as such output may never end. */
static bool is_talk(const struct client *c)
{
	size_t bytes = c->reader.bytes - c->reader.start;

	return bytes && *unread_of(c) != '{' &&
	       (bytes > CLIENT_READ || memchr(unread_of(c), '\n', bytes));
}

int client_receive_text(struct client *c, unsigned timeout_ms, const char **ret_text,
			size_t *ret_bytes)
{
	uint64_t deadline_ns = clock_ns() + timeout_ms * (uint64_t)NS_PER_MS;
	int rc;

	while ((rc = varlink_reader_next(&c->reader, ret_text, ret_bytes)) == 0) {
		rc = fill(c, deadline_ns);
		if (rc == 0 && is_talk(c))
			rc = -EPROTO;
		if (rc < 0)
			break;
	}
	return MIN(rc, 0);
}

bool client_has_reply(struct client *c)
{
	const char *text;
	size_t bytes;
	int rc = client_receive_text(c, 0, &text, &bytes);

	if (rc == 0)
		put_back(c, text);
	return rc != -ETIMEDOUT;
}

int client_receive(struct client *c, unsigned timeout_ms, json_t **ret_parameters,
		   json_t **ret_error, bool *ret_continues)
{
	const char *text;
	size_t bytes;
	int rc = client_receive_text(c, timeout_ms, &text, &bytes);

	if (rc < 0)
		return rc;
	rc = parse_reply(text, bytes, ret_parameters, ret_error, ret_continues);
	if (rc < 0)
		put_back(c, text); /* for client_explain() */
	return rc;
}
