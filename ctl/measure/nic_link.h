/* The network interface behind a listener, and how near to its speed the packets came, from
 * GetStats documents taken during an interval.  Pure. */
#pragma once
#include "measure.h"

/* Sets the link of each row of m from `first` on, which row->source owns.  documents: GetStats
 * replies in order of time, with `interfaces`.  interfaces: GetInterfaces' list; of several that a
 * listener has, the one with the most bytes.  speed_bps: of all of them; 0: as their drivers tell.
 */
void link_set(struct measures *m, unsigned first, const json_t *documents, const json_t *interfaces,
	      uint64_t speed_bps);

/* The names of the listener's interfaces, of every listener's if it is NULL: a new reference. */
json_t *link_names(const json_t *interfaces, const char *listener);

/* What the driver tells of the interface, a borrowed reference; NULL: there is no such one. */
const json_t *link_nic(const json_t *interfaces, const char *interface);

/* Bits on the wire in an interval: frames have 24 bytes more than is counted (checksum, preamble,
 * gap), and no frame is longer than the MTU with its header, as a packet that is counted once may
 * be. */
uint64_t link_bits(uint64_t bytes, uint64_t packets, uint64_t mtu);

/* Was the link at its limit? */
bool link_is_limit(const struct measure *row);
