/* The table of connections and how it can be sorted.  Works on the daemon's reply in
 * place.  See connections_table.h. */
#include "connections_table.h"

#include <stdlib.h>
#include <string.h>

#include "field.h"
#include "human.h"
#include "must.h"
#include "util.h"

static uint64_t bytes_of(const json_t *c)
{
	return field_uint(c, "bytes_in") + field_uint(c, "bytes_out");
}

const struct connections_key connections_keys[] = {
	[CONNECTIONS_BY_BYTES] = { "bytes", NULL, false },
	{ "age", "age_ns", false },
	{ "idle", "idle_ns", false },
	{ "held", "held_bytes", false },
	{ "rtt", "rtt_us", false },
	{ "retransmits", "retransmits", false },
	{ "peer", "peer", true },
	{ "listener", "listener", true },
};

_Static_assert(ARRAY_SIZE(connections_keys) == CONNECTIONS_KEYS, "a key is missing");

static int compare_connections(const void *a, const void *b, void *context)
{
	const json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;
	const struct connections_key *key = context;
	uint64_t m, n;

	if (key->text)
		return strcmp(field_text(x, key->field), field_text(y, key->field));
	m = key->field ? field_uint(x, key->field) : bytes_of(x);
	n = key->field ? field_uint(y, key->field) : bytes_of(y);
	return (m < n) - (m > n);
}

void connections_sort(json_t *list, const struct connections_key *key, uint64_t limit)
{
	size_t count = json_array_size(list);
	json_t **items = must(calloc(count + 1, sizeof(json_t *)));

	for (size_t i = 0; i < count; i++)
		items[i] = json_incref(json_array_get(list, i));
	if (key)
		qsort_r(items, count, sizeof(json_t *), compare_connections, (void *)key);
	json_array_clear(list);
	for (size_t i = 0; i < count; i++)
		if (i < limit)
			json_array_append_new(list, items[i]);
		else
			json_decref(items[i]);
	free(items);
}

struct human connections_device(const json_t *device)
{
	struct human out = { "" };

	if (device)
		snprintf(out.text, sizeof(out.text), "%.15s/%u %.11s", field_text(device, "name"),
			 (unsigned)field_uint(device, "port"), field_text(device, "transport"));
	return out;
}

static void add_connection(struct table *t, const json_t *c, bool listener)
{
	uint64_t rtt_us = field_uint(c, "rtt_us");
	uint64_t retransmits = field_uint(c, "retransmits");
	const char *state = field_text(c, "state");

	table_cell(t, STYLE_BOLD, "%s", listener ? field_text(c, "listener") : "");
	table_text(t, field_text(c, "peer"));
	table_cell(t, strcmp(state, "open") ? STYLE_WARN : STYLE_PLAIN, "%s", state);
	table_text(t, human_time(field_uint(c, "age_ns")).text);
	table_text(t, human_time(field_uint(c, "idle_ns")).text);
	table_text(t, human_bytes(field_uint(c, "bytes_in")).text);
	table_text(t, human_bytes(field_uint(c, "bytes_out")).text);
	table_text(t, human_bytes(field_uint(c, "held_bytes")).text);
	table_text(t, human_bytes(field_uint(c, "unsent_bytes")).text);
	table_text(t, human_time(rtt_us * NS_PER_US).text);
	table_cell(t, retransmits ? STYLE_WARN : STYLE_PLAIN, "%s", human_count(retransmits).text);
	table_text(t, connections_device(field_get(c, "device")).text);
	table_text(t, field_text(c, "about"));
}

void connections_render(struct output *out, const json_t *list, bool listener)
{
	static const struct column columns[] = {
		{ .title = "listener", .left = true, .optional = true },
		{ .title = "peer", .left = true },
		{ .title = "state", .left = true },
		{ .title = "age" },
		{ .title = "idle", .rank = 2 },
		{ .title = "in" },
		{ .title = "out" },
		{ .title = "held", .rank = 3 },
		{ .title = "unsent", .rank = 4 },
		{ .title = "rtt" },
		{ .title = "retrans", .rank = 1 },
		{ .title = "device", .left = true, .optional = true, .rank = 1 },
		{ .title = "about", .left = true, .optional = true, .rank = 5 },
	};
	struct table *t = table_new(columns, ARRAY_SIZE(columns));
	json_t *c;
	size_t i;

	json_array_foreach(list, i, c)
		add_connection(t, c, listener);
	if (!table_finish(t, out, 0))
		output_text(out, STYLE_PLAIN, "No connections.\n");
}
