/* Sockets from and for the service manager (sd_listen_fds(3), FDSTORE= of sd_notify(3)).  The names
 * of stored sockets hold their listener and address, for the next process: socket_name.h.  Owns the
 * passed descriptors until a listener takes them.  Main thread.  See fdstore.h. */
#include "fdstore.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "listener_address.h"
#include "listeners.h"
#include "log.h"
#include "notify.h"
#include "util.h"

enum {
	FDSTORE_MESSAGE_FDS = 200,     /* the kernel's limit is 253 */
	FDSTORE_BARRIER_NS = NS_PER_S, /* limit of waiting until the manager has dropped a socket */
};

/* ---- Sockets passed to us ---- */

/* The file of a stored Unix socket, if this daemon made it: the name of the socket
 * holds its device and inode. */
struct unix_socket fdstore_file(const struct fdstore_socket *s)
{
	struct unix_socket file = { .fd = -1 };

	if (s->name.file.inode && s->sa.ss_family == AF_UNIX)
		memcpy(&file.address, &s->sa, sizeof(file.address));
	file.file = s->name.file;
	return file;
}

/* Does the Unix socket's file still exist and lead to it?  If not, the file was removed or
 * belongs to another server.  For a socket unit the file's identity is unknown, so any
 * socket file is accepted. */
static bool has_file(const struct fdstore_socket *s)
{
	const char *path = ((const struct sockaddr_un *)&s->sa)->sun_path;
	const struct unix_socket file = fdstore_file(s);
	struct stat st;

	if (s->sa.ss_family != AF_UNIX || !path[0])
		return true;
	if (s->name.listener[0])
		return unix_socket_has_file(&file);
	return lstat(path, &st) == 0 && S_ISSOCK(st.st_mode);
}

/* The reason why no listener can use the socket; NULL: one can. */
static const char *fdstore_refuse(struct fdstore_socket *s)
{
	socklen_t bytes = sizeof(int);
	int type = 0, listens = 0;

	if (getsockopt(s->fd, SOL_SOCKET, SO_TYPE, &type, &bytes) < 0 ||
	    (type != SOCK_DGRAM &&
	     (type != SOCK_STREAM ||
	      getsockopt(s->fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes) < 0 || !listens)))
		return "is not a listening stream socket, nor one for datagrams";
	s->name.type = type;
	bytes = sizeof(s->sa);
	if (getsockname(s->fd, (struct sockaddr *)&s->sa, &bytes) < 0 ||
	    (s->sa.ss_family != AF_INET && s->sa.ss_family != AF_INET6 &&
	     (s->sa.ss_family != AF_UNIX || type != SOCK_STREAM)))
		return "is of an unknown family";
	return has_file(s) ? NULL : "has lost its file";
}

/* Could a listener of config take the socket?  A socket that none takes is closed, or it would
 * block its address for others. */
static bool fdstore_has_use(const struct fdstore_socket *s, const struct config *config)
{
	for (unsigned i = 0; i < config->listener_count; i++) {
		const struct listener_config *lc = &config->listeners[i];
		struct socket_name wants = { .type = lc->transport->socket_type };

		if (!wants.type)
			continue;
		strcpy(wants.listener, lc->name);
		for (unsigned j = 0; listener_address_at(lc, j, &wants.wanted); j++)
			if (socket_name_fits(&wants, &s->name, &s->sa))
				return true;
	}
	return false;
}

/* Makes the service manager drop its duplicates of the sockets with s's name. */
static void fdstore_drop(const struct fdstore *f, const struct fdstore_socket *s)
{
	char text[SOCKET_NAME_TEXT_MAX];

	if (s->name.listener[0])
		notify(f->notify, "FDSTOREREMOVE=1\nFDNAME=%s", socket_name_format(&s->name, text));
}

/* Closes a socket, and removes its file if this daemon made it. */
static void fdstore_close_one(const struct fdstore *f, struct fdstore_socket *s)
{
	struct unix_socket file = fdstore_file(s);

	unix_socket_remove(&file);
	fdstore_drop(f, s);
	close(s->fd);
	s->fd = -1;
}

/* Remembers the address of a socket unit: a wildcard of another listener may conflict with it. */
static void fdstore_note_unit(struct fdstore *f, const struct fdstore_socket *s, const char *name)
{
	struct fdstore_unit *u = &f->units[f->unit_count++];

	u->sa = s->sa;
	u->type = s->name.type;
	snprintf(u->name, sizeof(u->name), "%s", name);
}

static bool covers(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	return sockaddr_is_wildcard(a) && (a->ss_family == AF_INET6 || b->ss_family == AF_INET);
}

/* Do a and b conflict because one of them is a wildcard?  [::] may include IPv4. */
static bool conflicts(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	if (a->ss_family == AF_UNIX || b->ss_family == AF_UNIX ||
	    sockaddr_port(a) != sockaddr_port(b) || !sockaddr_port(a))
		return false;
	return covers(a, b) || covers(b, a);
}

const struct fdstore_unit *fdstore_conflict(const struct fdstore *f,
					    const struct sockaddr_storage *wanted, int type)
{
	for (unsigned i = 0; i < f->unit_count; i++)
		if (f->units[i].type == type && conflicts(wanted, &f->units[i].sa))
			return &f->units[i];
	return NULL;
}

/* Takes ownership of fd and adds it to the list; false: it was closed. */
static bool fdstore_add(struct fdstore *f, int fd, const char *name, const struct config *config)
{
	struct fdstore_socket *s = &f->list[f->count];
	char text[ADDRESS_TEXT_MAX];
	const char *why;

	*s = (struct fdstore_socket){ .fd = fd };
	if (socket_name_parse(name, &s->name) < 0 && strchr(name, '=')) {
		/* Ours, of a release that had other addresses: no unit's name has a `=`. */
		log_info("closed '%s' from the service manager: no listener uses it", name);
		notify(f->notify, "FDSTOREREMOVE=1\nFDNAME=%s", name);
		close(fd);
		return false;
	}
	why = fdstore_refuse(s);
	if (!why && !s->name.listener[0])
		fdstore_note_unit(f, s, name);
	if (why) {
		log_warning("descriptor %d, '%s', from the service manager %s: closed", fd, name,
			    why);
	} else if (s->name.listener[0] && !fdstore_has_use(s, config)) {
		log_info("closed %s ('%s') from the service manager: no listener uses it",
			 format_sockaddr(&s->sa, text), name);
	} else {
		f->count++;
		return true;
	}
	fdstore_close_one(f, s);
	return false;
}

void fdstore_open(struct fdstore *f, struct notify *notify, const struct config *config)
{
	const char *max = getenv("FDSTORE");
	char **names = NULL;
	int count = sd_listen_fds_with_names(1, &names);
	bool closed = false;
	uint64_t value;

	*f = (struct fdstore){ .notify = notify };
	if (max && getenv("NOTIFY_SOCKET") && parse_uint(max, &value) == 0)
		f->max = (unsigned)MIN(value, UINT_MAX);
	if (count < 0)
		log_warning(
			"cannot use the service manager's sockets: $LISTEN_FDS or $LISTEN_FDNAMES: %s",
			strerror(-count));
	if (count > 0) {
		f->list = calloc((unsigned)count, sizeof(*f->list));
		f->units = calloc((unsigned)count, sizeof(*f->units));
	}
	for (int i = 0; f->list && f->units && i < count; i++)
		closed |= !fdstore_add(f, SD_LISTEN_FDS_START + i, names[i], config);
	for (int i = 0; i < count; i++)
		free(names[i]);
	free(names);
	/* The wait is needed because an address cannot be bound while the
	 * manager has the socket open. */
	if (closed && f->max)
		notify_barrier(notify, clock_ns() + FDSTORE_BARRIER_NS);
}

struct fdstore_socket *fdstore_find(struct fdstore *f, const struct socket_name *wants,
				    unsigned *position)
{
	while (*position < f->count) {
		struct fdstore_socket *socket = &f->list[(*position)++];

		if (socket->fd >= 0 && socket_name_fits(wants, &socket->name, &socket->sa))
			return socket;
	}
	return NULL;
}

int fdstore_take(struct fdstore_socket *s, const struct socket_name *wants)
{
	int fd = s->name.listener[0] ? s->fd : fcntl(s->fd, F_DUPFD_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	if (s->name.listener[0])
		s->fd = -1;
	strcpy(s->taker, wants->listener);
	s->renamed = strcmp(s->name.listener, wants->listener) != 0 ||
		     !sockaddr_is_same(&s->name.wanted, &wants->wanted);
	return fd;
}

/* The listener that took s is `optional` and cannot serve, so nobody accepts
 * its clients. */
static bool fdstore_is_unserved(const struct listeners *all, const struct fdstore_socket *s)
{
	for (unsigned i = 0; i < all->count; i++)
		if (!strcmp(all->list[i]->name, s->taker))
			return all->list[i]->state == LISTENER_UNAVAILABLE;
	return false;
}

void fdstore_end_start(struct listeners *all, bool serves)
{
	struct fdstore *f = &all->fdstore;
	char text[ADDRESS_TEXT_MAX];
	unsigned kept = 0;

	for (unsigned i = 0; i < f->count; i++) {
		struct fdstore_socket *s = &f->list[i];

		if (!s->taker[0])
			log_info("no listener took %s from the service manager",
				 format_sockaddr(&s->sa, text));
		if (!s->name.listener[0])
			f->list[kept++] = *s;
		else if (!s->taker[0])
			fdstore_close_one(f, s);
		else if (serves && (s->renamed || fdstore_is_unserved(all, s)))
			fdstore_drop(f, s);
	}
	f->count = kept;
}

void fdstore_free(struct fdstore *f)
{
	while (f->count > 0)
		close(f->list[--f->count].fd);
	free(f->list);
	f->list = NULL;
	free(f->units);
	f->units = NULL;
	f->unit_count = 0;
}

/* ---- Sockets that we store ---- */

static unsigned kept_total(const struct listeners *all)
{
	unsigned total = 0;

	for (unsigned i = 0; i < all->count; i++)
		total += all->list[i]->stored_count;
	return total;
}

/* Sends duplicates of an address's sockets to the service manager, in messages of a limited number
 * of descriptors.  FDPOLL=0: systemd must not drop a socket because it reports an event. */
static int fdstore_store_address(const struct listener *l, unsigned address, unsigned room,
				 unsigned *ret_count)
{
	struct bound *a = &l->addresses[address];
	struct socket_name name = { .wanted = a->wanted, .file = a->file.file };
	char text[SOCKET_NAME_TEXT_MAX], message[SOCKET_NAME_TEXT_MAX + 64];
	unsigned count;
	int *fds = listener_address_sockets(l, address, &count), rc = 0;

	if (!fds || count > room) {
		free(fds);
		return fds ? -E2BIG : -ENOMEM;
	}
	strcpy(name.listener, l->name);
	snprintf(message, sizeof(message), "FDSTORE=1\nFDPOLL=0\nFDNAME=%s",
		 socket_name_format(&name, text));
	for (unsigned i = 0; rc >= 0 && i < count; i += FDSTORE_MESSAGE_FDS)
		rc = notify_send(l->all->fdstore.notify, message, fds + i,
				 MIN(count - i, (unsigned)FDSTORE_MESSAGE_FDS));
	free(fds);
	if (rc < 0)
		return rc;
	strcpy(a->stored_as, text);
	*ret_count = count;
	return 0;
}

void fdstore_store(struct listener *l)
{
	const struct fdstore *f = &l->all->fdstore;
	unsigned total = kept_total(l->all);

	if (!f->max || l->state != LISTENER_SERVING)
		return;
	if (l->endpoints) {
		log_listener(LOG_INFO, l->name, "RDMA addresses cannot be kept over a restart");
		return;
	}
	for (unsigned i = 0; i < l->address_count; i++) {
		unsigned count = 0;
		int rc;

		if (l->addresses[i].activated)
			continue;
		rc = fdstore_store_address(l, i, f->max - MIN(total, f->max), &count);
		if (rc < 0)
			log_listener(LOG_WARNING, l->name, "%s is not kept over a restart: %s%s",
				     l->addresses[i].text, strerror(-rc),
				     rc == -E2BIG ? " (raise FileDescriptorStoreMax=)" : "");
		l->stored_count += count;
		total += count;
	}
}

void fdstore_forget(struct listener *l)
{
	for (unsigned i = 0; i < l->address_count; i++) {
		struct bound *a = &l->addresses[i];

		if (a->stored_as[0])
			notify(l->all->fdstore.notify, "FDSTOREREMOVE=1\nFDNAME=%s", a->stored_as);
		a->stored_as[0] = '\0';
	}
	l->stored_count = 0;
}
