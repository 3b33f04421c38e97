/* Programs that this process starts; none outlives it.  Any thread may start one, which then lives
 * no longer than that thread. */
#pragma once
#include <sys/types.h>

/* Makes this process the parent of processes whose own parent has ended (PR_SET_CHILD_SUBREAPER),
 * so that process_kill_descendants() finds all descendants of the programs that it starts. */
void process_adopt_orphans(void);

/* Starts argv, found on $PATH, without signals blocked and with SIGPIPE as by default; signals that
 * we ignore stay ignored.  in, out and err: its stdin, stdout and stderr, unless < 0.  parent_end:
 * the signal that it gets when the calling thread ends.  0 or -errno. */
int process_start(char *const *argv, int in, int out, int err, int parent_end, pid_t *ret_pid);

/* Kills all descendants of the calling thread's children and of the adopted processes.  Returns the
 * number of children that there were, which the caller waits for.  Processes that the killed ones
 * started meanwhile may become children of this process: repeat until it returns 0. */
unsigned process_kill_descendants(void);
