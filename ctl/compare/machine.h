/* The whole machine during a measurement: CPU time, and on request softirq time by listener. */
#pragma once
#include "measure.h"
#include "softirq.h"

struct machine {
	struct softirq *softirq; /* owned by the caller; NULL: not requested */
	struct measure_machine cpu[2];
	struct softirq_reading times[2];
};

void machine_begin(struct machine *ret, struct softirq *softirq);
void machine_end(struct machine *machine);

/* Sets the measured times in the rows of m from `first` on. */
void machine_set(const struct machine *machine, struct measures *m, unsigned first);
