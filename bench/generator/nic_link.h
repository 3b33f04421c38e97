/* The network interface behind a listener, and how near to its speed the packets came, from its
 * counters during an interval.  Pure. */
#pragma once
#include "measure.h"

/* Sets the link of each row of m from `first` on, which row->source owns: the interface with the
 * most bytes, if the row's can be among them.  readings: of interface_read() in order of time.
 * interfaces: of interface_describe(). */
void nic_link_set(struct measures *m, unsigned first, const json_t *readings,
		  const json_t *interfaces);

/* Bits on the wire in an interval: frames have 24 bytes more than is counted (checksum,
 * preamble, gap), and no frame is longer than the MTU with its header, as a packet that is
 * counted once may be. */
uint64_t nic_link_bits(uint64_t bytes, uint64_t packets, uint64_t mtu);

/* Was either direction of the link of the listener's host at its limit? */
bool nic_link_is_limit(const struct measure *row);
