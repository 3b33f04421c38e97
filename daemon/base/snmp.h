/* The kernel's counts of dropped datagrams and of TCP's segments, for all sockets of this network
 * namespace since it began: losses that no listener has counted.  Sources: /proc/net/snmp and
 * /proc/net/snmp6; RFC 4113 and, for the counters of Linux alone, its udp.c. */
#pragma once
#include <stdint.h>

/* Sums over IPv4 and IPv6, in datagrams. */
struct snmp_counters {
	uint64_t no_port; /* no socket had that port */
	/* All datagrams that a socket could not take, including those of the next two counters. */
	uint64_t receive_errors;
	uint64_t receive_buffer; /* the socket's queue was full */
	uint64_t checksum;
	uint64_t send_buffer; /* not sent: the socket's buffer, or a device's queue, was full */
	/* ICMP reports that a destination cannot be reached, about packets of any protocol. */
	uint64_t unreachable;
	/* TCP segments that were sent, without retransmissions; and the retransmissions. */
	uint64_t segments_sent, segments_retransmitted;
};

/* Adds the counters in the text of a file of either form.  Pure. */
void snmp_add(struct snmp_counters *to, const char *text);

/* All zero where there is no such file. */
void snmp_read(struct snmp_counters *ret);
