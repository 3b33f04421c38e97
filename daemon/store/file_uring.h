/* Store `io_uring`: what its files share.
 *
 * file_uring.c: requests; file_uring_ring.c: the rings they travel on, and what is registered. */
#pragma once
#include "file.h"
#include "ring.h"
#include "worker.h"

/* A ring of the store's own, shared by its mounts in a worker: where the engine has none, and for
 * reads and writes that are polled for (IORING_SETUP_IOPOLL), which need one for themselves. */
struct file_ring {
	struct ring ring;
	int eventfd;
	struct op op; /* eventfd is readable */
	struct worker_hook hook;
	unsigned users;
	unsigned polled; /* operations in flight; the ring polls for them */
};

/* How a mount's reads and writes travel. */
struct file_path {
	struct ring *ring;
	int fd;                            /* the file, or its slot */
	uint8_t sqe_flags;                 /* IOSQE_FIXED_FILE: a slot */
	uint8_t read_opcode, write_opcode; /* with one piece of the pool's memory */
};

struct file_mount {
	struct file_ring *own, *poll; /* NULL: the engine's ring is used, nothing is polled for */
	bool polls;                   /* with `poll`, as long as nothing was refused */
	struct file_path path, poll_path;
};

/* store->attach and store->detach. */
int file_uring_attach(struct mount *m, struct reason *reason);
void file_uring_detach(struct mount *m);
