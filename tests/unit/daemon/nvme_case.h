/* A disk in memory behind the service `nvme`, without a kernel: shared by the tests over TCP and
 * over RDMA. */
#pragma once
#include "service_case.h"

#include "bytes.h"
#include "nvme/queue.h"

enum { SIZE = 1024 * 1024, CHUNK = 16384 };

extern const struct service service_nvme;
extern const struct store store_memory;

struct disk {
	struct export_options options;
	struct export export;
	struct mount mount;
	struct service_case *t; /* t->conn: the queue under test */
	struct conn *admin;     /* over RDMA, once there is an I/O queue */
};

/* Opens the disk, and a connection to it over TCP. */
static inline void disk_new(struct disk *d, uint32_t chunks, uint32_t align, uint32_t queue_depth)
{
	struct worker *w;
	struct reason reason;

	memset(d, 0, sizeof(*d));
	d->options = (struct export_options){ .size = SIZE, .queue_depth = queue_depth };
	d->export = (struct export){ .name = "disk", .options = &d->options, .fd = -1 };
	assert_int_equal(store_memory.open(&d->export, &reason), 0);
	d->export.align = align;
	d->t = case_new(&service_nvme, chunks, CHUNK);
	w = &d->t->worker;
	options_set(&w->options, &nvme_key_table, &(struct nvme_options){ .nqn = "nqn.unit" });
	w->shared = service_nvme.shared_new(&w->options, "here", &reason);
	assert_non_null(w->shared);
	d->mount = (struct mount){ .export = &d->export, .store = &store_memory, .worker = w };
	w->mounts = &d->mount;
	w->mount_count = 1;
}

/* Closes what is left of it; its connections have ended. */
static inline void disk_free(struct disk *d)
{
	void *shared = d->t->worker.shared;

	case_free(d->t);
	service_nvme.shared_free(shared);
	store_memory.close(&d->export);
}
