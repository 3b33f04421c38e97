/* The version of the load generator that a command runs. */
#pragma once

/* Runs the generator of argv (NULL-terminated) with the option that prints its version, for
 * a second at most.  Returns the first line, which the caller frees; NULL: it is unknown,
 * or prints none. */
char *version_of(char *const *argv);
