/* Listening Unix sockets.  See unix_socket.h. */
#include "unix_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "log.h"
#include "util.h"

enum {
	LOCK_TRIES = 100,
	LOCK_PAUSE_US = 10 * 1000,
	SOCKET_MODE = 0660,
};

/* The path of a socket's lock, a file of our own beside the socket.  The directory itself is no
 * good lock: any user who may read it could lock it for ever. */
struct lock_name {
	char text[sizeof(((struct sockaddr_un *)0)->sun_path) + sizeof(".lock")];
};

static struct lock_name lock_name_of(const char *path)
{
	struct lock_name name;

	snprintf(name.text, sizeof(name.text), "%s.lock", path);
	return name;
}

/* A descriptor that has the lock, or -errno; -EBUSY: another process has it. */
static int lock_try(const char *name)
{
	int fd = open(name, O_RDONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
	struct stat ours = { 0 }, now;
	struct file_id id;
	int rc = 0;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &ours) < 0)
		rc = -errno;
	else if (!S_ISREG(ours.st_mode) || ours.st_uid != geteuid())
		rc = -EPERM;
	else if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		rc = errno == EWOULDBLOCK ? -EBUSY : -errno;
	id = file_id_of(&ours);
	if (rc == 0 && (lstat(name, &now) < 0 || !file_id_is(&id, &now)))
		rc = -EBUSY; /* the process that had the lock has removed the file: try again */
	if (rc < 0)
		close(fd);
	return rc < 0 ? rc : fd;
}

/* Takes the lock of path while the old socket is examined and replaced, so that two servers that
 * start together do not remove each other's socket.  Returns a descriptor for lock_drop(), or
 * -errno with the reason. */
static int lock_take(const char *path, struct reason *reason)
{
	struct lock_name name = lock_name_of(path);
	int rc = lock_try(name.text);

	for (unsigned i = 1; i < LOCK_TRIES && rc == -EBUSY; i++) {
		usleep(LOCK_PAUSE_US);
		rc = lock_try(name.text);
	}
	if (rc == -ENOENT || rc == -ENOTDIR)
		return reason_set(reason, rc, "bind %s: there is no such directory; make it", path);
	if (rc == -EBUSY)
		return reason_set(reason, rc, "%s is locked: another server is starting there",
				  name.text);
	if (rc == -EPERM)
		return reason_set(reason, rc, "bind %s: %s was not made by this daemon; remove it",
				  path, name.text);
	return rc < 0 ? reason_set(reason, rc, "bind %s: make %s: %s", path, name.text,
				   strerror(-rc))
		      : rc;
}

static void lock_drop(const char *path, int lock)
{
	struct lock_name name = lock_name_of(path);

	unlink(name.text);
	close(lock);
}

/* Binds with mode SOCKET_MODE at most, from the first moment: Linux makes the file with the mode of
 * the socket, less the umask.  The umask itself is the whole process's: other threads create files.
 */
static int bind_private(const struct unix_socket *s)
{
	if (fchmod(s->fd, SOCKET_MODE) < 0 ||
	    bind(s->fd, (const struct sockaddr *)&s->address, sizeof(s->address)) < 0)
		return -errno;
	return 0;
}

/* 0: no process has the socket at this path open, so that it may be replaced;
 * else -errno with the reason. */
static int check_stale(const struct unix_socket *s, struct reason *reason)
{
	const char *path = s->address.sun_path;
	struct stat st;
	int fd, rc;

	if (lstat(path, &st) < 0)
		return errno == ENOENT ? 0 : reason_set(reason, -errno, "%s: %m", path);
	if (!S_ISSOCK(st.st_mode))
		return reason_set(
			reason, -EEXIST,
			"%s exists and is no socket: remove it, or configure another path", path);
	/* connect() of a datagram socket fails with EPROTOTYPE if a stream socket listens there,
	 * and makes no connection that the listener would have to accept. */
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return reason_set(reason, -errno, "socket: %m");
	rc = connect(fd, (const struct sockaddr *)&s->address, sizeof(s->address));
	rc = rc < 0 ? -errno : 0;
	close(fd);
	if (rc == -ECONNREFUSED || rc == -ENOENT)
		return 0;
	if (rc == 0 || rc == -EPROTOTYPE)
		return reason_set(reason, -EADDRINUSE,
				  "%s is in use: another server listens on it (as root, `ss -lxp` "
				  "shows which)",
				  path);
	return reason_set(reason, rc, "%s: cannot find out whether it is in use: connect: %s", path,
			  strerror(-rc));
}

static int bind_replacing(struct unix_socket *s, struct reason *reason)
{
	const char *path = s->address.sun_path;
	int rc = bind_private(s);

	if (rc == -EADDRINUSE) {
		rc = check_stale(s, reason);
		if (rc < 0)
			return rc;
		if (unlink(path) < 0 && errno != ENOENT)
			return reason_set(reason, -errno, "cannot remove the stale socket %s: %m",
					  path);
		rc = bind_private(s);
	}
	return rc < 0 ? reason_set(reason, rc, "bind %s: %s", path, strerror(-rc)) : 0;
}

/* Sets the group before listen(): no client can connect while the group is still wrong.  backlog 0:
 * does not listen. */
static int bind_in_place(struct unix_socket *s, gid_t group, int backlog, struct reason *reason)
{
	const char *path = s->address.sun_path;
	struct stat st;
	int rc = bind_replacing(s, reason);

	if (rc < 0)
		return rc;
	/* Skipped if the group is right already: a sandbox may forbid chown() even
	 * when it changes nothing. */
	if (group != (gid_t)-1 && (lstat(path, &st) < 0 || st.st_gid != group) &&
	    lchown(path, (uid_t)-1, group) < 0)
		log_warning("%s: cannot give it to group %u, whose members cannot connect: %m",
			    path, (unsigned)group);
	if (lstat(path, &st) < 0)
		return reason_set(reason, -errno, "stat %s: %m", path);
	s->file = file_id_of(&st);
	/* The umask has taken some of it away. */
	if ((st.st_mode & ALLPERMS) != SOCKET_MODE && chmod(path, SOCKET_MODE) < 0)
		log_warning("%s: cannot give it mode 0660: %m", path);
	if (backlog > 0 && listen(s->fd, backlog) < 0) {
		rc = reason_set(reason, -errno, "listen %s: %m", path);
		unix_socket_remove(s);
	}
	return rc;
}

int unix_socket_open(const char *path, gid_t group, int backlog, struct unix_socket *ret_socket,
		     struct reason *reason)
{
	struct unix_socket s = { .address.sun_family = AF_UNIX };
	int lock, rc;

	if (strlen(path) >= sizeof(s.address.sun_path))
		return reason_set(reason, -ENAMETOOLONG, "%s: longer than %zu bytes", path,
				  sizeof(s.address.sun_path) - 1);
	strcpy(s.address.sun_path, path);
	lock = lock_take(path, reason);
	if (lock < 0)
		return lock;
	s.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (s.fd < 0)
		rc = reason_set(reason, -errno, "socket: %m");
	else
		rc = bind_in_place(&s, group, backlog, reason);
	lock_drop(path, lock);
	if (rc == 0)
		*ret_socket = s;
	else if (s.fd >= 0)
		close(s.fd);
	return rc;
}

bool unix_socket_has_file(const struct unix_socket *socket)
{
	const char *path = socket->address.sun_path;
	struct stat st;

	return path[0] && lstat(path, &st) == 0 && file_id_is(&socket->file, &st);
}

void unix_socket_remove(struct unix_socket *socket)
{
	if (unix_socket_has_file(socket))
		unlink(socket->address.sun_path);
	socket->address.sun_path[0] = '\0';
}

void unix_socket_close(struct unix_socket *socket)
{
	if (socket->fd < 0)
		return;
	unix_socket_remove(socket);
	close(socket->fd);
	socket->fd = -1;
}

/* 1: group is one of the peer's supplementary groups; 0: it is not; or -errno. */
static int in_supplementary_group(int fd, gid_t group)
{
	socklen_t bytes = 64 * sizeof(gid_t), room;
	gid_t *groups = NULL;
	int rc = 0;

	/* On ERANGE the kernel stores the needed size: try again with that. */
	do {
		gid_t *grown = realloc(groups, bytes);

		if (!grown) {
			free(groups);
			return -ENOMEM;
		}
		groups = grown;
		room = bytes;
		rc = getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &bytes) < 0 ? -errno : 0;
	} while (rc == -ERANGE && bytes > room);
	for (size_t i = 0; rc == 0 && i < bytes / sizeof(gid_t); i++)
		rc = groups[i] == group;
	free(groups);
	return rc;
}

int unix_socket_peer(int fd, gid_t group, struct unix_peer *ret_peer)
{
	struct ucred cred;
	socklen_t bytes = sizeof(cred);
	int member = 0;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &bytes) < 0)
		return -errno;
	if (group != (gid_t)-1)
		member = cred.gid == group ? 1 : in_supplementary_group(fd, group);
	if (member < 0 && member != -ENODATA)
		return member;
	*ret_peer = (struct unix_peer){
		.pid = cred.pid,
		.uid = cred.uid,
		.in_group = member > 0,
	};
	return 0;
}
