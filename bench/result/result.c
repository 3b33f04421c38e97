/* Groups, values, and the order in which a result is found.  See result.h; steps.h says which file
 * finds what. */
#include "result.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "field.h"
#include "measure_visits.h"
#include "must.h"
#include "numbers.h"
#include "steps.h"
#include "text.h"
#include "util.h"

/* ---- Grouping ---- */

static struct result_group *find_group(struct result *r, const struct measure *row)
{
	for (unsigned i = 0; i < r->group_count; i++) {
		struct result_group *g = &r->groups[i];

		if (!strcmp(g->service, row->service) && !strcmp(g->label, row->label) &&
		    !strcmp(g->operation, row->operation) && !strcmp(g->pair, row->pair))
			return g;
	}
	r->groups = must(reallocarray(r->groups, r->group_count + 1, sizeof(*r->groups)));
	r->groups[r->group_count] = (struct result_group){
		.service = row->service,
		.label = row->label,
		.operation = row->operation,
		.pair = row->pair,
	};
	return &r->groups[r->group_count++];
}

/* Rows are zero but for their measure until all groups are known: nothing points to one before. */
static void add_row(struct result_group *g, struct measure *row)
{
	g->rows = must(reallocarray(g->rows, g->count + 1, sizeof(*g->rows)));
	g->rows[g->count++] = (struct result_row){ .row = row };
}

static void make_groups(struct result *r, const struct measures *m)
{
	for (unsigned i = 0; i < m->count; i++)
		if (m->rows[i]->count > 0)
			add_row(find_group(r, m->rows[i]), m->rows[i]);
}

char *group_title(const struct result_group *g, const char *label)
{
	bool operation = strcmp(g->operation, g->service) != 0;

	return text_new("%s%s%s%s%s%s%s", g->service, operation ? " " : "",
			operation ? g->operation : "", *g->pair ? ", " : "", g->pair,
			*label ? ": " : "", label);
}

/* ---- Names ---- */

static void set_names(struct result_group *g)
{
	for (unsigned i = 0; i < g->count; i++) {
		struct phrase name = measure_engine_name(g->rows[i].row);

		for (unsigned j = 0; j < g->count; j++)
			if (j != i &&
			    !strcmp(name.text, measure_engine_name(g->rows[j].row).text)) {
				snprintf(name.text, sizeof(name.text), "%s",
					 g->rows[i].row->listener);
				break;
			}
		memcpy(g->rows[i].name, name.text, sizeof(name.text));
	}
}

/* ---- Values ---- */

static struct value value_of(const struct measure *row, enum figure figure)
{
	double *values = must(calloc(measure_visits(row), sizeof(*values)));
	struct value v = { NAN, NAN, NAN, 0 };

	v.count = measure_values(row, figure, values);
	if (v.count > 0) {
		verdict_interval(values, v.count, &v.lower, &v.upper);
		v.median = numbers_median(values, v.count);
	}
	if (figures[figure].pooled)
		v.median = figure_value(row, figure);
	free(values);
	return v;
}

static void set_values(struct result_group *g)
{
	for (unsigned i = 0; i < g->count; i++)
		for (unsigned j = 0; j < FIGURE_COUNT; j++)
			g->rows[i].values[j] = value_of(g->rows[i].row, j);
}

double result_rate_apart(const struct result_group *g, const struct result_row *row)
{
	return fabs(row->values[g->rate].median / g->rows[0].values[g->rate].median - 1);
}

/* The visits of a round take so long, one after the other. */
static void set_round_length(struct result_group *g)
{
	uint64_t ns = 0;

	for (unsigned i = 0; i < g->count; i++)
		ns += MAX(g->rows[i].row->interval_ns, g->rows[i].row->generator.lived_ns) /
		      measure_visits(g->rows[i].row);
	g->round_s = ns ? (double)ns / NS_PER_S : NAN;
}

/* ---- The result ---- */

struct result *result_new(const struct measures *m, const struct result_options *o)
{
	struct result *r = must(calloc(1, sizeof(*r)));

	r->within = o->within > 0 ? o->within : WITHIN_DEFAULT;
	r->unavailable = m->unavailable;
	r->minor = m->minor ? field_show(m->minor) : text_new("%s", "");
	make_groups(r, m);
	for (unsigned i = 0; i < r->group_count; i++) {
		r->groups[i].title = group_title(&r->groups[i], r->groups[i].label);
		set_names(&r->groups[i]);
		set_values(&r->groups[i]);
		set_round_length(&r->groups[i]);
	}
	comparison_judge(r);
	if (o->saved)
		against_saved_judge(r, o->saved, o->force);
	curves_make(r);
	if (o->limit_count)
		r->limits = limits_new(o->limits, o->limit_count, r);
	findings_make(r);
	warnings_make(r);
	gate_set(r, o);
	return r;
}

void result_free(struct result *r)
{
	if (!r)
		return;
	for (unsigned i = 0; i < r->group_count; i++) {
		for (unsigned j = 0; j < r->groups[i].count; j++)
			free(r->groups[i].rows[j].saved);
		free(r->groups[i].rows);
		free(r->groups[i].title);
	}
	for (unsigned i = 0; i < r->warning_count; i++)
		free(r->warnings[i].text);
	curves_free(r);
	free(r->limits);
	json_decref(r->changed);
	free(r->warnings);
	free(r->groups);
	free(r->minor);
	free(r);
}

bool result_next(const struct result *r, struct result_at *at)
{
	if (at->row && at->row + 1 < at->group->rows + at->group->count) {
		at->row++;
	} else {
		at->group = at->group ? at->group + 1 : r->groups;
		if (at->group == r->groups + r->group_count)
			return false;
		at->row = at->group->rows; /* no group is empty */
	}
	at->first = at->row == at->group->rows;
	return true;
}

double result_width(const struct measures *m)
{
	struct measures merged = measures_merged(m);
	struct result *r = must(calloc(1, sizeof(*r)));
	double width;

	r->within = m->within > 0 ? m->within : WITHIN_DEFAULT;
	make_groups(r, &merged);
	width = comparison_widest(r);
	result_free(r);
	measures_free(&merged);
	return width;
}
