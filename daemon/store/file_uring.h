/* Store `io_uring`: internal interface of its files.
 *
 * file_uring.c: requests; file_uring_ring.c: the rings that carry them, and registrations. */
#pragma once
#include "file.h"
#include "ring.h"
#include "worker.h"

/* A ring that the store makes itself and that its mounts in a worker share: if the engine has none,
 * and for polled reads and writes (IORING_SETUP_IOPOLL), which need a separate ring. */
struct file_ring {
	struct ring ring;
	int eventfd;
	struct op op; /* runs when eventfd is readable */
	struct worker_hook hook;
	unsigned users;
	unsigned polled; /* polled operations in flight */
};

/* The ring, file and opcodes of a mount's reads and writes. */
struct file_path {
	struct ring *ring;
	int fd;                            /* the file, or its registered slot */
	uint8_t sqe_flags;                 /* IOSQE_FIXED_FILE: a slot */
	uint8_t read_opcode, write_opcode; /* for a request with one struct iovec within the pool */
};

struct file_mount {
	struct file_ring *own, *poll; /* NULL: uses the engine's ring; no polling */
	bool polls;                   /* polls; cleared when a polled request is refused */
	struct file_path path, poll_path;
};

/* store->attach and store->detach. */
int file_uring_attach(struct mount *m, struct reason *reason);
void file_uring_detach(struct mount *m);
