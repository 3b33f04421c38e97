/* A process that outlives this one, for what is to be done when this has been killed. */
#pragma once
#include <stdbool.h>

/* To be called before threads are started; argv: of main().  killed, or NULL: is called in the
 * guard when this process has ended other than by exit(), as by SIGKILL.  False: there is one
 * already, or none can be started: then the rest of this file does nothing. */
bool guard_start(char **argv, void (*killed)(void));

/* However this process ends, the file of this path is removed then, or the directory with the files
 * in it, unless it is gone.  Of all such calls the last two count.  Nobody else may be able to make
 * something at the path. */
void guard_remove(const char *path);
