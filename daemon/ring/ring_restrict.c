/* The operations that a ring allows.  The kernel refuses all others with EACCES, so that an
 * attacker in this process cannot evade its seccomp filter through io_uring, which can also open
 * files and send messages.  Worker's thread only. */
#include <errno.h>
#include <string.h>

#include "ring.h"
#include "uring_compat.h"

struct ring_allowed {
	uint8_t code;
	uint8_t uses; /* enum ring_use */
};

/* All operations that engines and stores prepare. */
static const struct ring_allowed ring_opcodes[] = {
	{ IORING_OP_ACCEPT, RING_LISTENS },         { IORING_OP_POLL_ADD, RING_LISTENS },
	{ IORING_OP_ASYNC_CANCEL, RING_LISTENS },   { IORING_OP_RECV, RING_TRANSFERS },
	{ IORING_OP_SEND, RING_TRANSFERS },         { IORING_OP_SENDMSG, RING_TRANSFERS },
	{ IORING_OP_RECVMSG, RING_TRANSFERS },      { IORING_OP_SENDMSG_ZC, RING_TRANSFERS },
	{ IORING_OP_FILES_UPDATE, RING_TRANSFERS }, { IORING_OP_READ, RING_STORES },
	{ IORING_OP_WRITE, RING_STORES },           { IORING_OP_READV, RING_STORES },
	{ IORING_OP_WRITEV, RING_STORES },          { IORING_OP_READ_FIXED, RING_STORES },
	{ IORING_OP_WRITE_FIXED, RING_STORES },     { IORING_OP_FSYNC, RING_STORES },
	{ IORING_OP_FALLOCATE, RING_STORES },       { IORING_OP_FADVISE, RING_STORES },
	{ NB_OP_RECV_ZC, RING_ZERO_COPY },
};

/* All calls of io_uring_register() after the set-up. */
static const struct ring_allowed ring_registrations[] = {
	{ IORING_REGISTER_PROBE, RING_TRANSFERS },
	{ IORING_REGISTER_PBUF_RING, RING_TRANSFERS },
	{ IORING_REGISTER_FILES2, RING_TRANSFERS | RING_STORES },
	{ IORING_REGISTER_FILES_UPDATE, RING_STORES },
	{ IORING_REGISTER_BUFFERS, RING_STORES },
	{ IORING_REGISTER_EVENTFD, RING_STORES },
	{ NB_REGISTER_PBUF_STATUS, RING_CHECKS ? RING_TRANSFERS : 0 },
	{ NB_REGISTER_ZCRX_CTRL, RING_ZERO_COPY },
	{ IORING_UNREGISTER_RING_FDS, RING_LISTENS | RING_TRANSFERS | RING_STORES },
};

enum {
	RING_SQE_FLAGS =
		IOSQE_FIXED_FILE | IOSQE_BUFFER_SELECT | IOSQE_CQE_SKIP_SUCCESS | IOSQE_ASYNC,
	RING_RESTRICTIONS_MAX = ARRAY_SIZE(ring_opcodes) + ARRAY_SIZE(ring_registrations) + 1,
};

/* Highest opcode of this kernel, which rejects a list with opcodes that it does not know. */
static uint8_t ring_last_opcode(struct ring *r)
{
	struct io_uring_probe *probe = io_uring_get_probe_ring(&r->io);
	uint8_t last = probe ? probe->last_op : 0;

	io_uring_free_probe(probe);
	return last;
}

int ring_restrict(struct ring *r, unsigned uses)
{
	struct io_uring_restriction list[RING_RESTRICTIONS_MAX];
	uint8_t last = ring_last_opcode(r);
	unsigned n = 0;

	memset(list, 0, sizeof(list));
	for (size_t i = 0; i < ARRAY_SIZE(ring_opcodes); i++) {
		if (!(ring_opcodes[i].uses & uses) || ring_opcodes[i].code > last)
			continue;
		list[n].opcode = IORING_RESTRICTION_SQE_OP;
		list[n++].sqe_op = ring_opcodes[i].code;
	}
	for (size_t i = 0; i < ARRAY_SIZE(ring_registrations); i++) {
		if (!(ring_registrations[i].uses & uses))
			continue;
		list[n].opcode = IORING_RESTRICTION_REGISTER_OP;
		list[n++].register_op = ring_registrations[i].code;
	}
	list[n].opcode = IORING_RESTRICTION_SQE_FLAGS_ALLOWED;
	list[n++].sqe_flags = RING_SQE_FLAGS;
	return ring_register(r, IORING_REGISTER_RESTRICTIONS, list, n);
}
