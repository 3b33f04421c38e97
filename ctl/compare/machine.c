/* See machine.h. */
#include "machine.h"

#include <stdlib.h>

#include "host.h"
#include "must.h"

void machine_read(struct machine *ret, struct softirq *softirq)
{
	*ret = (struct machine){ 0 };
	host_cpu(&ret->cpu);
	if (!softirq)
		return;
	ret->times = must(malloc(sizeof(*ret->times)));
	softirq_read(softirq, ret->times);
}

void machine_free(struct machine *machine)
{
	free(machine->times);
	machine->times = NULL;
}

void machine_set(const struct machine *before, const struct machine *after,
		 const struct softirq *softirq, struct measures *m, unsigned first)
{
	for (unsigned i = first; i < m->count; i++)
		m->rows[i]->machine = host_cpu_delta(&before->cpu, &after->cpu);
	if (before->times && after->times)
		softirq_set(softirq, before->times, after->times, m, first);
}
