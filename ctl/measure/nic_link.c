/* See nic_link.h. */
#include "nic_link.h"

#include <stdlib.h>
#include <string.h>

#include "compare_group.h"
#include "field.h"
#include "figure.h"
#include "hosts.h"
#include "human.h"
#include "must.h"
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

/* ---- Traffic ---- */

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
	uint64_t *list = must(calloc(count + 1, sizeof(*list))), median;

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

static const json_t *last_of(const json_t *documents)
{
	return json_array_get(documents, json_array_size(documents) - 1);
}

const char *link_busiest(const json_t *documents, const json_t *names, uint64_t least)
{
	const json_t *first = json_array_get(documents, 0), *last = last_of(documents);
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

json_t *link_of(const json_t *documents, const char *name, const json_t *nic, uint64_t speed_bps)
{
	static const uint64_t mbit = 1000 * 1000;
	const json_t *first = json_array_get(documents, 0), *last = last_of(documents);
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
	for (unsigned i = first; i < m->count; i++) {
		struct measure *row = m->rows[i];
		json_t *names = link_names(interfaces, row->listener);
		/* Clients on the daemon's host came over loopback: the card's traffic is of others.
		 */
		const char *name =
			link_busiest(documents, names, (row->bytes_in + row->bytes_out) / 2);

		if (name)
			json_object_set_new(
				row->source, "link",
				link_of(documents, name, link_nic(interfaces, name), speed_bps));
		row->link = measure_link_of(field_get(row->source, "link"));
		json_decref(names);
	}
}

/* ---- The limit ---- */

static const double full = 0.95;

/* One direction of one link. */
struct fullest {
	double share; /* of its speed; 0: none is known */
	bool sends;
	struct measure_link link;
};

static void look_at(struct fullest *f, double in_share, double out_share,
		    const struct measure_link *link)
{
	if (in_share > f->share)
		*f = (struct fullest){ in_share, false, *link };
	if (out_share > f->share)
		*f = (struct fullest){ out_share, true, *link };
}

/* The fullest link of a row.  If both ends are full the listener's is taken: with one generator
 * they are two ends of the same cable. */
static struct fullest fullest_of(const struct measure *row)
{
	struct fullest f = { .link = measure_link_of(NULL) };

	look_at(&f, figure_spread(row, FIGURE_LINK_RECEIVED).median,
		figure_spread(row, FIGURE_LINK_SENT).median, &measure_visit_at(row, 0)->link);
	for (unsigned i = 0; i < hosts_known(row) && f.share < full; i++) {
		struct measure_link link = hosts_link(row, i);

		if (link.speed_bps)
			look_at(&f, hosts_value(row, i, FIGURE_LINK_RECEIVED),
				hosts_value(row, i, FIGURE_LINK_SENT), &link);
	}
	return f;
}

bool link_is_limit(const struct measure *row)
{
	return fullest_of(row).share >= full;
}

char *groups_link_limit(const struct groups *all)
{
	struct fullest first = { .link = measure_link_of(NULL) };
	const char *listener = NULL;
	unsigned count = 0, rows = 0;
	double speed;

	for (struct groups_at at = { 0 }; groups_next(all, &at); rows++) {
		struct fullest f = fullest_of(at.row);

		if (f.share < full)
			continue;
		if (count++ == 0) {
			first = f;
			listener = at.row->listener;
		}
	}
	if (!count)
		return NULL;
	speed = (double)first.link.speed_bps / NS_PER_S;
	return text_new("The link was the limit in %u of %u rows (%s: %s%s%s %s %.3g of %.3g "
			"Gbit/s, %s %%): rates there are the link's.",
			count, rows, listener, first.link.interface, *first.link.host ? " of " : "",
			first.link.host, first.sends ? "sent" : "received", first.share * speed,
			speed, human_percent(first.share).text);
}
