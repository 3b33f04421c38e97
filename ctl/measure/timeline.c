/* See timeline.h.  A point is [nanoseconds, operations]. */
#include "timeline.h"

#include <string.h>

#include "field.h"
#include "util.h"

static json_t *points_of(const struct measure *row)
{
	json_t *all = field_get(row->source, "timeline"), *points;

	if (!all) {
		all = json_object();
		json_object_set_new(row->source, "timeline", all);
	}
	points = json_object_get(all, row->operation);
	if (!points) {
		points = json_array();
		json_object_set_new(all, row->operation, points);
	}
	return points;
}

static void add_points(struct measures *m, unsigned first, const struct measures *piece)
{
	for (unsigned i = first; i < m->count; i++)
		for (unsigned j = 0; j < piece->count; j++) {
			const struct measure *p = piece->rows[j];

			if (strcmp(p->listener, m->rows[i]->listener) != 0 ||
			    strcmp(p->operation, m->rows[i]->operation) != 0)
				continue;
			m->rows[i]->timeline = points_of(m->rows[i]);
			json_array_append_new((json_t *)m->rows[i]->timeline,
					      json_pack("[I, I]", (json_int_t)p->interval_ns,
							(json_int_t)p->count));
		}
}

static void set_connections(struct measure *row, const json_t *documents)
{
	json_t *document;
	size_t i;

	json_array_foreach(documents, i, document) {
		const json_t *listener = field_named(document, "listeners", row->listener);

		row->connections = MAX(row->connections, field_uint(listener, "connections.open"));
	}
}

void timeline_set(struct measures *m, unsigned first, const json_t *documents)
{
	for (unsigned i = first; i < m->count; i++)
		set_connections(m->rows[i], documents);
	for (size_t i = 1; i < json_array_size(documents); i++) {
		const json_t *before = json_array_get(documents, i - 1);
		const json_t *after = json_array_get(documents, i);
		struct measures piece = {};
		uint64_t interval_ns;

		if (measures_interval(before, after, &interval_ns) < 0)
			continue;
		measures_delta(&piece, before, after, interval_ns, "");
		add_points(m, first, &piece);
		measures_free(&piece);
	}
}

bool timeline_point(const struct measure *row, unsigned i, uint64_t *ret_ns, double *ret_rate)
{
	const json_t *point = json_array_get(row->timeline, i);

	*ret_ns = field_uint(json_array_get(point, 0), "");
	if (*ret_ns == 0)
		return false;
	*ret_rate = (double)field_uint(json_array_get(point, 1), "") * NS_PER_S / (double)*ret_ns;
	return true;
}
