/* See nic_link.h. */
#include "nic_link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compare_group.h"
#include "field.h"
#include "figure.h"
#include "human.h"
#include "text.h"
#include "util.h"

enum { FRAME_EXTRA = 24, ETHERNET_HEADER = 14, BITS = 8 };

/* ---- Interfaces ---- */

static bool has_listener(const json_t *interface, const char *listener)
{
	json_t *names = field_get(interface, "listeners"), *name;
	size_t i;

	json_array_foreach(names, i, name)
		if (!listener || !strcmp(field_text(name, ""), listener))
			return true;
	return false;
}

json_t *link_names(const json_t *interfaces, const char *listener)
{
	json_t *names = json_array(), *interface;
	size_t i;

	json_array_foreach(interfaces, i, interface)
		if (has_listener(interface, listener))
			json_array_append(names, field_get(interface, "name"));
	return names;
}

const json_t *link_nic(const json_t *interfaces, const char *interface)
{
	json_t *one;
	size_t i;

	json_array_foreach(interfaces, i, one)
		if (!strcmp(field_text(one, "name"), interface))
			return field_get(one, "nic");
	return NULL;
}

/* ---- What went through it ---- */

uint64_t link_bits(uint64_t bytes, uint64_t packets, uint64_t mtu)
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

static int compare_rates(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Bits per second: the median of the intervals between documents, as a load begins and ends within
 * the first and the last. */
static uint64_t median_rate(const json_t *documents, const char *name, const struct direction *d,
			    uint64_t mtu)
{
	size_t count = json_array_size(documents), rates = 0;
	uint64_t *list = calloc(count + 1, sizeof(*list)), median;

	if (!list)
		abort();
	for (size_t i = 1; i < count; i++) {
		const json_t *before = json_array_get(documents, i - 1);
		const json_t *after = json_array_get(documents, i);
		const json_t *then = field_named(before, "interfaces", name);
		const json_t *now = field_named(after, "interfaces", name);
		uint64_t ns;

		if (!then || !now || measures_interval(before, after, &ns) < 0 || ns == 0)
			continue;
		list[rates++] = (uint64_t)((double)link_bits(grown(then, now, d->bytes),
							     grown(then, now, d->packets), mtu) *
					   NS_PER_S / (double)ns);
	}
	qsort(list, rates, sizeof(*list), compare_rates);
	median = rates ? list[rates / 2] : 0;
	free(list);
	return median;
}

/* The interface with the most bytes, and at least so many; NULL: there is none. */
static const char *busiest(const json_t *first, const json_t *last, const json_t *names,
			   uint64_t least)
{
	const char *found = NULL;
	uint64_t most = MAX(least, (uint64_t)1) - 1;
	json_t *name;
	size_t i;

	json_array_foreach(names, i, name) {
		const json_t *then = field_named(first, "interfaces", field_text(name, ""));
		const json_t *now = field_named(last, "interfaces", field_text(name, ""));
		uint64_t bytes = grown(then, now, received.bytes) + grown(then, now, sent.bytes);

		if (then && now && bytes > most) {
			most = bytes;
			found = field_text(name, "");
		}
	}
	return found;
}

static json_t *link_of(const json_t *documents, const char *name, const json_t *nic,
		       uint64_t speed_bps)
{
	static const uint64_t mbit = 1000 * 1000;
	const json_t *first = json_array_get(documents, 0);
	const json_t *last = json_array_get(documents, json_array_size(documents) - 1);
	uint64_t mtu = field_uint(nic, "mtu");

	return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I}", "interface", name, "speed_bps",
			 (json_int_t)(speed_bps ? speed_bps : field_uint(nic, "speed_mbit") * mbit),
			 "received_bps", (json_int_t)median_rate(documents, name, &received, mtu),
			 "sent_bps", (json_int_t)median_rate(documents, name, &sent, mtu),
			 "segments", (json_int_t)grown(first, last, "host_tcp.segments_sent"),
			 "retransmitted",
			 (json_int_t)grown(first, last, "host_tcp.segments_retransmitted"));
}

void link_set(struct measures *m, unsigned first, const json_t *documents, const json_t *interfaces,
	      uint64_t speed_bps)
{
	const json_t *from = json_array_get(documents, 0);
	const json_t *to = json_array_get(documents, json_array_size(documents) - 1);

	for (unsigned i = first; i < m->count; i++) {
		struct measure *row = m->rows[i];
		json_t *names = link_names(interfaces, row->listener);
		/* Clients on the same host came over loopback: what went through it is of others.
		 */
		const char *name = busiest(from, to, names, (row->bytes_in + row->bytes_out) / 2);

		if (name)
			json_object_set_new(
				row->source, "link",
				link_of(documents, name, link_nic(interfaces, name), speed_bps));
		measure_set_link(row, field_get(row->source, "link"));
		json_decref(names);
	}
}

/* ---- The limit ---- */

static double received_share(const struct measure *row)
{
	return figure_spread(row, FIGURE_LINK_RECEIVED).median;
}

static double sent_share(const struct measure *row)
{
	return figure_spread(row, FIGURE_LINK_SENT).median;
}

bool link_is_limit(const struct measure *row)
{
	static const double full = 0.95;

	return received_share(row) >= full || sent_share(row) >= full;
}

char *groups_link_limit(const struct groups *all)
{
	const struct measure *first = NULL;
	unsigned count = 0, rows = 0;
	double share, speed;
	bool sends;

	for (unsigned i = 0; i < all->count; i++)
		for (unsigned j = 0; j < all->list[i].count; j++) {
			const struct measure *row = all->list[i].rows[j];

			rows++;
			if (!link_is_limit(row))
				continue;
			first = first ? first : row;
			count++;
		}
	if (!first)
		return NULL;
	sends = !(received_share(first) >= sent_share(first));
	share = sends ? sent_share(first) : received_share(first);
	speed = (double)measure_visit_at(first, 0)->link.speed_bps / NS_PER_S;
	return text_new("The link was the limit in %u of %u rows (%s: %s %s %.3g of %.3g Gbit/s, "
			"%s %%): rates there are the link's.",
			count, rows, first->listener, measure_visit_at(first, 0)->link.interface,
			sends ? "sent" : "received", share * speed, speed,
			human_percent(share).text);
}
