/* Sums of rows: the operations of a listener, the visits of a row.  See measure.h. */
#include <stdlib.h>
#include <string.h>

#include "measure.h"
#include "must.h"
#include "util.h"

static bool same(const struct measure *a, const struct measure *b)
{
	return !strcmp(a->label, b->label) && !strcmp(a->pair, b->pair) &&
	       !strcmp(a->listener, b->listener) && !strcmp(a->engine, b->engine) &&
	       !strcmp(a->service, b->service) && !strcmp(a->operation, b->operation) &&
	       !strcmp(a->visit.setup, b->visit.setup) && !strcmp(a->visit.build, b->visit.build);
}

static void add_histogram(struct histogram_sum *to, const struct histogram_sum *from)
{
	if (from->count == 0) /* it has 2048 buckets */
		return;
	to->count += from->count;
	to->sum += from->sum;
	to->max = MAX(to->max, from->max);
	if (from->min && (to->min == 0 || from->min < to->min))
		to->min = from->min;
	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
		to->buckets[i] += from->buckets[i];
}

void measures_merge_operations(struct measures *m)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < m->count; i++) {
		struct measure *row = m->rows[i], *last = kept ? m->rows[kept - 1] : NULL;

		if (!last || last->source != row->source) {
			m->rows[kept++] = row;
			continue;
		}
		last->operation = "";
		last->batch |= row->batch;
		last->count += row->count;
		last->errors += row->errors;
		add_histogram(&last->latency, &row->latency);
		measure_free(row);
	}
	m->count = kept;
}

static void add_generator(struct measure_generator *to, const struct measure_generator *from)
{
	to->result.requests += from->result.requests;
	to->result.bytes += from->result.bytes;
	to->result.errors += from->result.errors;
	to->wall_ns += from->wall_ns;
	to->cpu_ns += from->cpu_ns;
	to->busiest_ns += from->busiest_ns;
	to->peak = MAX(to->peak, from->peak);
	to->hosts = to->link = NULL; /* those of each visit: see hosts.h */
}

static void add_softirq(struct measure_softirq *to, const struct measure_softirq *from)
{
	to->receive_ns += from->receive_ns;
	to->transmit_ns += from->transmit_ns;
	to->inside_ns += from->inside_ns;
	to->peer_ns += from->peer_ns;
	to->peer_inside_ns += from->peer_inside_ns;
	to->unattributed_ns += from->unattributed_ns;
	to->total_ns += from->total_ns;
}

void measure_add(struct measure *to, const struct measure *from)
{
	to->interval_ns += from->interval_ns;
	to->count += from->count;
	to->errors += from->errors;
	to->connections = MAX(to->connections, from->connections);
	to->listener_count += from->listener_count;
	to->bytes_in += from->bytes_in;
	to->bytes_out += from->bytes_out;
	to->cpu_ns += from->cpu_ns;
	to->cpu_user_ns += from->cpu_user_ns;
	to->cpu_system_ns += from->cpu_system_ns;
	to->syscalls += from->syscalls;
	to->bytes_read += from->bytes_read;
	to->sampled_reads += from->sampled_reads;
	to->zero_reads += from->zero_reads;
	to->turns += from->turns;
	to->machine.total_ns += from->machine.total_ns;
	to->machine.idle_ns += from->machine.idle_ns;
	to->machine.steal_ns += from->machine.steal_ns;
	to->machine.softirq_ns += from->machine.softirq_ns;
	to->machine.pressure_ns += from->machine.pressure_ns;
	to->link.segments += from->link.segments;
	to->link.retransmitted += from->link.retransmitted;
	add_softirq(&to->softirq, &from->softirq);
	add_generator(&to->generator, &from->generator);
	add_histogram(&to->latency, &from->latency);
	add_histogram(&to->turn, &from->turn);
}

static void add_visit(struct measure *row, struct measure *visit)
{
	row->visits = must(reallocarray(row->visits, row->visit_count + 1, sizeof(*row->visits)));
	row->visits[row->visit_count++] = visit;
}

/* Takes ownership of `visit`; a row that is a single interval first gets itself as a visit. */
static void merge_visit(struct measure *row, struct measure *visit)
{
	if (row->visit_count == 0) {
		struct measure *first = must(malloc(sizeof(*first)));

		*first = *row;
		json_incref(first->source);
		add_visit(row, first);
	}
	measure_add(row, visit);
	add_visit(row, visit);
}

void measures_merge(struct measures *m)
{
	unsigned kept = 0;

	measures_take_unavailable(m);
	for (unsigned i = 0; i < m->count; i++) {
		struct measure *row = m->rows[i];
		unsigned j = 0;

		while (j < kept && !same(m->rows[j], row))
			j++;
		if (j < kept)
			merge_visit(m->rows[j], row);
		else
			m->rows[kept++] = row;
	}
	m->count = kept;
}

/* A row for the sum of the visits to come, of which `visit` is the first. */
static struct measure *add_sum(struct measures *to, const struct measure *visit)
{
	struct measure *row = measures_add(to);

	*row = *visit;
	json_incref(row->source);
	row->visits = NULL;
	row->visit_count = 0;
	return row;
}

struct measures measures_merged(const struct measures *m)
{
	struct measures merged = { .within = m->within, .borrows = true };

	for (unsigned i = 0; i < m->count; i++) {
		struct measure *visit = m->rows[i];
		unsigned j = 0;

		if (measure_unavailable(visit))
			continue;
		while (j < merged.count && !same(merged.rows[j], visit))
			j++;
		if (j < merged.count)
			measure_add(merged.rows[j], visit);
		else
			add_sum(&merged, visit);
		add_visit(merged.rows[j], visit);
	}
	return merged;
}
