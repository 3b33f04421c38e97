/* The machine while something is measured: its CPU time, and on request softirqs by listener. */
#pragma once
#include "measure.h"
#include "softirq.h"

struct machine {
	struct softirq *softirq; /* of the caller, NULL: not asked for */
	struct measure_machine cpu[2];
	struct softirq_reading times[2];
};

void machine_begin(struct machine *ret, struct softirq *softirq);
void machine_end(struct machine *machine);

/* Gives what was measured to the rows of m from `first` on. */
void machine_set(const struct machine *machine, struct measures *m, unsigned first);
