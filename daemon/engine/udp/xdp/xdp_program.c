/* Engine `af_xdp`: the program of an interface, as instructions of BPF.  See xdp.h. */
#include <errno.h>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <net/ethernet.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "util.h"
#include "xdp.h"

/* A descriptor or 0, or -errno. */
static int call_bpf(int command, union bpf_attr *attr)
{
	long rc = syscall(SYS_bpf, command, attr, sizeof(*attr));

	return rc < 0 ? -errno : (int)rc;
}

/* Registers: the context, the frame's begin and end, and what is compared. */
enum { R0, R1, R2, R3, CONTEXT, FRAME, END, VALUE };

/* Jumps whose offsets label() sets: to where the frame is passed on or taken, or to the next
 * family. */
enum { PASS = 0x7fff, TAKE = 0x7ffe, NEXT = 0x7ffd };

#define OP(op, to, from, offset, value)                                                            \
	{                                                                                          \
		.code = (op), .dst_reg = (to), .src_reg = (from), .off = (offset), .imm = (value)  \
	}
#define LOAD(size, to, from, at) OP(BPF_LDX | BPF_MEM | (size), to, from, at, 0)
/* Unless what is at `at` of the frame, as it is in memory, is `value`: goes to `label`. */
#define UNLESS(size, at, value, label)                                                             \
	LOAD(size, VALUE, FRAME, at),                                                              \
		OP(BPF_JMP32 | BPF_JNE | BPF_K, VALUE, 0, label, (int32_t)(value))
#define REQUIRE(size, at, value) UNLESS(size, at, value, PASS)
/* Passes the frame on if FRAME + bytes compares so with END. */
#define PASS_IF(jump, bytes)                                                                       \
	OP(BPF_ALU64 | BPF_MOV | BPF_X, VALUE, FRAME, 0, 0),                                       \
		OP(BPF_ALU64 | BPF_ADD | BPF_K, VALUE, 0, 0, bytes),                               \
		OP(BPF_JMP | (jump) | BPF_X, VALUE, END, PASS, 0)
#define IP FRAMES_ETHERNET

/* Sets the offsets of jumps to that name to the instruction `at`. */
static void label(struct bpf_insn *code, unsigned at, int16_t name)
{
	for (unsigned i = 0; i < at; i++)
		if (code[i].off == name)
			code[i].off = (int16_t)(at - i - 1);
}

/* Without an address of a family no frame is to it: none is to 0.0.0.0, ::, port 0.  A frame that
 * is too long for a chunk is passed on: AF_XDP would drop it.  To take one is to return
 * bpf_redirect_map(map, context->rx_queue_index, XDP_PASS): to the queue's socket, or on to the
 * stack if the map has none. */
static int load(int map, const struct sockaddr_in *four, const struct sockaddr_in6 *six)
{
	const uint32_t *words = six->sin6_addr.s6_addr32;
	/* clang-format off */
	struct bpf_insn code[] = {
		OP(BPF_ALU64 | BPF_MOV | BPF_X, CONTEXT, R1, 0, 0),
		LOAD(BPF_W, FRAME, R1, offsetof(struct xdp_md, data)),
		LOAD(BPF_W, END, R1, offsetof(struct xdp_md, data_end)),
		PASS_IF(BPF_JLE, XDP_FRAME_MAX + 1),
		PASS_IF(BPF_JGT, FRAMES_IPV4),
		UNLESS(BPF_H, IP - 2, htons(ETHERTYPE_IP), NEXT),
		REQUIRE(BPF_B, IP, 0x45), /* no options */
		LOAD(BPF_H, VALUE, FRAME, IP + 6),
		OP(BPF_JMP | BPF_JSET | BPF_K, VALUE, 0, PASS, htons(0x3fff)), /* a fragment */
		REQUIRE(BPF_B, IP + 9, IPPROTO_UDP),
		REQUIRE(BPF_W, IP + 16, four->sin_addr.s_addr),
		REQUIRE(BPF_H, FRAMES_IPV4 - FRAMES_UDP + 2, four->sin_port),
		OP(BPF_JMP | BPF_JA, 0, 0, TAKE, 0),
		/* NEXT */
		UNLESS(BPF_H, IP - 2, htons(ETHERTYPE_IPV6), PASS),
		PASS_IF(BPF_JGT, FRAMES_IPV6),
		REQUIRE(BPF_B, IP + 6, IPPROTO_UDP),
		REQUIRE(BPF_W, IP + 24, words[0]),
		REQUIRE(BPF_W, IP + 28, words[1]),
		REQUIRE(BPF_W, IP + 32, words[2]),
		REQUIRE(BPF_W, IP + 36, words[3]),
		REQUIRE(BPF_H, FRAMES_IPV6 - FRAMES_UDP + 2, six->sin6_port),
		/* TAKE */
		LOAD(BPF_W, R2, CONTEXT, offsetof(struct xdp_md, rx_queue_index)),
		OP(BPF_LD | BPF_DW | BPF_IMM, R1, BPF_PSEUDO_MAP_FD, 0, map), OP(0, 0, 0, 0, 0),
		OP(BPF_ALU64 | BPF_MOV | BPF_K, R3, 0, 0, XDP_PASS),
		OP(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_redirect_map),
		OP(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
		/* PASS */
		OP(BPF_ALU64 | BPF_MOV | BPF_K, R0, 0, 0, XDP_PASS),
		OP(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
	};
	/* clang-format on */
	/* The lengths of the last three parts. */
	enum {
		COUNT = ARRAY_SIZE(code),
		AT_PASS = COUNT - 2,
		AT_TAKE = AT_PASS - 6,
		AT_NEXT = AT_TAKE - (2 + 3 + 6 * 2)
	};
	union bpf_attr attr = { .prog_type = BPF_PROG_TYPE_XDP,
				.insns = (uintptr_t)code,
				.insn_cnt = COUNT,
				/* no helper that is used asks for it */
				.license = (uintptr_t) "GPL" };

	label(code, AT_PASS, PASS);
	label(code, AT_TAKE, TAKE);
	label(code, AT_NEXT, NEXT);
	return call_bpf(BPF_PROG_LOAD, &attr);
}

int xdp_program_load(struct xdp_program *p, const struct sockaddr_in *four,
		     const struct sockaddr_in6 *six, uint32_t queue)
{
	union bpf_attr map = { .map_type = BPF_MAP_TYPE_XSKMAP,
			       .key_size = sizeof(uint32_t),
			       .value_size = sizeof(int),
			       .max_entries = queue + 1 };

	p->map = call_bpf(BPF_MAP_CREATE, &map);
	p->program = p->map < 0 ? p->map : load(p->map, four, six);
	return MIN(p->program, 0);
}

int xdp_program_attach(struct xdp_program *p, uint32_t interface, bool generic)
{
	union bpf_attr attr = { .link_create = { .prog_fd = (uint32_t)p->program,
						 .target_ifindex = interface,
						 .attach_type = BPF_XDP,
						 .flags = generic ? XDP_FLAGS_SKB_MODE
								  : XDP_FLAGS_DRV_MODE } };

	p->link = call_bpf(BPF_LINK_CREATE, &attr);
	return p->link < 0 ? p->link : 0;
}

int xdp_program_take(const struct xdp_program *p, uint32_t queue, int fd)
{
	union bpf_attr attr = { .map_fd = (uint32_t)p->map,
				.key = (uintptr_t)&queue,
				.value = (uintptr_t)&fd };

	return call_bpf(BPF_MAP_UPDATE_ELEM, &attr);
}

void xdp_program_close(struct xdp_program *p)
{
	const int all[] = { p->link, p->program, p->map };

	for (unsigned i = 0; i < ARRAY_SIZE(all); i++)
		if (all[i] >= 0)
			close(all[i]);
	*p = (struct xdp_program){ -1, -1, -1 };
}
