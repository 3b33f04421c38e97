/* A line of the log for each test of a client: what it asked for, and what both sides counted.  For
 * services whose clients make tests.  Thread of the test's control connection. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "parse.h"

struct conn;

enum { TEST_OPTIONS_MAX = 192 /* bytes */ };

/* What one side has counted. */
struct test_figures {
	uint64_t sent_bytes, received_bytes;
	uint64_t transactions;
	uint64_t packets, lost; /* datagrams: those sent, or received; those missing */
	uint64_t retransmits;
	uint64_t jitter_ns, duration_ns;
	double cpu_percent;
};

struct test_record {
	bool complete;                  /* the client has got our results; server is known */
	bool has_client;                /* the client has sent its own figures */
	char peer[ADDRESS_TEXT_MAX];    /* asked for at the start: the socket may end before */
	char options[TEST_OPTIONS_MAX]; /* of the client's program, for these parameters */
	struct test_figures client, server;
};

/* A test of the control connection c begins.  NULL: no memory, and it will not be logged. */
struct test_record *test_log_begin(const struct conn *c);
/* The test of the control connection c has ended, or was broken off: logs it, at a limited rate,
 * and frees the record.  No effect if *record is NULL; sets it to NULL. */
void test_log_end(const struct conn *c, struct test_record **record);
