/* Engine `rdma`: spill memory, which all connections of a worker share and whose contents do not
 * matter.  The part of a message that exceeds its receive buffer goes there, large messages are
 * sent from it, and clients may read and write it.  So messages of megabytes use no buffers of the
 * pool. */
#include "spill.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "worker.h"

int rdma_spill_open(struct rdma_device *d)
{
	struct worker *w = d->worker;
	struct rdma_spill *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	d->spill = s;
	s->bytes = (size_t)w->options.region_size;
	s->base = mmap(NULL, s->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (s->base != MAP_FAILED)
		s->mr = ibv_reg_mr(d->pd, s->base, s->bytes,
				   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
					   IBV_ACCESS_REMOTE_WRITE);
	if (!s->mr)
		return errno ? -errno : -ENOMEM;
	stat_add(w->stats.registered_bytes, s->bytes);
	return 0;
}

void rdma_spill_close(struct rdma_device *d)
{
	struct rdma_spill *s = d->spill;

	if (!s)
		return;
	if (s->mr) {
		stat_add(d->worker->stats.registered_bytes, -(uint64_t)s->bytes);
		ibv_dereg_mr(s->mr);
	}
	if (s->base != MAP_FAILED)
		munmap(s->base, s->bytes);
	free(s);
	d->spill = NULL;
}
