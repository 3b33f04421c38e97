/* Inside perftest: its two kinds of control connections, over RDMA (perftest.c)
 * and over TCP (exchange.c). */
#pragma once
#include <stdbool.h>

#include "conn.h"
#include "service.h"

enum {
	OPERATION_TEST = 0,
	OPERATION_MESSAGE = 1,
};

/* Must the value at `position` (from 0) of a report be zero?  It must for the direction of a side
 * that sends no pongs, and so has nothing to report. */
static inline bool perftest_reports_zero(const struct conn *c, unsigned position)
{
	enum { SIZE_AND_COUNT = 2 };

	return !(c->worker->service->flags & SERVICE_ANSWERS) && position >= SIZE_AND_COUNT;
}

/* exchange.c: the keys of both services. */
extern const struct key_table exchange_key_table;
/* exchange.c: the functions of struct service for a connection that is a socket. */
int exchange_open(struct conn *c);
void exchange_run(struct conn *c);
void exchange_close(struct conn *c);
