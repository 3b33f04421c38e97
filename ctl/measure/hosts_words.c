/* See hosts_words.h. */
#include "hosts_words.h"

#include <stdio.h>
#include <stdlib.h>

#include "hosts.h"
#include "human.h"
#include "text.h"
#include "util.h"

static const double limit = 0.9; /* of a CPU, as of a generator on one host */

/* ---- The table ---- */

enum { COLUMN_ROW, COLUMN_HOST, COLUMN_FIGURES };

static void add_rows(struct table *t, const struct measure *row)
{
	for (unsigned i = 0; i < hosts_count(row); i++) {
		table_text(t, i ? "" : row->listener);
		table_text(t, hosts_name(row, i));
		for (unsigned j = 0; j < HOSTS_FIGURES; j++) {
			double value = hosts_value(row, i, hosts_figures[j]);

			table_text(t, figure_text(hosts_figures[j], value).text);
		}
	}
}

static void add_group(struct table *t, const struct group *g, bool titled)
{
	char *title = titled && hosts_count(g->rows[0]) ? group_title(g) : NULL;

	if (title)
		table_heading(t, STYLE_BOLD, "%s", title);
	for (unsigned i = 0; i < g->count; i++)
		add_rows(t, g->rows[i]);
	free(title);
}

void hosts_render(struct output *out, const struct groups *all)
{
	struct column columns[COLUMN_FIGURES + HOSTS_FIGURES] = {
		[COLUMN_ROW] = { .title = "listener", .left = true },
		[COLUMN_HOST] = { .title = "host", .left = true },
	};
	struct table *t;

	for (unsigned i = 0; i < HOSTS_FIGURES; i++)
		columns[COLUMN_FIGURES + i] =
			(struct column){ .title = figures[hosts_figures[i]].title,
					 .unit = figures[hosts_figures[i]].unit,
					 .optional = true };
	t = table_new(columns, ARRAY_SIZE(columns));
	for (unsigned i = 0; i < all->count; i++)
		add_group(t, &all->list[i], all->count > 1);
	if (!table_is_empty(t)) {
		table_print(t, out, 2, true);
		putc('\n', out->file);
	}
	table_free(t);
}

/* ---- The limit ---- */

static bool is_at_limit(const struct measure *row, unsigned host)
{
	double share = hosts_value(row, host, FIGURE_GENERATOR_SHARE);
	double server = figure_spread(row, FIGURE_CPU_SHARE).median /
			(double)MAX(row->workers, (uint64_t)1);

	return share >= limit && server < limit * share;
}

static unsigned count_at_limit(const struct measure *row)
{
	unsigned count = 0;

	for (unsigned i = 0; i < hosts_count(row); i++)
		count += is_at_limit(row, i);
	return count;
}

/* "c1 (97 %), c3 (95 %)", or of those that were not: "c2" */
static void name_hosts(FILE *to, const struct measure *row, bool at_limit)
{
	const char *separator = "";

	for (unsigned i = 0; i < hosts_count(row); i++) {
		double share = hosts_value(row, i, FIGURE_GENERATOR_SHARE);

		if (is_at_limit(row, i) != at_limit)
			continue;
		fprintf(to, "%s%s", separator, hosts_name(row, i));
		if (at_limit)
			fprintf(to, " (%s %%)", figure_text(FIGURE_GENERATOR_SHARE, share).text);
		separator = ", ";
	}
}

char *hosts_limit(const struct groups *all)
{
	const struct measure *first = NULL;
	unsigned count = 0, rows = 0;
	char *text;
	FILE *to;

	for (struct groups_at at = { 0 }; groups_next(all, &at); rows++) {
		unsigned hosts = count_at_limit(at.row);

		if (hosts == 0 || hosts == hosts_count(at.row))
			continue;
		first = first ? first : at.row;
		count++;
	}
	if (!first)
		return NULL;
	to = text_open(&text);
	fprintf(to, "In %u of %u rows some hosts of the generator were at their limit (%s: ", count,
		rows, first->listener);
	name_hosts(to, first, true);
	fputs(" of a CPU by its busiest thread; ", to);
	name_hosts(to, first, false);
	fputs(" not): the load was less than that of as many hosts.", to);
	fclose(to);
	return text;
}

/* ---- At the same time ---- */

/* The visit of a row whose hosts ran together for the least part of the time; NULL: the generator
 * ran on one host. */
static const struct measure *least_overlap(const struct measure *row)
{
	const struct measure *least = NULL;

	for (unsigned i = 0; hosts_count(row) && i < measure_visits(row); i++) {
		const struct measure *visit = measure_visit_at(row, i);

		if (!least || visit->generator.overlap < least->generator.overlap)
			least = visit;
	}
	return least;
}

static uint64_t most_spread_ns(const struct measure *row)
{
	uint64_t most_ns = 0;

	for (unsigned i = 0; i < measure_visits(row); i++)
		most_ns = MAX(most_ns, measure_visit_at(row, i)->generator.spread_ns);
	return most_ns;
}

char *hosts_overlap(const struct groups *all)
{
	const struct measure *least = NULL;
	uint64_t spread_ns = 0;
	unsigned hosts = 0;
	char *text;
	FILE *to;

	for (struct groups_at at = { 0 }; groups_next(all, &at);) {
		const struct measure *visit = least_overlap(at.row);

		hosts = MAX(hosts, hosts_count(at.row));
		spread_ns = MAX(spread_ns, most_spread_ns(at.row));
		if (visit && (!least || visit->generator.overlap < least->generator.overlap))
			least = visit;
	}
	if (!least)
		return NULL;
	to = text_open(&text);
	fprintf(to, "The generator started on %u hosts within %s", hosts,
		human_time(spread_ns).text);
	if (least->generator.overlap < limit)
		fprintf(to,
			"; they ran together for only %s %% of the time (%s): give it a duration, "
			"not a count, or more to do",
			human_percent(least->generator.overlap).text, least->listener);
	fputs(".", to);
	fclose(to);
	return text;
}
