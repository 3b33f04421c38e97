/* `--fail-if`: limits for figures of rows, as `p99>200us`.  The interval of the row's figure
 * decides: a row fails if all of it is beyond the limit, and passes if none of it is.  Pure. */
#pragma once
#include "result.h"

struct limit {
	const char *text; /* as given; set and owned by the caller */
	enum figure figure;
	enum judged judged; /* in place of figure: the group's; JUDGED_COUNT: none */
	bool below;         /* the row fails below it, not above it */
	double value;       /* in the unit of the figure in JSON; above 0 */
};

enum { LIMIT_ERROR_BYTES = 256 };
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
	unsigned count;
	enum gate gate; /* of all; GATE_UNKNOWN also without any case */
	struct limit_case cases[];
};

/* list and the groups of r must outlive it, which the caller frees. */
struct limits *limits_new(const struct limit *list, unsigned count, const struct result *r);
