/* The figures that compare shows for a row: each a number with its spread over the visits.  One
 * table for the terminal, JSON, CSV and the report. */
#pragma once
#include <stdbool.h>

#include "measure.h"

enum figure {
	FIGURE_REQUEST_RATE,        /* requests/s, as the generator counted them */
	FIGURE_RATE,                /* operations/s */
	FIGURE_BANDWIDTH,           /* bytes/s, in and out */
	FIGURE_GENERATOR_BANDWIDTH, /* bytes/s, as the generator counted its payload */
	FIGURE_CPU_PER_REQUEST,     /* ns, of the server */
	FIGURE_CPU_PER_OP,          /* ns */
	FIGURE_USER_PER_OP,         /* ns, the part in user space */
	FIGURE_SYSTEM_PER_OP,       /* ns, the part in the kernel */
	FIGURE_CPU_PER_BYTE,        /* ns, which is s per GB */
	FIGURE_SYSCALLS_PER_OP,
	FIGURE_OPS_PER_TURN,
	FIGURE_CPU_SHARE,           /* CPU use of the listener; 1: one CPU fully busy */
	FIGURE_GENERATOR_SHARE,     /* CPU use of the generator's busiest thread; 1: fully busy */
	FIGURE_GENERATOR_CPU,       /* CPU use of the whole generator; 1: one CPU fully busy */
	FIGURE_SOFTIRQ,             /* softirqs and interrupts of the whole machine; 1: one CPU */
	FIGURE_IDLE,                /* idle time of the whole machine; 1: one CPU always idle */
	FIGURE_STEAL,               /* time that the hypervisor gave to others; 1: one CPU */
	FIGURE_OTHER,               /* CPU use of other programs; 1: one CPU */
	FIGURE_SOFTIRQ_PER_REQUEST, /* ns of softirqs that receive and transmit for the listener */
	FIGURE_RECEIVE_PER_OP,      /* ns of softirqs: packets to the listener */
	FIGURE_TRANSMIT_PER_OP,     /* ns of softirqs: a driver, with packets from it */
	FIGURE_PEER_PER_OP,         /* ns of softirqs: clients on this host */
	FIGURE_UNATTRIBUTED,        /* softirqs not attributed to a listener; 1: one CPU */
	FIGURE_COUNT
};
extern const char *const figure_names[FIGURE_COUNT]; /* names in JSON and CSV, with the unit */

/* NaN: unknown. */
double figure_value(const struct measure *row, enum figure figure);

/* A figure over the visits of a row. */
struct spread {
	double median, low, high; /* NaN: unknown */
	unsigned count;           /* visits for which it is known */
};
struct spread figure_spread(const struct measure *row, enum figure figure);
