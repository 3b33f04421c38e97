/* Words in braces in the command of `nbctl compare`: `{port}` stands for a listener's port,
 * `{{port}}` for the text `{port}`.  What a shell or a format reads, `${name}` and `%{name}`, is no
 * placeholder, nor is anything but lower-case letters and underscores.  Pure. */
#pragma once
#include <stdbool.h>

enum placeholder {
	PLACEHOLDER_HOST,
	PLACEHOLDER_PORT,
	PLACEHOLDER_URI,
	PLACEHOLDER_LISTENER,
	PLACEHOLDER_COUNT
};

/* `{host}` and so on. */
extern const char *const placeholder_names[PLACEHOLDER_COUNT];

/* Does a word of argv (NULL-terminated) have a placeholder? */
bool placeholders_used(char *const *argv);

/* The first unknown one of argv, from its brace on, with its length in *ret_bytes; NULL: none. */
const char *placeholders_unknown(char *const *argv, int *ret_bytes);

/* The word with values[] for its placeholders, to be freed.  *ret_missing is set to the name of one
 * whose value is "".  values NULL: there are no placeholders, only doubled braces. */
char *placeholders_fill(const char *word, const char *const *values, const char **ret_missing);
