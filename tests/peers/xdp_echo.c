/* The yardstick for kernel bypass that keeps the card with the kernel: an echo of UDP over IPv4 by
 * AF_XDP, of one thread and the card's queue 0, as bare as can be.
 *
 * A program of the kernel's (BPF) gives it the datagrams to its port; all else passes on to the
 * network stack.  What was received is sent from where it lies, its addresses and ports exchanged.
 * That leaves every checksum as it was, so none is looked at: a sender that leaves them to its card
 * (veth does) gets no valid answer. */
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <linux/if_xdp.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "bench.h"

enum {
	FRAME = 4096,
	FRAMES = 2048, /* each is in one ring at most: so no ring of as many entries overflows */
	BATCH = 64,
	SENDS_MAX = 2 * BATCH / 32, /* copy mode sends 32 frames a call */
	HEADERS = 42,               /* Ethernet, IPv4 without options, UDP */
	INSTRUCTIONS_MAX = 64,
};

struct ring {
	uint32_t *producer, *consumer, *flags;
	void *entries;
	uint32_t at; /* our end: the other one is the kernel's */
};

struct xsk {
	int fd;
	uint8_t *frames;
	struct ring fill, completion, rx, tx;
};

/* ---- The program ---- */

static int bpf(int command, union bpf_attr *attr, const char *what)
{
	int fd = (int)syscall(SYS_bpf, command, attr, sizeof(*attr));

	if (fd < 0)
		err(1, "%s", what);
	return fd;
}

static struct bpf_insn insn(int code, int to, int from, ptrdiff_t offset, int value)
{
	return (struct bpf_insn){ .code = (uint8_t)code,
				  .dst_reg = (uint8_t)(to & 15),
				  .src_reg = (uint8_t)(from & 15),
				  .off = (int16_t)offset,
				  .imm = value };
}

/* What an accepted frame has at these offsets. */
static unsigned add_checks(struct bpf_insn *p, unsigned n, uint16_t port)
{
	const struct {
		int size, offset, mask, value;
	} checks[] = {
		{ BPF_H, 12, 0xffff, htons(0x0800) }, { BPF_B, 14, 0xff, 0x45 },
		{ BPF_H, 20, htons(0x3fff), 0 }, /* no fragment */
		{ BPF_B, 23, 0xff, IPPROTO_UDP },     { BPF_H, 36, 0xffff, htons(port) },
	};

	for (unsigned i = 0; i < ARRAY_SIZE(checks); i++) {
		p[n++] = insn(BPF_LDX + BPF_MEM + checks[i].size, 5, 2, checks[i].offset, 0);
		p[n++] = insn(BPF_ALU64 + BPF_AND + BPF_K, 5, 0, 0, checks[i].mask);
		p[n++] = insn(BPF_JMP + BPF_JNE + BPF_K, 5, 0, 0, checks[i].value);
	}
	return n;
}

/* Registers: 1 the context, 2 the frame, 3 its end, 4 and 5 scratch.  Jumps lead to the last two
 * instructions. */
static unsigned make_program(struct bpf_insn *p, int map, uint16_t port)
{
	unsigned n = 0;

	p[n++] = insn(BPF_LDX + BPF_MEM + BPF_W, 2, 1, offsetof(struct xdp_md, data), 0);
	p[n++] = insn(BPF_LDX + BPF_MEM + BPF_W, 3, 1, offsetof(struct xdp_md, data_end), 0);
	p[n++] = insn(BPF_ALU64 + BPF_MOV + BPF_X, 4, 2, 0, 0);
	p[n++] = insn(BPF_ALU64 + BPF_ADD + BPF_K, 4, 0, 0, HEADERS);
	p[n++] = insn(BPF_JMP + BPF_JGT + BPF_X, 4, 3, 0, 0);
	n = add_checks(p, n, port);
	p[n++] = insn(BPF_LDX + BPF_MEM + BPF_W, 2, 1, offsetof(struct xdp_md, rx_queue_index), 0);
	p[n++] = insn(BPF_LD + BPF_DW + BPF_IMM, 1, BPF_PSEUDO_MAP_FD, 0, map);
	p[n++] = insn(0, 0, 0, 0, 0);
	p[n++] = insn(BPF_ALU64 + BPF_MOV + BPF_K, 3, 0, 0, XDP_PASS); /* of other queues */
	p[n++] = insn(BPF_JMP + BPF_CALL, 0, 0, 0, BPF_FUNC_redirect_map);
	p[n++] = insn(BPF_JMP + BPF_EXIT, 0, 0, 0, 0);
	for (unsigned i = 0; i < n; i++)
		if (p[i].code == (BPF_JMP + BPF_JNE + BPF_K) ||
		    p[i].code == (BPF_JMP + BPF_JGT + BPF_X))
			p[i].off = (int16_t)(n - i - 1);
	p[n++] = insn(BPF_ALU64 + BPF_MOV + BPF_K, 0, 0, 0, XDP_PASS);
	p[n++] = insn(BPF_JMP + BPF_EXIT, 0, 0, 0, 0);
	return n;
}

/* The map by which the program finds the socket.  Program and link end with this process. */
static int attach(unsigned interface, uint16_t port)
{
	struct bpf_insn program[INSTRUCTIONS_MAX];
	static char log[1 << 16];
	union bpf_attr attr = { .map_type = BPF_MAP_TYPE_XSKMAP,
				.key_size = sizeof(uint32_t),
				.value_size = sizeof(int),
				.max_entries = 1 };
	int map = bpf(BPF_MAP_CREATE, &attr, "map of sockets"), fd;

	attr = (union bpf_attr){ .prog_type = BPF_PROG_TYPE_XDP,
				 .expected_attach_type = BPF_XDP,
				 .insns = (uintptr_t)program,
				 .insn_cnt = make_program(program, map, port),
				 .license = (uintptr_t) "" };
	fd = (int)syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof(attr));
	if (fd < 0) {
		attr.log_buf = (uintptr_t)log;
		attr.log_size = sizeof(log);
		attr.log_level = 1;
		fd = (int)syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof(attr));
		if (fd < 0)
			err(1, "%sbpf: the program is refused", log);
	}
	attr = (union bpf_attr){ .link_create = { .prog_fd = (uint32_t)fd,
						  .target_ifindex = interface,
						  .attach_type = BPF_XDP,
						  .flags = XDP_FLAGS_DRV_MODE } };
	bpf(BPF_LINK_CREATE, &attr, "attaching the program");
	return map;
}

/* ---- The socket ---- */

static void open_ring(int fd, struct ring *ring, int option, off_t page,
		      const struct xdp_ring_offset *offset, size_t entry)
{
	uint8_t *at;

	at = mmap(NULL, offset->desc + FRAMES * entry, PROT_READ | PROT_WRITE,
		  MAP_SHARED | MAP_POPULATE, fd, page);
	if (at == MAP_FAILED)
		err(1, "mmap of ring %d", option);
	ring->producer = (uint32_t *)(at + offset->producer);
	ring->consumer = (uint32_t *)(at + offset->consumer);
	ring->flags = (uint32_t *)(at + offset->flags);
	ring->entries = at + offset->desc;
}

static void open_rings(struct xsk *x)
{
	static const int options[] = { XDP_UMEM_FILL_RING, XDP_UMEM_COMPLETION_RING, XDP_RX_RING,
				       XDP_TX_RING };
	struct xdp_mmap_offsets offsets;
	socklen_t bytes = sizeof(offsets);

	for (unsigned i = 0; i < ARRAY_SIZE(options); i++)
		set_option(x->fd, SOL_XDP, options[i], FRAMES);
	if (getsockopt(x->fd, SOL_XDP, XDP_MMAP_OFFSETS, &offsets, &bytes) < 0)
		err(1, "XDP_MMAP_OFFSETS");
	open_ring(x->fd, &x->fill, options[0], XDP_UMEM_PGOFF_FILL_RING, &offsets.fr, 8);
	open_ring(x->fd, &x->completion, options[1], XDP_UMEM_PGOFF_COMPLETION_RING, &offsets.cr,
		  8);
	open_ring(x->fd, &x->rx, options[2], XDP_PGOFF_RX_RING, &offsets.rx,
		  sizeof(struct xdp_desc));
	open_ring(x->fd, &x->tx, options[3], XDP_PGOFF_TX_RING, &offsets.tx,
		  sizeof(struct xdp_desc));
}

static void open_socket(struct xsk *x, unsigned interface, int mode)
{
	struct xdp_umem_reg memory = { .len = (uint64_t)FRAMES * FRAME, .chunk_size = FRAME };
	struct sockaddr_xdp to = { .sxdp_family = AF_XDP,
				   .sxdp_ifindex = interface,
				   .sxdp_flags = (uint16_t)(XDP_USE_NEED_WAKEUP | mode) };

	x->frames =
		mmap(NULL, memory.len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	x->fd = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);
	if (x->frames == MAP_FAILED || x->fd < 0)
		err(1, "socket(AF_XDP)");
	memory.addr = (uintptr_t)x->frames;
	if (setsockopt(x->fd, SOL_XDP, XDP_UMEM_REG, &memory, sizeof(memory)) < 0)
		err(1, "XDP_UMEM_REG");
	open_rings(x);
	if (bind(x->fd, (struct sockaddr *)&to, sizeof(to)) < 0)
		err(1, "bind to queue 0, %s", mode == XDP_ZEROCOPY ? "zero-copy" : "copy");
}

/* ---- Echo ---- */

static uint32_t ready(const struct ring *ring)
{
	return __atomic_load_n(ring->producer, __ATOMIC_ACQUIRE) - ring->at;
}

/* The kernel sees what we have put into, or taken from, a ring. */
static void end_putting(const struct ring *ring)
{
	__atomic_store_n(ring->producer, ring->at, __ATOMIC_RELEASE);
}

static void end_taking(const struct ring *ring)
{
	__atomic_store_n(ring->consumer, ring->at, __ATOMIC_RELEASE);
}

static void give(struct ring *fill, uint64_t frame)
{
	((uint64_t *)fill->entries)[fill->at++ % FRAMES] = frame;
}

/* What is sent is free again. */
static void reclaim(struct xsk *x)
{
	uint32_t count = ready(&x->completion);

	for (uint32_t i = 0; i < count; i++) {
		uint64_t sent = ((uint64_t *)x->completion.entries)[x->completion.at++ % FRAMES];

		give(&x->fill, sent & ~(uint64_t)(FRAME - 1));
	}
	if (count) {
		end_taking(&x->completion);
		end_putting(&x->fill);
	}
}

static void exchange(uint8_t *a, uint8_t *b, size_t bytes)
{
	uint8_t kept[8];

	memcpy(kept, a, bytes);
	memcpy(a, b, bytes);
	memcpy(b, kept, bytes);
}

/* The number of frames that were received, and now wait to be sent. */
static uint32_t echo_batch(struct xsk *x)
{
	uint32_t count = MIN(ready(&x->rx), (uint32_t)BATCH);

	for (uint32_t i = 0; i < count; i++) {
		struct xdp_desc got = ((struct xdp_desc *)x->rx.entries)[x->rx.at++ % FRAMES];
		uint8_t *frame = x->frames + got.addr;

		exchange(frame, frame + 6, 6);
		exchange(frame + 26, frame + 30, 4);
		exchange(frame + 34, frame + 36, 2);
		((struct xdp_desc *)x->tx.entries)[x->tx.at++ % FRAMES] = got;
	}
	if (count) {
		end_taking(&x->rx);
		end_putting(&x->tx);
	}
	return count;
}

/* Are there frames left that the kernel has not taken? */
static bool send_waiting(struct xsk *x)
{
	for (unsigned i = 0; i < SENDS_MAX; i++) {
		if (__atomic_load_n(x->tx.consumer, __ATOMIC_ACQUIRE) == x->tx.at)
			return false;
		if (!(__atomic_load_n(x->tx.flags, __ATOMIC_RELAXED) & XDP_RING_NEED_WAKEUP))
			return true; /* it takes them without a call */
		if (sendto(x->fd, NULL, 0, MSG_DONTWAIT, NULL, 0) < 0 && errno != EAGAIN &&
		    errno != EBUSY && errno != ENOBUFS)
			err(1, "sendto");
	}
	return true;
}

static void echo(struct xsk *x)
{
	struct pollfd in = { .fd = x->fd, .events = POLLIN };

	for (;;) {
		uint32_t count;
		bool waiting;

		reclaim(x);
		count = echo_batch(x);
		waiting = send_waiting(x);
		if (!count && poll(&in, 1, waiting ? 1 : -1) < 0)
			err(1, "poll");
	}
}

int main(int argc, char **argv)
{
	static struct xsk x;
	uint32_t queue = 0;
	union bpf_attr attr = { 0 };
	unsigned interface;
	uint16_t port;
	int mode;

	if (argc != 4 || (strcmp(argv[1], "copy") != 0 && strcmp(argv[1], "zero-copy") != 0))
		errx(2, "usage: xdp_echo copy|zero-copy INTERFACE PORT");
	mode = strcmp(argv[1], "copy") == 0 ? XDP_COPY : XDP_ZEROCOPY;
	interface = if_nametoindex(argv[2]);
	if (!interface)
		err(1, "%s", argv[2]);
	port = (uint16_t)option_uint("PORT", argv[3], 1, UINT16_MAX);
	attr.map_fd = (uint32_t)attach(interface,
				       port); /* first: some drivers free the queue only then */
	open_socket(&x, interface, mode);
	for (uint64_t i = 0; i < FRAMES; i++)
		give(&x.fill, i * FRAME);
	end_putting(&x.fill);
	attr.key = (uintptr_t)&queue;
	attr.value = (uintptr_t)&x.fd;
	bpf(BPF_MAP_UPDATE_ELEM, &attr, "entering the socket");
	printf("port %d\n", port);
	fflush(stdout);
	echo(&x);
}
