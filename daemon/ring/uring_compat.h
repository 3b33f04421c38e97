/* Constants of Linux that liburing 2.3 (Debian 12) does not have yet.  Our own names, since enum
 * members cannot be tested with #ifdef; every use is probed at run time. */
#pragma once
#include <assert.h>
#include <liburing.h>

/* Values from include/uapi/linux/io_uring.h. */
enum {
	NB_FEAT_RECVSEND_BUNDLE = 1U << 14, /* Linux 6.10 */
	NB_FEAT_MIN_TIMEOUT = 1U << 15,     /* Linux 6.12 */
	NB_RECVSEND_BUNDLE = 1U << 4,       /* sqe->ioprio; Linux 6.10 */
	NB_SEND_ZC_REPORT_USAGE = 1U << 3,  /* sqe->ioprio; Linux 6.2 */
	NB_NOTIF_ZC_COPIED = 1U << 31,      /* cqe->res of the notification */
	NB_PBUF_RING_INC = 2,               /* io_uring_buf_reg.flags; Linux 6.12 */
	NB_CQE_F_NOTIF = 1U << 3,
	NB_CQE_F_BUF_MORE = 1U << 4,  /* Linux 6.12: the kernel will fill more of the buffer */
	NB_REGISTER_PBUF_STATUS = 26, /* Linux 6.8 */
	NB_REGISTER_NAPI = 27,        /* Linux 6.9 */
	/* Zero-copy receive; all of it as seen on Linux 7.3. */
	NB_SETUP_CQE_MIXED = 1U << 18, /* completions of 16 and of 32 bytes */
	NB_CQE_F_SKIP = 1U << 5,       /* fills a gap before one of 32 bytes */
	NB_CQE_F_32 = 1U << 15,        /* it has 32 bytes: two slots */
	NB_OP_RECV_ZC = 58,
	NB_REGISTER_ZCRX_IFQ = 32,
	NB_REGISTER_QUERY = 35,
	NB_REGISTER_ZCRX_CTRL = 36,
};

/* io_uring_buf_reg, whose reserved words have had a meaning since Linux 7.1. */
struct nb_buf_reg {
	uint64_t ring_addr;
	uint32_t ring_entries;
	uint16_t bgid, flags;
	/* With NB_PBUF_RING_INC: a buffer with fewer bytes left is used up.  EINVAL before, unless
	 * it is 0. */
	uint32_t min_left;
	uint32_t resv[5];
};
static_assert(sizeof(struct nb_buf_reg) == sizeof(struct io_uring_buf_reg), "it is the kernel's");

/* io_uring_buf_status. */
struct nb_buf_status {
	uint32_t buf_group;
	uint32_t head; /* of the buffers that the kernel takes next; modulo 2^16 */
	uint32_t resv[8];
};

/* io_uring_getevents_arg, whose padding has had a meaning since Linux 6.12. */
struct nb_getevents_arg {
	uint64_t sigmask;
	uint32_t sigmask_sz;
	/* NB_FEAT_MIN_TIMEOUT: wait this long for the number asked for, then
	 * until ts for one completion. */
	uint32_t min_wait_usec;
	uint64_t ts;
};

struct nb_io_uring_napi {
	uint32_t busy_poll_to; /* us */
	uint8_t prefer_busy_poll;
	uint8_t pad[3];
	uint64_t resv;
};
