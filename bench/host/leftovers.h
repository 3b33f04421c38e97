/* What the commands of a measurement have started, wherever in the tree of processes it is by then:
 * found by a variable of the environment.  A program that empties that, as sudo(8) does, is not. */
#pragma once
#include <stdbool.h>

/* From now on what is marked is also killed when this process has ended other than by exit(), as by
 * SIGKILL.  argv: of main().  To be called once, before the first program is started. */
void leftovers_guard(char **argv);

/* Are the programs marked that are started from now on? */
void leftovers_mark(bool marked);

/* Kills what is marked, until nothing is left, which takes a second at most. */
void leftovers_kill(void);
