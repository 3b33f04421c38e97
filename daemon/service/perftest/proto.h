/* Control messages of perftest's clients (ib_send_bw and others with -R).  One is in flight at a
 * time; its length identifies its kind.  No I/O.
 *
 * Source: perftest 4.5 (Debian 12), src/perftest_communication.c; later versions send messages of
 * 64 bytes instead of 56. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum {
	PERFTEST_MESSAGE_MAX = 64,
	PERFTEST_VERSION = 16, /* bytes of the first message */
	PERFTEST_QUEUES_MAX = 64,
};

enum perftest_kind {
	PERFTEST_HELLO, /* a version */
	/* a size or limit; both sides use the larger one: the client's */
	PERFTEST_VALUE,
	PERFTEST_QUEUE,  /* about a queue pair, or all zeros: "continue" */
	PERFTEST_REPORT, /* one of five numbers that the client prints */
};

/* The kind of a message (enum perftest_kind), or -EPROTO. */
int perftest_parse(const uint8_t *message, uint32_t bytes);

/* PERFTEST_QUEUE: perftest_get_queue() returns the client's memory and queue pair
 * (zeros: none); perftest_set_memory() writes our memory, which the client may read and
 * write, into the message. */
struct perftest_queue {
	uint64_t address;
	uint32_t number, key;
};
struct perftest_queue perftest_get_queue(const uint8_t *message);
void perftest_set_memory(uint8_t *message, uint64_t address, uint32_t key);

/* The answer to PERFTEST_HELLO: a version at which no client expects further messages. */
extern const uint8_t perftest_version[PERFTEST_VERSION];

/* ---- Without -R: over TCP before the data flows, and after it ----
 *
 * Messages of fixed lengths without a header, each of which is answered by one of the same length.
 */

enum {
	EXCHANGE_VALUES = 2,     /* messages after the version: cycle buffer, cache line */
	EXCHANGE_REPORTS = 5,    /* messages of one report */
	EXCHANGE_KEY = 108,      /* bytes of a key with a GID, the longest message */
	EXCHANGE_GID = 16,       /* bytes */
	EXCHANGE_KIND_BYTES = 5, /* bytes that identify the kind of a message after the MTU */
	EXCHANGE_MTU_FIRST = 1,  /* enum ibv_mtu: 256 bytes */
	EXCHANGE_MTU_LAST = 5,   /* 4096 bytes */
};

enum exchange_kind {
	EXCHANGE_IS_VERSION,
	EXCHANGE_IS_VALUE,  /* both sides use the larger value */
	EXCHANGE_IS_MTU,    /* both sides use the smaller value */
	EXCHANGE_IS_KEY,    /* of a queue pair, perhaps the same as before */
	EXCHANGE_IS_REPORT, /* one of the EXCHANGE_REPORTS numbers that the client prints */
	EXCHANGE_IS_END,    /* not answered */
};

/* Where the client is; zeroed at first. */
struct exchange {
	uint8_t step;    /* messages of the beginning that were parsed */
	uint8_t reports; /* messages of the present report that were parsed */
};

/* The properties of a queue pair that one side announces. */
struct exchange_key {
	uint16_t lid, reads;
	uint32_t number, sequence; /* 24 bits each */
	uint32_t key;              /* of the memory at address */
	uint64_t address;
	uint8_t gid[EXCHANGE_GID];
};

/* The length in bytes of the next message, of which the first `have` are at data.  A length above
 * `have` may be too small: ask again with that many.  At most EXCHANGE_KEY. */
unsigned perftest_exchange_bytes(const struct exchange *x, const uint8_t *data, unsigned have);
/* Parses the message at data, of perftest_exchange_bytes() bytes; returns its kind, or -EPROTO. */
int perftest_exchange_parse(struct exchange *x, const uint8_t *data, struct exchange_key *ret_key);
/* Why perftest_exchange_parse() has refused the message, for the log. */
const char *perftest_exchange_wrong(const struct exchange *x, const uint8_t *data);
/* The MTU that a message of it names, as enum ibv_mtu. */
static inline unsigned exchange_mtu(const uint8_t *data)
{
	return data[0] - '0';
}
void perftest_exchange_write_key(const struct exchange_key *key,
				 uint8_t message[static EXCHANGE_KEY]);
