/* Datagrams for the service manager, and a queue of those that it has not read yet.  The
 * order is always kept: while the queue is not empty every message goes through it.
 * Main thread.  See notify.h. */
#include "notify.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "log.h"
#include "util.h"

enum {
	NOTIFY_TEXT_MAX = 512,
	NOTIFY_FDS_MAX = 253, /* SCM_MAX_FD */
	NOTIFY_WAITING_MAX = 8192,
};

struct notify_message {
	struct notify_message *next;
	char *text;
	int *fds;
	unsigned fd_count;
};

void notify_open(struct notify *n, sd_event *event)
{
	*n = (struct notify){ .event = event, .last = &n->first, .fd = -1 };
}

/* ---- One message ---- */

static void message_free(struct notify_message *m)
{
	for (unsigned i = 0; i < m->fd_count; i++)
		close(m->fds[i]);
	free(m->fds);
	free(m->text);
	free(m);
}

/* A copy with duplicates of the descriptors, so that it may be sent after the caller has closed its
 * own.  NULL with errno. */
static struct notify_message *message_copy(const struct notify_message *from)
{
	struct notify_message *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->text = strdup(from->text);
	m->fds = calloc(from->fd_count + 1, sizeof(*m->fds));
	for (unsigned i = 0; m->fds && i < from->fd_count; i++) {
		m->fds[i] = fcntl(from->fds[i], F_DUPFD_CLOEXEC, 0);
		if (m->fds[i] < 0)
			break;
		m->fd_count++;
	}
	if (m->text && m->fds && m->fd_count == from->fd_count)
		return m;
	message_free(m);
	return NULL;
}

/* Sends without waiting; the kernel duplicates the descriptors into the message. */
static int message_send(int fd, const struct notify_message *m)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(NOTIFY_FDS_MAX * sizeof(int))];
	} control = {};
	struct iovec iov = { m->text, strlen(m->text) };
	struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1 };
	size_t bytes = m->fd_count * sizeof(int);

	if (m->fd_count > NOTIFY_FDS_MAX)
		return -E2BIG;
	if (m->fd_count) {
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(bytes);
		memcpy(CMSG_DATA(&control.header), m->fds, bytes);
		message.msg_control = &control;
		message.msg_controllen = CMSG_SPACE(bytes);
	}
	return sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

/* ---- The queue ---- */

static void notify_disconnect(struct notify *n)
{
	n->writable = sd_event_source_disable_unref(n->writable);
	if (n->fd >= 0)
		close(n->fd);
	n->fd = -1;
}

/* sd_notify(3): a path, or an abstract name behind '@'. */
static int notify_connect(struct notify *n, const char *name)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	size_t length = strlen(name);

	if ((name[0] != '/' && name[0] != '@') || length >= sizeof(to.sun_path))
		return -EINVAL;
	memcpy(to.sun_path, name, length);
	if (name[0] == '@')
		to.sun_path[0] = '\0';
	n->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (n->fd < 0)
		return -errno;
	length += offsetof(struct sockaddr_un, sun_path);
	if (connect(n->fd, (const struct sockaddr *)&to, (socklen_t)length) == 0)
		return 0;
	return -errno;
}

/* Sends from the queue until it is empty or the manager's socket is full.  A message that fails for
 * another reason is dropped, or it would block all later ones. */
static void notify_flush(struct notify *n)
{
	unsigned lost = 0;
	int error = 0;

	while (n->first) {
		struct notify_message *m = n->first;
		int rc = message_send(n->fd, m);

		if (rc == -EAGAIN)
			break;
		if (rc < 0) {
			error = rc;
			lost++;
		}
		n->first = m->next;
		n->count--;
		message_free(m);
	}
	if (lost)
		log_warning("%u message%s to the service manager lost: %s", lost, plural(lost),
			    strerror(-error));
	if (n->first)
		return;
	n->last = &n->first;
	notify_disconnect(n);
}

static int notify_on_writable(sd_event_source *source, int fd, uint32_t events, void *context)
{
	(void)source, (void)fd, (void)events;
	notify_flush(context);
	return 0;
}

/* Is the message equal to the last one queued?  Then it is skipped: while the manager does not
 * read, each ping of the watchdog would be added. */
static bool notify_is_queued(const struct notify *n, const struct notify_message *m)
{
	const struct notify_message *last =
		n->first ? container_of(n->last, struct notify_message, next) : NULL;

	return last && !m->fd_count && !last->fd_count && !strcmp(m->text, last->text);
}

static int notify_queue(struct notify *n, const struct notify_message *m)
{
	struct notify_message *copy;
	int rc = 0;

	if (notify_is_queued(n, m))
		return 0;
	if (n->count >= NOTIFY_WAITING_MAX)
		return -ENOBUFS;
	if (!n->writable)
		rc = sd_event_add_io(n->event, &n->writable, n->fd, EPOLLOUT, notify_on_writable,
				     n);
	if (rc < 0)
		return rc;
	copy = message_copy(m);
	if (!copy)
		return -errno;
	*n->last = copy;
	n->last = &copy->next;
	n->count++;
	return 0;
}

/* The socket exists only while messages wait: the manager may be restarted in between. */
int notify_send(struct notify *n, const char *text, const int *fds, unsigned fd_count)
{
	const struct notify_message m = { NULL, (char *)text, (int *)fds, fd_count };
	const char *name = getenv("NOTIFY_SOCKET");
	int rc = -EAGAIN;

	if (!name || !*name)
		return 0;
	if (!n->first) {
		rc = notify_connect(n, name);
		if (rc == 0)
			rc = message_send(n->fd, &m);
	}
	if (rc == -EAGAIN)
		rc = notify_queue(n, &m);
	if (!n->first)
		notify_disconnect(n);
	return rc;
}

int notify(struct notify *n, const char *format, ...)
{
	char text[NOTIFY_TEXT_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return notify_send(n, text, NULL, 0);
}

/* The manager reads in order: when it has closed this pipe's end it has handled all before. */
void notify_barrier(struct notify *n, uint64_t end_ns)
{
	int ends[2];
	uint64_t now;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return;
	notify_send(n, "BARRIER=1", &ends[1], 1);
	/* The manager closes its duplicate of this end when it has read the message: then poll()
	 * reports the other end. */
	close(ends[1]);
	while ((now = clock_ns()) < end_ns) {
		struct pollfd fds[] = { { .fd = ends[0] }, { .fd = n->fd, .events = POLLOUT } };
		uint64_t left_ms = (end_ns - now) / NS_PER_MS + 1;
		int ready = poll(fds, ARRAY_SIZE(fds), (int)MIN(left_ms, INT_MAX));

		if (ready > 0 && fds[0].revents)
			break;
		if (ready > 0)
			notify_flush(n);
	}
	close(ends[0]);
}

void notify_close(struct notify *n)
{
	while (n->first) {
		struct notify_message *m = n->first;

		n->first = m->next;
		message_free(m);
	}
	notify_disconnect(n);
	notify_open(n, NULL);
}
