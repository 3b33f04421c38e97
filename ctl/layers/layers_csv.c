/* Layers in CSV, as columns of the rows' lines.  See layers_group.h. */
#include <math.h>
#include <stdlib.h>

#include "compare_table.h"
#include "layers_group.h"
#include "must.h"
#include "util.h"

struct layers_csv {
	struct csv_more more;
	struct layers_group *groups; /* those that were sampled */
	unsigned count;
};

static void titles(const struct csv_more *more, FILE *to)
{
	(void)more;
	fputs(",layers_figure,layers_samples,layers_lost,layers_sampled_share", to);
	for (unsigned i = 0; i < LAYER_COUNT; i++) {
		const char *name = layer_infos[i].name;

		fprintf(to, ",layer_%s,layer_%s_change,layer_%s_low,layer_%s_high", name, name,
			name, name);
	}
}

/* NULL: the row was not sampled. */
static const struct layers_row *row_of(const struct layers_csv *csv, const struct measure *row,
				       const struct group **ret_group)
{
	for (unsigned i = 0; i < csv->count; i++) {
		const struct layers_group *l = &csv->groups[i];

		for (unsigned j = 0; j < l->group->count; j++)
			if (l->group->rows[j] == row && l->rows[j].known) {
				*ret_group = l->group;
				return &l->rows[j];
			}
	}
	return NULL;
}

static void fields(const struct csv_more *more, FILE *to, const struct measure *row)
{
	const struct layers_csv *csv = container_of(more, const struct layers_csv, more);
	const struct group *g;
	const struct layers_row *found = row ? row_of(csv, row, &g) : NULL;

	fprintf(to, ",%s", found ? figures[g->cost].name : "");
	compare_csv_number(to, found ? (double)found->samples : NAN);
	compare_csv_number(to, found ? (double)found->lost : NAN);
	compare_csv_number(to, found ? found->seen : NAN);
	for (unsigned i = 0; i < LAYER_COUNT; i++) {
		bool judged = found && row != g->rows[0];

		compare_csv_number(to, found ? found->ns[i] : NAN);
		compare_csv_number(to, judged ? found->verdicts[i].change : NAN);
		compare_csv_number(to, judged ? found->verdicts[i].low : NAN);
		compare_csv_number(to, judged ? found->verdicts[i].high : NAN);
	}
}

void layers_csv(struct output *out, const struct measures *m)
{
	struct layers_csv csv = { .more = { titles, fields } };
	struct groups groups;

	groups_init(&groups, m);
	csv.groups = must(calloc(groups.count + 1, sizeof(*csv.groups)));
	for (unsigned i = 0; i < groups.count; i++)
		csv.count += layers_group_init(&csv.groups[csv.count], &groups.list[i]);
	compare_csv(out, m, csv.count ? &csv.more : NULL);
	for (unsigned i = 0; i < csv.count; i++)
		layers_group_fini(&csv.groups[i]);
	free(csv.groups);
	groups_fini(&groups);
}
