/* Store `memory`: bytes in this process's memory, gone when it ends; pages are allocated when first
 * written.  Shows the cost of the network path alone. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "extents.h"
#include "store.h"
#include "worker.h"

/* A client that has received an answer may send its next request to another worker.  The kernel
 * orders the two accesses, which TSan does not know and has to be told. */
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#define memory_begin(e) __tsan_acquire((e)->memory)
#define memory_end(e)   __tsan_release((e)->memory)
#else
#define memory_begin(e) (void)(e)
#define memory_end(e)   (void)(e)
#endif

/* Bytes of a trim or write_zeroes at a time: a millisecond or two. */
#define MEMORY_CLEAR_MAX ((uint64_t)4 << 20)

static int memory_open(struct export *e, struct reason *reason)
{
	int fd = memfd_create("nbserved", MFD_CLOEXEC);
	size_t size = (size_t)e->options->size;
	int error = 0;

	if (fd < 0)
		return reason_set(reason, -errno, "memfd_create: %s", strerror(errno));
	e->memory = MAP_FAILED;
	errno = ENOMEM; /* more than the address space of a 32-bit machine */
	if (size == e->options->size && ftruncate(fd, (off_t)size) == 0)
		e->memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (e->memory == MAP_FAILED) {
		error = errno;
		close(fd);
		e->memory = NULL;
		return reason_set(reason, -error, "cannot map %llu bytes: %s; lower `size`",
				  (unsigned long long)e->options->size, strerror(error));
	}
	e->fd = fd;
	e->size = e->options->size;
	e->align = 1;
	e->read_only = e->options->read_only;
	e->holes = true;
	return 0;
}

static void memory_close(struct export *e)
{
	if (e->memory)
		munmap(e->memory, (size_t)e->size);
	e->memory = NULL;
	close(e->fd);
	e->fd = -1;
}

static void memory_copy(const struct io *io)
{
	uint8_t *at = (uint8_t *)io->mount->export->memory + io->offset;

	for (unsigned i = 0; i < io->iov_count; i++) {
		size_t bytes = io->iov[i].iov_len;

		if (io->kind == IO_read)
			memcpy(io->iov[i].iov_base, at, bytes);
		else
			memcpy(at, io->iov[i].iov_base, bytes);
		at += bytes;
	}
}

/* A piece of a trim or write_zeroes. */
static int memory_clear(struct io *io, uint64_t offset, uint64_t bytes)
{
	const struct export *e = io->mount->export;
	int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;

	if (io->kind == IO_write_zeroes && (io->flags & IO_NO_HOLE)) {
		memset((uint8_t *)e->memory + offset, 0, (size_t)bytes);
		return 0;
	}
	io->calls++;
	return fallocate(e->fd, mode, (off_t)offset, (off_t)bytes) < 0 ? -errno : 0;
}

static void memory_clear_on(struct call *call);

/* Does as much of the request as a turn may take, and leaves the rest to later turns. */
static void memory_clear_some(struct io *io)
{
	struct worker *w = io->mount->worker;
	uint64_t bytes = MIN(io->length - io->progress, MEMORY_CLEAR_MAX);
	int result;

	memory_begin(io->mount->export);
	result = memory_clear(io, io->offset + io->progress, bytes);
	memory_end(io->mount->export);
	io->progress += bytes;
	if (result == 0 && io->progress < io->length && w->stop)
		result = -ESHUTDOWN;
	if (result == 0 && io->progress < io->length) {
		io->call.fn = memory_clear_on;
		io->calls += mailbox_post(&w->mailbox, &io->call);
		return;
	}
	stat_add(w->stats.sys_other, io->calls);
	io_finish(io, result);
}

static void memory_clear_on(struct call *call)
{
	memory_clear_some(container_of(call, struct io, call));
}

static int memory_run(struct io *io)
{
	const struct export *e = io->mount->export;

	switch ((enum io_kind)io->kind) {
	case IO_read:
	case IO_write:
		memory_copy(io);
		return 0;
	case IO_block_status:
		return extents_of_file(io, e->fd);
	default:
		return 0; /* flush, cache: nothing to do */
	}
}

/* Finishes the requests in progress, each as one piece. */
static void memory_detach(struct mount *m)
{
	while (stat_load(m->in_flight) > 0)
		mailbox_run(&m->worker->mailbox);
}

static void memory_submit(struct io *io)
{
	int result;

	if (io->kind == IO_trim || io->kind == IO_write_zeroes) {
		memory_clear_some(io);
		return;
	}
	memory_begin(io->mount->export);
	result = memory_run(io);
	memory_end(io->mount->export);
	stat_add(io->mount->worker->stats.sys_other, io->calls);
	io_finish(io, result);
}

const struct store store_memory = {
	.name = "memory",
	.open = memory_open,
	.close = memory_close,
	.detach = memory_detach,
	.submit = memory_submit,
};
