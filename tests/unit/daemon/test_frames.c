/* engine/udp/xdp/frames.c: what an answer's frame says, and which frames are refused. */
#include <arpa/inet.h>

#include "sockaddr.h"
#include "udp/xdp/frames.h"
#include "unit.h"
#include "util.h"

static const uint8_t our_mac[FRAMES_MAC] = { 2, 0, 0, 0, 0, 1 };
static const uint8_t their_mac[FRAMES_MAC] = { 2, 0, 0, 0, 0, 2 };

enum { ROOM = 64, LONGEST = 3798, UDP_LENGTH = 4, UDP_SUM = 6 };

struct wire {
	uint8_t bytes[ROOM + LONGEST];
	uint8_t *frame, *data;
	uint32_t length, headers;
	union frames_address from, to;
	struct frames_interface interface;
};

static union frames_address address(const char *text, uint16_t port)
{
	union frames_address a = { .sa = { .sa_family = AF_INET } };

	if (inet_pton(AF_INET, text, &a.in.sin_addr) != 1) {
		a.in6 = (struct sockaddr_in6){ .sin6_family = AF_INET6 };
		assert_int_equal(inet_pton(AF_INET6, text, &a.in6.sin6_addr), 1);
	}
	a.in.sin_port = htons(port);
	return a;
}

static void own(struct wire *w, const char *text)
{
	struct sockaddr_storage sa = { 0 };
	union frames_address a = address(text, 0);

	memcpy(&sa, &a, sizeof(a));
	w->interface.own[w->interface.own_count++] = sockaddr_mapped(&sa);
}

/* A frame from a client to us with `bytes` bytes of data. */
static void make(struct wire *w, const char *from, const char *to, uint32_t bytes)
{
	struct frames_path path = { .to_mac = our_mac,
				    .from_mac = their_mac,
				    .to = &w->to,
				    .from = &w->from,
				    .traffic_class = 0xb8,
				    .id = 7 };

	*w = (struct wire){ .data = w->bytes + ROOM,
			    .from = address(from, 5000),
			    .to = address(to, 7) };
	memcpy(w->interface.mac, our_mac, FRAMES_MAC);
	w->interface.index = 3;
	own(w, to);
	own(w, "10.9.0.255");
	for (uint32_t i = 0; i < bytes; i++)
		w->data[i] = (uint8_t)(i * 7 + bytes);
	w->headers = frames_build(w->data, bytes, &path);
	w->frame = w->data - w->headers;
	w->length = w->headers + bytes;
}

static bool parsed(struct wire *w, struct frames_datagram *ret)
{
	return frames_parse(&w->interface, &w->to, w->frame, w->length, ret);
}

static bool refused(struct wire *w)
{
	struct frames_datagram d;

	return !parsed(w, &d);
}

static const char *const pairs[][2] = { { "10.9.0.2", "10.9.0.1" }, { "fd09::2", "fd09::1" } };

TEST(what_is_built_is_parsed_at_every_length)
{
	struct frames_datagram d;
	struct wire w;

	for (unsigned p = 0; p < ARRAY_SIZE(pairs); p++)
		for (uint32_t bytes = 0; bytes <= LONGEST - 20 * p; bytes += bytes < 70 ? 1 : 233) {
			make(&w, pairs[p][0], pairs[p][1], bytes);
			assert_int_equal(w.headers, p ? FRAMES_IPV6 : FRAMES_IPV4);
			assert_true(parsed(&w, &d));
			assert_int_equal(d.bytes, bytes);
			assert_ptr_equal(d.data, w.data);
			assert_memory_equal(&d.from, &w.from, d.from_bytes);
		}
}

TEST(a_frame_is_padded_to_the_shortest_of_ethernet)
{
	struct frames_datagram d;
	struct wire w;

	make(&w, "10.9.0.2", "10.9.0.1", 1);
	w.length = 60;
	assert_true(parsed(&w, &d));
	assert_int_equal(d.bytes, 1);
}

/* As another implementation of RFC 768, 791 and 1071 makes them. */
TEST(headers_are_those_of_the_standards)
{
	static const uint8_t expected[] = { 0x45, 0xb8, 0x00, 0x1e, 0x00, 0x07, 0x00, 0x00,
					    0x40, 0x11, 0x65, 0xfc, 0x0a, 0x09, 0x00, 0x02,
					    0x0a, 0x09, 0x00, 0x01, 0x13, 0x88, 0x00, 0x07,
					    0x00, 0x0a, 0xd6, 0x2d, 0x02, 0x09 };
	struct wire w;

	make(&w, "10.9.0.2", "10.9.0.1", 2);
	assert_memory_equal(w.frame, our_mac, FRAMES_MAC);
	assert_memory_equal(w.frame + FRAMES_MAC, their_mac, FRAMES_MAC);
	assert_memory_equal(w.frame + FRAMES_ETHERNET, expected, sizeof(expected));
}

/* Everything is covered: by a checksum, or as it must be what it is.  Free are the sender's own
 * MAC, and of IPv6 the traffic class, flow label and hop limit. */
TEST(a_damaged_bit_is_refused)
{
	struct wire w;

	for (unsigned p = 0; p < ARRAY_SIZE(pairs); p++) {
		make(&w, pairs[p][0], pairs[p][1], 33);
		for (uint32_t bit = 0; bit < 8 * w.length; bit++) {
			uint32_t at = bit / 8, ip = at - FRAMES_ETHERNET;

			if (at >= FRAMES_MAC && at < 2 * FRAMES_MAC)
				continue;
			if (p &&
			    (ip == 7 || ip == 1 || ip == 2 || ip == 3 || (ip == 0 && bit % 8 < 4)))
				continue;
			w.frame[at] ^= (uint8_t)(1 << bit % 8);
			assert_true(refused(&w));
			w.frame[at] ^= (uint8_t)(1 << bit % 8);
		}
		assert_false(refused(&w));
	}
}

TEST(a_frame_that_was_cut_is_refused)
{
	struct wire w;

	for (unsigned p = 0; p < ARRAY_SIZE(pairs); p++) {
		make(&w, pairs[p][0], pairs[p][1], 33);
		while (w.length-- > 0)
			assert_true(refused(&w));
	}
}

TEST(senders_that_are_no_other_host_are_refused)
{
	static const char *const senders[] = {
		"127.0.0.1", "127.9.9.9", "0.0.0.0",         "0.1.2.3",  "224.0.0.1",
		"239.1.2.3", "240.0.0.1", "255.255.255.255", "10.9.0.1", "10.9.0.255",
		"::1",       "::",        "ff02::1",         "fd09::1",  "::ffff:10.9.0.2"
	};
	struct wire w;

	for (unsigned i = 0; i < ARRAY_SIZE(senders); i++) {
		bool six = strchr(senders[i], ':');

		make(&w, senders[i], pairs[six][1], 10);
		assert_true(refused(&w));
	}
}

TEST(frames_for_others_are_refused)
{
	struct wire w;

	for (unsigned p = 0; p < ARRAY_SIZE(pairs); p++) {
		make(&w, pairs[p][0], pairs[p][1], 10);
		w.to = address(pairs[p][1], 8);
		assert_true(refused(&w));
		w.to = address(p ? "fd09::3" : "10.9.0.3", 7);
		assert_true(refused(&w));
		w.to = address(pairs[!p][1], 7);
		assert_true(refused(&w));
		w.to = address(pairs[p][1], 7);
		assert_false(refused(&w));
		w.frame[FRAMES_MAC] |= 1; /* from a group */
		assert_true(refused(&w));
	}
}

/* Over IPv4 the sender may leave it out; over IPv6 it may not (RFC 8200). */
TEST(a_checksum_of_0_is_right_over_ipv4_only)
{
	struct wire w;

	for (unsigned p = 0; p < ARRAY_SIZE(pairs); p++) {
		make(&w, pairs[p][0], pairs[p][1], 10);
		memset(w.data - FRAMES_UDP + UDP_SUM, 0, 2);
		assert_int_equal(refused(&w), p);
	}
}

TEST(a_link_local_sender_has_its_interface)
{
	struct frames_datagram d;
	struct wire w;

	make(&w, "fe80::2", "fd09::1", 10);
	assert_true(parsed(&w, &d));
	assert_int_equal(d.from.in6.sin6_scope_id, 3);
}
