/* `--fail-if`: limits for figures of rows, as `p99>200us`.  The interval of the row's figure
 * decides: a row fails if all of it is beyond the limit, and passes if none of it is.  Pure. */
#pragma once
#include "result.h"

struct limit {
	char *text; /* as given; set and owned by the caller */
	enum figure figure;
	enum judged judged; /* in place of figure: the group's; JUDGED_COUNT: none */
	bool below;         /* the row fails below it, not above it */
	double value;       /* in the unit of the figure in JSON; above 0 */
};

enum { LIMIT_ERROR_BYTES = 1400 };
/* Pure, for any text.  False: error says what is wrong and what is expected. */
bool limit_parse(const char *text, struct limit *ret, char error[LIMIT_ERROR_BYTES]);

struct limit_case { /* a limit and a row */
	const struct limit *limit;
	const struct result_group *group;
	const struct result_row *row;
	enum figure figure;
	enum gate gate;
};

struct limits {
	struct limit_case *cases;
	unsigned count;
	enum gate gate; /* of all; GATE_NOT_COMPARABLE also without any case */
};

/* list and the groups of r must outlive it. */
struct limits *limits_new(const struct limit *list, unsigned count, const struct result *r);
void limits_free(struct limits *l); /* NULL is allowed */

/* A sentence, which the caller frees, about a limit that so many rounds such as those in m, which
 * is not merged, cannot decide, as a percentile is known only from many samples; NULL: they can. */
char *limit_hopeless(const struct limit *limit, const struct measures *m, unsigned rounds);
