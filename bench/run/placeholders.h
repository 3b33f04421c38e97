/* The placeholders in the command of `nbbench compare`, such as `{port}`: values of the listener
 * that it visits, and of the host on which the command runs.  See brace.h.  Pure. */
#pragma once
#include <stdbool.h>

enum placeholder {
	PLACEHOLDER_HOST,
	PLACEHOLDER_PORT,
	PLACEHOLDER_URI,
	PLACEHOLDER_LISTENER,
	PLACEHOLDER_VISITS, /* the placeholders above make nbbench visit one listener after the
			     * other
			     */
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

/* The word with its placeholders replaced by values[], to be freed.  A placeholder whose value is
 * NULL stays as it is.  *ret_missing is set to the name of a placeholder whose value is "". */
char *placeholders_fill(const char *word, const char *const *values, const char **ret_missing);
