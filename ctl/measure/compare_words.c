/* Verdicts in words: of a row, a group, and all groups.  See compare_group.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compare_group.h"
#include "field.h"
#include "human.h"
#include "must.h"
#include "text.h"
#include "util.h"

/* ---- One row ---- */

/* "5 %", or "2.5 %" */
static struct human within_text(double within)
{
	struct human text;

	snprintf(text.text, sizeof(text.text), "%.3g %%", 100 * within);
	return text;
}

/* "+5", or "-2.5" */
static struct human signed_percent(double change)
{
	struct human text;

	snprintf(text.text, sizeof(text.text), "%s%.24s", change < 0 ? "-" : "+",
		 human_percent(fabs(change)).text);
	return text;
}

struct phrase group_change_text(const struct group *g, unsigned i)
{
	double change = group_change(g, i);
	struct phrase p = { "" };

	if (!isnan(change))
		snprintf(p.text, sizeof(p.text), "%s %%", signed_percent(change).text);
	return p;
}

static struct phrase verdict_text(const struct verdict *v, double within, bool of_runs)
{
	double near = fmin(fabs(v->low), fabs(v->high)), far = fmax(fabs(v->low), fabs(v->high));
	struct human from = human_percent(near), to = human_percent(far);
	bool wide = strcmp(from.text, to.text) != 0;
	struct phrase p;

	switch (v->is) {
	case VERDICT_LESS:
	case VERDICT_MORE:
		snprintf(p.text, sizeof(p.text), "%s%s%s %% %s", wide ? from.text : "",
			 wide ? " to " : "", to.text, v->is == VERDICT_LESS ? "less" : "more");
		break;
	case VERDICT_SAME:
		snprintf(p.text, sizeof(p.text), "the same within %s", within_text(within).text);
		break;
	case VERDICT_UNDECIDED:
		snprintf(p.text, sizeof(p.text), "undecided, %s to %s %%",
			 signed_percent(v->low).text, signed_percent(v->high).text);
		break;
	case VERDICT_TOO_FEW_ROUNDS:
		snprintf(p.text, sizeof(p.text), "too few %s: %u of %u",
			 of_runs ? "runs" : "rounds", v->rounds, v->least);
		break;
	case VERDICT_NOT_COMPARABLE:
		snprintf(p.text, sizeof(p.text), "not comparable");
		break;
	}
	return p;
}

struct phrase group_verdict_text(const struct group *g, unsigned i)
{
	return verdict_text(&g->verdicts[i], g->within, g->of_runs);
}

/* ---- One group ---- */

struct phrase group_row_name(const struct group *g, unsigned i)
{
	struct phrase name = compare_engine_text(g->rows[i]);

	for (unsigned j = 0; j < g->count; j++)
		if (j != i && !strcmp(name.text, compare_engine_text(g->rows[j]).text)) {
			snprintf(name.text, sizeof(name.text), "%s", g->rows[i]->listener);
			break;
		}
	return name;
}

char *group_verdict(const struct group *g)
{
	char *text;
	unsigned rounds = group_rounds(g);
	FILE *to;

	if (!group_is_judged(g))
		return NULL;
	to = text_open(&text);
	fprintf(to, "%s against %s: ", figures[g->cost].words, group_row_name(g, 0).text);
	for (unsigned i = 1; i < g->count; i++)
		fprintf(to, "%s%s %s", i > 1 ? "; " : "", group_row_name(g, i).text,
			group_verdict_text(g, i).text);
	fprintf(to, " (%u round%s).", rounds, plural(rounds));
	fclose(to);
	return text;
}

/* "; io_uring: requests 3 to 7 % more, round trip p99 5 to 9 % less" */
static void print_side(FILE *to, const struct group *g, unsigned row)
{
	const char *before = "";

	for (unsigned i = 0; i < GROUP_SIDE_FIGURES; i++) {
		struct verdict v = group_side_verdict(g, row, i);

		if (!verdict_decides(v.is))
			continue;
		if (!*before)
			fprintf(to, "%s%s: ", ftell(to) ? "; " : "", group_row_name(g, row).text);
		fprintf(to, "%s%s %s", before, figures[group_side_figures[i]].words,
			verdict_text(&v, g->within, false).text);
		before = ", ";
	}
}

/* "; io_uring: 0.103 of a CPU for 100,000 requests/s instead of 0.095" */
static void print_cpus(FILE *to, const struct group *g, unsigned row)
{
	static const double rate = 100000;
	double cpus = group_cost(g, row) * rate / NS_PER_S;
	double first = group_cost(g, 0) * rate / NS_PER_S;

	if (g->cost == FIGURE_CPU_PER_REQUEST && verdict_decides(g->verdicts[row].is))
		fprintf(to, "%s%s: %.3g of a CPU for %s requests/s instead of %.3g",
			ftell(to) ? "; " : "", group_row_name(g, row).text, cpus,
			human_count((uint64_t)rate).text, first);
}

char *group_side(const struct group *g)
{
	char *text;
	FILE *to = text_open(&text);

	for (unsigned i = 1; i < g->count; i++) {
		print_cpus(to, g, i);
		print_side(to, g, i);
	}
	if (ftell(to))
		putc('.', to);
	return text_close(to, &text);
}

char *group_user(const struct group *g)
{
	char *text;
	FILE *to = text_open(&text);

	for (unsigned i = 1; i < g->count; i++) {
		struct verdict v;

		if (!group_user_row(g, i))
			continue;
		v = group_user_verdict(g, i);
		fprintf(to, "%s%s %s",
			ftell(to) ? "; " : "Against tls = user: ", group_row_name(g, i).text,
			verdict_text(&v, g->within, false).text);
	}
	if (ftell(to))
		putc('.', to);
	return text_close(to, &text);
}

/* ---- All groups ---- */

/* Counts of one engine: { engine: [less, more, the same, all] }. */
enum { COUNT_LESS, COUNT_MORE, COUNT_SAME, COUNT_ALL, COUNTS };

static void count_up(json_t *counts, unsigned which)
{
	json_t *count = json_array_get(counts, which);

	json_integer_set(count, json_integer_value(count) + 1);
}

static int count_of(const json_t *counts, unsigned which)
{
	return (int)json_integer_value(json_array_get(counts, which));
}

/* The largest p value of the verdicts that the conclusion counts; -1: it counts none.  Intervals
 * hold together only within a group: among 11 groups that are equal, every third report would count
 * some difference.  So the conclusion takes the procedure of Benjamini and Hochberg (1995), by
 * which at most one in 20 of the differences that it counts is chance, on average. */
static double largest_p(const struct groups *all)
{
	unsigned count = 0;
	double *list, largest = -1;

	for (unsigned i = 0; i < all->count; i++)
		count += all->list[i].count;
	list = must(calloc(count + 1, sizeof(*list)));
	count = 0;
	for (struct groups_at at = { 0 }; groups_next(all, &at);)
		if (at.verdict && !isnan(at.verdict->p))
			list[count++] = at.verdict->p;
	numbers_sort(list, count);
	for (unsigned i = 0; i < count; i++)
		if (list[i] <= VERDICT_ALPHA * (i + 1) / count)
			largest = list[i];
	free(list);
	return largest;
}

/* The largest difference that counts. */
struct largest {
	const struct group *group;
	unsigned row;
	double change;
};

static void count_row(const struct group *g, unsigned i, double p_max, json_t *counts,
		      struct largest *largest)
{
	const struct verdict *v = &g->verdicts[i];

	count_up(counts, COUNT_ALL);
	if (v->is == VERDICT_SAME)
		count_up(counts, COUNT_SAME);
	if (!verdict_decides(v->is) || !(v->p <= p_max))
		return;
	count_up(counts, v->is == VERDICT_LESS ? COUNT_LESS : COUNT_MORE);
	/* 50 % less is as large as 100 % more. */
	if (!largest->group || fabs(log1p(v->change)) > fabs(log1p(largest->change)))
		*largest = (struct largest){ g, i, v->change };
}

static void count_group(const struct group *g, double p_max, json_t *bases, json_t *engines,
			struct largest *largest)
{
	json_object_set_new(bases, compare_engine_text(g->rows[0]).text, json_true());
	for (unsigned i = 1; i < g->count; i++) {
		struct phrase engine = compare_engine_text(g->rows[i]);

		if (!json_object_get(engines, engine.text))
			json_object_set_new(engines, engine.text,
					    json_pack("[i, i, i, i]", 0, 0, 0, 0));
		count_row(g, i, p_max, json_object_get(engines, engine.text), largest);
	}
}

/* "io_uring: less CPU in 6, the same within 5 % in 3, undecided in 2 of 11 loads" */
static void print_counts(FILE *to, json_t *engines, const char *within)
{
	const char *engine, *between = "";
	json_t *counts;

	json_object_foreach(engines, engine, counts) {
		int less = count_of(counts, COUNT_LESS), more = count_of(counts, COUNT_MORE);
		int same = count_of(counts, COUNT_SAME), all = count_of(counts, COUNT_ALL);
		const char *comma = "";

		fprintf(to, "%s%s: ", between, engine);
		if (less)
			fprintf(to, "less CPU in %d", less);
		comma = less ? ", " : "";
		if (more)
			fprintf(to, "%smore CPU in %d", comma, more);
		comma = less + more ? ", " : "";
		if (same)
			fprintf(to, "%sthe same within %s in %d", comma, within, same);
		comma = less + more + same ? ", " : "";
		if (less + more + same < all)
			fprintf(to, "%sundecided in %d", comma, all - less - more - same);
		fprintf(to, " of %d load%s", all, plural((unsigned)all));
		between = "; ";
	}
	fputs(".", to);
}

static void print_largest(FILE *to, const struct largest *l)
{
	char *title = group_title(l->group);

	fprintf(to, " The largest difference is %s with %s %s than %s (%s).",
		group_row_name(l->group, l->row).text, group_verdict_text(l->group, l->row).text,
		figures[l->group->cost].words, group_row_name(l->group, 0).text, title);
	free(title);
}

/* "io_uring: 12 to 21 % more CPU per request than epoll; io_uring-poll: the same within 5 %." */
static char *one_conclusion(const struct group *g)
{
	char *text;
	FILE *to = text_open(&text);

	for (unsigned i = 1; i < g->count; i++) {
		fprintf(to, "%s%s: %s", i > 1 ? "; " : "", group_row_name(g, i).text,
			group_verdict_text(g, i).text);
		if (verdict_decides(g->verdicts[i].is))
			fprintf(to, " %s than %s", figures[g->cost].words,
				group_row_name(g, 0).text);
	}
	putc('.', to);
	fclose(to);
	return text;
}

char *groups_conclusion(const struct groups *all)
{
	json_t *bases, *engines;
	struct largest largest = { 0 };
	double p_max = largest_p(all);
	char *text = NULL;
	FILE *to;

	if (all->count == 1 && group_is_judged(all->list))
		return one_conclusion(all->list);
	bases = json_object();
	engines = json_object();
	for (unsigned i = 0; i < all->count; i++)
		if (group_is_judged(&all->list[i]))
			count_group(&all->list[i], p_max, bases, engines, &largest);
	if (json_object_size(engines)) {
		char *base = field_show_names(bases, NULL, " or ");

		to = text_open(&text);
		fprintf(to, "Against %s, ", base);
		free(base);
		print_counts(to, engines, within_text(all->list[0].within).text);
		if (largest.group)
			print_largest(to, &largest);
		fclose(to);
	}
	json_decref(bases);
	json_decref(engines);
	return text;
}
