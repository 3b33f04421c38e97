/* Maps that softirq.bpf.c fills and softirq.c reads. */
#pragma once
#include <linux/types.h>

enum softirq_kind {
	SOFTIRQ_RECEIVE,  /* of packets to the listener's port */
	SOFTIRQ_TRANSMIT, /* by a driver, of packets from it */
	SOFTIRQ_PEER, /* of packets from it that a client on this host receives, and of what such
		       * a client sends to it */
	SOFTIRQ_KINDS,
};

enum {
	SOFTIRQ_PORTS_MAX = 1024,
	SOFTIRQ_SLOTS = 257, /* listeners from 1 on */
	SOFTIRQ_NOBODY = 0,  /* the slot of what cannot be attributed */
};

/* An element of `times`, one for each CPU and slot: [1] is what ran on a thread of the daemon and
 * is in that thread's CPU time. */
struct softirq_times {
	__u64 ns[SOFTIRQ_KINDS][2];
};

/* A key of `ports`, whose values are slots. */
struct softirq_port {
	__u16 number; /* host's order */
	__u16 protocol;
};
