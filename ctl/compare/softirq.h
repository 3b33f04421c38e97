/* `compare --softirq`: softirq time by the ports of listeners, as softirq.bpf.c counts it in the
 * kernel while it is open. */
#pragma once
#include "ctl.h"
#include "measure.h"
#include "softirq_maps.h"

struct softirq;

/* Asks the daemon for its listeners; those of a later reload are not known.  CTL_DONE, or an exit
 * code, told: no privilege, a kernel that refuses, a build without libbpf. */
int softirq_open(struct softirq **ret, struct ctl *ctl);
void softirq_close(struct softirq *s); /* NULL: nothing to do */

/* Since it was opened, by slot, summed over the CPUs. */
struct softirq_reading {
	struct softirq_times slots[SOFTIRQ_SLOTS];
};
void softirq_read(struct softirq *s, struct softirq_reading *ret);

/* Gives the difference to the rows of m from `first` on. */
void softirq_set(const struct softirq *s, const struct softirq_reading *before,
		 const struct softirq_reading *after, struct measures *m, unsigned first);
