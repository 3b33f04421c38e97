/* See junit.h. */
#include "junit.h"

#include <stdlib.h>

#include "svg.h"
#include "text.h"

struct suite {
	FILE *cases;
	bool undecided_passes;
	unsigned counts[GATES], all;
};

static void put_attribute(FILE *to, const char *name, const char *value)
{
	fprintf(to, " %s=\"", name);
	svg_escape(to, value);
	putc('"', to);
}

/* Writes a test case.  A row that cannot be compared is an "error", as the run is at fault and not
 * the measured program, which would be a "failure". */
static void put_case(struct suite *s, const char *class, const char *row, const char *name,
		     enum gate gate, const char *text)
{
	const char *element = gate == GATE_NOT_COMPARABLE ? "error" : "failure";

	bool passed = gate == GATE_PASSED || (s->undecided_passes && gate == GATE_UNDECIDED);

	s->counts[passed ? GATE_PASSED : gate]++;
	s->all++;
	fputs("<testcase", s->cases);
	put_attribute(s->cases, "classname", class);
	fputs(" name=\"", s->cases);
	svg_escape_format(s->cases, "%s: %s", row, name);
	putc('"', s->cases);
	if (passed) {
		putc('>', s->cases);
		svg_element(s->cases, "system-out", "%s", text);
		fputs("</testcase>\n", s->cases);
		return;
	}
	fprintf(s->cases, "><%s type=\"%s\"", element, gate_names[gate]);
	put_attribute(s->cases, "message", text);
	fputs("/></testcase>\n", s->cases);
}

static void put_limits(struct suite *s, const struct limits *l)
{
	for (unsigned i = 0; i < l->count; i++) {
		const struct limit_case *c = &l->cases[i];
		char *title = group_title(c->group);

		put_case(s, title, c->group->rows[c->row]->listener, c->limit->text, c->gate,
			 limit_case_text(c).text);
		free(title);
	}
	if (l->count == 0)
		put_case(s, "nbctl compare", "--fail-if", "rows", GATE_NOT_COMPARABLE,
			 "there is no row to judge by a limit");
}

static void put_against(struct suite *s, const struct against *a)
{
	for (unsigned i = 0; i < a->groups.count; i++) {
		const struct group *g = &a->groups.list[i];
		char *title = group_title(g);

		put_case(s, title, g->rows[g->count - 1]->listener, "against the saved rows",
			 a->rows[i].gate, against_words(a, i).text);
		free(title);
	}
	if (a->groups.count == 0)
		put_case(s, "nbctl compare", "--against", "rows", GATE_NOT_COMPARABLE,
			 "there is no row");
}

static void put_pairs(struct suite *s, const struct groups *pairs)
{
	for (unsigned i = 0; i < pairs->count; i++) {
		const struct group *g = &pairs->list[i];
		char *title = group_title(g);

		for (unsigned j = 1; *g->pair && j < g->count; j++)
			put_case(s, title, g->rows[j]->listener, g->rows[0]->listener,
				 gate_of(&g->verdicts[j], g->within),
				 group_verdict_text(g, j).text);
		free(title);
	}
}

void junit_write(FILE *to, const struct junit *found)
{
	struct suite s = { .undecided_passes = found->undecided_passes };
	char *cases, text[40];

	s.cases = text_open(&cases);
	if (found->limits)
		put_limits(&s, found->limits);
	if (found->against)
		put_against(&s, found->against);
	if (found->pairs)
		put_pairs(&s, found->pairs);
	snprintf(text, sizeof(text), "exit status %d", found->status);
	if (found->status)
		put_case(&s, "nbctl compare", "measuring", "exit status", GATE_NOT_COMPARABLE,
			 text);
	fclose(s.cases);
	fprintf(to,
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites><testsuite name=\"nbctl "
		"compare\" tests=\"%u\" failures=\"%u\" errors=\"%u\">\n%s</testsuite></testsuites>\n",
		s.all, s.counts[GATE_WORSE] + s.counts[GATE_UNDECIDED],
		s.counts[GATE_NOT_COMPARABLE], cases);
	free(cases);
}
