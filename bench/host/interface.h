/* This host's network interfaces: what their drivers tell, and what they have carried. */
#pragma once
#include <jansson.h>

/* The interfaces that have an address, but for loopback, by their names: a new reference.  Of each
 * its mtu, driver, firmware and speed_mbit, as far as they are known: of an interface that is made
 * by software alone, such as veth, the driver tells a speed that it does not have. */
json_t *interface_describe(void);

/* What those of `interfaces` have carried so far, by their names, with the time and the segments
 * that TCP has sent: see nic_link.h.  A new reference. */
json_t *interface_read(const json_t *interfaces);
