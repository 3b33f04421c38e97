/* Files and block devices: opening them, and their size, alignment and durability.  The export owns
 * the descriptor; each mount owns a second one for its flushes.  See file.h. */
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <linux/stat.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "file_id.h"
#include "open_file.h"
#include "sandbox.h"
#include "syscall.h"
#include "util.h"
#include "worker.h"

enum {
	FILL_BYTES = 1 << 20, /* at a time */
	FILL_PAGE = 4096,
	/* less than the time that opening an export may take */
	FILL_S = 8,
};

/* Bytes that do not compress. */
static void fill_noise(uint64_t *to)
{
	uint64_t x = 0x9e3779b97f4a7c15;

	for (size_t i = 0; i < FILL_BYTES / sizeof(*to); i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		to[i] = x;
	}
}

static ssize_t fill_write(const struct export *e, const void *data, size_t bytes, uint64_t at)
{
	if (!e->memory)
		return pwrite(e->fd, data, bytes, (off_t)at);
	memcpy((uint8_t *)e->memory + at, data, bytes);
	return (ssize_t)bytes;
}

static int fill_all(const struct export *e, uint64_t *data)
{
	uint64_t end_ns = clock_ns() + (uint64_t)FILL_S * NS_PER_S, at = 0;

	while (at < e->size) {
		size_t bytes = (size_t)MIN(e->size - at, FILL_BYTES);
		ssize_t n;

		/* No two pages are the same, for file systems that store those once. */
		for (size_t i = 0; i < FILL_BYTES; i += FILL_PAGE)
			data[i / sizeof(*data)] = at + i;
		n = fill_write(e, data, bytes, at);
		if (n < 0 && errno != EINTR)
			return -errno;
		at += n > 0 ? (uint64_t)n : 0;
		if (at < e->size && clock_ns() >= end_ns)
			return -ETIME;
	}
	return 0;
}

int file_fill(const struct export *e, struct reason *reason)
{
	uint64_t *data = aligned_alloc(FILL_PAGE, FILL_BYTES);
	int rc;

	if (!data)
		return reason_set(reason, -ENOMEM, "no memory");
	fill_noise(data);
	rc = fill_all(e, data);
	free(data);
	if (rc == -ETIME)
		return reason_set(reason, rc,
				  "cannot write its %llu bytes within %d s; set `fill = no`, and "
				  "write it as a client",
				  (unsigned long long)e->size, FILL_S);
	return rc < 0 ? reason_set(reason, rc, "cannot write its %llu bytes: %s; set `fill = no`",
				   (unsigned long long)e->size, strerror(-rc))
		      : 0;
}

/* ---- `store = auto`: the worker itself does reads and writes that will not block; the mount's
 * store does all others.  auto_attach() has the rules of the choice.  Worker's thread. ---- */

enum file_way {
	WAY_STORE,  /* the store does it */
	WAY_NOWAIT, /* the worker, with RWF_NOWAIT: the kernel fails requests that would block */
	WAY_BATCH,  /* the same for single requests; the store, if it batches, for several */
	WAY_TIMED,  /* the worker, until a call blocks for long: see auto_timed() */
};

/* A call that takes longer than AUTO_SLOW_NS has either blocked, or other threads had
 * the CPU meanwhile.  The latter is no reason to use the store, whose threads would
 * wait for the CPU as well.
 *
 * So after a long call the worker checks, for AUTO_SLOW_TIMES as long as the call took, its number
 * of voluntary context switches, which only blocking increases: once a turn, and after each further
 * long call.  After a call that has blocked the store carries out all requests for that time, so
 * that the worker blocks for at most 1 % of its time. */
enum { AUTO_SLOW_NS = NS_PER_MS, AUTO_SLOW_TIMES = 100 };

/* Reads or writes; returns the bytes, or -errno. */
static long auto_rw_now(struct io *io, int flags)
{
	struct mount *m = io->mount;
	struct stats *stats = &m->worker->stats;
	bool read = io->kind == IO_read;

	stat_add(*(read ? &stats->sys_pread : &stats->sys_pwrite), 1);
	return syscall6(read ? SYS_preadv2 : SYS_pwritev2, m->export->fd, (long)io->iov,
			(long)io->iov_count, (long)io->offset, (long)(io->offset >> 32), flags);
}

/* The number of voluntary context switches of this thread so far. */
static long voluntary_switches(struct worker *w)
{
	struct rusage usage = { 0 };

	stat_add(w->stats.sys_other, 1);
	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_nvcsw;
}

void file_auto_slow(struct mount *m, uint64_t begin_ns, uint64_t took_ns, bool waited)
{
	uint64_t until_ns = begin_ns + took_ns * AUTO_SLOW_TIMES;

	if (waited)
		m->slow_until_ns = until_ns;
	m->suspect_until_ns = until_ns + took_ns * AUTO_SLOW_TIMES;
}

/* Has the worker blocked since the last call of this function? */
static bool auto_has_blocked(struct mount *m)
{
	long before = m->switches;

	m->switches = voluntary_switches(m->worker);
	m->switches_turn = stat_load(m->worker->stats.turns);
	return m->switches != before;
}

/* Reads or writes, and measures the time.  The clock is read once for each call of a turn: a call
 * begins where the last one ended.  The service's work between two calls usually takes
 * microseconds; auto_has_blocked() distinguishes longer work from a call that blocked. */
static long auto_timed(struct io *io)
{
	struct mount *m = io->mount;
	struct worker *w = m->worker;
	uint64_t turn = stat_load(w->stats.turns), took;
	uint64_t begin = turn == w->io.timed_turn ? w->io.timed_ns : clock_ns();
	bool suspect = begin < m->suspect_until_ns;
	long n;

	if (begin < m->slow_until_ns)
		return -EAGAIN;
	if (unlikely(suspect && m->switches_turn != turn))
		auto_has_blocked(m);
	n = auto_rw_now(io, 0);
	w->io.timed_turn = turn;
	w->io.timed_ns = clock_ns();
	took = w->io.timed_ns - begin;
	if (unlikely(took > AUTO_SLOW_NS))
		file_auto_slow(m, begin, took, suspect && auto_has_blocked(m));
	return n;
}

/* Above this size the cost of a call is small beside that of the copy. */
enum { AUTO_BATCH_BYTES = 32 * 1024 };

/* Is io one of several small ones in this turn?  A ring submits them by one call, and reads and
 * writes registered memory. */
static bool auto_batches(const struct io *io)
{
	struct mount *m = io->mount;
	uint64_t turn = stat_load(m->worker->stats.turns);

	if (!m->store->batches || io->length > AUTO_BATCH_BYTES ||
	    !(io->more || m->batch_turn == turn))
		return false;
	m->batch_turn = turn;
	return true;
}

static bool auto_try_nowait(struct io *io)
{
	struct mount *m = io->mount;
	uint8_t *way = io->kind == IO_read ? &m->read_way : &m->write_way;
	long n;

	if (*way == WAY_STORE || (*way == WAY_BATCH && auto_batches(io)))
		return false;
	n = *way == WAY_TIMED ? auto_timed(io) : auto_rw_now(io, RWF_NOWAIT);
	if (likely(n == (long)io->length)) {
		if (unlikely(*way == WAY_NOWAIT))
			*way = WAY_BATCH; /* a ring needs no thread for such requests either */
		io_finish(io, 0);
		return true;
	}
	if (n > 0)
		io_advance(io, (size_t)n); /* a short transfer: the store does the rest */
	else if (n == -EOPNOTSUPP && *way != WAY_TIMED)
		*way = WAY_TIMED; /* RWF_NOWAIT is not supported, as for ext4's buffered writes */
	/* End of file or error: the store repeats the request and reports it. */
	return false;
}

/* Does the file system support RWF_NOWAIT, at least for reads? */
static bool has_nowait(const struct mount *m)
{
	uint8_t byte;
	struct iovec iov = { &byte, 1 };

	return preadv2(m->export->fd, &iov, 1, 0, RWF_NOWAIT) >= 0 || errno == EAGAIN;
}

/* For a mount with `store = auto`: decides which requests the worker itself does. */
static void auto_attach(struct mount *m)
{
	enum file_way read = WAY_STORE, write = WAY_STORE;

	if (m->export->options->direct) {
		m->choice = "direct I/O waits for the device: the store does all of it";
	} else if (m->export->in_memory) {
		read = write = WAY_TIMED;
		m->choice =
			"in memory, where nothing waits: the worker reads and writes by itself, "
			"until one waits longer than 1 ms";
	} else if (has_nowait(m)) {
		read = WAY_BATCH;
		write = WAY_NOWAIT;
		m->choice = "the page cache answers: the worker reads and writes by itself what "
			    "need not wait (RWF_NOWAIT; where the file system has no such writes, "
			    "until one waits longer than 1 ms), the store does the rest; io_uring "
			    "also does those that come several at once";
	} else {
		m->choice = "this file system has no I/O that fails instead of waiting "
			    "(RWF_NOWAIT): the store does all of it";
	}
	m->read_way = (uint8_t)read;
	m->write_way = (uint8_t)write;
	if (read == WAY_STORE)
		return;
	m->try_nowait = auto_try_nowait;
	m->features |= 1U << MOUNT_inline_io;
}

/* bytes; used where the kernel does not report it (before Linux 6.1). */
enum {
	FILE_DIRECT_ALIGN = 4096,
	FILE_DATA_UNKNOWN = 64 * 1024, /* bytes that are reported as data: see extent_end() */
};

static const char *open_advice(const struct export_options *o, int error)
{
	const char *sandbox = sandbox_advice(o->path, error);

	if (*sandbox)
		return sandbox;
	switch (error) {
	case ENOENT:
		return o->create ? "; make the folder first"
				 : "; make it, or set `create = yes` and a `size`";
	case EROFS:
		return "; its file system is mounted read-only, set `read-only = yes`";
	case EACCES:
	case EPERM:
		return "; the daemon's user must be able to read and write it, or set "
		       "`read-only = yes`";
	case EINVAL:
		return o->direct ? "; this file system has no direct I/O, set `direct = no`" : "";
	case EISDIR:
		return "; an export is a file or a block device";
	default:
		return "";
	}
}

static int file_open_fd(const struct export_options *o, int flags, struct reason *reason)
{
	const char *why = ""; /* always set if fd < 0, which gcc -O3 -flto does not see */
	int fd = open_file(o->path, flags, true, &why);

	if (fd < 0)
		return reason_set(reason, fd, "open %s: %s%s", o->path, why, open_advice(o, -fd));
	return fd;
}

/* Is the device a rotating disk?  A partition has no queue directory; its disk's is used. */
static bool device_is_rotational(dev_t device)
{
	static const char *const forms[] = { "/sys/dev/block/%u:%u/queue/rotational",
					     "/sys/dev/block/%u:%u/../queue/rotational" };
	char path[64], c = '0';

	for (unsigned i = 0; i < ARRAY_SIZE(forms); i++) {
		FILE *file;

		snprintf(path, sizeof(path), forms[i], major(device), minor(device));
		file = fopen(path, "re");
		if (!file)
			continue;
		c = (char)fgetc(file);
		fclose(file);
		break;
	}
	return c == '1';
}

static bool file_in_memory(const struct export *e)
{
	struct statfs fs;

	return !e->block_device && fstatfs(e->fd, &fs) == 0 &&
	       ((uint32_t)fs.f_type == TMPFS_MAGIC || (uint32_t)fs.f_type == RAMFS_MAGIC);
}

/* Finds out what e->fd is. */
static int file_examine(struct export *e, struct reason *reason)
{
	int read_only = 0;
	struct stat st;

	if (fstat(e->fd, &st) < 0)
		return reason_set(reason, -errno, "stat %s: %s", e->options->path, strerror(errno));
	e->block_device = S_ISBLK(st.st_mode);
	e->rotational = device_is_rotational(e->block_device ? st.st_rdev : st.st_dev);
	e->in_memory = file_in_memory(e);
	if (e->block_device && ioctl(e->fd, BLKROGET, &read_only) == 0 && read_only)
		e->read_only = true; /* a read-only device can be opened for writing nevertheless */
	return 0;
}

/* The file's or device's own size, bytes. */
static int file_size(struct export *e, struct reason *reason)
{
	bool device = e->block_device;
	struct stat st;
	int rc = device ? ioctl(e->fd, BLKGETSIZE64, &e->size) : fstat(e->fd, &st);

	if (rc < 0)
		return reason_set(reason, -errno, "%s: cannot determine its size: %s",
				  e->options->path, strerror(errno));
	if (!device)
		e->size = (uint64_t)st.st_size;
	return 0;
}

/* Gives a new or empty file its size, and then sets *ret_made.  Another file must have the
 * configured size already. */
static int file_fit(struct export *e, bool *ret_made, struct reason *reason)
{
	const struct export_options *o = e->options;

	if (o->create && e->size == 0 && !e->block_device) {
		if (ftruncate(e->fd, (off_t)o->size) < 0)
			return reason_set(reason, -errno, "cannot make %s of %llu bytes: %s",
					  o->path, (unsigned long long)o->size, strerror(errno));
		e->size = o->size;
		*ret_made = true;
	}
	if (o->size && o->size != e->size)
		return reason_set(reason, -EINVAL,
				  "%s has %llu bytes, `size` is %llu; leave `size` out, or resize "
				  "the file (truncate -s)",
				  o->path, (unsigned long long)e->size,
				  (unsigned long long)o->size);
	if (e->size == 0)
		return reason_set(
			reason, -EINVAL,
			"%s is empty; give it a size (truncate -s), or set `create = yes` "
			"and a `size`",
			o->path);
	return 0;
}

/* Syncs the directory of a new file, so that its name is as durable as its data. */
static int file_keep_name(const struct export *e, struct reason *reason)
{
	const char *path = e->options->path, *slash = strrchr(path, '/');
	char folder[EXPORT_PATH_MAX];
	int fd, rc;

	snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - path) + 1 : 1,
		 slash ? path : ".");
	fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	rc = fd < 0 || fsync(fd) < 0 ? -errno : 0;
	if (fd >= 0)
		close(fd);
	return rc < 0 ? reason_set(reason, rc, "cannot sync the directory of %s: %s", path,
				   strerror(-rc))
		      : 0;
}

/* Finds the alignment that direct I/O requires of offsets, lengths and memory. */
static int file_align(struct export *e, struct reason *reason)
{
	struct statx stx = { 0 };
	uint32_t align = FILE_DIRECT_ALIGN;

	e->align = 1;
	if (!e->options->direct)
		return 0;
	if (syscall(SYS_statx, e->fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &stx) == 0 &&
	    (stx.stx_mask & STATX_DIOALIGN)) {
		if (stx.stx_dio_offset_align == 0)
			return reason_set(
				reason, -EINVAL,
				"%s: its file system has no direct I/O; set `direct = no`",
				e->options->path);
		align = MAX(stx.stx_dio_offset_align, stx.stx_dio_mem_align);
	}
	e->align = align;
	if (e->size % align)
		return reason_set(reason, -EINVAL,
				  "%s has %llu bytes, for direct I/O it needs a multiple of %u; "
				  "resize it (truncate -s), or set `direct = no`",
				  e->options->path, (unsigned long long)e->size, align);
	return 0;
}

int file_prepare(struct export *e, bool *ret_made, struct reason *reason)
{
	int rc = file_size(e, reason);

	*ret_made = false;
	if (rc == 0)
		rc = file_fit(e, ret_made, reason);
	if (rc == 0)
		rc = file_align(e, reason);
	if (rc == 0 && e->options->create && !e->block_device)
		rc = file_keep_name(e, reason);
	if (rc == 0 && *ret_made && e->options->fill)
		rc = file_fill(e, reason);
	return rc;
}

int file_open(struct export *e, struct reason *reason)
{
	const struct export_options *o = e->options;
	int flags = o->read_only ? O_RDONLY : O_RDWR, rc;

	e->read_only = o->read_only;
	e->holes = true;
	if (o->create)
		flags |= O_CREAT;
	if (o->direct)
		flags |= O_DIRECT;
	e->fd = file_open_fd(o, flags, reason);
	if (e->fd < 0)
		return e->fd;
	rc = file_examine(e, reason);
	if (rc < 0)
		file_close(e);
	return rc;
}

/* A path that does not exist is no change: the open file is still served. */
bool file_has_changed(const struct export *e, struct reason *reason)
{
	struct export now = *e;
	struct file_id id;
	struct stat st;

	if (fstat(e->fd, &st) < 0 || file_size(&now, reason) < 0)
		return false;
	id = file_id_of_data(&st);
	if (stat(e->options->path, &st) < 0)
		return false;
	if (id.device != file_id_of_data(&st).device || id.inode != file_id_of_data(&st).inode)
		return reason_set(reason, -ESTALE, "%s is another file now", e->options->path);
	if (now.size == e->size)
		return false;
	return reason_set(reason, -ESTALE, "%s has %llu bytes now, it had %llu", e->options->path,
			  (unsigned long long)now.size, (unsigned long long)e->size);
}

void file_close(struct export *e)
{
	if (e->fd >= 0)
		close(e->fd);
	e->fd = -1;
}

/* Worker's thread.  A second open of the file gives the mount an open file description of its own:
 * the kernel reports a failed write-back once for each of them. */
int file_attach(struct mount *m, struct reason *reason)
{
	const struct export *e = m->export;
	char path[32];

	/* Reopens the same file even if its path now leads to another one. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", e->fd);
	m->sync_fd = open(path, (e->read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_NOCTTY);
	if (m->sync_fd < 0)
		return reason_set(reason, -errno,
				  "open %s once more, through %s: %s; that needs /proc, and "
				  "permissions that have not changed",
				  e->options->path, path, strerror(errno));
	if (m->automatic)
		auto_attach(m);
	return 0;
}

void file_detach(struct mount *m)
{
	close(m->sync_fd);
	m->sync_fd = -1;
}

bool file_cannot_allocate(const struct io *io, int error)
{
	return error == EOPNOTSUPP || (error == EINVAL && io->mount->export->block_device);
}

/* ---- Data and holes, by lseek(2): the file may change meanwhile ---- */

/* SEEK_DATA has found no data behind `at`: a hole reaches up to the end of the file.  Returns its
 * end; -EIO: the file was truncated meanwhile. */
static int64_t extent_last(struct io *io, int fd, uint64_t at, uint64_t end)
{
	off_t size = lseek(fd, 0, SEEK_END);

	io->calls++;
	if (size < 0)
		return -errno;
	return (uint64_t)size > at ? (int64_t)MIN((uint64_t)size, end) : -EIO;
}

/* Returns the end of the extent that contains `at`, at most `end`.  *ret_hole: the extent is a
 * hole. */
static int64_t extent_end(struct io *io, int fd, uint64_t at, uint64_t end, bool *ret_hole)
{
	off_t data = lseek(fd, (off_t)at, SEEK_DATA), hole;

	io->calls++;
	*ret_hole = data < 0 ? errno == ENXIO : (uint64_t)data > at;
	if (data < 0 && errno != ENXIO)
		return errno == EINVAL ? (int64_t)end : -errno;
	if (data < 0)
		return extent_last(io, fd, at, end);
	if (*ret_hole)
		return (int64_t)MIN((uint64_t)data, end);
	io->calls++;
	hole = lseek(fd, (off_t)at, SEEK_HOLE);
	if (hole < 0)
		return -errno;
	/* SEEK_DATA has found data and SEEK_HOLE has not: another request has just cleared it, or
	 * the file system is faulty.  Reporting some data is correct in any case, and ends the
	 * search. */
	if ((uint64_t)hole <= at)
		hole = (off_t)(at + FILE_DATA_UNKNOWN);
	return (int64_t)MIN((uint64_t)hole, end);
}

int file_extents(struct io *io, int fd)
{
	uint64_t at = io->offset, end = io->offset + io->length;

	io->extent_count = 0;
	while (at < end && io->extent_count < IO_EXTENTS_MAX) {
		struct io_extent *extent = &io->extents[io->extent_count];
		int64_t next = extent_end(io, fd, at, end, &extent->hole);

		/* Report the extents found so far; the next request meets the error. */
		if (next < 0)
			return io->extent_count > 0 ? 0 : (int)next;
		extent->length = (uint64_t)next - at;
		at = (uint64_t)next;
		io->extent_count++;
	}
	return 0;
}
