/* Differences between two configurations, key by key of the one table, and what a reload has to do
 * for each.  Pure. */
#pragma once
#include "config.h"

struct config_change {
	enum config_section kind;
	enum config_class class;
	char name[CONFIG_NAME_MAX]; /* of its section */
	/* In ASCII: `file:line: [section] key: old -> new (class)`, or `file:line: [section]: added
	 * (class)`, `... removed (class)`. */
	char *text;
};

struct config_diff {
	struct config_change
		*list; /* by kind of section, in the order of `to`; then sections missing in it */
	unsigned count;
};

/* Fills in diff, which the caller frees with config_diff_free(). */
void config_diff_make(struct config_diff *diff, const struct config *from, const struct config *to);
void config_diff_free(struct config_diff *diff);

/* Is there a change of that class in the section kind NAME?  NULL: in any section. */
bool config_diff_has(const struct config_diff *diff, enum config_section kind, const char *name,
		     enum config_class class);
