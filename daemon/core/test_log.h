/* The last tests of one listener: what the client asked for, and what both sides counted.  For
 * services whose clients make tests (service->tests).
 *
 * Until it is added to the log, a record belongs to the worker of the test's control
 * connection: only that worker writes it, from its own data, or from data that other
 * connections of the test have handed over under the lock of their sessions.  The log's mutex
 * is held only to copy records. */
#pragma once
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "parse.h"

struct conn;

enum {
	TEST_LOG_MAX = 100,     /* tests that are kept */
	TEST_OPTIONS_MAX = 192, /* bytes */
};

/* What one side has counted. */
struct test_figures {
	bool known;
	uint64_t sent_bytes, received_bytes;
	uint64_t transactions;
	uint64_t packets, lost; /* datagrams: those sent, or received; those missing */
	uint64_t retransmits;
	uint64_t jitter_ns, duration_ns;
	double cpu_percent;
};

struct test_record {
	uint64_t ended_ns;              /* CLOCK_REALTIME */
	bool complete;                  /* the client has got our results */
	char peer[ADDRESS_TEXT_MAX];    /* of the control connection */
	char options[TEST_OPTIONS_MAX]; /* of the client's program, for these parameters */
	struct test_figures client, server;
};

struct test_log {
	pthread_mutex_t lock;
	uint64_t count;                           /* of all tests so far */
	struct test_record records[TEST_LOG_MAX]; /* the latest at (count - 1) % TEST_LOG_MAX */
};

void test_log_init(struct test_log *log);
void test_log_fini(struct test_log *log);

/* A test of this control connection begins.  NULL: no memory, and it will not be listed. */
struct test_record *test_record_new(const struct conn *c);

/* The test has ended: adds the record, and frees it.  No effect if *record
 * is NULL; sets it to NULL. */
void test_log_add(struct test_log *log, struct test_record **record);

/* Copies the latest records, at most `max`, the newest first; returns how many.  Any thread. */
unsigned test_log_copy(struct test_log *log, struct test_record *ret_records, unsigned max);
