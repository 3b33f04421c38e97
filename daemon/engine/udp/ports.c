/* Transport `udp`: addresses that are not answered, because both sides would answer each other for
 * ever.  Any thread.  See udp.h. */
#include <stdatomic.h>

#include "udp.h"

/* Ports whose services answer any datagram: echo, daytime, quote, chargen, time, DNS,
 * TFTP, portmapper, NTP, NetBIOS, SNMP, LDAP, RIP, SSDP, mDNS, memcached.  And 0, to
 * which nothing can be sent. */
static const uint16_t udp_reflectors[] = { 0,   7,   13,  17,  19,  37,   53,   69,   111,
					   123, 137, 161, 389, 520, 1900, 5353, 11211 };

/* For each port, the number of this process's sockets that use it.  The address does not matter: an
 * nbserved on another host has the same default ports. */
static _Atomic uint16_t udp_ports[UINT16_MAX + 1];

void udp_port_taken(uint16_t port, bool taken)
{
	atomic_fetch_add_explicit(&udp_ports[port], (uint16_t)(taken ? 1 : -1),
				  memory_order_relaxed);
}

static bool is_reflector(uint16_t port)
{
	for (size_t i = 0; i < ARRAY_SIZE(udp_reflectors); i++)
		if (udp_reflectors[i] == port)
			return true;
	return false;
}

static bool is_host4(uint32_t address)
{
	return address != INADDR_ANY && address < 0xe0000000; /* not multicast or reserved */
}

bool udp_may_answer(const struct sockaddr *name)
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)name;
	const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)name;
	bool six = name->sa_family == AF_INET6, loopback;
	uint16_t port = ntohs(six ? in6->sin6_port : in->sin_port);

	if (six ? IN6_IS_ADDR_UNSPECIFIED(&in6->sin6_addr) || IN6_IS_ADDR_MULTICAST(&in6->sin6_addr)
		: !is_host4(ntohl(in->sin_addr.s_addr)))
		return false;
	loopback = six ? IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr)
		       : ntohl(in->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
	return port && !atomic_load_explicit(&udp_ports[port], memory_order_relaxed) &&
	       (loopback || !is_reflector(port));
}
