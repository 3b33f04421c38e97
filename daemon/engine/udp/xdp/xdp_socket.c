/* Engine `af_xdp`: a socket of AF_XDP, its UMEM and its four rings.  See xdp.h. */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "syscall.h"
#include "util.h"
#include "xdp.h"

#define load(p)         __atomic_load_n(p, __ATOMIC_ACQUIRE)
#define store(p, value) __atomic_store_n(p, value, __ATOMIC_RELEASE)

/* ---- Set-up ---- */

/* False: errno says why. */
static bool open_ring(struct xdp_ring *r, int fd, int option, uint64_t page,
		      const struct xdp_ring_offset *o, size_t entry_bytes)
{
	const int entries = XDP_ENTRIES;
	size_t bytes = o->desc + XDP_ENTRIES * entry_bytes;
	char *m;

	if (setsockopt(fd, SOL_XDP, option, &entries, sizeof(entries)) < 0)
		return false;
	m = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, (off_t)page);
	if (m == MAP_FAILED)
		return false;
	*r = (struct xdp_ring){ .producer = (void *)(m + o->producer),
				.consumer = (void *)(m + o->consumer),
				.flags = (void *)(m + o->flags),
				.addresses = (void *)(m + o->desc),
				.memory = m,
				.bytes = bytes };
	return true;
}

static bool open_rings(struct xdp_socket *s)
{
	struct xdp_mmap_offsets at;
	socklen_t bytes = sizeof(at);

	return getsockopt(s->fd, SOL_XDP, XDP_MMAP_OFFSETS, &at, &bytes) == 0 &&
	       open_ring(&s->fill, s->fd, XDP_UMEM_FILL_RING, XDP_UMEM_PGOFF_FILL_RING, &at.fr,
			 sizeof(uint64_t)) &&
	       open_ring(&s->completion, s->fd, XDP_UMEM_COMPLETION_RING,
			 XDP_UMEM_PGOFF_COMPLETION_RING, &at.cr, sizeof(uint64_t)) &&
	       open_ring(&s->rx, s->fd, XDP_RX_RING, XDP_PGOFF_RX_RING, &at.rx,
			 sizeof(struct xdp_desc)) &&
	       open_ring(&s->tx, s->fd, XDP_TX_RING, XDP_PGOFF_TX_RING, &at.tx,
			 sizeof(struct xdp_desc));
}

int xdp_socket_open(struct xdp_socket *s, struct pool *pool, const char **ret_what)
{
	struct xdp_umem_reg umem = { .addr = (uintptr_t)pool->slab,
				     .len = (uint64_t)pool->chunk_count * pool->stride,
				     .chunk_size = XDP_CHUNK };

	*s = (struct xdp_socket){ .fd = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0), .pool = pool };
	*ret_what = "socket";
	if (s->fd < 0)
		return -errno;
	*ret_what = "memory";
	s->in_kernel = calloc(pool->chunk_count, sizeof(*s->in_kernel));
	if (!s->in_kernel)
		return -ENOMEM;
	if (setsockopt(s->fd, SOL_XDP, XDP_UMEM_REG, &umem, sizeof(umem)) < 0)
		return -errno;
	*ret_what = "rings";
	return open_rings(s) ? 0 : -errno;
}

int xdp_socket_bind(struct xdp_socket *s, uint32_t interface, uint32_t queue, uint16_t flags)
{
	struct sockaddr_xdp sa = { .sxdp_family = AF_XDP,
				   .sxdp_ifindex = interface,
				   .sxdp_queue_id = queue,
				   .sxdp_flags = flags | XDP_USE_NEED_WAKEUP };
	struct xdp_options options = { 0 };
	socklen_t bytes = sizeof(options);

	if (bind(s->fd, (struct sockaddr *)&sa, sizeof(sa)) < 0)
		return -errno;
	getsockopt(s->fd, SOL_XDP, XDP_OPTIONS, &options, &bytes);
	s->zero_copy = options.flags & XDP_OPTIONS_ZEROCOPY;
	return 0;
}

/* Once the socket is closed the kernel writes into no chunk any more. */
void xdp_socket_close(struct xdp_socket *s)
{
	struct xdp_ring *rings[] = { &s->fill, &s->completion, &s->rx, &s->tx };

	if (s->fd >= 0)
		close(s->fd);
	for (unsigned i = 0; i < ARRAY_SIZE(rings); i++)
		if (rings[i]->memory)
			munmap(rings[i]->memory, rings[i]->bytes);
	for (uint32_t i = 0; s->in_kernel && i < s->pool->chunk_count; i++)
		if (s->in_kernel[i])
			chunk_put(s->pool, &s->pool->chunks[i]);
	free(s->in_kernel);
	*s = (struct xdp_socket){ .fd = -1 };
}

/* ---- Receiving ---- */

static struct chunk *chunk_at(const struct xdp_socket *s, uint64_t address)
{
	return &s->pool->chunks[address / s->pool->stride];
}

static void post(struct xdp_socket *s, const struct chunk *k)
{
	s->fill.addresses[s->fill.at++ & (XDP_ENTRIES - 1)] = (uint64_t)k->id * s->pool->stride;
	s->in_kernel[k->id] = true;
	s->posted++;
}

struct chunk *xdp_socket_next(struct xdp_socket *s, uint8_t **ret_frame, uint32_t *ret_bytes)
{
	const struct xdp_desc *d = &s->rx.frames[s->rx.at++ & (XDP_ENTRIES - 1)];
	struct chunk *k = chunk_at(s, d->addr);

	*ret_frame = s->pool->slab + d->addr;
	*ret_bytes = d->len;
	s->in_kernel[k->id] = false;
	s->posted--;
	return k;
}

void xdp_socket_done(struct xdp_socket *s, struct chunk *k)
{
	if (k->refs > 1)
		chunk_put(s->pool, k);
	else
		post(s, k);
}

/* The kernel polls a driver's fill ring only when asked, once it has found the ring empty. */
void xdp_socket_refill(struct xdp_socket *s, unsigned *calls)
{
	struct pool *p = s->pool;
	uint32_t most = MIN((uint32_t)XDP_ENTRIES, p->chunk_count / 2);

	while (s->posted < most && p->free_count > p->keep)
		post(s, chunk_get(p));
	store(s->rx.consumer, s->rx.at);
	store(s->fill.producer, s->fill.at);
	if (unlikely(load(s->fill.flags) & XDP_RING_NEED_WAKEUP)) {
		++*calls;
		syscall6(SYS_recvfrom, s->fd, 0, 0, MSG_DONTWAIT, 0, 0);
	}
}

/* ---- Sending ---- */

void xdp_socket_queue(struct xdp_socket *s, const struct chunk *k, const uint8_t *frame,
		      uint32_t bytes)
{
	s->tx.frames[s->tx.at++ & (XDP_ENTRIES - 1)] =
		(struct xdp_desc){ .addr = (uint64_t)(frame - s->pool->slab), .len = bytes };
	s->in_kernel[k->id] = true;
}

static void reap(struct xdp_socket *s)
{
	uint32_t end = load(s->completion.producer);

	while (s->completion.at != end) {
		uint32_t at = s->completion.at++ & (XDP_ENTRIES - 1);
		struct chunk *k = chunk_at(s, s->completion.addresses[at]);

		s->in_kernel[k->id] = false;
		chunk_put(s->pool, k);
	}
	store(s->completion.consumer, end);
}

/* In copy mode a call sends 32 frames, and fails with EAGAIN if there are more: so this goes on
 * while the ring moves, XDP_ENTRIES / 32 times at most. */
int xdp_socket_send(struct xdp_socket *s, unsigned *calls)
{
	uint32_t left = xdp_socket_unsent(s), before = UINT32_MAX;
	long rc = 0;

	store(s->tx.producer, s->tx.at);
	while (left && left < before && load(s->tx.flags) & XDP_RING_NEED_WAKEUP) {
		before = left;
		++*calls;
		rc = syscall6(SYS_sendto, s->fd, 0, 0, MSG_DONTWAIT, 0, 0);
		left = xdp_socket_unsent(s);
	}
	reap(s);
	return rc == 0 || rc == -EAGAIN || rc == -EBUSY || rc == -ENOBUFS ? 0 : (int)rc;
}

uint64_t xdp_socket_dropped(const struct xdp_socket *s)
{
	struct xdp_statistics found = { 0 };
	socklen_t bytes = sizeof(found);

	if (getsockopt(s->fd, SOL_XDP, XDP_STATISTICS, &found, &bytes) < 0)
		return 0;
	return found.rx_dropped + found.rx_ring_full;
}
