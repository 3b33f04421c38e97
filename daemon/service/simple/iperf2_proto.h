/* Datagrams of iperf 2 (2.1, `iperf -u`).  The client repeats its last datagram until it gets a
 * report of what has arrived.  Pure.
 *
 * Source: observed messages of its client and server. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum { IPERF2_REPORT = 56 }; /* bytes */

enum iperf2_state {
	IPERF2_COUNTS,
	IPERF2_OVER,  /* the last datagram has arrived */
	IPERF2_OTHER, /* the peer is not iperf */
};

/* The state of a peer; zeroed at first. */
struct iperf2_peer {
	enum iperf2_state state;
	uint32_t datagrams;
	uint64_t bytes, high, lost, order; /* high: number of the latest datagram */
	uint64_t begin_ns, end_ns;
	double jitter_s, transit_s;
};

/* Counts a datagram that arrived at now_ns (of any clock).  True: it is the last
 * one, and ret_report, never longer than it, is to be sent; only to peers that
 * sent other datagrams before. */
bool iperf2_take(struct iperf2_peer *p, const uint8_t *data, uint32_t bytes, uint64_t now_ns,
		 uint8_t ret_report[static IPERF2_REPORT]);
