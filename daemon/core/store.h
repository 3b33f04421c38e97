/* A store: how an export reaches its bytes.  Services ask through io_submit(); the operations of a
 * store are its own files' business.
 *
 * To add one: a file in store/ that defines a `const struct store`, and its line in
 * store/stores.c. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "engine.h"
#include "export.h"
#include "mailbox.h"
#include "op.h"
#include "stats.h"

struct mount;
struct worker;

/* Kinds of requests to an export: X(name), as in GetStats. */
#define IO_KINDS(X)                                                                                \
	X(read)                                                                                    \
	X(write)                                                                                   \
	X(flush)                                                                                   \
	X(trim)         /* the bytes are no longer needed, and may read as anything */             \
	X(write_zeroes) /* the bytes read as zeros from now on */                                  \
	X(cache)        /* they will be read soon */                                               \
	X(block_status) /* which are data, which are holes */
enum io_kind {
#define X(name) IO_##name,
	IO_KINDS(X)
#undef X
		IO_KIND_COUNT
};
extern const char *const io_kind_names[IO_KIND_COUNT + 1]; /* NULL-terminated */

enum io_flags {
	IO_FUA = 1 << 0,     /* on stable storage when it is done */
	IO_NO_HOLE = 1 << 1, /* write_zeroes: allocate */
	IO_FAST = 1 << 2,    /* write_zeroes: -EOPNOTSUPP rather than slower than that */
};

/* Errors of exports that are counted apart: X(errno without E); the rest is `other`. */
#define IO_ERRORS(X) X(IO) X(NOSPC) X(INVAL) X(PERM) X(NOMEM) X(OPNOTSUPP)
enum io_error {
#define X(name) IO_ERROR_##name,
	IO_ERRORS(X)
#undef X
		IO_ERROR_other,
	IO_ERROR_COUNT
};
extern const char *const io_error_names[IO_ERROR_COUNT]; /* "EIO", ..., "other" */

enum {
	IO_IOV_MAX = 32,        /* pieces of memory of one read or write */
	IO_EXTENTS_MAX = 64,    /* that one block_status reports */
	IO_ZEROES_MAX = 1 << 20 /* bytes that are written at a time where nothing else zeroes */
};

/* Message: `iopoll` is not in use; %s is the error's text. */
#define IO_POLL_REFUSED                                                                             \
	"polled reads and writes are refused (%s), so nothing is polled for; the device must have " \
	"queues for it (nvme: the module's poll_queues=)"

struct io_extent {
	uint64_t length; /* bytes */
	bool hole;       /* not allocated; reads as zeros */
};

/* One request to an export.  Embedded in its owner, which keeps it and the memory that it names
 * alive until done() was called. */
struct io {
	/* The owner's.  result: 0 or -errno.  Runs on the worker's thread, once; perhaps within
	 * io_submit(). */
	void (*done)(struct io *io, int result);
	struct mount *mount;
	uint8_t kind;  /* enum io_kind */
	uint8_t flags; /* of enum io_flags */
	/* Within the export, aligned to export->align; length > 0 except for flush. */
	uint64_t offset, length;
	unsigned iov_count; /* read, write: the memory, `length` bytes in all */
	struct iovec iov[IO_IOV_MAX];
	struct io_extent *extents; /* block_status: room for IO_EXTENTS_MAX */
	unsigned extent_count;     /* and how many there are when done; they begin at offset */

	/* io_submit()'s; it adds IO_FUA to flags where every write is to be stable. */
	uint64_t start_ns; /* 0: not timed */
	struct io *next;

	/* The store's. */
	struct op op;
	struct call call;
	uint64_t progress; /* bytes that are done */
	int result;
	unsigned calls;   /* system calls that were made for it, 0 at first */
	unsigned retries; /* after EAGAIN and EINTR, since it made progress; 0 at first */
};

/* Features of a store that are really in use: X(name), as in GetStats. */
#define MOUNT_FEATURES(X)                                                                          \
	X(unified_ring) /* the engine's ring is the store's */                                     \
	X(registered_file)                                                                         \
	X(registered_buffers)                                                                      \
	X(direct)                                                                                  \
	X(iopoll)    /* reads and writes are polled for */                                         \
	X(inline_io) /* the worker makes those that need not wait by itself */
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
	const struct store *store; /* how this listener reaches it */
	struct worker *worker;
	void *store_state; /* the store's */

	/* With `store = auto` (automatic), the stores of files: reads and writes are tried by the
	 * worker first, true: it has ended them, and else by the store.  NULL: it has them all. */
	bool automatic;
	uint8_t read_way, write_way;
	bool (*attempt)(struct io *io);
	uint64_t slow_until_ns;
	const char *choice; /* the choice of `auto`, and why; NULL: the configuration says it */

	_Atomic uint32_t features; /* bit mask of enum mount_feature; may lose some later */
	struct reason
		reason; /* attach()'s: why one that was asked for is not in use; "": all are */

	/* Flushes, and what has FUA and was done, are made stable together: who comes while a flush
	 * of the store is under way waits for the next. */
	struct io sync; /* that flush, if `syncing` */
	bool syncing;
	struct io *sync_covers, *sync_waiting;
	/* Stores of files: what flushes go through, an open file of the mount's own.  The kernel
	 * reports a failed write-back once to each: who shares one may miss what another hears. */
	int sync_fd;

	/* By kind of request.  The latency is the store's alone, from io_submit() to done(). */
	struct operation_stats operations[IO_KIND_COUNT];
	_Atomic uint64_t bytes_read, bytes_written, in_flight;
	_Atomic uint64_t errors[IO_ERROR_COUNT];
};

struct store {
	const char *name; /* as in `store = NAME` */

	/* A store for files and block devices: all of these open them alike, so an export can have
	 * another of them on another listener. */
	bool file;

	/* Main thread.  Can this host run it?  0, or -errno with the reason.  NULL: any can. */
	int (*probe)(struct reason *reason);

	/* Main thread.  Fills export->size and what follows from export->options, with fds or
	 * memory.  0, or -errno with the reason: what is wrong and how to mend it. */
	int (*open)(struct export *e, struct reason *reason);
	void (*close)(struct export *e);

	/* Worker's thread, after the engine's init, before its fini.  detach() returns when nothing
	 * is in flight any more. */
	int (*attach)(struct mount *m, struct reason *reason);
	void (*detach)(struct mount *m);

	/* Worker's thread.  Starts io, ends it with io_finish(), now or later.  Errors, short
	 * transfers and EINTR are the store's business: result 0 means all of it.  So is FUA where
	 * io_is_dsync(); elsewhere a flush follows. */
	void (*submit)(struct io *io);
};

/* store/stores.c, NULL-terminated; the first of those for files that this host can run
 * is behind `auto`. */
extern const struct store *const stores[];
const struct store *store_find(const char *name); /* NULL when there is none of that name */

/* A direct write that is stable when it is done: the device tells of each.  What goes through the
 * page cache cannot: of those under way at a time only one hears that writing failed. */
static inline bool io_is_dsync(const struct io *io)
{
	return (io->flags & IO_FUA) && io->kind == IO_write && io->mount->export->options->direct;
}

/* Services: starts io.  io->done() follows, perhaps before this returns. */
void io_submit(struct io *io);

/* Stores: io is done.  result: 0 or -errno. */
void io_finish(struct io *io, int result);

/* Attaches all of w's mounts (the worker's thread).  0, or -errno with the reason and nothing
 * attached. */
int mounts_attach(struct worker *w, struct reason *reason);
void mounts_detach(struct worker *w);
