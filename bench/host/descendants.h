/* All that the programs of a measurement have started, found and killed by /proc. */
#pragma once

/* Makes this process the parent of processes whose own parent has ended (PR_SET_CHILD_SUBREAPER),
 * so that descendants_kill() finds all descendants of the programs that it starts. */
void descendants_adopt(void);

/* Kills all descendants of the calling thread's children and of the adopted processes, but not
 * process_spared() and what that has started.  Returns the number of children that there were,
 * which the caller waits for.  Processes that the killed ones started meanwhile may become children
 * of this process: repeat until it returns 0. */
unsigned descendants_kill(void);

/* descendants_kill() until none is left, which takes a second at most. */
void descendants_end(void);
