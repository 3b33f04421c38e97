/* Fuzzes what a perftest client without -R says over TCP: messages one after the other. */
#include <errno.h>

#include "fuzz.h"
#include "perftest/proto.h"

/* What is written is read again, but for the field of shared receives. */
static void check_key(const struct exchange *x, const struct exchange_key *said)
{
	struct exchange at = *x;
	struct exchange_key key = *said, again;
	uint8_t message[EXCHANGE_KEY];

	perftest_exchange_write_key(&key, message);
	assert(perftest_exchange_bytes(&at, message, sizeof(message)) == EXCHANGE_KEY);
	assert(perftest_exchange_parse(&at, message, &again) == EXCHANGE_IS_KEY);
	assert(again.lid == key.lid && again.reads == key.reads && again.number == key.number &&
	       again.sequence == key.sequence && again.key == key.key &&
	       again.address == key.address && !memcmp(again.gid, key.gid, sizeof(key.gid)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct exchange x = { 0 };
	struct exchange_key key;
	uint8_t message[EXCHANGE_KEY] = { 0 };
	unsigned have = 0, want;
	int kind;

	for (;;) {
		while ((want = perftest_exchange_bytes(&x, message, have)) > have) {
			assert(want <= sizeof(message));
			if (bytes == 0)
				return 0;
			message[have++] = *data++;
			bytes--;
		}
		kind = perftest_exchange_parse(&x, message, &key);
		if (kind < 0) {
			assert(kind == -EPROTO);
			assert(perftest_exchange_wrong(&x, message));
			return 0;
		}
		if (kind == EXCHANGE_IS_KEY)
			check_key(&x, &key);
		if (kind == EXCHANGE_IS_MTU)
			assert(exchange_mtu(message) >= EXCHANGE_MTU_FIRST &&
			       exchange_mtu(message) <= EXCHANGE_MTU_LAST);
		have = 0;
	}
}
