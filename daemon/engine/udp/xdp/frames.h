/* Frames of Ethernet that hold one datagram of UDP, without VLAN tags, IP options or fragments:
 * what the kernel's stack verifies of them, and the headers of answers.  Pure: any thread. */
#pragma once
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

enum {
	FRAMES_ETHERNET = 14, /* bytes of each header, as of UDP */
	FRAMES_UDP = 8,
	FRAMES_IPV4 = FRAMES_ETHERNET + 20 + FRAMES_UDP, /* all headers */
	FRAMES_IPV6 = FRAMES_ETHERNET + 40 + FRAMES_UDP,
	FRAMES_MAC = 6,
	FRAMES_OWN_MAX = 256,
};

/* The port is at the same place in both: in.sin_port serves for both families. */
union frames_address {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

/* The interface that the frames come from. */
struct frames_interface {
	uint8_t mac[FRAMES_MAC];
	uint32_t index;
	/* Addresses that no other host can send from: those of this host, and the broadcast
	 * addresses of its networks.  IPv4: mapped. */
	struct in6_addr own[FRAMES_OWN_MAX];
	unsigned own_count;
};

/* A datagram in a frame. */
struct frames_datagram {
	union frames_address from;
	socklen_t from_bytes;
	uint8_t *data;
	uint32_t bytes;
};

/* False: the kernel would not have passed this frame to a socket bound to `local`, because of its
 * addresses, lengths or checksums.  Then *ret is undefined. */
bool frames_parse(const struct frames_interface *interface, const union frames_address *local,
		  uint8_t *frame, uint32_t bytes, struct frames_datagram *ret);

/* What the headers of an answer say. */
struct frames_path {
	const uint8_t *to_mac, *from_mac;
	const union frames_address *to, *from; /* of one family */
	uint8_t traffic_class;
	uint16_t id; /* of IPv4: differs from those of the frames before */
};

/* Writes the headers in front of the `bytes` bytes at data, and returns their length: FRAMES_IPV4
 * or FRAMES_IPV6, by the family of path->to. */
uint32_t frames_build(uint8_t *data, uint32_t bytes, const struct frames_path *path);
