/* See figure.h. */
#include "figure.h"

#include <math.h>
#include <stdlib.h>

#include "util.h"

const char *const figure_names[FIGURE_COUNT] = {
	[FIGURE_REQUEST_RATE] = "requests_per_s",
	[FIGURE_RATE] = "operations_per_s",
	[FIGURE_BANDWIDTH] = "bytes_per_s",
	[FIGURE_GENERATOR_BANDWIDTH] = "generator_bytes_per_s",
	[FIGURE_CPU_PER_REQUEST] = "cpu_ns_per_request",
	[FIGURE_CPU_PER_OP] = "cpu_ns_per_operation",
	[FIGURE_USER_PER_OP] = "cpu_user_ns_per_operation",
	[FIGURE_SYSTEM_PER_OP] = "cpu_system_ns_per_operation",
	[FIGURE_CPU_PER_BYTE] = "cpu_ns_per_byte",
	[FIGURE_SYSCALLS_PER_OP] = "syscalls_per_operation",
	[FIGURE_OPS_PER_TURN] = "operations_per_turn",
	[FIGURE_CPU_SHARE] = "cpu_share",
	[FIGURE_GENERATOR_SHARE] = "generator_busiest_share",
	[FIGURE_GENERATOR_CPU] = "generator_cpu_share",
	[FIGURE_SOFTIRQ] = "machine_softirq_share",
	[FIGURE_IDLE] = "machine_idle_share",
	[FIGURE_STEAL] = "machine_steal_share",
	[FIGURE_OTHER] = "machine_other_share",
	[FIGURE_SOFTIRQ_PER_REQUEST] = "softirq_ns_per_request",
	[FIGURE_RECEIVE_PER_OP] = "softirq_receive_ns_per_operation",
	[FIGURE_TRANSMIT_PER_OP] = "softirq_transmit_ns_per_operation",
	[FIGURE_PEER_PER_OP] = "softirq_peer_ns_per_operation",
	[FIGURE_UNATTRIBUTED] = "machine_softirq_unattributed_share",
};

static double ratio(double a, double b)
{
	return b > 0 ? a / b : NAN;
}

/* A time of the whole machine, as a number of CPUs. */
static double machine_share(const struct measure *row, double part_ns)
{
	return ratio(part_ns * (double)row->machine.cpus, (double)row->machine.total_ns);
}

/* CPU time of other programs: the busy time of the machine less that of the listener and of the
 * generator.  Softirqs are taken off only where the kernel does not count them for threads, or they
 * would be taken off twice.  NaN: the sum cannot be made, as the kernel does not tell where
 * softirqs are counted, or as the parts are more than the whole by more than the machine's clock
 * ticks and 2 % explain. */
static double other_ns(const struct measure *row)
{
	const struct measure_machine *m = &row->machine;
	double inexact = 0.02 * (double)m->total_ns + (double)m->cpus * 10 * NS_PER_MS;
	double other = (double)m->total_ns - (double)m->idle_ns - (double)m->steal_ns -
		       (double)row->cpu_ns - (double)row->generator.cpu_ns;

	if (m->irq_time == IRQ_TIME_UNKNOWN && (double)m->softirq_ns > inexact)
		return NAN;
	if (m->irq_time == IRQ_TIME_APART)
		other -= (double)m->softirq_ns;
	return other < -inexact ? NAN : fmax(other, 0);
}

static double softirq(const struct measure *row, uint64_t ns, double by)
{
	return row->softirq.total_ns ? ratio((double)ns, by) : NAN;
}

double figure_value(const struct measure *row, enum figure figure)
{
	const struct measure_generator *g = &row->generator;
	double seconds = (double)row->interval_ns / NS_PER_S, ops = (double)row->listener_count;
	double bytes = (double)row->bytes_in + (double)row->bytes_out, cpu = (double)row->cpu_ns;
	bool parts = row->cpu_user_ns || row->cpu_system_ns;

	switch (figure) {
	case FIGURE_REQUEST_RATE:
		return g->result.requests_per_s > 0 ? g->result.requests_per_s : NAN;
	case FIGURE_RATE:
		return ratio((double)row->count, seconds);
	case FIGURE_BANDWIDTH:
		return ratio(bytes, seconds);
	case FIGURE_GENERATOR_BANDWIDTH:
		return g->result.bytes_per_s > 0 ? g->result.bytes_per_s : NAN;
	case FIGURE_CPU_PER_REQUEST:
		return ratio(cpu, g->result.requests);
	case FIGURE_CPU_PER_OP:
		return ratio(cpu, ops);
	case FIGURE_USER_PER_OP:
		return parts ? ratio((double)row->cpu_user_ns, ops) : NAN;
	case FIGURE_SYSTEM_PER_OP:
		return parts ? ratio((double)row->cpu_system_ns, ops) : NAN;
	case FIGURE_CPU_PER_BYTE:
		return ratio(cpu, bytes);
	case FIGURE_SYSCALLS_PER_OP:
		return ratio((double)row->syscalls, ops);
	case FIGURE_OPS_PER_TURN:
		return ratio(ops, (double)row->turns);
	case FIGURE_CPU_SHARE:
		return ratio(cpu, (double)row->interval_ns);
	case FIGURE_GENERATOR_SHARE:
		return g->busiest_ns ? ratio((double)g->busiest_ns, (double)g->wall_ns) : NAN;
	case FIGURE_GENERATOR_CPU:
		return ratio((double)g->cpu_ns, (double)g->wall_ns);
	case FIGURE_SOFTIRQ:
		return machine_share(row, (double)row->machine.softirq_ns);
	case FIGURE_IDLE:
		return machine_share(row, (double)row->machine.idle_ns);
	case FIGURE_STEAL:
		return machine_share(row, (double)row->machine.steal_ns);
	case FIGURE_OTHER:
		return g->wall_ns ? machine_share(row, other_ns(row)) : NAN;
	case FIGURE_SOFTIRQ_PER_REQUEST:
		return softirq(row, row->softirq.receive_ns + row->softirq.transmit_ns,
			       g->result.requests);
	case FIGURE_RECEIVE_PER_OP:
		return softirq(row, row->softirq.receive_ns, ops);
	case FIGURE_TRANSMIT_PER_OP:
		return softirq(row, row->softirq.transmit_ns, ops);
	case FIGURE_PEER_PER_OP:
		return softirq(row, row->softirq.peer_ns, ops);
	case FIGURE_UNATTRIBUTED:
		return row->softirq.total_ns
			       ? machine_share(row, (double)row->softirq.unattributed_ns)
			       : NAN;
	case FIGURE_COUNT:
		break;
	}
	return NAN;
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

struct spread figure_spread(const struct measure *row, enum figure figure)
{
	unsigned visits = measure_visits(row), count = 0;
	double *values = calloc(visits, sizeof(*values));
	struct spread s = { NAN, NAN, NAN, 0 };

	if (!values)
		abort();
	for (unsigned i = 0; i < visits; i++) {
		double value = figure_value(measure_visit_at(row, i), figure);

		if (!isnan(value))
			values[count++] = value;
	}
	if (count > 0) {
		qsort(values, count, sizeof(*values), compare_doubles);
		s = (struct spread){ values[(count - 1) / 2] / 2 + values[count / 2] / 2, values[0],
				     values[count - 1], count };
	}
	free(values);
	return s;
}
