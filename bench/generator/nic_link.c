/* See nic_link.h. */
#include "nic_link.h"

#include <math.h>

#include <stdlib.h>
#include <string.h>

#include "field.h"
#include "figure.h"
#include "human.h"
#include "measure_file.h"
#include "measure_visits.h"
#include "must.h"
#include "numbers.h"
#include "text.h"
#include "util.h"

enum { FRAME_EXTRA = 24, ETHERNET_HEADER = 14, BITS = 8 };

/* ---- Traffic ---- */

uint64_t nic_link_bits(uint64_t bytes, uint64_t packets, uint64_t mtu)
{
	uint64_t least = mtu ? bytes / (mtu + ETHERNET_HEADER) : 0;

	return (bytes + FRAME_EXTRA * MAX(packets, least)) * BITS;
}

/* One direction, by the names of its counters. */
static const struct direction {
	const char *bytes, *packets;
} received = { "received_bytes", "received_packets" }, sent = { "sent_bytes", "sent_packets" };

static uint64_t grown(const json_t *before, const json_t *after, const char *counter)
{
	uint64_t then = field_uint(before, counter), now = field_uint(after, counter);

	return now > then ? now - then : 0;
}

static const json_t *counters_of(const json_t *reading, const char *name)
{
	return json_object_get(field_get(reading, "interfaces"), name);
}

/* Bits per second: the median of the intervals between readings, as a load begins and ends within
 * the first and the last. */
static uint64_t median_rate(const json_t *readings, const char *name, const struct direction *d,
			    uint64_t mtu)
{
	size_t count = json_array_size(readings), rates = 0;
	double *list = must(calloc(count + 1, sizeof(*list))), median;

	for (size_t i = 1; i < count; i++) {
		const json_t *before = json_array_get(readings, i - 1);
		const json_t *after = json_array_get(readings, i);
		const json_t *then = counters_of(before, name), *now = counters_of(after, name);
		uint64_t ns = grown(before, after, "time_ns");

		if (!then || !now || ns == 0)
			continue;
		list[rates++] = (double)nic_link_bits(grown(then, now, d->bytes),
						      grown(then, now, d->packets), mtu) *
				NS_PER_S / (double)ns;
	}
	median = rates ? numbers_median(list, rates) : 0;
	free(list);
	return (uint64_t)median;
}

/* The interface with the most bytes, if these are at least `least`; NULL: there is none. */
static const char *busiest(const json_t *first, const json_t *last, uint64_t least)
{
	uint64_t most = MAX(least, (uint64_t)1) - 1;
	const char *found = NULL, *name;
	json_t *now;

	json_object_foreach(field_get(last, "interfaces"), name, now) {
		const json_t *then = counters_of(first, name);
		uint64_t bytes = grown(then, now, received.bytes) + grown(then, now, sent.bytes);

		if (then && bytes > most) {
			most = bytes;
			found = name;
		}
	}
	return found;
}

static json_t *link_of(const json_t *readings, const char *name, const json_t *nic)
{
	static const uint64_t mbit = 1000 * 1000;
	const json_t *first = json_array_get(readings, 0);
	const json_t *last = json_array_get(readings, json_array_size(readings) - 1);
	uint64_t mtu = field_uint(nic, "mtu"), speed_bps = field_uint(nic, "speed_mbit") * mbit;

	return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I}", "interface", name, "speed_bps",
			 (json_int_t)speed_bps, "received_bps",
			 (json_int_t)median_rate(readings, name, &received, mtu), "sent_bps",
			 (json_int_t)median_rate(readings, name, &sent, mtu), "segments",
			 (json_int_t)grown(first, last, "segments_sent"), "retransmitted",
			 (json_int_t)grown(first, last, "segments_retransmitted"));
}

void nic_link_set(struct measures *m, unsigned first, const json_t *readings,
		  const json_t *interfaces)
{
	const json_t *begin = json_array_get(readings, 0);
	const json_t *end = json_array_get(readings, json_array_size(readings) - 1);

	for (unsigned i = first; i < m->count; i++) {
		struct measure *row = m->rows[i];
		/* Clients on the daemon's host came over loopback: the card's traffic is of others.
		 */
		const char *name = busiest(begin, end, (row->bytes_in + row->bytes_out) / 2);

		if (name)
			json_object_set_new(
				row->source, "link",
				link_of(readings, name, json_object_get(interfaces, name)));
		row->link = measure_link_of(field_get(row->source, "link"));
	}
}

/* ---- The limit ---- */

bool nic_link_is_limit(const struct measure *row)
{
	return fmax(measure_median(row, FIGURE_LINK_RECEIVED),
		    measure_median(row, FIGURE_LINK_SENT)) >= 0.95;
}
