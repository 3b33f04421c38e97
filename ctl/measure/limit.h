/* `--fail-if`: limits for figures of rows, as `p99>200us` or `cost>1.1*first`.  Each is judged as
 * rows are: by the ratios of the figure to its limit in the rounds, with an interval; all intervals
 * of all limits hold together in 95 of 100 runs.  Pure. */
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "compare_gate.h"
#include "compare_group.h"

struct limit {
	char *text; /* as given; set and owned by the caller */
	enum figure figure;
	bool cost;     /* in place of `figure`: the one by which the row's group is compared */
	bool rate;     /* in place of `figure`: requests, or operations where they are not known */
	bool below;    /* the row fails below it, not above it */
	bool of_first; /* value is a factor of the first row's figure in the same round */
	double value;  /* in the unit of the figure in JSON; above 0 */
};

enum { LIMIT_ERROR_BYTES = 1400 };
/* Pure, for any text.  False: error says what is wrong and what is expected. */
bool limit_parse(const char *text, struct limit *ret, char error[LIMIT_ERROR_BYTES]);

struct limit_case { /* a limit and a row */
	const struct limit *limit;
	const struct group *group;
	unsigned row;
	enum figure figure;
	double value; /* of the figure; NaN: unknown */
	/* change, low and high: from the limit, 0.05 is 5 % above it */
	struct verdict verdict;
	enum gate gate;
};

struct limits {
	struct groups groups;
	struct limit_case *cases;
	unsigned count;
	enum gate gate; /* of all; GATE_NOT_COMPARABLE also without any case */
};

/* list must outlive *ret, and so must m, which is merged. */
void limits_judge(struct limits *ret, const struct limit *list, unsigned count,
		  const struct measures *m);
void limits_fini(struct limits *l);

/* "p99 312 us, +45.1 to +65.0 % from the limit", "too few rounds: 2 of 6" */
struct phrase limit_case_text(const struct limit_case *c);
/* A line for each case that does not pass, and a summary. */
void limits_render(struct output *out, const struct limits *l);
json_t *limits_to_json(const struct limits *l); /* a new reference */
