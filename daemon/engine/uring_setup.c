/* Engine `io_uring`, set-up: the ring of provided buffers, and a run-time probe of
 * each feature.  See uring.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "ring_keys.h"
#include "sockaddr.h"
#include "uring.h"
#include "uring_compat.h"

/* Posts chunks to the kernel up to posted_max, and publishes all of them by one release store.  The
 * reference of chunk_get() is the kernel's from then on.  A quarter of the pool stays for services,
 * and the chunks of the reserve are not posted. */
void uring_refill(struct worker *w)
{
	struct uring *u = w->engine_state;
	unsigned n = 0;

	while (w->pool_posted < u->posted_max && !pool_is_short(&w->pool)) {
		struct chunk *k = chunk_get(&w->pool);

		io_uring_buf_ring_add(u->buf_ring, k->base, w->pool.chunk_size, (uint16_t)k->id,
				      (int)u->buf_mask, (int)n++);
		u->posted_at[k->id] = (uint16_t)((u->buf_ring->tail + n - 1) & u->buf_mask);
		w->pool_posted++;
	}
	if (n > 0)
		io_uring_buf_ring_advance(u->buf_ring, (int)n);
}

static int uring_register_buf_ring(struct uring *u, uint16_t flags, uint32_t min_left)
{
	struct nb_buf_reg reg = {
		.ring_addr = (uint64_t)(uintptr_t)u->buf_ring,
		.ring_entries = u->buf_entries,
		.bgid = URING_BUF_GROUP,
		.flags = flags,
		.min_left = min_left,
	};

	return ring_register(&u->ring, IORING_REGISTER_PBUF_RING, &reg, 1);
}

static unsigned uring_power_of_two(unsigned n)
{
	unsigned power = 1;

	while (power * 2 <= n && power < 32768)
		power *= 2;
	return power;
}

/* Bundles into incremental buffers lose bytes on Linux 6.12 to 6.15 without the fix "io_uring/net:
 * always use current transfer count for buffer put"
 * (https://github.com/axboe/liburing/issues/1423).  The bug needs a particular timing on TCP that
 * no probe can force, so the version is tested. */
static bool uring_bundles_are_sound(void)
{
	struct utsname name;
	unsigned major, minor;

	uname(&name);
	return sscanf(name.release, "%u.%u", &major, &minor) == 2 &&
	       (major > 6 || (major == 6 && minor >= 16));
}

/* ---- The order of completions ----
 *
 * Several receives fill one incremental buffer, one behind the other.  A completion names the
 * buffer but not the position in it, so completions must arrive in the order of the receives.  The
 * completion of a bundle names its first buffer; the others follow it in the ring.  Their entries
 * are overwritten for new buffers if later completions are handled first.
 *
 * A receive that completes within its submission is reported after the kernel has processed all
 * submissions, but a multishot receive is reported at once.  So the second may overtake the first.
 * This was fixed by "io_uring: ensure deferred completions are flushed for multishot" (Linux 6.15
 * and some stable kernels before it). */

enum { ORDER_SINGLE = 1, ORDER_MULTISHOT };

/* Submits a receive and a multishot receive, for both of which a byte waits. */
static bool uring_try_order(struct io_uring *io, const int fds[2],
			    struct io_uring_buf_ring *buffers)
{
	struct io_uring_buf_reg reg = { .ring_addr = (uint64_t)(uintptr_t)buffers,
					.ring_entries = 1 };
	struct io_uring_sqe *sqe;
	struct io_uring_cqe *cqe;
	uint8_t one = 0, shared = 0;

	io_uring_buf_ring_init(buffers);
	if (io_uring_register_buf_ring(io, &reg, 0) < 0)
		return false;
	io_uring_buf_ring_add(buffers, &shared, 1, 0, 0, 0);
	io_uring_buf_ring_advance(buffers, 1);
	for (unsigned i = 0; i < 2; i++)
		if (send(fds[i], &one, 1, MSG_DONTWAIT | MSG_NOSIGNAL) != 1)
			return false;
	sqe = io_uring_get_sqe(io);
	io_uring_prep_recv(sqe, fds[0], &one, 1, 0);
	sqe->user_data = ORDER_SINGLE;
	sqe = io_uring_get_sqe(io);
	io_uring_prep_recv_multishot(sqe, fds[1], NULL, 0, 0);
	sqe->flags |= IOSQE_BUFFER_SELECT;
	sqe->user_data = ORDER_MULTISHOT;
	return io_uring_submit(io) == 2 && io_uring_peek_cqe(io, &cqe) == 0 &&
	       cqe->user_data == ORDER_SINGLE;
}

/* Does this kernel report receives in the order in which they filled buffers?  A separate ring
 * tries it; its end also ends the multishot receive. */
static bool uring_keeps_order(void)
{
	struct io_uring_buf_ring *buffers;
	struct io_uring io;
	bool ordered = false;
	int fds[2];

	if (io_uring_queue_init(4, &io, 0) < 0)
		return false;
	ring_mapped();
	buffers = aligned_alloc(4096, 4096);
	if (buffers && socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0) {
		ordered = uring_try_order(&io, fds, buffers);
		close(fds[0]);
		close(fds[1]);
	}
	ring_unmapping();
	io_uring_queue_exit(&io);
	free(buffers);
	return ordered;
}

static bool uring_may_bundle(const struct worker *w, bool incremental)
{
	const struct uring *u = w->engine_state;

	return worker_wants(w, FEATURE_recv_bundle) && u->ordered &&
	       (u->ring.features & NB_FEAT_RECVSEND_BUNDLE) &&
	       (!incremental || uring_bundles_are_sound());
}

/* Registers incremental buffers, which several receives share.  A receive that begins near the end
 * of a buffer is split.  So the kernel, if it can, retires a buffer with less than a part of
 * URING_LEFT left.  This excludes bundles: one completion may be of two receives, the first of
 * which has retired a buffer without filling it, and no flag shows that. 0, or -errno: this kernel
 * has no such buffers. */
static int uring_register_incremental(struct worker *w)
{
	struct uring *u = w->engine_state;
	uint32_t min_left = w->pool.chunk_size / URING_LEFT;
	int rc = -EINVAL;

	if (worker_wants(w, FEATURE_min_left) && !uring_may_bundle(w, true))
		rc = uring_register_buf_ring(u, NB_PBUF_RING_INC, min_left);
	if (rc < 0)
		return uring_register_buf_ring(u, NB_PBUF_RING_INC, 0);
	worker_feature(w, FEATURE_min_left);
	return 0;
}

static int uring_init_buffers(struct worker *w, struct reason *reason)
{
	struct uring *u = w->engine_state;
	int rc;

	if (!worker_wants(w, FEATURE_buffer_ring))
		return 0; /* without a buffer ring each receive has its own chunk */
	u->buf_entries = uring_power_of_two(w->pool.chunk_count * 3 / 4);
	u->buf_mask = u->buf_entries - 1;
	u->posted_at = calloc(w->pool.chunk_count, sizeof(*u->posted_at));
	u->buf_ring = mmap(NULL, u->buf_entries * sizeof(struct io_uring_buf),
			   PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!u->posted_at || u->buf_ring == MAP_FAILED)
		return reason_set(reason, -ENOMEM, "no memory for the buffer ring");
	io_uring_buf_ring_init(u->buf_ring);
	u->ordered = uring_keeps_order();
	rc = -EINVAL;
	if (worker_wants(w, FEATURE_incremental_buffers) && u->ordered)
		rc = uring_register_incremental(w);
	u->incremental = rc == 0;
	if (rc < 0)
		rc = uring_register_buf_ring(u, 0, 0);
	if (rc < 0)
		return reason_set(reason, rc,
				  "no ring of provided buffers (%s); engine = io_uring needs Linux "
				  "6.0, use epoll or io_uring-poll",
				  strerror(-rc));
	worker_feature(w, FEATURE_buffer_ring);
	if (u->incremental)
		worker_feature(w, FEATURE_incremental_buffers);
	u->posted_max = u->buf_entries;
	if (u->incremental)
		u->posted_max =
			MIN(MAX(URING_POSTED_BYTES / w->pool.chunk_size, 4), u->buf_entries);
	return 0;
}

/* Does IOSQE_CQE_SKIP_SUCCESS suppress the completion of a complete send, and does a short send
 * report its bytes?  Tried on a socket pair with more data than fits. */
static bool uring_probe_silence(struct worker *w)
{
	struct uring *u = w->engine_state;
	size_t bytes = (size_t)w->pool.chunk_count * w->pool.chunk_size;
	struct io_uring_cqe *cqe;
	int fds[2], res = 0;
	bool whole_silent = false, taken;

	if (u->ring.sqpoll || socketpair(AF_UNIX, SOCK_STREAM, 0, fds) < 0)
		return false;
	for (unsigned i = 0; i < 2; i++) { /* a byte, then all of the pool's memory */
		struct io_uring_sqe *sqe = ring_sqe(&u->ring);

		io_uring_prep_send(sqe, fds[0], w->pool.slab, i ? bytes : 1,
				   MSG_NOSIGNAL | MSG_DONTWAIT | MSG_WAITALL);
		sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
		ring_op(sqe, NULL);
		taken = ring_try(&u->ring) == 0;
		ring_enter(&u->ring, false, 0);
		if (i == 0)
			whole_silent = taken && ring_ready(&u->ring) == 0;
	}
	if (io_uring_peek_cqe(&u->ring.io, &cqe) == 0) {
		res = cqe->res;
		io_uring_cqe_seen(&u->ring.io, cqe);
	}
	close(fds[0]);
	close(fds[1]);
	return whole_silent && res > 0 && (size_t)res < bytes;
}

static void uring_probe_send_zc(struct worker *w)
{
	struct uring *u = w->engine_state;

	u->zero_copy_min = ring_options(&w->options)->zero_copy_min;
	if (!u->zero_copy_min)
		return;
	u->zero_copy = ring_has_opcode(&u->ring, IORING_OP_SENDMSG_ZC);
	u->locks_freely = u->zero_copy && ring_locks_freely();
	if (u->locks_freely)
		worker_feature(w, FEATURE_send_zc);
}

void uring_fini(struct worker *w)
{
	struct uring *u = w->engine_state;

	if (u->buf_ring && u->buf_ring != MAP_FAILED && !w->conns)
		ring_check_posted(&u->ring, URING_BUF_GROUP, u->buf_ring->tail);
	ring_fini(&u->ring);
	if (u->buf_ring && u->buf_ring != MAP_FAILED)
		munmap(u->buf_ring, u->buf_entries * sizeof(struct io_uring_buf));
	while (u->send_free) {
		struct uring_send *s = u->send_free;

		u->send_free = s->next;
		free(s);
	}
	free(u->posted_at);
	free(u);
	w->engine_state = NULL;
}

int uring_init(struct worker *w, struct reason *reason)
{
	struct uring *u = calloc(1, sizeof(*u));
	int rc;

	if (!u)
		return reason_set(reason, -ENOMEM, "io_uring: no memory");
	w->engine_state = u;
	rc = ring_init(&u->ring, w, 0,
		       RING_LISTENS | RING_TRANSFERS | (w->mount_count ? RING_STORES : 0) |
			       (ring_wants_area(&w->options) ? RING_ZERO_COPY : 0),
		       reason);
	if (rc < 0) {
		free(u);
		w->engine_state = NULL;
		return rc;
	}
	w->ring = &u->ring;
	rc = uring_init_buffers(w, reason);
	u->multishot = u->buf_ring && worker_wants(w, FEATURE_multishot_recv);
	if (rc == 0 && u->multishot && !ring_has_opcode(&u->ring, IORING_OP_SEND_ZC))
		rc = reason_set(reason, -ENOSYS,
				"no multishot receive; engine = io_uring needs Linux 6.0, use "
				"epoll or io_uring-poll");
	if (rc < 0) {
		uring_fini(w);
		return rc;
	}
	if (worker_wants(w, FEATURE_multishot_accept))
		worker_feature(w, FEATURE_multishot_accept);
	if (u->multishot)
		worker_feature(w, FEATURE_multishot_recv);
	u->bundle = u->buf_ring && uring_may_bundle(w, u->incremental);
	if (u->bundle)
		worker_feature(w, FEATURE_recv_bundle);
	u->multishot_bundle =
		u->bundle && !(w->service && (w->service->flags & SERVICE_COUNTS_REQUESTS));
	u->eager_io = worker_wants(w, FEATURE_eager_io);
	if (u->eager_io)
		worker_feature(w, FEATURE_eager_io);
	for (unsigned i = 0; i < w->accept.count; i++)
		u->local |= sockaddr_fd_is_local(w->accept.acceptors[i].fd);
	uring_probe_send_zc(w);
	if (worker_wants(w, FEATURE_silent_send) && uring_probe_silence(w)) {
		u->silent_max = URING_SILENT_MAX;
		worker_feature(w, FEATURE_silent_send);
	}
	return 0;
}
