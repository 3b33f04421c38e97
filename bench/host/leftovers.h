/* Processes that this one would leave behind when it is killed. */
#pragma once

/* From now on, when this process has ended other than by exit(), as by SIGKILL, each process is
 * killed that was started by it or by one of its descendants, wherever in the tree of processes it
 * is by then.  They are found by a variable of the environment, which this sets.  argv: of main().
 * To be called once, before the first program is started. */
void leftovers_guard(char **argv);
