/* `compare --softirq`: softirq time by the ports of listeners, which softirq.bpf.c counts
 * in the kernel. */
#pragma once
#include "ctl.h"
#include "measure.h"
#include "softirq_maps.h"

struct softirq;

/* Loads the program for the daemon's current listeners (not those of later reloads).  CTL_DONE, or
 * an exit code with the error printed: no privilege, refused by the kernel, built without libbpf.
 */
int softirq_open(struct softirq **ret, struct ctl *ctl);
void softirq_close(struct softirq *s); /* NULL: nothing to do */

/* Times since softirq_open(), by slot, summed over the CPUs. */
struct softirq_reading {
	struct softirq_times slots[SOFTIRQ_SLOTS];
};
void softirq_read(struct softirq *s, struct softirq_reading *ret);

/* Sets the difference of two readings in the rows of m from `first` on. */
void softirq_set(const struct softirq *s, const struct softirq_reading *before,
		 const struct softirq_reading *after, struct measures *m, unsigned first);
