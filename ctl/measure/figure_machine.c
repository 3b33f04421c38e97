/* See figure_machine.h. */
#include "figure_machine.h"

#include <math.h>

#include "util.h"

static double ratio(double a, double b)
{
	return b > 0 ? a / b : NAN;
}

double figure_generator_share(const struct measure *row)
{
	const struct measure_generator *g = &row->generator;

	if (g->peak > 0)
		return g->peak;
	return g->busiest_ns ? ratio((double)g->busiest_ns, (double)g->wall_ns) : NAN;
}

double figure_generator_cpu(const struct measure *row)
{
	return ratio((double)row->generator.cpu_ns, (double)row->generator.wall_ns);
}

/* A time of the whole machine, as a number of CPUs. */
static double machine_share(const struct measure *row, double part_ns)
{
	return ratio(part_ns * (double)row->machine.cpus, (double)row->machine.total_ns);
}

double figure_softirq_share(const struct measure *row)
{
	return machine_share(row, (double)row->machine.softirq_ns);
}

double figure_idle_share(const struct measure *row)
{
	return machine_share(row, (double)row->machine.idle_ns);
}

double figure_steal_share(const struct measure *row)
{
	return machine_share(row, (double)row->machine.steal_ns);
}

/* The machine is read a little after the daemon, longer if it is another host's. */
double figure_pressure_share(const struct measure *row)
{
	const struct measure_machine *m = &row->machine;

	return m->pressure_ns ? fmin(ratio((double)m->pressure_ns, (double)row->interval_ns), 1)
			      : NAN;
}

/* CPU time of other programs: the busy time of the machine less that of the listener and of the
 * generator, if it is on this machine.  The machine's is counted in clock ticks, of which a busy
 * virtual machine loses some: together they are less than the interval, so each part is scaled up
 * to it.  Softirqs are taken off only where the kernel does not count them for threads, or they
 * would be taken off twice. NaN: the sum cannot be made, as the kernel does not tell where softirqs
 * are counted, or as the parts are more than the whole by more than the machine's clock ticks and 2
 * % explain. */
static double other_ns(const struct measure *row)
{
	const struct measure_machine *m = &row->machine;
	double all = (double)row->interval_ns * (double)m->cpus, total = (double)m->total_ns;
	double scale = total > 0.5 * all && total < all ? all / total : 1;
	double inexact = 0.02 * total + (double)m->cpus * 10 * NS_PER_MS;
	double generator_ns = row->generator.elsewhere ? 0 : (double)row->generator.cpu_ns;
	double other = scale * (total - (double)m->idle_ns - (double)m->steal_ns) -
		       (double)row->cpu_ns - generator_ns;

	if (m->irq_time == IRQ_TIME_UNKNOWN && (double)m->softirq_ns > inexact)
		return NAN;
	if (m->irq_time == IRQ_TIME_APART)
		other -= scale * (double)m->softirq_ns;
	return other < -inexact ? NAN : fmax(other, 0);
}

double figure_other_share(const struct measure *row)
{
	return row->generator.wall_ns ? machine_share(row, other_ns(row)) : NAN;
}

double figure_unattributed_share(const struct measure *row)
{
	return row->softirq.total_ns ? machine_share(row, (double)row->softirq.unattributed_ns)
				     : NAN;
}

double figure_link_received(const struct measure *row)
{
	return ratio((double)row->link.received_bps, (double)row->link.speed_bps);
}

double figure_link_sent(const struct measure *row)
{
	return ratio((double)row->link.sent_bps, (double)row->link.speed_bps);
}

double figure_retransmitted(const struct measure *row)
{
	return ratio((double)row->link.retransmitted, (double)row->link.segments);
}
