/* Frames with datagrams of UDP.  See frames.h. */
#include "frames.h"

#include <net/ethernet.h>
#include <stddef.h>
#include <string.h>

#include "sockaddr.h"

enum {
	IPV4_FRAGMENT = 0x3fff, /* more fragments, or an offset */
	HOPS = 64,
	CHECKED = 0xffff, /* the sum of what has a right checksum */
};

/* Where each version of IP has what UDP needs. */
static const struct layout {
	uint16_t type;        /* of Ethernet */
	uint8_t bytes;        /* of the header */
	uint8_t addresses;    /* where the sender's is, with the receiver's behind it */
	uint8_t address;      /* bytes of one */
	uint8_t host;         /* where it is in a frames_address */
	socklen_t name_bytes; /* of that */
} ipv4 = { ETHERTYPE_IP,
	   20,
	   12,
	   4,
	   offsetof(struct sockaddr_in, sin_addr),
	   sizeof(struct sockaddr_in) },
  ipv6 = { ETHERTYPE_IPV6,
	   40,
	   8,
	   16,
	   offsetof(struct sockaddr_in6, sin6_addr),
	   sizeof(struct sockaddr_in6) };

static const struct layout *layout_of(const union frames_address *a)
{
	return a->sa.sa_family == AF_INET6 ? &ipv6 : &ipv4;
}

static uint32_t get16(const uint8_t *p)
{
	return (uint32_t)p[0] << 8 | p[1];
}

static void put16(uint8_t *p, uint32_t value)
{
	p[0] = (uint8_t)(value >> 8);
	p[1] = (uint8_t)value;
}

/* ---- The checksum of the Internet (RFC 1071), in the host's byte order ---- */

/* Only the last of several pieces may have an odd length. */
static uint64_t sum_add(uint64_t sum, const uint8_t *p, uint32_t bytes)
{
	uint32_t word = 0;

	for (; bytes >= sizeof(word); p += sizeof(word), bytes -= (uint32_t)sizeof(word)) {
		memcpy(&word, p, sizeof(word));
		sum += word;
	}
	word = 0;
	memcpy(&word, p, bytes);
	return sum + word;
}

static uint16_t sum_fold(uint64_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

/* UDP's checksum: over `bytes` bytes of header and data, and the pseudo header of both addresses,
 * protocol and length. */
static uint16_t sum_udp(const uint8_t *ip, const struct layout *l, uint32_t bytes)
{
	uint8_t rest[4] = { 0, IPPROTO_UDP, (uint8_t)(bytes >> 8), (uint8_t)bytes };
	uint64_t sum = sum_add(0, ip + l->addresses, 2U * l->address);

	return sum_fold(sum_add(sum_add(sum, rest, sizeof(rest)), ip + l->bytes, bytes));
}

/* ---- Received frames ---- */

/* False: the sender is forged (spoofed), or no host.  Of IPv4 0/8 is no host, 127/8 is every host
 * itself, 224/3 are groups, reserved, broadcast. */
static bool is_other_host(const struct frames_interface *interface,
			  const union frames_address *from)
{
	bool six = from->sa.sa_family == AF_INET6;
	struct in6_addr a = six ? from->in6.sin6_addr : sockaddr_map_ipv4(&from->in.sin_addr);
	uint8_t first = a.s6_addr[12];

	if (six ? IN6_IS_ADDR_UNSPECIFIED(&a) || IN6_IS_ADDR_LOOPBACK(&a) ||
			    IN6_IS_ADDR_MULTICAST(&a) || IN6_IS_ADDR_V4MAPPED(&a)
		: first == 0 || first == IN_LOOPBACKNET || first >= 224)
		return false;
	for (unsigned i = 0; i < interface->own_count; i++)
		if (IN6_ARE_ADDR_EQUAL(&a, &interface->own[i]))
			return false;
	return true;
}

/* Is this header of IP that of a whole datagram of UDP?  Then *room, the bytes behind it in the
 * frame, becomes what it says: Ethernet pads short frames. */
static bool is_ip_right(const uint8_t *ip, const struct layout *l, uint32_t *room)
{
	uint32_t says;

	if (l == &ipv4) {
		says = get16(ip + 2) - l->bytes; /* wraps, if that is less */
		if (ip[0] != 0x45 || get16(ip + 6) & IPV4_FRAGMENT || ip[9] != IPPROTO_UDP ||
		    sum_fold(sum_add(0, ip, l->bytes)) != CHECKED)
			return false;
	} else {
		says = get16(ip + 4);
		if (ip[0] >> 4 != 6 || ip[6] != IPPROTO_UDP)
			return false;
	}
	if (says > *room)
		return false;
	*room = says;
	return true;
}

/* A checksum of 0 says that there is none; over IPv6 that is wrong (RFC 8200). */
static bool is_udp_right(const uint8_t *ip, const struct layout *l, uint32_t room)
{
	const uint8_t *udp = ip + l->bytes;
	uint32_t bytes = get16(udp + 4);

	if (room < FRAMES_UDP || bytes < FRAMES_UDP || bytes > room)
		return false;
	return get16(udp + 6) ? sum_udp(ip, l, bytes) == CHECKED : l == &ipv4;
}

bool frames_parse(const struct frames_interface *interface, const union frames_address *local,
		  uint8_t *frame, uint32_t bytes, struct frames_datagram *ret)
{
	const struct layout *l = layout_of(local);
	uint8_t *ip = frame + FRAMES_ETHERNET, *udp = ip + l->bytes;
	uint32_t headers = FRAMES_ETHERNET + l->bytes, room = bytes - headers;

	if (bytes < headers + FRAMES_UDP || memcmp(frame, interface->mac, FRAMES_MAC) != 0)
		return false;
	/* No answer can be sent to a group's MAC address. */
	if (frame[FRAMES_MAC] & 1 || get16(frame + 2 * FRAMES_MAC) != l->type)
		return false;
	if (memcmp(ip + l->addresses + l->address, (const uint8_t *)local + l->host, l->address) !=
		    0 ||
	    memcmp(udp + 2, &local->in.sin_port, sizeof(in_port_t)) != 0 ||
	    !is_ip_right(ip, l, &room) || !is_udp_right(ip, l, room))
		return false;
	ret->from = (union frames_address){ .sa.sa_family = local->sa.sa_family };
	ret->from_bytes = l->name_bytes;
	memcpy((uint8_t *)&ret->from + l->host, ip + l->addresses, l->address);
	memcpy(&ret->from.in.sin_port, udp, sizeof(in_port_t));
	if (l == &ipv6 && IN6_IS_ADDR_LINKLOCAL(&ret->from.in6.sin6_addr))
		ret->from.in6.sin6_scope_id = interface->index;
	ret->data = udp + FRAMES_UDP;
	ret->bytes = get16(udp + 4) - FRAMES_UDP;
	return is_other_host(interface, &ret->from);
}

/* ---- Answers ---- */

/* Routers may fragment it, as nothing here learns of their limits. */
static void build_ipv4(uint8_t *ip, uint32_t udp_bytes, const struct frames_path *path)
{
	uint16_t sum;

	ip[0] = 0x45;
	ip[1] = path->traffic_class;
	put16(ip + 2, ipv4.bytes + udp_bytes);
	put16(ip + 4, path->id);
	put16(ip + 6, 0);
	ip[8] = HOPS;
	ip[9] = IPPROTO_UDP;
	put16(ip + 10, 0);
	sum = (uint16_t)~sum_fold(sum_add(0, ip, ipv4.bytes));
	memcpy(ip + 10, &sum, sizeof(sum));
}

static void build_ipv6(uint8_t *ip, uint32_t udp_bytes, const struct frames_path *path)
{
	ip[0] = (uint8_t)(0x60 | path->traffic_class >> 4);
	ip[1] = (uint8_t)(path->traffic_class << 4);
	put16(ip + 2, 0);
	put16(ip + 4, udp_bytes);
	ip[6] = IPPROTO_UDP;
	ip[7] = HOPS;
}

uint32_t frames_build(uint8_t *data, uint32_t bytes, const struct frames_path *path)
{
	const struct layout *l = layout_of(path->to);
	uint8_t *udp = data - FRAMES_UDP, *ip = udp - l->bytes, *frame = ip - FRAMES_ETHERNET;
	uint16_t sum;

	memcpy(frame, path->to_mac, FRAMES_MAC);
	memcpy(frame + FRAMES_MAC, path->from_mac, FRAMES_MAC);
	put16(frame + 2 * FRAMES_MAC, l->type);
	memcpy(ip + l->addresses, (const uint8_t *)path->from + l->host, l->address);
	memcpy(ip + l->addresses + l->address, (const uint8_t *)path->to + l->host, l->address);
	(l == &ipv4 ? build_ipv4 : build_ipv6)(ip, FRAMES_UDP + bytes, path);
	memcpy(udp, &path->from->in.sin_port, sizeof(in_port_t));
	memcpy(udp + 2, &path->to->in.sin_port, sizeof(in_port_t));
	put16(udp + 4, FRAMES_UDP + bytes);
	put16(udp + 6, 0);
	sum = (uint16_t)~sum_udp(ip, l, FRAMES_UDP + bytes);
	if (!sum) /* 0 would say that there is none */
		sum = CHECKED;
	memcpy(udp + 6, &sum, sizeof(sum));
	return (uint32_t)(data - frame);
}
