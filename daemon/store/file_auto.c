/* `store = auto`: the worker itself does reads and writes that will not block; the
 * mount's store does all others.  The table at the end has the rules of the choice.
 * Worker's thread.  See file.h. */
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/uio.h>

#include "file.h"
#include "syscall.h"
#include "worker.h"

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
static long auto_call(struct io *io, int flags)
{
	struct mount *m = io->mount;
	struct stats *stats = &m->worker->stats;
	bool read = io->kind == IO_read;

	stat_add(*(read ? &stats->sys_pread : &stats->sys_pwrite), 1);
	return syscall6(read ? SYS_preadv2 : SYS_pwritev2, m->export->fd, (long)io->iov,
			(long)io->iov_count, (long)io->offset, (long)(io->offset >> 32), flags);
}

/* The number of voluntary context switches of this thread so far. */
static long waits_so_far(struct worker *w)
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

/* Has the worker blocked since the last look? */
static bool auto_look(struct mount *m)
{
	long before = m->waits;

	m->waits = waits_so_far(m->worker);
	m->looked_turn = stat_load(m->worker->stats.turns);
	return m->waits != before;
}

/* Reads or writes and measures the time.  The clock is read once for each call of a turn: a call
 * begins where the last one has ended.  The work between two calls takes microseconds as a rule;
 * where it takes long, auto_look() tells it from a call that blocked. */
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
	if (unlikely(suspect && m->looked_turn != turn))
		auto_look(m);
	n = auto_call(io, 0);
	w->io.timed_turn = turn;
	w->io.timed_ns = clock_ns();
	took = w->io.timed_ns - begin;
	if (unlikely(took > AUTO_SLOW_NS))
		file_auto_slow(m, begin, took, suspect && auto_look(m));
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

static bool auto_attempt(struct io *io)
{
	struct mount *m = io->mount;
	uint8_t *way = io->kind == IO_read ? &m->read_way : &m->write_way;
	long n;

	if (*way == WAY_STORE || (*way == WAY_BATCH && auto_batches(io)))
		return false;
	n = *way == WAY_TIMED ? auto_timed(io) : auto_call(io, RWF_NOWAIT);
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

/* ---- The decisions: the first row that applies to the file ---- */

static bool is_direct(const struct mount *m)
{
	return m->export->options->direct;
}

static bool is_in_memory(const struct mount *m)
{
	return m->export->in_memory;
}

static bool tells_what_waits(const struct mount *m)
{
	uint8_t byte;
	struct iovec iov = { &byte, 1 };

	return preadv2(m->export->fd, &iov, 1, 0, RWF_NOWAIT) >= 0 || errno == EAGAIN;
}

static const struct {
	bool (*is)(const struct mount *m); /* NULL: always */
	enum file_way read, write;
	const char *choice;
} decisions[] = {
	{ is_direct, WAY_STORE, WAY_STORE,
	  "direct I/O waits for the device: the store does all of it" },
	{ is_in_memory, WAY_TIMED, WAY_TIMED,
	  "in memory, where nothing waits: the worker reads and writes by itself, until one waits "
	  "longer than 1 ms" },
	{ tells_what_waits, WAY_BATCH, WAY_NOWAIT,
	  "the page cache answers: the worker reads and writes by itself what need not wait "
	  "(RWF_NOWAIT; where the file system cannot say so of writes, until one waits longer than "
	  "1 ms), the store does the rest; io_uring also does those that come several at once" },
	{ NULL, WAY_STORE, WAY_STORE,
	  "this file system does not tell what would wait (RWF_NOWAIT): the store does all of it" },
};

void file_auto_attach(struct mount *m)
{
	unsigned i = 0;

	while (decisions[i].is && !decisions[i].is(m))
		i++;
	m->read_way = (uint8_t)decisions[i].read;
	m->write_way = (uint8_t)decisions[i].write;
	m->attempt = decisions[i].read == WAY_STORE ? NULL : auto_attempt;
	m->choice = decisions[i].choice;
	if (m->attempt)
		m->features |= 1U << MOUNT_inline_io;
}
