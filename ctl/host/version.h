/* The version of the load generator that a command runs. */
#pragma once

/* Runs the generator of argv (NULL-terminated) once, to print its version, for a second at most.
 * Its first line, which the caller frees; NULL: not a known one, or it tells none. */
char *version_of(char *const *argv);
