/* The version of the load generator that a command runs. */
#pragma once

/* The first line that the generator of argv (NULL-terminated) prints with the option for it, which
 * the caller frees.  NULL: it is unknown, or prints none; after 10 s the user is warned. */
char *version_of(char *const *argv);
