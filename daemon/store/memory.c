/* Store `memory`: bytes in the memory of this process, lost when it ends; pages are allocated when
 * first written.  Shows the cost of the network path alone. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "file.h"
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

enum { MEMORY_SLICE = 128 << 10 /* bytes of a trim or write_zeroes at a time */ };

static void memory_close(struct export *e)
{
	if (e->memory)
		munmap(e->memory, (size_t)e->options->size);
	e->memory = NULL;
}

static int memory_open(struct export *e, struct reason *reason)
{
	size_t size = (size_t)e->options->size;
	void *memory = MAP_FAILED;
	int rc = 0;

	if (size == e->options->size) /* else more than the address space of a 32-bit machine */
		memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		return reason_set(reason, -ENOMEM, "cannot map %llu bytes: %s; lower `size`",
				  (unsigned long long)e->options->size,
				  size == e->options->size ? strerror(errno) : "too many");
	/* The host's setting of transparent huge pages must not change a result. */
	madvise(memory, size, MADV_NOHUGEPAGE);
	e->memory = memory;
	e->size = size;
	e->align = 1;
	e->holes = true;
	e->read_only = e->options->read_only;
	if (e->options->fill)
		rc = file_fill(e, reason);
	if (rc < 0)
		memory_close(e);
	return rc;
}

static void memory_read_or_write(const struct io *io)
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

/* Zeroes the range, and gives its whole pages back to the kernel. */
static int memory_free(uint8_t *from, uint8_t *end, struct io *io)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uint8_t *first = from + (-(uintptr_t)from & (page - 1));
	uint8_t *last = end - ((uintptr_t)end & (page - 1));

	if (first >= last) {
		memset(from, 0, (size_t)(end - from));
		return 0;
	}
	memset(from, 0, (size_t)(first - from));
	memset(last, 0, (size_t)(end - last));
	io->calls++;
	return madvise(first, (size_t)(last - first), MADV_DONTNEED) < 0 ? -errno : 0;
}

/* A slice of a trim or write_zeroes; it ends at a page, as only whole ones are given back. */
static int memory_trim_or_zero_slice(struct io *io)
{
	const struct export *e = io->mount->export;
	uint64_t at = io->offset + io->progress;
	uint64_t bytes = MIN(io->length - io->progress, MEMORY_SLICE - at % MEMORY_SLICE);
	uint8_t *from = (uint8_t *)e->memory + at;
	int rc = 0;

	memory_begin(e);
	if (io->kind == IO_write_zeroes && (io->flags & IO_NO_HOLE))
		memset(from, 0, (size_t)bytes);
	else
		rc = memory_free(from, from + bytes, io);
	memory_end(e);
	io->progress += bytes;
	return rc < 0 ? rc : io->progress < io->length;
}

static void memory_submit(struct io *io)
{
	switch ((enum io_kind)io->kind) {
	case IO_read:
	case IO_write:
		memory_begin(io->mount->export);
		memory_read_or_write(io);
		memory_end(io->mount->export);
		break;
	case IO_block_status: /* all is data */
		io->extents[0] = (struct io_extent){ .length = io->length };
		io->extent_count = 1;
		break;
	case IO_trim:
	case IO_write_zeroes:
		slices_submit(io);
		return;
	default:
		break; /* flush: nothing to do */
	}
	io_finish(io, 0);
}

const struct store store_memory = {
	.name = "memory",
	.open = memory_open,
	.close = memory_close,
	.submit = memory_submit,
	.slice = memory_trim_or_zero_slice,
};
