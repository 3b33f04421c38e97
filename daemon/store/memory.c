/* Store `memory`: bytes in this process's memory, gone when it ends; pages are allocated when first
 * written.  Shows the cost of the network path alone. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "file.h"
#include "slices.h"
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

enum {
	MEMORY_SLICE = 128 << 10,   /* bytes of a trim or write_zeroes at a time */
	MEMORY_STATUS_PAGES = 1024, /* pages of data that a slice of a block_status looks at */
};

static void memory_close(struct export *e)
{
	if (e->memory)
		munmap(e->memory, (size_t)e->size);
	e->memory = NULL;
	close(e->fd);
	e->fd = -1;
}

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
	if (e->options->fill)
		error = fill_export(e, reason);
	if (error < 0)
		memory_close(e);
	return error;
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

/* A slice of a trim or write_zeroes; it ends at a page, as only whole ones are given back. */
static int memory_clear(struct io *io)
{
	const struct export *e = io->mount->export;
	uint64_t at = io->offset + io->progress;
	uint64_t bytes = MIN(io->length - io->progress, MEMORY_SLICE - at % MEMORY_SLICE);
	int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;

	if (io->kind == IO_write_zeroes && (io->flags & IO_NO_HOLE)) {
		memset((uint8_t *)e->memory + at, 0, (size_t)bytes);
	} else {
		io->calls++;
		if (fallocate(e->fd, mode, (off_t)at, (off_t)bytes) < 0)
			return -errno;
	}
	io->progress += bytes;
	return io->progress < io->length;
}

/* ---- Holes ---- */

/* End of the data that begins at `at`, MEMORY_STATUS_PAGES further at most.  The kernel tells which
 * pages are in memory; SEEK_HOLE would search all of the export.  A page that was swapped out ends
 * this slice, and the next slice takes it for data. */
static uint64_t memory_data_end(struct io *io, uint64_t at, uint64_t end)
{
	const struct export *e = io->mount->export;
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), from = at / page * page;
	unsigned char pages[MEMORY_STATUS_PAGES];
	size_t count = (size_t)MIN((end - from + page - 1) / page, MEMORY_STATUS_PAGES), i = 1;

	io->calls++;
	if (mincore((uint8_t *)e->memory + from, count * page, pages) == 0)
		while (i < count && (pages[i] & 1))
			i++;
	return MIN(from + i * page, end);
}

/* A slice of a block_status: appends a range to the extents. */
static int memory_extents(struct io *io)
{
	const struct export *e = io->mount->export;
	uint64_t at = io->offset + io->progress, end = io->offset + io->length, next;
	struct io_extent *last = io->extents + io->extent_count - 1;
	off_t data = lseek(e->fd, (off_t)at, SEEK_DATA);
	bool hole = data < 0 || (uint64_t)data > at;

	io->calls++;
	if (data < 0 && errno != ENXIO)
		return -errno;
	if (hole)
		next = data < 0 ? end : MIN((uint64_t)data, end);
	else
		next = memory_data_end(io, at, end);
	if (io->extent_count > 0 && last->hole == hole)
		last->length += next - at;
	else if (io->extent_count == IO_EXTENTS_MAX)
		return 0;
	else
		io->extents[io->extent_count++] =
			(struct io_extent){ .length = next - at, .hole = hole };
	io->progress += next - at;
	return io->progress < io->length;
}

/* ---- Requests ---- */

static int memory_slice(struct io *io)
{
	int rc;

	memory_begin(io->mount->export);
	rc = io->kind == IO_block_status ? memory_extents(io) : memory_clear(io);
	memory_end(io->mount->export);
	return rc;
}

static void memory_submit(struct io *io)
{
	switch ((enum io_kind)io->kind) {
	case IO_read:
	case IO_write:
		memory_begin(io->mount->export);
		memory_copy(io);
		memory_end(io->mount->export);
		break;
	case IO_block_status:
		io->extent_count = 0;
		/* fall through */
	case IO_trim:
	case IO_write_zeroes:
		slices_submit(io);
		return;
	default:
		break; /* flush, cache: nothing to do */
	}
	io_finish(io, 0);
}

const struct store store_memory = {
	.name = "memory",
	.open = memory_open,
	.close = memory_close,
	.submit = memory_submit,
	.slice = memory_slice,
};
