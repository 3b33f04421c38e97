/* Messages of perftest's clients (ib_send_bw and the like, with -R) on their control connection:
 * one at a time, told apart by their lengths.  Pure.
 *
 * Source: perftest 4.5 (Debian 12), src/perftest_communication.c; later ones send messages of 64
 * bytes where it has 56. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum {
	PERFTEST_MESSAGE_MAX = 64,
	PERFTEST_VERSION = 16, /* bytes of the first message */
	PERFTEST_QUEUES_MAX = 64,
};

enum perftest_kind {
	PERFTEST_HELLO,  /* a version */
	PERFTEST_VALUE,  /* a size or limit, of which the larger one counts: ours is never larger */
	PERFTEST_QUEUE,  /* of a queue pair, or nothing but "go on": zeros */
	PERFTEST_REPORT, /* one of five numbers that are shown */
};

/* The kind of a message.  -EPROTO: it is none. */
int perftest_parse(const uint8_t *message, uint32_t bytes);

/* Of PERFTEST_QUEUE: the client's; zeros: none.  Writes it in place: ours is what the client may
 * read and write. */
struct perftest_queue {
	uint64_t address;
	uint32_t number, key;
};
struct perftest_queue perftest_get_queue(const uint8_t *message);
void perftest_set_memory(uint8_t *message, uint64_t address, uint32_t key);

/* The answer to PERFTEST_HELLO: a version that asks no client for more. */
extern const uint8_t perftest_version[PERFTEST_VERSION];
