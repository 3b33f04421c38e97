/* What `{host}` and so on in the command of `nbctl compare` stand for: of the listener that it
 * visits, and of the host on which the command runs.  See brace.h.  Pure. */
#pragma once
#include <stdbool.h>

enum placeholder {
	PLACEHOLDER_HOST,
	PLACEHOLDER_PORT,
	PLACEHOLDER_URI,
	PLACEHOLDER_LISTENER,
	PLACEHOLDER_VISITS, /* those above are of a listener */
	PLACEHOLDER_CLIENT = PLACEHOLDER_VISITS,
	PLACEHOLDER_INDEX,
	PLACEHOLDER_COUNT
};

/* Without their braces. */
extern const char *const placeholder_names[PLACEHOLDER_COUNT];

/* Does a word of argv (NULL-terminated) have a placeholder of a listener? */
bool placeholders_used(char *const *argv);

/* The first unknown one of argv, from its brace on, with its length in *ret_bytes; NULL: none. */
const char *placeholders_unknown(char *const *argv, int *ret_bytes);

/* The word with values[] for its placeholders, to be freed; one with NULL stays as it is.
 * *ret_missing is set to the name of one whose value is "". */
char *placeholders_fill(const char *word, const char *const *values, const char **ret_missing);
