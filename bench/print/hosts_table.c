/* See hosts_table.h. */
#include "hosts_table.h"

#include <stdio.h>
#include <stdlib.h>

#include "hosts.h"
#include "human.h"
#include "text.h"
#include "util.h"

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

static void add_group(struct table *t, const struct result_group *g, bool titled)
{
	if (titled && hosts_count(g->rows[0].row))
		table_heading(t, STYLE_BOLD, "%s", g->title);
	for (unsigned i = 0; i < g->count; i++)
		add_rows(t, g->rows[i].row);
}

void hosts_render(struct output *out, const struct result *r)
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
	for (unsigned i = 0; i < r->group_count; i++)
		add_group(t, &r->groups[i], r->group_count > 1);
	if (!table_is_empty(t)) {
		table_print(t, out, 2, true);
		putc('\n', out->file);
	}
	table_free(t);
}
