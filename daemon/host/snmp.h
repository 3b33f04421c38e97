/* The kernel's counts of dropped datagrams, for all UDP sockets of this network namespace since it
 * began: losses that no listener has counted.
 *
 * Sources: /proc/net/snmp, /proc/net/snmp6; RFC 4113 and, of what is Linux's own, its udp.c. */
#pragma once
#include <stdint.h>

/* Sums over IPv4 and IPv6, in datagrams. */
struct snmp_udp {
	uint64_t no_port;        /* nobody had that port */
	uint64_t receive_errors; /* all that a socket could not take, those of the next two as well
				  */
	uint64_t receive_buffer; /* its queue was full */
	uint64_t checksum;
	uint64_t send_buffer; /* not sent: its buffer, or a device's queue, was full */
	uint64_t unreachable; /* said of what was sent, by ICMP; whatever the protocol was */
};

/* Adds what a file of either form says.  Pure. */
void snmp_add(struct snmp_udp *to, const char *text);

/* All zero where there is no such file. */
void snmp_read(struct snmp_udp *ret);
