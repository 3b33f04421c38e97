/* See compare_notes.h. */
#include "compare_notes.h"

#include <stdlib.h>
#include <string.h>

#include "field.h"
#include "figure.h"
#include "text.h"
#include "util.h"

/* Omits features that every io_uring listener has. */
static bool is_notable(const char *feature)
{
	static const char *const plumbing[] = { "registered_ring", "restricted", "single_issuer",
						"multishot_accept" };

	for (unsigned i = 0; i < ARRAY_SIZE(plumbing); i++)
		if (!strcmp(feature, plumbing[i]))
			return false;
	return true;
}

/* Adds the row's listener to those of the same features: { "a, b": ["echo-uring", ...] }. */
static void add_features(json_t *listeners, const struct measure *row)
{
	json_t *notable = json_array(), *names, *feature;
	char *text;
	size_t i;

	json_array_foreach(row->features, i, feature)
		if (is_notable(field_text(feature, "")))
			json_array_append(notable, feature);
	text = field_show(notable);
	json_decref(notable);
	names = json_object_get(listeners, text);
	if (!names) {
		names = json_array();
		json_object_set_new(listeners, text, names);
	}
	free(text);
	field_add_once(names, json_string(row->listener));
}

static void render_features(struct output *out, const struct groups *all)
{
	json_t *listeners = json_object(), *names;
	const char *features;

	for (unsigned i = 0; i < all->count; i++)
		for (unsigned j = 0; j < all->list[i].count; j++)
			add_features(listeners, all->list[i].rows[j]);
	json_object_foreach(listeners, features, names) {
		char *text = field_show(names);

		if (*features)
			output_wrapped(out, STYLE_DIM, 2, "%s: %s", text, features);
		free(text);
	}
	json_decref(listeners);
}

/* "a: p50 5.1 to 7.2 us over 30 visits, p99 98 to 340 us over 12 blocks of them" */
static void render_percentiles(struct output *out, const struct measure *row)
{
	static const enum figure percentiles[] = { FIGURE_P50, FIGURE_P99, FIGURE_P99_9 };
	char *text = NULL;
	FILE *to = text_open(&text);

	for (unsigned i = 0; i < ARRAY_SIZE(percentiles); i++) {
		enum figure f = percentiles[i];
		struct spread s = figure_spread(row, f);

		if (s.count > 1)
			fprintf(to, "%s %s %s to %s %s over %u %s", ftell(to) ? "," : ":",
				figures[f].words, figure_text(f, s.low).text,
				figure_text(f, s.high).text, figures[f].unit, s.count,
				s.count == measure_visits(row) ? "visits" : "blocks of visits");
	}
	fclose(to);
	if (*text)
		output_wrapped(out, STYLE_DIM, 2, "%s%s.", row->listener, text);
	free(text);
}

void compare_notes(struct output *out, const struct groups *all)
{
	for (unsigned i = 0; i < all->count; i++)
		for (unsigned j = 0; j < all->list[i].count; j++)
			render_percentiles(out, all->list[i].rows[j]);
	render_features(out, all);
}
