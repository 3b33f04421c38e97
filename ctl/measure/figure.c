/* See figure.h. */
#include "figure.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "must.h"
#include "util.h"
#include "verdict.h"

/* The kernel splits CPU time by clock ticks, of 1 to 10 ms: of fewer than some 100 the part of user
 * space is little more than chance. */
#define USER_LEAST_NS ((uint64_t)NS_PER_S)

static double ratio(double a, double b)
{
	return b > 0 ? a / b : NAN;
}

static double known(double value)
{
	return value > 0 ? value : NAN;
}

/* ---- Latencies ---- */

static double trip(const struct measure *row, double quantile)
{
	uint64_t ns;

	return measure_trip(row, quantile, &ns) ? (double)ns : NAN;
}

static double latency(const struct histogram_sum *h, double quantile)
{
	uint64_t ns;

	return histogram_tail(h, quantile, &ns) ? (double)ns : NAN;
}

/* Little's law: so long is a connection busy with each request, if it has one at a time. */
static double cycle_of(const struct measure *row)
{
	double rate = known(row->generator.result.requests_per_s);

	if (isnan(rate))
		rate = ratio((double)row->count * NS_PER_S, (double)row->interval_ns);
	return known(ratio((double)row->connections * NS_PER_S, rate));
}

/* Workers that have time to sleep do so for most of a turn, and a request waits for none of it. */
static bool is_busy(const struct measure *row)
{
	double cpus = ratio((double)row->cpu_ns, (double)row->interval_ns);

	return cpus / (double)MAX(row->workers, (uint64_t)1) >= FIGURE_BUSY;
}

/* ---- What it costs ---- */

static double bytes_of(const struct measure *row)
{
	return (double)row->bytes_in + (double)row->bytes_out;
}

static bool has_fine_parts(const struct measure *row)
{
	return (row->cpu_user_ns || row->cpu_system_ns) && row->cpu_ns >= USER_LEAST_NS;
}

/* ---- The generator and the machine, as numbers of CPUs ---- */

static double generator_share_of(const struct measure_generator *g)
{
	if (g->peak > 0)
		return g->peak;
	return g->busiest_ns ? ratio((double)g->busiest_ns, (double)g->wall_ns) : NAN;
}

static double machine_share(const struct measure *row, double part_ns)
{
	return ratio(part_ns * (double)row->machine.cpus, (double)row->machine.total_ns);
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

/* ---- The formula of each figure ---- */

/* clang-format off */
#define VALUE(name, formula) static double name(const struct measure *row) { return (formula); }
#define RATIO(a, b)          ratio((double)(a), (double)(b))
#define PER_S(count)         ratio((double)(count) * NS_PER_S, (double)row->interval_ns)
#define PER_REQUEST(part)    ratio((double)(part), row->generator.result.requests)
#define PER_OP(part)         RATIO(part, row->listener_count)
#define MACHINE(part_ns)     machine_share(row, (double)(part_ns))
/* Of what only --softirq tells, and of what the kernel tells by its ticks. */
#define OF_SOFTIRQS(value)   (row->softirq.total_ns ? (value) : NAN)
#define OF_TICKS(value)      (has_fine_parts(row) ? (value) : NAN)

VALUE(request_rate, known(row->generator.result.requests_per_s))
VALUE(operation_rate, PER_S(row->count))
VALUE(bandwidth, PER_S(bytes_of(row)))
VALUE(generator_bandwidth, known(row->generator.result.bytes_per_s))
VALUE(trip50, trip(row, 0.5))
VALUE(trip99, trip(row, 0.99))
VALUE(cycle, cycle_of(row))
VALUE(p50, latency(&row->latency, 0.5))
VALUE(p99, latency(&row->latency, 0.99))
VALUE(p99_9, latency(&row->latency, 0.999))
VALUE(p99_99, latency(&row->latency, 0.9999))
VALUE(samples, (double)row->latency.count)
VALUE(turn_p99, is_busy(row) ? latency(&row->turn, 0.99) : NAN)
VALUE(cpu_per_request, PER_REQUEST(row->cpu_ns))
VALUE(cpu_per_op, PER_OP(row->cpu_ns))
VALUE(cpu_per_byte, RATIO(row->cpu_ns, bytes_of(row)))
VALUE(user_share, OF_TICKS(RATIO(row->cpu_user_ns, row->cpu_ns)))
VALUE(user_per_op, OF_TICKS(PER_OP(row->cpu_user_ns)))
VALUE(system_per_op, OF_TICKS(PER_OP(row->cpu_system_ns)))
VALUE(softirq_per_request,
      OF_SOFTIRQS(PER_REQUEST(row->softirq.receive_ns + row->softirq.transmit_ns)))
VALUE(receive_per_op, OF_SOFTIRQS(PER_OP(row->softirq.receive_ns)))
VALUE(transmit_per_op, OF_SOFTIRQS(PER_OP(row->softirq.transmit_ns)))
VALUE(peer_per_op, OF_SOFTIRQS(PER_OP(row->softirq.peer_ns)))
VALUE(syscalls_per_op, PER_OP(row->syscalls))
VALUE(ops_per_turn, RATIO(row->listener_count, row->turns))
VALUE(cpu_share, RATIO(row->cpu_ns, row->interval_ns))
VALUE(generator_share, generator_share_of(&row->generator))
VALUE(generator_cpu, RATIO(row->generator.cpu_ns, row->generator.wall_ns))
VALUE(softirq_share, MACHINE(row->machine.softirq_ns))
VALUE(idle_share, MACHINE(row->machine.idle_ns))
VALUE(steal_share, MACHINE(row->machine.steal_ns))
/* The machine is read a little after the daemon, longer if it is another host's. */
VALUE(pressure_share, row->machine.pressure_ns
			      ? fmin(RATIO(row->machine.pressure_ns, row->interval_ns), 1)
			      : NAN)
VALUE(other_share, row->generator.wall_ns ? machine_share(row, other_ns(row)) : NAN)
VALUE(unattributed_share, OF_SOFTIRQS(MACHINE(row->softirq.unattributed_ns)))
VALUE(link_received, RATIO(row->link.received_bps, row->link.speed_bps))
VALUE(link_sent, RATIO(row->link.sent_bps, row->link.speed_bps))
VALUE(retransmitted, RATIO(row->link.retransmitted, row->link.segments))

/* ---- The table ---- */

const struct figure_info figures[FIGURE_COUNT] = {
	[FIGURE_REQUEST_RATE] = {
		.name = "requests_per_s", .title = "reqs", .unit = "/s", .words = "requests",
		.meaning = "requests per second, as the generator counted them",
		.value = request_rate, .scale = 1, .apart = true, .answer = true },
	[FIGURE_RATE] = {
		.name = "operations_per_s", .title = "ops", .unit = "/s", .words = "operations",
		.meaning = "operations per second, as the listener counted them",
		.value = operation_rate, .scale = 1, .apart = true, .rank = 2 },
	[FIGURE_BANDWIDTH] = {
		.name = "bytes_per_s", .title = "MB", .unit = "/s", .words = "bytes",
		.meaning = "bytes per second that the listener received and sent",
		.value = bandwidth, .scale = 1e-6, .rank = 3 },
	[FIGURE_GENERATOR_BANDWIDTH] = {
		.name = "generator_bytes_per_s", .title = "genMB", .unit = "/s",
		.words = "bytes by the generator",
		.meaning = "bytes per second, as the generator counted its payload",
		.value = generator_bandwidth, .scale = 1e-6, .rank = 6 },
	[FIGURE_TRIP50] = {
		.name = "trip50_ns", .title = "trip50", .unit = "us", .words = "round trip p50",
		.meaning = "the median of the generator's round trips",
		.value = trip50, .scale = 1e-3, .apart = true, .rank = 5 },
	[FIGURE_TRIP99] = {
		.name = "trip99_ns", .title = "trip99", .unit = "us", .words = "round trip p99",
		.meaning = "the 99th percentile of the generator's round trips",
		.value = trip99, .scale = 1e-3, .rank = 4 },
	[FIGURE_CYCLE] = {
		.name = "connections_over_rate_ns", .title = "cycle", .unit = "us",
		.words = "connections over rate",
		.meaning = "open connections over the rate (of requests, else of operations): the "
			   "time from one request of a connection to its next, so its whole round "
			   "trip if it has one under way at a time",
		.value = cycle, .scale = 1e-3, .apart = true, .rank = 5 },
	[FIGURE_P50] = {
		.name = "p50_ns", .title = "p50", .unit = "us", .words = "p50",
		.meaning = "the median latency in the server, from the request in the worker's "
			   "hands to the reply in the kernel's; sampled",
		.value = p50, .scale = 1e-3, .pooled = true, .apart = true, .answer = true },
	[FIGURE_P99] = {
		.name = "p99_ns", .title = "p99", .unit = "us", .words = "p99",
		.meaning = "its 99th percentile, if ten samples lie beyond it",
		.value = p99, .scale = 1e-3, .pooled = true, .answer = true },
	[FIGURE_P99_9] = {
		.name = "p99_9_ns", .title = "p99.9", .unit = "us", .words = "p99.9",
		.meaning = "its 99.9th percentile, if ten samples lie beyond it",
		.value = p99_9, .scale = 1e-3, .pooled = true, .rank = 6 },
	[FIGURE_P99_99] = {
		.name = "p99_99_ns", .title = "p99.99", .unit = "us",
		.words = "p99.99",
		.meaning = "its 99.99th percentile, if ten samples lie beyond it",
		.value = p99_99, .scale = 1e-3, .pooled = true, .rank = 13 },
	[FIGURE_SAMPLES] = {
		.name = "latency_samples", .title = "samples", .words = "samples",
		.meaning = "operations whose latency was sampled",
		.value = samples, .scale = 1, .pooled = true, .rank = 13 },
	[FIGURE_TURN_P99] = {
		.name = "turn_p99_ns", .title = "turn99", .unit = "us", .words = "turn p99",
		.meaning = "the 99th percentile of the length of a worker's turn, while the "
			   "workers are busy: so long may a request wait in its socket before "
			   "p50 and p99 begin to count",
		.value = turn_p99, .scale = 1e-3, .pooled = true, .rank = 6 },
	[FIGURE_CPU_PER_REQUEST] = {
		.name = "cpu_ns_per_request", .title = "CPU/req", .unit = "us",
		.words = "CPU per request",
		.meaning = "CPU time of the listener's threads, and of the kernel's that work for "
			   "them, per request of the generator",
		.value = cpu_per_request, .scale = 1e-3, .apart = true, .answer = true },
	[FIGURE_CPU_PER_OP] = {
		.name = "cpu_ns_per_operation", .title = "CPU/op", .unit = "us",
		.words = "CPU per operation",
		.meaning = "the same per operation of the listener",
		.value = cpu_per_op, .scale = 1e-3, .apart = true },
	[FIGURE_CPU_PER_BYTE] = {
		.name = "cpu_ns_per_byte", .title = "CPU/GB", .unit = "ms", .words = "CPU per GB",
		.meaning = "the same per byte received or sent; the column is per GB",
		.value = cpu_per_byte, .scale = 1e3 },
	[FIGURE_USER_SHARE] = {
		.name = "cpu_user_share", .title = "user", .unit = "%", .words = "in user space",
		.meaning = "the part of the CPU time in user space; the kernel tells it by clock "
			   "ticks, so it is unknown below a second of CPU time",
		.value = user_share, .scale = 1, .form = FORM_PERCENT, .pooled = true, .rank = 7 },
	[FIGURE_USER_PER_OP] = {
		.name = "cpu_user_ns_per_operation", .title = "user", .unit = "us",
		.words = "user CPU per operation",
		.meaning = "CPU time in user space per operation, by the same ticks",
		.value = user_per_op, .scale = 1e-3, .pooled = true, .rank = 13 },
	[FIGURE_SYSTEM_PER_OP] = {
		.name = "cpu_system_ns_per_operation", .title = "system", .unit = "us",
		.words = "system CPU per operation",
		.meaning = "CPU time in the kernel per operation, by the same ticks",
		.value = system_per_op, .scale = 1e-3, .pooled = true, .rank = 13 },
	[FIGURE_SOFTIRQ_PER_REQUEST] = {
		.name = "softirq_ns_per_request", .title = "irq", .unit = "us/req",
		.words = "softirq per request",
		.meaning = "softirq time that receives and transmits for the listener, per request",
		.value = softirq_per_request, .scale = 1e-3, .rank = 13 },
	[FIGURE_RECEIVE_PER_OP] = {
		.name = "softirq_receive_ns_per_operation", .title = "rx", .unit = "us",
		.words = "softirq rx per operation",
		.meaning = "softirq time of packets to the listener, per operation, wherever it "
			   "ran: it may be in the CPU time, too",
		.value = receive_per_op, .scale = 1e-3, .answer = true },
	[FIGURE_TRANSMIT_PER_OP] = {
		.name = "softirq_transmit_ns_per_operation", .title = "tx", .unit = "us",
		.words = "softirq tx per operation",
		.meaning = "softirq time of drivers with packets from the listener, per operation",
		.value = transmit_per_op, .scale = 1e-3, .answer = true },
	[FIGURE_PEER_PER_OP] = {
		.name = "softirq_peer_ns_per_operation", .title = "peer", .unit = "us",
		.words = "softirq of clients per operation",
		.meaning = "softirq time of the listener's clients on this host, per operation",
		.value = peer_per_op, .scale = 1e-3, .rank = 7 },
	[FIGURE_SYSCALLS_PER_OP] = {
		.name = "syscalls_per_operation", .title = "calls", .unit = "/op",
		.words = "system calls per operation",
		.meaning = "system calls of the listener's threads per operation",
		.value = syscalls_per_op, .scale = 1, .form = FORM_RATIO, .apart = true,
		.answer = true },
	[FIGURE_OPS_PER_TURN] = {
		.name = "operations_per_turn", .title = "ops", .unit = "/turn",
		.words = "operations per turn",
		.meaning = "operations that a worker did between two waits",
		.value = ops_per_turn, .scale = 1, .rank = 9 },
	[FIGURE_CPU_SHARE] = {
		.name = "cpu_share", .title = "CPU", .unit = "%", .words = "server's CPU",
		.meaning = "CPU use of the listener; 1 is one CPU fully busy",
		.value = cpu_share, .scale = 1, .form = FORM_PERCENT, .rank = 8 },
	[FIGURE_GENERATOR_SHARE] = {
		.name = "generator_busiest_share", .title = "busiest", .unit = "%",
		.words = "generator's busiest thread",
		.meaning = "CPU use of the generator's busiest thread in its busiest 100 ms; 1 is fully "
			   "busy",
		.value = generator_share, .scale = 1, .form = FORM_PERCENT, .rank = 13 },
	[FIGURE_GENERATOR_CPU] = {
		.name = "generator_cpu_share", .title = "gen", .unit = "%",
		.words = "generator's CPU",
		.meaning = "CPU use of the whole generator; 1 is one CPU fully busy",
		.value = generator_cpu, .scale = 1, .form = FORM_PERCENT, .rank = 8 },
	[FIGURE_SOFTIRQ] = {
		.name = "machine_softirq_share", .title = "irq", .unit = "%",
		.words = "softirqs, machine",
		.meaning = "softirqs and interrupts of the whole machine, 1 is one CPU; without "
			   "CONFIG_IRQ_TIME_ACCOUNTING they are in the time of threads, too",
		.value = softirq_share, .scale = 1, .form = FORM_PERCENT, .apart = true,
		.rank = 10 },
	[FIGURE_IDLE] = {
		.name = "machine_idle_share", .title = "idle", .unit = "%", .words = "idle, machine",
		.meaning = "idle time of the whole machine; 1 is one CPU always idle",
		.value = idle_share, .scale = 1, .form = FORM_PERCENT, .rank = 11 },
	[FIGURE_STEAL] = {
		.name = "machine_steal_share", .title = "steal", .unit = "%",
		.words = "steal, machine",
		.meaning = "time that the hypervisor gave to others; 1 is one CPU",
		.value = steal_share, .scale = 1, .form = FORM_PERCENT, .rank = 10 },
	[FIGURE_PRESSURE] = {
		.name = "machine_pressure_share", .title = "waits", .unit = "%",
		.words = "waits for CPUs, machine",
		.meaning = "the part of the time in which any thread of the machine waited for a "
			   "CPU, by /proc/pressure/cpu",
		.value = pressure_share, .scale = 1, .form = FORM_PERCENT, .rank = 12 },
	[FIGURE_OTHER] = {
		.name = "machine_other_share", .title = "other", .unit = "%",
		.words = "other programs",
		.meaning = "CPU use of programs that are neither the server nor the generator, 1 "
			   "is one CPU; unknown where the parts do not add up",
		.value = other_share, .scale = 1, .form = FORM_PERCENT, .rank = 12 },
	[FIGURE_UNATTRIBUTED] = {
		.name = "machine_softirq_unattributed_share", .title = "unatt", .unit = "%",
		.words = "softirqs, unattributed",
		.meaning = "softirqs of the whole machine for no listener's port; 1 is one CPU",
		.value = unattributed_share, .scale = 1, .form = FORM_PERCENT, .rank = 10 },
	[FIGURE_LINK_RECEIVED] = {
		.name = "link_received_share", .title = "link in", .unit = "%",
		.words = "link, received",
		.meaning = "what the listener's network interface received, with framing; 1 is its speed",
		.value = link_received, .scale = 1, .form = FORM_PERCENT, .apart = true,
		.rank = 12 },
	[FIGURE_LINK_SENT] = {
		.name = "link_sent_share", .title = "link out", .unit = "%", .words = "link, sent",
		.meaning = "what the listener's network interface sent, with framing; 1 is its speed",
		.value = link_sent, .scale = 1, .form = FORM_PERCENT, .rank = 12 },
	[FIGURE_RETRANSMITTED] = {
		.name = "retransmitted_share", .title = "again", .unit = "%",
		.words = "TCP segments sent again",
		.meaning = "of the TCP segments that the listeners' host sent, those that it sent again",
		.value = retransmitted, .scale = 1, .form = FORM_PERCENT, .rank = 12 },
};
/* clang-format on */

double figure_value(const struct measure *row, enum figure figure)
{
	return figures[figure].value(row);
}

unsigned figure_values(const struct measure *row, enum figure figure, double *values)
{
	bool pooled = figures[figure].pooled;
	struct measure *block = pooled ? must(malloc(sizeof(*block))) : NULL;
	unsigned count = 0, joined = 0;

	for (unsigned i = 0; i < measure_visits(row); i++) {
		const struct measure *visit = measure_visit_at(row, i);

		if (pooled && joined++ == 0)
			*block = *visit;
		else if (pooled)
			measure_add(block, visit);
		values[count] = figure_value(pooled ? block : visit, figure);
		if (isnan(values[count]))
			continue;
		count++;
		joined = 0;
	}
	free(block);
	return count;
}

struct spread figure_spread(const struct measure *row, enum figure figure)
{
	double *values = must(calloc(measure_visits(row), sizeof(*values)));
	struct spread s = { NAN, NAN, NAN, 0 };
	unsigned count;

	count = figure_values(row, figure, values);
	s.median = numbers_median(values, count);
	if (count > 0)
		s = (struct spread){ s.median, values[0], values[count - 1], count };
	if (figures[figure].pooled)
		s.median = figure_value(row, figure);
	free(values);
	return s;
}

struct human figure_text(enum figure figure, double value)
{
	const struct figure_info *info = &figures[figure];
	struct human out = { "" };

	value *= info->scale;
	if (isnan(value))
		return out;
	if (info->form == FORM_RATIO)
		snprintf(out.text, sizeof(out.text), "%.2f", value);
	else
		out = info->form == FORM_PERCENT ? human_percent(value) : human_number(value);
	return out;
}
