/* Locks on files.  See file_lock.h. */
#include "file_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "file_id.h"
#include "util.h"

enum { LOCK_PAUSE_NS = 50 * NS_PER_MS };

struct file_lock {
	struct file_lock *next; /* next and `users` are protected by locks_mutex */
	struct file_id id;
	unsigned users;
	_Atomic bool kept;     /* a user serves the file, or has served it: it is never emptied */
	pthread_mutex_t mutex; /* protects the fields below; held during fcntl() and the creation of
				  the file */
	bool made;             /* a user of the lock has given the empty file its size */
	unsigned writers;
	int fd;     /* holds the lock, and is open for writing if there are writers; -1: none yet */
	short type; /* F_RDLCK, F_WRLCK; F_UNLCK: the file system has no locks */
};

static pthread_mutex_t locks_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct file_lock *locks;

/* 0 or -errno; -EAGAIN: another open file description holds a conflicting lock. */
static int lock_fd(int fd, short type)
{
	struct flock whole = { .l_type = type, .l_whence = SEEK_SET };

	if (fcntl(fd, F_OFD_SETLK, &whole) == 0)
		return 0;
	return errno == EACCES ? -EAGAIN : -errno;
}

/* Unlocks explicitly before closing: rings that are being torn down may still refer to the open
 * file description. */
static void lock_close(struct file_lock *l)
{
	if (l->fd < 0)
		return;
	lock_fd(l->fd, F_UNLCK);
	close(l->fd);
	l->fd = -1;
}

/* 0; -EBUSY: another process has it; -ENOLCK: there are no locks here. */
static int wait_for_lock(int fd, short type, const char *path, struct reason *reason)
{
	static const struct timespec pause = { .tv_nsec = LOCK_PAUSE_NS };
	uint64_t end_ns = clock_ns() + FILE_LOCK_WAIT_NS;
	int rc;

	while ((rc = lock_fd(fd, type)) == -EAGAIN) {
		if (clock_ns() >= end_ns)
			return reason_set(reason, -EBUSY,
					  "%s is in use: another process has locked it (as root, "
					  "`lsof %s` shows which); end that, or, if it is an "
					  "nbserved, set `read-only = yes` in both exports",
					  path, path);
		nanosleep(&pause, NULL);
	}
	return rc == 0 ? 0 : -ENOLCK;
}

/* Takes the lock for fd, or upgrades it; the caller holds l->mutex.  Two open file descriptions
 * conflict, so an upgrade first moves the shared lock to the new one: the file is locked
 * throughout, and a refused upgrade leaves the shared lock. */
static int lock_take(struct file_lock *l, int fd, short type, const char *path,
		     struct reason *reason)
{
	int own, rc;

	if (l->fd >= 0 && (type == F_RDLCK || l->type == F_WRLCK))
		return 0;
	own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	rc = own < 0 ? -errno : l->type == F_RDLCK ? lock_fd(own, F_RDLCK) : 0;
	if (rc < 0) {
		reason_set(reason, rc, "lock %s: %s", path, strerror(-rc));
		if (own >= 0)
			close(own);
		return rc;
	}
	lock_close(l);
	l->fd = own;
	rc = wait_for_lock(own, type, path, reason);
	if (rc == 0)
		l->type = type;
	else if (rc == -EBUSY && l->type == F_UNLCK)
		lock_close(l);
	return rc == -EBUSY ? rc : 0;
}

static struct file_lock *lock_find(const struct file_id *id)
{
	struct file_lock *l;

	pthread_mutex_lock(&locks_mutex);
	for (l = locks; l; l = l->next)
		if (l->id.device == id->device && l->id.inode == id->inode)
			break;
	if (!l) {
		l = calloc(1, sizeof(*l));
		if (l) {
			*l = (struct file_lock){
				.next = locks, .id = *id, .fd = -1, .type = F_UNLCK
			};
			pthread_mutex_init(&l->mutex, NULL);
			locks = l;
		}
	}
	if (l)
		l->users++;
	pthread_mutex_unlock(&locks_mutex);
	return l;
}

/* The caller holds l->mutex. */
static bool lock_is_sole(const struct file_lock *l)
{
	bool sole;

	pthread_mutex_lock(&locks_mutex);
	sole = l->users == 1;
	pthread_mutex_unlock(&locks_mutex);
	return sole;
}

/* A holder of this lock gave the empty file its size, and no listener has served it yet: the last
 * holder may still empty it.  The caller holds l->mutex. */
static bool is_fresh(const struct file_lock *l)
{
	return l->made && !atomic_load(&l->kept);
}

static void lock_leave(struct file_lock *l)
{
	bool last;

	pthread_mutex_lock(&locks_mutex);
	last = --l->users == 0;
	for (struct file_lock **p = &locks; last && *p; p = &(*p)->next)
		if (*p == l) {
			*p = l->next;
			break;
		}
	pthread_mutex_unlock(&locks_mutex);
	if (!last)
		return;
	lock_close(l);
	pthread_mutex_destroy(&l->mutex);
	free(l);
}

int file_lock_get(int fd, const char *path, bool to_write, struct file_lock **ret_lock,
		  struct reason *reason)
{
	struct file_lock *l;
	struct file_id id;
	struct stat st;
	int rc;

	if (fstat(fd, &st) < 0)
		return reason_set(reason, -errno, "stat %s: %s", path, strerror(errno));
	id = file_id_of_data(&st);
	l = lock_find(&id);
	if (!l)
		return reason_set(reason, -ENOMEM, "no memory");
	pthread_mutex_lock(&l->mutex);
	rc = lock_take(l, fd, to_write ? F_WRLCK : F_RDLCK, path, reason);
	l->writers += rc == 0 && to_write;
	pthread_mutex_unlock(&l->mutex);
	if (rc < 0)
		lock_leave(l);
	else
		*ret_lock = l;
	return rc;
}

/* A new user that finds the file being emptied waits for l->mutex, and then finds it empty.  The
 * lock stays exclusive while the file may still have to be emptied. */
void file_lock_put(struct file_lock *l, bool to_write)
{
	if (!l)
		return;
	pthread_mutex_lock(&l->mutex);
	l->writers -= to_write;
	/* If it fails the file keeps its size, which the next configuration may refuse. */
	if (is_fresh(l) && lock_is_sole(l) && ftruncate(l->fd, 0) == 0)
		l->made = false;
	if (l->writers == 0 && l->type == F_WRLCK && !is_fresh(l) && lock_fd(l->fd, F_RDLCK) == 0)
		l->type = F_RDLCK;
	pthread_mutex_unlock(&l->mutex);
	lock_leave(l);
}

void file_lock_begin(struct file_lock *l)
{
	if (l)
		pthread_mutex_lock(&l->mutex);
}

void file_lock_end(struct file_lock *l, bool made)
{
	if (!l)
		return;
	l->made |= made;
	pthread_mutex_unlock(&l->mutex);
}

void file_lock_keep(struct file_lock *l)
{
	if (l)
		atomic_store(&l->kept, true);
}
