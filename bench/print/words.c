/* See words.h. */
#include "words.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "field.h"
#include "human.h"
#include "text.h"
#include "util.h"

enum style words_style(enum verdict_is is)
{
	return is == VERDICT_LESS ? STYLE_GOOD : is == VERDICT_MORE ? STYLE_BAD : STYLE_DIM;
}

/* ---- One verdict ---- */

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

struct phrase words_change(double change)
{
	struct phrase p = { "" };

	if (!isnan(change))
		snprintf(p.text, sizeof(p.text), "%s %%", signed_percent(change).text);
	return p;
}

/* "0.6 to 5.8 %", without signs */
static struct phrase range_text(double low, double high)
{
	struct human from = human_percent(fmin(fabs(low), fabs(high)));
	struct human to = human_percent(fmax(fabs(low), fabs(high)));
	bool wide = strcmp(from.text, to.text) != 0;
	struct phrase p;

	snprintf(p.text, sizeof(p.text), "%s%s%s %%", wide ? from.text : "", wide ? " to " : "",
		 to.text);
	return p;
}

/* What an interval tells: "0.6 to 5.8 % less", "the same within 5 %", "undecided, -3.0 to +7.4 %",
 * "too few rounds: 3 of 7"; of_runs: "too few runs". */
static struct phrase interval_words(const struct verdict *v, double within, bool of_runs)
{
	struct phrase p;

	switch (v->is) {
	case VERDICT_LESS:
	case VERDICT_MORE:
		snprintf(p.text, sizeof(p.text), "%.70s %s", range_text(v->low, v->high).text,
			 v->is == VERDICT_LESS ? "less" : "more");
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

struct phrase words_row(const struct result_group *g, const struct result_row *row)
{
	struct phrase p;

	if (row->doubt == DOUBT_NONE)
		return interval_words(&row->verdicts[JUDGED_COST], g->within, false);
	snprintf(p.text, sizeof(p.text), "no verdict: %s", doubt_infos[row->doubt].words);
	return p;
}

/* ---- One group ---- */

/* "; io_uring: requests 3 to 7 % more, round trip p99 5 to 9 % less" */
char *words_sides(const struct result_group *g, enum judged from)
{
	char *text;
	FILE *to = text_open(&text);

	for (unsigned i = 1; i < g->count; i++) {
		const struct result_row *row = &g->rows[i];
		const char *before = "";

		for (unsigned j = from; j < JUDGED_COUNT; j++) {
			if (j == JUDGED_COST || (row->verdicts[j].is != VERDICT_LESS &&
						 row->verdicts[j].is != VERDICT_MORE))
				continue;
			if (!*before)
				fprintf(to, "%s%s: ", ftell(to) ? "; " : "", row->name);
			fprintf(to, "%s%s %s", before, figures[g->figures[j]].words,
				interval_words(&row->verdicts[j], g->within, false).text);
			before = ", ";
		}
	}
	if (ftell(to))
		putc('.', to);
	return text_close(to, &text);
}

char *words_tls(const struct result_group *g)
{
	json_t *ways = json_array();
	char *text;

	for (unsigned i = 0; i < g->count; i++) {
		const json_t *tls = g->rows[i].row->tls;

		if (tls)
			field_add_once(ways,
				       json_sprintf("tls by %s with %s", field_text(tls, "library"),
						    field_text(tls, "cipher")));
		if (*field_text(tls, "driver"))
			field_add_once(ways,
				       json_sprintf("the kernel by %s", field_text(tls, "driver")));
	}
	text = json_array_size(ways) ? field_show(ways) : NULL;
	json_decref(ways);
	return text;
}

/* ---- The end of a run ---- */

/* "system calls per request", "CPU time per request": the cost is one of three figures. */
static struct phrase figure_words(const struct finding *f)
{
	const struct figure_info *info = &figures[f->group->figures[f->what]];
	struct phrase p;

	if (f->what == JUDGED_COST)
		snprintf(p.text, sizeof(p.text), "CPU time%s", info->words + strlen("CPU"));
	else
		snprintf(p.text, sizeof(p.text), "%s", info->words);
	return p;
}

/* ": 0.111 of a CPU for 100,000 requests/s instead of 0.105" */
static void print_cpus(FILE *to, const struct finding *f)
{
	static const double rate = 100000;
	double now = result_cost(f->group, f->row)->median * rate / NS_PER_S;
	double first = result_cost(f->group, f->group->rows)->median * rate / NS_PER_S;

	/* Only where the medians say what the verdict says. */
	if (f->what == JUDGED_COST && f->groups == 1 &&
	    f->group->figures[JUDGED_COST] == FIGURE_CPU_PER_REQUEST &&
	    (now > first) == (f->is == VERDICT_MORE))
		fprintf(to, ": %.3g of a CPU for %s requests/s instead of %.3g", now,
			human_count((uint64_t)rate).text, first);
}

/* "72 to 78 % fewer", and from twice on "5.9 to 7.8 times as many" */
static struct phrase extent_words(const struct finding *f, bool twice)
{
	bool time = f->what == JUDGED_COST;
	struct phrase p;

	if (twice)
		snprintf(p.text, sizeof(p.text), "%.2g to %.2g times as %s", 1 + f->low,
			 1 + f->high, time ? "much" : "many");
	else
		snprintf(p.text, sizeof(p.text), "%.60s %s", range_text(f->low, f->high).text,
			 f->is == VERDICT_MORE ? "more"
			 : time                ? "less"
					       : "fewer");
	return p;
}

/* "io_uring makes 72 to 78 % fewer system calls per request than epoll."
 * "For that it takes 1.5 to 14 % more CPU time per request." */
char *words_finding(const struct result *r, unsigned i)
{
	const struct finding *f = &r->findings[i];
	bool twice = f->low >= 1;
	char *text;
	FILE *to = text_open(&text);

	if (f->opposite)
		fprintf(to, "For that it takes %s %s", extent_words(f, twice).text,
			figure_words(f).text);
	else
		fprintf(to, "%s %s %s %s %s %s", f->row->name,
			f->what == JUDGED_CALLS || f->what == JUDGED_SWITCHES ? "makes" : "takes",
			extent_words(f, twice).text, figure_words(f).text, twice ? "as" : "than",
			f->group->rows[0].name);
	print_cpus(to, f);
	if (f->all > 1 && f->groups == f->all)
		fprintf(to, ", in all %u loads", f->all);
	else if (f->all > 1)
		fprintf(to, ", in %u of %u loads", f->groups, f->all);
	putc('.', to);
	fclose(to);
	return text;
}

/* An estimate: "45 s", "6 min" */
static struct phrase about(double s)
{
	struct phrase p;

	snprintf(p.text, sizeof(p.text), "%.0f %s", s < 90 ? s : s / 60, s < 90 ? "s" : "min");
	return p;
}

char *words_open(const struct result *r)
{
	static const char *const families[JUDGED_FAMILIES] = { "system calls", "context switches",
							       "instructions", "cycles",
							       "CPU time" };
	const struct open *o = &r->open;
	char *text;
	FILE *to = text_open(&text);

	for (unsigned i = 0; i < JUDGED_FAMILIES; i++)
		if (o->open[i])
			fprintf(to, "%s%s in %u of %u comparison%s",
				ftell(to) ? ", " : "Not decided: ", families[i], o->open[i],
				o->all[i], plural(o->all[i]));
	if (o->rounds && o->seconds > 0)
		fprintf(to, ". At most %u rounds (%s) would decide \xc2\xb1%s", o->rounds,
			about(o->seconds).text,
			within_text(round(1000 * expm1(log1p(r->within) / 2)) / 1000).text);
	if (o->too_few)
		fprintf(to, "%soo few rounds for %u row%s", ftell(to) ? "; t" : "T", o->too_few,
			plural(o->too_few));
	if (o->doubted)
		fprintf(to, "%so verdict on %u row%s, for the reasons above",
			ftell(to) ? "; n" : "N", o->doubted, plural(o->doubted));
	if (ftell(to))
		putc('.', to);
	return text_close(to, &text);
}

const char *words_none(const struct result *r)
{
	bool compared = false;

	for (unsigned i = 0; i < r->group_count; i++)
		compared |= r->groups[i].count > 1;
	if (!r->group_count)
		return "No operations: there is nothing to show.";
	if (!compared)
		return "No verdict: one listener alone has nothing to be compared with.";
	return r->comparisons ? "No difference is known: see what each row says." : "No verdict.";
}

/* ---- Gates ---- */

struct phrase words_against(const struct result *r, const struct result_row *row)
{
	const struct against_saved *t = row->saved;
	struct phrase p;

	if (!t)
		snprintf(p.text, sizeof(p.text), "no saved row");
	else if (t->machine_changed)
		snprintf(p.text, sizeof(p.text),
			 "the machine changed: the generator took %.8s us then, %.8s us now",
			 figure_text(FIGURE_GENERATOR_PER_REQUEST, t->generator_before).text,
			 figure_text(FIGURE_GENERATOR_PER_REQUEST, t->generator_now).text);
	else if (t->verdict.is == VERDICT_TOO_FEW_ROUNDS)
		snprintf(p.text, sizeof(p.text), "too few runs: %u now, %u then, of %u",
			 t->runs_now, t->runs_before, t->verdict.least);
	else
		p = interval_words(&t->verdict, r->within, true);
	return p;
}
