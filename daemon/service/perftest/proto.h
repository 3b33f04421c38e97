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
	PERFTEST_HELLO, /* a version */
	/* a size or limit; the larger one of both sides counts, and ours never is. */
	PERFTEST_VALUE,
	PERFTEST_QUEUE,  /* about a queue pair, or all zeros: "continue" */
	PERFTEST_REPORT, /* one of five numbers that the client shows */
};

/* The kind of a message (enum perftest_kind), or -EPROTO. */
int perftest_parse(const uint8_t *message, uint32_t bytes);

/* PERFTEST_QUEUE: perftest_get_queue() returns the client's memory and queue pair (zeros: none);
 * perftest_set_memory() writes our memory, which the client may read and write, into the message.
 */
struct perftest_queue {
	uint64_t address;
	uint32_t number, key;
};
struct perftest_queue perftest_get_queue(const uint8_t *message);
void perftest_set_memory(uint8_t *message, uint64_t address, uint32_t key);

/* The answer to PERFTEST_HELLO: a version at which no client expects further messages. */
extern const uint8_t perftest_version[PERFTEST_VERSION];
