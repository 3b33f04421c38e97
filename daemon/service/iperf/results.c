/* The server's results of an iperf3 test: whether they are complete, which stream is which, and the
 * document.  Runs on the worker of the control connection, after all streams have finished. */
#include <stdio.h>
#include <stdlib.h>

#include "conn.h"
#include "iperf3.h"

bool iperf3_all_arrived(const struct iperf3_conn *i)
{
	const struct iperf3_test *t = i->member.test;
	uint64_t expected = 0, received = 0;

	for (unsigned k = 0; k < t->stream_count; k++) {
		if (atomic_load(&i->sorted[k]->role) != IPERF3_RECEIVES)
			continue;
		expected += i->expected[k].bytes;
		received += iperf3_stream_bytes(i->sorted[k]);
	}
	return received >= expected || t->params.omit_s;
}

void iperf3_match_streams(struct iperf3_conn *i)
{
	unsigned count = i->member.test->stream_count;

	for (unsigned k = 0; k < count; k++)
		for (unsigned m = k; m < count; m++) {
			struct iperf3_stream *s = i->sorted[m];

			if (!i->expected[k].bytes || atomic_load(&s->role) != IPERF3_RECEIVES ||
			    iperf3_stream_bytes(s) != i->expected[k].bytes)
				continue;
			i->sorted[m] = i->sorted[k];
			i->sorted[k] = s;
			break;
		}
}

static double percent(uint64_t used_ns, uint64_t time_ns)
{
	return time_ns ? 100.0 * (double)used_ns / (double)time_ns : 0;
}

/* Has the worker of the k-th stream been counted, with a stream before it or with control? */
static bool is_counted(const struct iperf3_conn *i, unsigned k)
{
	const struct iperf3_stream *streams = i->member.test->streams;

	if (streams[k].worker == i->member.of.worker)
		return true;
	for (unsigned m = 0; m < k; m++)
		if (streams[m].worker == streams[k].worker && streams[m].end_ns)
			return true;
	return false;
}

/* Adds the CPU time of the workers that took part, each once. */
static void add_cpu(const struct iperf3_conn *i, struct iperf3_results *r)
{
	const struct iperf3_test *t = i->member.test;
	uint64_t user_ns = i->cpu_end.user_ns - i->cpu_start.user_ns;
	uint64_t system_ns = i->cpu_end.system_ns - i->cpu_start.system_ns;

	for (unsigned k = 0; k < t->stream_count; k++) {
		const struct iperf3_stream *s = &t->streams[k];

		if (!s->end_ns || is_counted(i, k))
			continue;
		user_ns += s->cpu_end.user_ns - s->cpu_start.user_ns;
		system_ns += s->cpu_end.system_ns - s->cpu_start.system_ns;
	}
	r->cpu_user = percent(user_ns, i->end_ns - i->start_ns);
	r->cpu_system = percent(system_ns, i->end_ns - i->start_ns);
}

static void fill_stream(const struct iperf3_stream *s, bool datagrams,
			struct iperf3_stream_result *to)
{
	to->sends = atomic_load(&s->role) == IPERF3_SENDS;
	to->bytes = iperf3_stream_bytes(s);
	to->retransmits = s->retransmits - s->retransmits_before;
	to->seconds = (double)(s->end_ns - s->start_ns) / NS_PER_S;
	to->packets = atomic_load(&s->packets);
	to->lost = atomic_load(&s->lost);
	to->order = atomic_load(&s->order) - s->order_before;
	to->jitter_s = atomic_load(&s->jitter_s);
	to->omitted_packets = s->packets_before;
	to->omitted_lost = s->lost_before;
	to->datagrams = datagrams;
}

char *iperf3_results(struct conn *c, size_t *ret_bytes)
{
	struct iperf3_conn *i = c->state;
	const struct iperf3_test *t = i->member.test;
	struct iperf3_stream_result *streams = calloc(t->stream_count, sizeof(*streams));
	char title[128], *text;
	struct iperf3_results r = { .streams = streams, .count = t->stream_count };

	if (!streams)
		return NULL;
	for (unsigned k = 0; k < t->stream_count; k++)
		fill_stream(i->sorted[k], t->params.datagrams, &streams[k]);
	add_cpu(i, &r);
	snprintf(title, sizeof(title), "nbserved %s, listener %s, engine %s", NB_VERSION,
		 c->worker->listener ? c->worker->listener : "?", c->worker->engine->name);
	r.title = t->params.server_output ? title : NULL;
	r.congestion = t->congestion[0] ? t->congestion : NULL;
	text = iperf3_build_results(&r, ret_bytes);
	free(streams);
	return text;
}
