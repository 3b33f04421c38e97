/* What echo_bpf.c and its program in the kernel, echo_bpf.bpf.c, have to agree on. */
#pragma once
enum {
	ECHO_SQ = 256,
	ECHO_CQ = 4096,
	ECHO_CONNECTIONS = 1024,
	ECHO_BUFFERS = 256, /* the buffer ring is a page */
	ECHO_BYTES = 16384,
	ECHO_BATCH = 128, /* completions in a step */
	/* The queues' heads and tails, and the completions: as far as the program reads. */
	ECHO_RINGS_BYTES = ECHO_CQ * 16 + 64,
	ECHO_RING_FD = 900, /* the ring's descriptor has to be known when the program is compiled */
};
enum echo_kind { ECHO_ACCEPT, ECHO_RECEIVE, ECHO_SEND, ECHO_SHUTDOWN, ECHO_CLOSE };

/* Where the parts of the rings are, and the connections' buffers. */
struct echo_places {
	unsigned cq_head, cq_tail, cqes, sq_head, sq_tail;
	unsigned long long buffers;
};
