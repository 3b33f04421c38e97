/* See machine.h. */
#include "machine.h"

#include "host.h"

static void machine_read(struct machine *machine, unsigned which)
{
	host_cpu(&machine->cpu[which]);
	if (machine->softirq)
		softirq_read(machine->softirq, &machine->times[which]);
}

void machine_begin(struct machine *ret, struct softirq *softirq)
{
	ret->softirq = softirq;
	machine_read(ret, 0);
}

void machine_end(struct machine *machine)
{
	machine_read(machine, 1);
}

void machine_set(const struct machine *machine, struct measures *m, unsigned first)
{
	for (unsigned i = first; i < m->count; i++)
		m->rows[i]->machine = host_cpu_delta(&machine->cpu[0], &machine->cpu[1]);
	if (machine->softirq)
		softirq_set(machine->softirq, &machine->times[0], &machine->times[1], m, first);
}
