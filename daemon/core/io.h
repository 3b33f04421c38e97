/* A request to an export.  Services start it, a store carries it out.  Worker's thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/uio.h>

#include "mailbox.h"
#include "op.h"

struct conn;
struct mount;

/* Kinds of requests to an export: X(name), as in GetStats. */
#define IO_KINDS(X)                                                                                \
	X(read)                                                                                    \
	X(write)                                                                                   \
	X(flush)                                                                                   \
	X(trim)         /* the bytes are no longer needed, and may read as anything */             \
	X(write_zeroes) /* the bytes read as zeros from now on */                                  \
	X(block_status) /* which ranges are data, which are holes */
enum io_kind {
#define X(name) IO_##name,
	IO_KINDS(X)
#undef X
		IO_KIND_COUNT
};
extern const char *const io_kind_names[IO_KIND_COUNT + 1]; /* NULL-terminated */

enum io_flags {
	IO_FUA = 1 << 0,     /* its data, read or written, is on stable storage when it is done */
	IO_NO_HOLE = 1 << 1, /* write_zeroes: allocate */
};

/* Errors that are counted by name: X(errno without E); all others count as `other`. */
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
	IO_IOV_MAX = 32,     /* struct iovec of one read or write */
	IO_EXTENTS_MAX = 64, /* ranges that one block_status reports */
	/* Bytes written at a time where zeroing is only possible by writing. */
	IO_ZEROES_MAX = 1 << 20
};

struct io_extent {
	uint64_t length; /* bytes */
	bool hole;       /* not allocated; reads as zeros */
};

/* One request to an export.  Embedded in its owner, which must keep it and the memory it refers to
 * valid until done() is called. */
struct io {
	/* Set by the owner.  Called once on the worker's thread, possibly within io_submit().
	 * result: 0 or -errno. */
	void (*done)(struct io *io, int result);
	struct mount *mount;
	struct conn *conn; /* the connection of its client */
	uint8_t kind;      /* enum io_kind */
	uint8_t flags;     /* bits of enum io_flags */
	/* A hint: more input of the client is waiting, so further requests follow in this turn. */
	bool more;
	/* Bytes, within the export, aligned to export->align; length > 0 except for flush. */
	uint64_t offset, length;
	unsigned iov_count; /* read, write: the memory, `length` bytes in all */
	struct iovec iov[IO_IOV_MAX];
	struct io_extent *extents; /* block_status: room for IO_EXTENTS_MAX */
	unsigned extent_count;     /* how many were filled in; the first begins at offset */

	/* Used by io_submit() only. */
	uint64_t start_ns; /* 0: not timed */
	struct io *next;

	/* Used by the store only. */
	struct op op;
	struct call call;
	STAILQ_ENTRY(io) link;
	uint64_t progress; /* bytes transferred so far */
	int result;
	unsigned calls;   /* system calls made for it so far */
	unsigned retries; /* attempts that ended with EAGAIN or EINTR since a byte was moved */
};

/* Called by services: starts io. io->done() follows, possibly before this returns. */
void io_submit(struct io *io);

/* Called by stores: `bytes` of a read or write are done; advances io->iov past them. */
void io_advance(struct io *io, size_t bytes);

/* Called by stores: ends io.  result: 0 or -errno. */
void io_finish(struct io *io, int result);
