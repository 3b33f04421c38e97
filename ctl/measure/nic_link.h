/* The network interface behind a listener or a generator, and how near to its speed the packets
 * came, from documents taken during an interval.  Pure. */
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

/* The interface with the most bytes in the documents (GetStats replies, or samples of
 * link_watch.h), if these are at least `least`; borrowed from names.  NULL: there is none. */
const char *link_busiest(const json_t *documents, const json_t *names, uint64_t least);

/* The link of that interface as rows save it, a new reference.  nic: the facts from its driver.
 * speed_bps 0: the speed is the driver's. */
json_t *link_of(const json_t *documents, const char *name, const json_t *nic, uint64_t speed_bps);

/* Bits on the wire in an interval: frames have 24 bytes more than is counted (checksum,
 * preamble, gap), and no frame is longer than the MTU with its header, as a packet that is
 * counted once may be. */
uint64_t link_bits(uint64_t bytes, uint64_t packets, uint64_t mtu);

/* Was the link of the listener's host, or of one of the generator's, at its limit? */
bool link_is_limit(const struct measure *row);
