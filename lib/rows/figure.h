/* The figures of a row: one table from which the terminal's table, JSON, the page and `top` take
 * names, units and values; its entries are in figure_list.h.  nbbench(1) says what each means. */
#pragma once
#include <stdbool.h>

#include "human.h"
#include "measure.h"

enum figure {
#define FIGURE(id, formula, ...) FIGURE_##id,
#include "figure_list.h"
#undef FIGURE
	FIGURE_COUNT
};

/* How a value is written once it has been multiplied by the scale. */
enum figure_form { FORM_NUMBER, FORM_PERCENT, FORM_RATIO };

struct figure_info {
	const char *name;         /* in JSON, with the unit of the value */
	const char *title, *unit; /* the two lines of a column's heading */
	const char *words;        /* its name in a sentence and in the page; NULL: it is in none */
	double (*value)(const struct measure *row); /* NaN: unknown */
	double scale;                               /* from the value to the column's unit */
	enum figure_form form;
	/* The value of a merged row is that of the sum of its visits, not their median, and its
	 * spread is over the smallest blocks of consecutive visits that have a value: a visit alone
	 * has too few samples. */
	bool pooled;
	/* apart, rank: see struct column.  answer: shown without --wide, too. */
	bool apart, answer;
	unsigned rank;
};
extern const struct figure_info figures[FIGURE_COUNT];

/* NaN: unknown. */
double figure_value(const struct measure *row, enum figure figure);

/* A value in the unit of the figure's column; "": unknown (NaN). */
struct human figure_text(enum figure figure, double value);
