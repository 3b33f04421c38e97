/* perftest's control messages.  See perftest/proto.h. */
#include "proto.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

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
	struct perftest_queue q;

	memcpy(&q.number, message + QUEUE_NUMBER, sizeof(q.number));
	memcpy(&q.key, message + QUEUE_KEY, sizeof(q.key));
	memcpy(&q.address, message + QUEUE_ADDRESS, sizeof(q.address));
	q.number = be32toh(q.number);
	q.key = be32toh(q.key);
	q.address = be64toh(q.address);
	return q;
}

void perftest_set_memory(uint8_t *message, uint64_t address, uint32_t key)
{
	address = htobe64(address);
	key = htobe32(key);
	memcpy(message + QUEUE_KEY, &key, sizeof(key));
	memcpy(message + QUEUE_ADDRESS, &address, sizeof(address));
}
