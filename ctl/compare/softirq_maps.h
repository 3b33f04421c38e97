/* Maps that softirq.bpf.c fills and softirq.c reads. */
#pragma once
#include <linux/types.h>

enum softirq_kind {
	SOFTIRQ_RECEIVE,  /* packets to the listener's port */
	SOFTIRQ_TRANSMIT, /* a driver that transmits packets from that port */
	/* Packets from it that a client on this host receives, and the transmission of such
	 * a client's packets. */
	SOFTIRQ_PEER,
	SOFTIRQ_KINDS,
};

enum {
	SOFTIRQ_PORTS_MAX = 1024,
	SOFTIRQ_SLOTS = 257, /* slots of listeners, from 1 on */
	SOFTIRQ_NOBODY = 0,  /* the slot of times that cannot be attributed */
};

/* An element of `times`, one for each CPU and slot: [1] is the part that ran on a thread of the
 * daemon and is included in its CPU time. */
struct softirq_times {
	__u64 ns[SOFTIRQ_KINDS][2];
};

/* A key of `ports`, whose values are slots. */
struct softirq_port {
	__u16 number; /* host's order */
	__u16 protocol;
};
