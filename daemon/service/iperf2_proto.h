/* Datagrams of iperf 2 (2.1, `iperf -u`), whose client ends with one that it repeats until somebody
 * says what has arrived.  Pure.
 *
 * Source: what its client and server send each other. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum { IPERF2_REPORT = 56 }; /* bytes */

enum iperf2_state {
	IPERF2_COUNTS,
	IPERF2_OVER,  /* its last datagram has come */
	IPERF2_OTHER, /* it is no iperf */
};

/* A peer, zeroed at first. */
struct iperf2_peer {
	enum iperf2_state state;
	uint32_t datagrams;
	uint64_t bytes, high, lost, order; /* high: the number of the last one */
	uint64_t begin_ns, end_ns;
	double jitter_s, transit_s;
};

/* Counts a datagram that has come at now_ns (of any clock).  True: it is the last one, and this
 * report, shorter than it, is the answer: only to who has sent others before. */
bool iperf2_take(struct iperf2_peer *p, const uint8_t *data, uint32_t bytes, uint64_t now_ns,
		 uint8_t ret_report[static IPERF2_REPORT]);
