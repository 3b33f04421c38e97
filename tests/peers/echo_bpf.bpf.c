/* A step of io_uring's loop in the kernel (CONFIG_IO_URING_BPF_OPS, Linux 7.1): for each receive
 * that has brought something, a send of the same bytes and the next receive.  All else, a new
 * connection or the end of one, is left in the completion queue and stops the loop: see echo_bpf.c.
 *
 * The kernel's types have those members only that are used, found by name in its BTF. */
#include <linux/bpf.h>
#include <linux/io_uring.h>

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "echo_bpf.h"

const char program_license[] SEC("license") = "GPL";

struct iou_ctx {
};
struct iou_loop_params {
	__u32 cq_wait_idx; /* sleep until the completions' tail is here */
} __attribute__((preserve_access_index));
struct io_uring_bpf_ops {
	int (*loop_step)(struct iou_ctx *, struct iou_loop_params *);
	__u32 ring_fd;
};
enum { IOU_REGION_MEM, IOU_REGION_CQ, IOU_REGION_SQ };
enum { IOU_LOOP_CONTINUE, IOU_LOOP_STOP };

extern int bpf_io_uring_submit_sqes(struct iou_ctx *ring, __u32 count) __ksym;
extern __u8 *bpf_io_uring_get_region(struct iou_ctx *ring, __u32 region,
				     const __u64 rdwr_buf_size) __ksym;

const volatile struct echo_places places; /* constants once loaded, whose bounds are checked */

/* The answer to what was received into a buffer: at once and whole, without a word, or it fails. */
static void send(struct io_uring_sqe *sqe, __u64 slot, __u32 buffer, __u32 bytes)
{
	__builtin_memset(sqe, 0, sizeof(*sqe));
	sqe->opcode = IORING_OP_SEND;
	sqe->fd = (__s32)slot;
	sqe->flags = IOSQE_FIXED_FILE | IOSQE_CQE_SKIP_SUCCESS;
	sqe->addr = places.buffers + (__u64)buffer * ECHO_BYTES;
	sqe->len = bytes;
	sqe->msg_flags = 0x4140; /* MSG_NOSIGNAL | MSG_WAITALL | MSG_DONTWAIT */
	sqe->user_data = slot << 8 | ECHO_SEND;
}

SEC("struct_ops/loop_step")
int BPF_PROG(echo_step, struct iou_ctx *ring, struct iou_loop_params *params)
{
	__u8 *rings = bpf_io_uring_get_region(ring, IOU_REGION_CQ, ECHO_RINGS_BYTES);
	struct io_uring_sqe *sqes =
		(void *)bpf_io_uring_get_region(ring, IOU_REGION_SQ, ECHO_SQ * sizeof(*sqes));
	struct io_uring_buf *buffers = (void *)bpf_io_uring_get_region(
		ring, IOU_REGION_MEM, ECHO_BUFFERS * sizeof(*buffers));
	int next = IOU_LOOP_CONTINUE;
	__u32 head, tail, sq;
	__u16 given;

	if (!rings || !sqes || !buffers)
		return IOU_LOOP_STOP;
	head = *(volatile __u32 *)(rings + places.cq_head);
	tail = *(volatile __u32 *)(rings + places.cq_tail);
	sq = *(volatile __u32 *)(rings + places.sq_tail);
	given = *(volatile __u16 *)&buffers[0].resv; /* the buffer ring's tail */
	for (int i = 0; i < ECHO_BATCH && head != tail; i++, head++) {
		const struct io_uring_cqe *cqe =
			(void *)(rings + places.cqes + (head & (ECHO_CQ - 1)) * sizeof(*cqe));
		__u32 buffer = cqe->flags >> IORING_CQE_BUFFER_SHIFT & (ECHO_BUFFERS - 1);
		struct io_uring_buf *back = &buffers[given & (ECHO_BUFFERS - 1)];

		if ((__u8)cqe->user_data != ECHO_RECEIVE || cqe->res <= 0 ||
		    !(cqe->flags & IORING_CQE_F_MORE)) {
			next = IOU_LOOP_STOP;
			break;
		}
		send(&sqes[sq++ & (ECHO_SQ - 1)], cqe->user_data >> 8, buffer, (__u32)cqe->res);
		back->addr = places.buffers + (__u64)buffer * ECHO_BYTES;
		back->len = ECHO_BYTES;
		back->bid = (__u16)buffer;
		given++;
	}
	*(volatile __u32 *)(rings + places.cq_head) = head;
	*(volatile __u32 *)(rings + places.sq_tail) = sq;
	/* With what user space has queued, as a call that runs the loop submits nothing itself. */
	sq -= *(volatile __u32 *)(rings + places.sq_head);
	if (sq)
		bpf_io_uring_submit_sqes(ring, sq);
	*(volatile __u16 *)&buffers[0].resv = given; /* the sends are over */
	params->cq_wait_idx = head + 1;
	return next;
}

SEC(".struct_ops")
struct io_uring_bpf_ops echo_ops = {
	.loop_step = (void *)echo_step,
	.ring_fd = ECHO_RING_FD,
};
