/* Store `memory`: bytes in the memory of this process, lost when it ends; pages are allocated when
 * first written.  Shows the cost of the network path alone. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "file.h"
#include "page_map.h"
#include "slices.h"
#include "store.h"
#include "worker.h"

/* A client that has received an answer may send its next request to another worker.  The kernel
 * orders the two accesses, which these calls make known to TSan. */
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#define memory_begin(e) __tsan_acquire((e)->memory)
#define memory_end(e)   __tsan_release((e)->memory)
#else
#define memory_begin(e) (void)(e)
#define memory_end(e)   (void)(e)
#endif

enum {
	MEMORY_SLICE = 128 << 10,        /* bytes of a trim or write_zeroes at a time */
	MEMORY_STATUS_PAGES = 256 << 10, /* pages that a slice of a block_status examines */
};

static void memory_close(struct export *e)
{
	if (e->memory)
		munmap(e->memory, (size_t)e->options->size);
	e->memory = NULL;
	page_map_free(e->pages, e->options->size);
	e->pages = NULL;
	if (e->fd >= 0)
		close(e->fd);
	e->fd = -1;
}

/* The first page that begins at offset or behind it; of the size, the number of pages. */
static uint64_t page_up(uint64_t offset)
{
	return (offset + PAGE_MAP_BYTES - 1) / PAGE_MAP_BYTES;
}

/* 0 or -errno. */
static int memory_map(struct export *e, size_t size)
{
	if (size != e->options->size) /* more than the address space of a 32-bit machine */
		return -ENOMEM;
	if (ftruncate(e->fd, (off_t)size) < 0)
		return -errno;
	e->memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, e->fd, 0);
	if (e->memory == MAP_FAILED) {
		e->memory = NULL;
		return -errno;
	}
	e->pages = page_map_new(size);
	return e->pages ? 0 : -errno;
}

static int memory_open(struct export *e, struct reason *reason)
{
	int rc;

	e->fd = memfd_create("nbserved", MFD_CLOEXEC);
	if (e->fd < 0)
		return reason_set(reason, -errno, "memfd_create: %s", strerror(errno));
	e->align = 1;
	e->read_only = e->options->read_only;
	e->holes = true;
	rc = memory_map(e, (size_t)e->options->size);
	if (rc < 0)
		reason_set(reason, rc, "cannot map %llu bytes: %s; lower `size`",
			   (unsigned long long)e->options->size, strerror(-rc));
	else
		e->size = e->options->size;
	if (rc == 0 && e->options->fill) {
		rc = file_fill(e, reason);
		page_map_set(e->pages, 0, page_up(e->size));
	}
	if (rc < 0)
		memory_close(e);
	return rc;
}

/* Reads bytes that are in pages: where these have no data, the memory is not touched. */
static void memory_read(const struct export *e, uint8_t *to, uint64_t at, size_t bytes)
{
	uint64_t end = at + bytes, last = page_up(end);

	while (at < end) {
		bool data;
		uint64_t page = page_map_run(e->pages, at / PAGE_MAP_BYTES, last, &data);
		size_t part = (size_t)(MIN(page * PAGE_MAP_BYTES, end) - at);

		if (data)
			memcpy(to, (uint8_t *)e->memory + at, part);
		else
			memset(to, 0, part);
		to += part;
		at += part;
	}
}

static void memory_copy(const struct io *io)
{
	const struct export *e = io->mount->export;
	uint64_t at = io->offset;

	for (unsigned i = 0; i < io->iov_count; i++) {
		size_t bytes = io->iov[i].iov_len;

		if (io->kind == IO_read)
			memory_read(e, io->iov[i].iov_base, at, bytes);
		else
			memcpy((uint8_t *)e->memory + at, io->iov[i].iov_base, bytes);
		at += bytes;
	}
	if (io->kind == IO_write)
		page_map_set(e->pages, io->offset / PAGE_MAP_BYTES, page_up(at));
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
		page_map_set(e->pages, at / PAGE_MAP_BYTES, page_up(at + bytes));
	} else {
		uint64_t first = page_up(at), end = (at + bytes) / PAGE_MAP_BYTES;

		io->calls++;
		if (at + bytes == e->size)
			end = page_up(e->size);
		page_map_clear(e->pages, first, end);
		if (fallocate(e->fd, mode, (off_t)at, (off_t)bytes) < 0) {
			int rc = -errno;

			page_map_set(e->pages, first, end); /* the data are still there */
			return rc;
		}
	}
	io->progress += bytes;
	return io->progress < io->length;
}

/* ---- Holes ---- */

/* A slice of a block_status: appends a range to the extents. */
static int memory_extents(struct io *io)
{
	const struct export *e = io->mount->export;
	uint64_t at = io->offset + io->progress, end = io->offset + io->length;
	uint64_t first = at / PAGE_MAP_BYTES;
	uint64_t last = MIN(page_up(end), first + MEMORY_STATUS_PAGES), next;
	struct io_extent *extent = io->extents + io->extent_count - 1;
	bool data;

	next = MIN(page_map_run(e->pages, first, last, &data) * PAGE_MAP_BYTES, end);
	if (io->extent_count > 0 && extent->hole == !data)
		extent->length += next - at;
	else if (io->extent_count == IO_EXTENTS_MAX)
		return 0;
	else
		io->extents[io->extent_count++] =
			(struct io_extent){ .length = next - at, .hole = !data };
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
