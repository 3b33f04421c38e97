/* `store = auto`: reads and writes that need not wait are made by the worker itself, at once; all
 * others go to the mount's store.  How that is known is the table at the end.  See file.h. */
#include <errno.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/vfs.h>

#include "file.h"
#include "worker.h"

enum file_way {
	WAY_STORE,  /* the store does it */
	WAY_NOWAIT, /* the worker, if the kernel says that it need not wait (RWF_NOWAIT) */
	WAY_TIMED,  /* the worker, until one takes long: see auto_timed() */
};

/* One that takes longer has waited.  Then the store does so many times as long what follows: the
 * worker has waited for a hundredth of its time at most. */
enum { AUTO_SLOW_NS = NS_PER_MS, AUTO_SLOW_TIMES = 100 };

static ssize_t auto_call(struct io *io, int flags)
{
	struct mount *m = io->mount;
	struct stats *stats = &m->worker->stats;
	int fd = m->export->fd;

	if (io->kind == IO_read) {
		stat_add(stats->sys_pread, 1);
		return preadv2(fd, io->iov, (int)io->iov_count, (off_t)io->offset, flags);
	}
	stat_add(stats->sys_pwrite, 1);
	return pwritev2(fd, io->iov, (int)io->iov_count, (off_t)io->offset, flags);
}

static ssize_t auto_timed(struct io *io)
{
	struct mount *m = io->mount;
	uint64_t begin = clock_ns(), took;
	ssize_t n;

	if (begin < m->slow_until_ns) {
		errno = EAGAIN;
		return -1;
	}
	n = auto_call(io, 0);
	took = clock_ns() - begin;
	if (took > AUTO_SLOW_NS)
		m->slow_until_ns = begin + took * AUTO_SLOW_TIMES;
	return n;
}

static bool auto_attempt(struct io *io)
{
	struct mount *m = io->mount;
	uint8_t *way = io->kind == IO_read ? &m->read_way : &m->write_way;
	ssize_t n;

	if (*way == WAY_STORE)
		return false;
	n = *way == WAY_NOWAIT ? auto_call(io, RWF_NOWAIT) : auto_timed(io);
	if (likely(n == (ssize_t)io->length)) {
		io_finish(io, 0);
		return true;
	}
	if (n > 0)
		file_advance(io, (size_t)n); /* the store does the rest */
	else if (n < 0 && errno == EOPNOTSUPP && *way == WAY_NOWAIT)
		*way = WAY_TIMED; /* as of ext4's buffered writes */
	return false;             /* of an end or an error the store will tell */
}

/* ---- The decisions: the first that is true of the file ---- */

static bool is_direct(const struct mount *m)
{
	return m->export->options->direct;
}

static bool is_in_memory(const struct mount *m)
{
	struct statfs fs;

	return !m->export->block_device && fstatfs(m->export->fd, &fs) == 0 &&
	       ((uint32_t)fs.f_type == TMPFS_MAGIC || (uint32_t)fs.f_type == RAMFS_MAGIC);
}

static bool tells_what_waits(const struct mount *m)
{
	uint8_t byte;
	struct iovec iov = { &byte, 1 };

	return preadv2(m->export->fd, &iov, 1, 0, RWF_NOWAIT) >= 0 || errno == EAGAIN;
}

static bool is_any(const struct mount *m)
{
	(void)m;
	return true;
}

static const struct {
	bool (*is)(const struct mount *m);
	enum file_way read, write;
	const char *choice;
} decisions[] = {
	{ is_direct, WAY_STORE, WAY_STORE,
	  "direct I/O waits for the device: the store does all of it" },
	{ is_in_memory, WAY_TIMED, WAY_TIMED,
	  "in memory, where nothing waits: the worker reads and writes by itself, until one takes "
	  "longer than 1 ms" },
	{ tells_what_waits, WAY_NOWAIT, WAY_NOWAIT,
	  "the page cache answers: the worker reads and writes by itself what need not wait "
	  "(RWF_NOWAIT; where the file system cannot say so of writes, until one takes longer than "
	  "1 ms), the store does the rest" },
	{ is_any, WAY_STORE, WAY_STORE,
	  "this file system does not tell what would wait (RWF_NOWAIT): the store does all of it" },
};

void file_auto_attach(struct mount *m)
{
	unsigned i = 0;

	while (!decisions[i].is(m))
		i++;
	m->read_way = (uint8_t)decisions[i].read;
	m->write_way = (uint8_t)decisions[i].write;
	m->attempt = decisions[i].read == WAY_STORE ? NULL : auto_attempt;
	m->choice = decisions[i].choice;
	if (m->attempt)
		m->features |= 1U << MOUNT_inline_io;
}
