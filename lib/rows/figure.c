/* See figure.h. */
#include "figure.h"

#include <math.h>
#include <stdio.h>

#include "field.h"
#include "util.h"

/* The least CPU time that is split into user and system time.  The kernel splits it by clock ticks,
 * of 1 to 10 ms: with fewer than some 100 ticks the result is little more than chance. */
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

	return generator_quantile(&row->generator.result, quantile, &ns) ? (double)ns : NAN;
}

/* With fewer than ten samples beyond the quantile one more may move it far. */
static double latency(const struct histogram_sum *h, double quantile)
{
	bool known = (1 - quantile) * (double)h->count >= 10 - 1e-6;

	return known ? (double)histogram_quantile(h, quantile) : NAN;
}

/* The time from one request of a connection to its next, by Little's law: connections over rate. It
 * is the round trip if the connection has one request at a time. */
static double cycle_of(const struct measure *row)
{
	double rate = known(row->generator.result.requests_per_s);

	if (isnan(rate))
		rate = ratio((double)row->count * NS_PER_S, (double)row->interval_ns);
	return known(ratio((double)row->connections * NS_PER_S, rate));
}

/* Are the workers busy all the time?  Only then a request waits for most of a turn: other workers
 * sleep for most of it. */
static bool is_busy(const struct measure *row)
{
	double cpus = ratio((double)row->cpu_ns, (double)row->interval_ns);

	return cpus / (double)MAX(row->workers, (uint64_t)1) >= 0.9;
}

/* ---- Bytes and operations ---- */

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

/* The time of the machine is counted in clock ticks.  A busy virtual machine loses some of them:
 * the ticks of all kinds then add up to less than the interval, so all kinds are scaled up to it.
 */
static double tick_scale(const struct measure *row)
{
	double all = (double)row->interval_ns * (double)row->machine.cpus;
	double total = (double)row->machine.total_ns;

	return total > 0.5 * all && total < all ? all / total : 1;
}

static double busy_ns(const struct measure *row)
{
	const struct measure_machine *m = &row->machine;

	return known(tick_scale(row) *
		     ((double)m->total_ns - (double)m->idle_ns - (double)m->steal_ns));
}

/* CPU time of other programs: the busy time of the machine less that of the listener, and less that
 * of the generator if it is on the same machine.
 *
 * Softirqs are subtracted only where the kernel does not count them for threads; elsewhere they are
 * part of the threads' time and would be subtracted twice.
 *
 * NaN: the result is unknown, because the kernel does not tell where it counts softirqs, or because
 * the parts exceed the whole by more than the clock ticks and an error of 2 % explain. */
static double other_ns(const struct measure *row)
{
	const struct measure_machine *m = &row->machine;
	double inexact = 0.02 * (double)m->total_ns + (double)m->cpus * 10 * NS_PER_MS;
	double generator_ns = row->generator.elsewhere ? 0 : (double)row->generator.cpu_ns;
	double other = busy_ns(row) - (double)row->cpu_ns - generator_ns;

	if (m->irq_time == IRQ_TIME_UNKNOWN && (double)m->softirq_ns > inexact)
		return NAN;
	if (m->irq_time == IRQ_TIME_APART)
		other -= tick_scale(row) * (double)m->softirq_ns;
	return other < -inexact ? NAN : fmax(other, 0);
}

/* ---- Energy ---- */

/* What the packages used in the visit, less what they use in that time without load. */
static double net_joules(const struct measure *row)
{
	const json_t *energy = field_get(row->conditions, "energy");
	double pauses = ratio((double)field_uint(energy, "spent.ns"),
			      (double)field_uint(energy, "idle.ns"));

	return 1e-6 * ((double)field_sum(energy, "spent.uj") -
		       pauses * (double)field_sum(energy, "idle.uj"));
}

/* ---- The table ---- */

/* The helpers that the formulas of figure_list.h use. */
#define RATIO(a, b)       ratio((double)(a), (double)(b))
#define PER_S(count)      ratio((double)(count)*NS_PER_S, (double)row->interval_ns)
#define PER_REQUEST(part) ratio((double)(part), row->generator.result.requests)
#define PER_OP(part)      RATIO(part, row->listener_count)
#define MACHINE(part_ns)  machine_share(row, (double)(part_ns))
/* A value that is known only with enough clock ticks. */
#define OF_TICKS(value) (has_fine_parts(row) ? (value) : NAN)

/* clang-format off */
#define FIGURE(id, formula, ...) \
	static double value_##id(const struct measure *row) { return (formula); }
#include "figure_list.h"
#undef FIGURE

const struct figure_info figures[FIGURE_COUNT] = {
#define FIGURE(id, formula, ...) [FIGURE_##id] = { .value = value_##id, __VA_ARGS__ },
#include "figure_list.h"
#undef FIGURE
};
/* clang-format on */

double figure_value(const struct measure *row, enum figure figure)
{
	return figures[figure].value(row);
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
