/* The whole machine during a measurement: CPU time, and on request softirq time by listener. */
#pragma once
#include "measure.h"
#include "softirq.h"

struct machine {
	struct measure_machine cpu;
	struct softirq_reading *times; /* NULL: not requested */
};

/* Reads the machine; softirq NULL: not requested. */
void machine_read(struct machine *ret, struct softirq *softirq);
void machine_free(struct machine *machine);

/* Sets what lies between two readings in the rows of m from `first` on. */
void machine_set(const struct machine *before, const struct machine *after,
		 const struct softirq *softirq, struct measures *m, unsigned first);
