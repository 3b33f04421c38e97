/* perftest's control messages.  See perftest/proto.h. */
#include "proto.h"

#include <errno.h>

#include "bytes.h"

const uint8_t perftest_version[PERFTEST_VERSION] = "6.06";

/* Offsets in a message about a queue pair, and its two lengths. */
enum { QUEUE_NUMBER = 8, QUEUE_KEY = 16, QUEUE_ADDRESS = 24, QUEUE_SHORT = 56, QUEUE_LONG = 64 };

static bool is_version(const uint8_t *m)
{
	return m[0] >= '1' && m[0] <= '9' && m[1] == '.' && m[2] >= '0' && m[2] <= '9' &&
	       m[PERFTEST_VERSION - 1] == '\0';
}

int perftest_parse(const uint8_t *message, uint32_t bytes)
{
	switch (bytes) {
	case PERFTEST_VERSION:
		return is_version(message) ? PERFTEST_HELLO : -EPROTO;
	case 2: /* MTU */
	case 4: /* page, cache line */
		return PERFTEST_VALUE;
	case 8:
		return PERFTEST_REPORT;
	case QUEUE_SHORT:
	case QUEUE_LONG:
		return PERFTEST_QUEUE;
	default:
		return -EPROTO;
	}
}

struct perftest_queue perftest_get_queue(const uint8_t *message)
{
	return (struct perftest_queue){ .address = get_be64(message + QUEUE_ADDRESS),
					.number = get_be32(message + QUEUE_NUMBER),
					.key = get_be32(message + QUEUE_KEY) };
}

void perftest_set_memory(uint8_t *message, uint64_t address, uint32_t key)
{
	put_be32(message + QUEUE_KEY, key);
	put_be64(message + QUEUE_ADDRESS, address);
}
