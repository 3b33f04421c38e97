/* Fuzzes a received frame: what is taken lies within it, is from another host, and an answer to it
 * is right in the eyes of the one who sent it. */
#include "fuzz.h"
#include "udp/xdp/frames.h"
#include "util.h"

enum { MAX = 4096 };

static const struct frames_interface us = { .mac = { 2, 0, 0, 0, 0, 1 }, .index = 3 };

/* The sender's view of what we send back. */
static void answer(uint8_t *frame, const struct frames_datagram *d,
		   const union frames_address *local)
{
	uint8_t to_mac[FRAMES_MAC];
	struct frames_interface them = { .index = 3 };
	struct frames_path path = {
		.to_mac = to_mac, .from_mac = us.mac, .to = &d->from, .from = local
	};
	struct frames_datagram back;
	uint32_t headers;

	memcpy(to_mac, frame + FRAMES_MAC, FRAMES_MAC);
	memcpy(them.mac, to_mac, FRAMES_MAC);
	headers = frames_build(d->data, d->bytes, &path);
	assert(d->data - headers == frame);
	assert(frames_parse(&them, &d->from, frame, headers + d->bytes, &back));
	assert(back.bytes == d->bytes && !memcmp(&back.from, local, back.from_bytes));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	/* As of the seeds: 10.9.0.1, fd09::1, port 7. */
	union frames_address locals[] = {
		{ .in = { .sin_family = AF_INET,
			  .sin_port = htons(7),
			  .sin_addr.s_addr = htonl(0x0a090001) } },
		{ .in6 = { .sin6_family = AF_INET6,
			   .sin6_port = htons(7),
			   .sin6_addr = { { { 0xfd, 9, [15] = 1 } } } } },
	};
	uint8_t *frame;

	if (bytes > MAX)
		return 0;
	for (unsigned i = 0; i < ARRAY_SIZE(locals); i++) {
		struct frames_datagram d;

		frame = malloc(bytes + 1); /* sanitizers see its end */
		assert(frame);
		memcpy(frame, data, bytes);
		if (frames_parse(&us, &locals[i], frame, (uint32_t)bytes, &d)) {
			assert(d.data >= frame + FRAMES_IPV4 && d.data + d.bytes <= frame + bytes);
			answer(frame, &d, &locals[i]);
		}
		free(frame);
	}
	return 0;
}
