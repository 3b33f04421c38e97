/* A store: how an export reaches its bytes.  Services ask through io_submit(); a
 * store's functions are called only by core/io.c, core/slices.c and the code
 * that opens exports (export/exports.c).
 *
 * To add one: a file in store/ that defines a `const struct store`, and
 * its line in registry/registry.c. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine.h"
#include "export.h"
#include "io.h"
#include "stats.h"

struct worker;

/* Message: `direct = poll` is not in use; %s is the error's text. */
#define IO_POLL_REFUSED                                                                             \
	"polled reads and writes are refused (%s), so nothing is polled for; the device must have " \
	"queues for it (nvme: the module's poll_queues=)"

/* Features of a store that a mount uses: X(name), as in GetStats. */
#define MOUNT_FEATURES(X)                                                                          \
	X(unified_ring) /* the store uses the engine's ring */                                     \
	X(registered_file)                                                                         \
	X(registered_buffers)                                                                      \
	X(direct)                                                                                  \
	X(iopoll)    /* reads and writes are polled for */                                         \
	X(inline_io) /* the worker itself does the reads and writes that do not block */
enum mount_feature {
#define X(name) MOUNT_##name,
	MOUNT_FEATURES(X)
#undef X
		MOUNT_FEATURE_COUNT
};
extern const char *const mount_feature_names[MOUNT_FEATURE_COUNT];

/* One worker's use of an export.  Counters: one writer, the worker. */
struct mount {
	struct export *export;
	const struct store *store; /* the store that this listener uses for the export */
	struct worker *worker;
	void *store_state; /* owned by the store */

	/* For `store = auto` on a file: try_nowait() tries a read or write on the worker's thread.
	 * True: the io has ended; false: the store has to carry it out.  NULL: the store carries
	 * out every request.  The fields around it are the measurements of store/file.c. */
	bool automatic;
	uint8_t read_way, write_way;
	bool (*try_nowait)(struct io *io);
	uint64_t slow_until_ns;
	uint64_t suspect_until_ns; /* attempts are checked for blocking */
	uint64_t batch_turn;       /* the last turn that left a batch to the store */
	/* The worker's voluntary context switches when its turn `switches_turn` began to attempt.
	 */
	uint64_t switches_turn;
	long switches;
	/* text: what `auto` chose, and why; NULL: the configuration names the store. */
	const char *choice;

	_Atomic uint32_t features; /* bit mask of enum mount_feature; bits may be cleared later */
	/* Set by attach(): the reason why a requested feature is not in use; "": all are. */
	struct reason reason;

	/* Flushes and finished FUA writes share flushes of the store.  A request that arrives while
	 * a flush is in flight (`syncing`) waits for the next one. */
	struct io sync; /* the flush in flight, if `syncing` */
	bool syncing;
	struct io *sync_covers, *sync_waiting;
	/* Stores of files: an open file description of this mount's own, used for flushes.  The
	 * kernel reports a failed write-back once per open file description, so with a shared one
	 * the error could go to another mount. */
	int sync_fd;

	/* Counters by kind of request.  The latency runs from io_submit() to done(). */
	struct operation_stats operations[IO_KIND_COUNT];
	_Atomic uint64_t bytes_read, bytes_written;
	_Atomic uint64_t zero_reads; /* timed reads that found zeros: see io_found_zeros() */
	_Atomic uint64_t in_flight;  /* always counted: a store that ends waits for 0 */
	_Atomic uint64_t errors[IO_ERROR_COUNT];
};

struct store {
	const char *name; /* as in `store = NAME` */

	/* It serves files and block devices.  All such stores open an export alike, so that each
	 * listener may use another of them for the same export. */
	bool file;
	/* The store submits a turn's reads and writes by one system call, within which those that
	 * do not block are carried out. */
	bool batches;

	/* Main thread.  Can this host run it?  0, or -errno with the reason.  NULL: always. */
	int (*probe)(struct reason *reason);

	/* On a thread of its own, as a file system may hang (host/detached.h).  open() opens the
	 * file or allocates the memory of e, and fills in the fields that follow from e->options.
	 * Stores of files write nothing in it: that is for prepare(), which runs under the file's
	 * lock, gives a new file its size and its data (*ret_made, also if it then fails), and
	 * fills in e->size and e->align.  0, or -errno with the reason: what is wrong and how to
	 * fix it; the caller calls close() if prepare() fails. */
	int (*open)(struct export *e, struct reason *reason);
	int (*prepare)(struct export *e, bool *ret_made, struct reason *reason);
	/* Is the storage that e->options name another one by now than e, which is open, or has it
	 * another size?  True with the reason.  NULL: never. */
	bool (*changed)(const struct export *e, struct reason *reason);
	void (*close)(struct export *e);

	/* Worker's thread, after the engine's init() and before its fini().  attach(): 0, or -errno
	 * with the reason.  detach() returns when no request is in flight any more. */
	int (*attach)(struct mount *m, struct reason *reason);
	void (*detach)(struct mount *m);

	/* Worker's thread.  Starts io, and ends it with io_finish(), now or later.  The store
	 * handles short transfers and EINTR: result 0 means that all bytes were transferred.  It
	 * also implements FUA where io_is_dsync(); elsewhere the caller adds a flush. */
	void (*submit)(struct io *io);

	/* Worker's thread.  For requests that submit() hands to slices_submit(): does a part of io,
	 * of some 20 us.  0 or -errno: io has ended; 1: there is more to do. */
	int (*slice)(struct io *io);
};

/* Is io a direct write with FUA?  Only such a write uses RWF_DSYNC: the device then reports an
 * error for each write.  Writes through the page cache are followed by a shared flush instead,
 * since the kernel reports a failed write-back to only one of the writes in flight. */
static inline bool io_is_dsync(const struct io *io)
{
	return (io->flags & IO_FUA) && io->kind == IO_write && io->mount->export->options->direct;
}
