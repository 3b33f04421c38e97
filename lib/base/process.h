/* Programs that this process starts; none outlives it.  Any thread may start one, which then lives
 * no longer than that thread. */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

/* Makes this process the parent of processes whose own parent has ended (PR_SET_CHILD_SUBREAPER),
 * so that process_kill_descendants() finds all descendants of the programs that it starts. */
void process_adopt_orphans(void);

/* Are the numbers of our threads those that the kernel uses in names?  Not in a PID namespace
 * (/proc/self/ns/pid; the first one has the number PROC_PID_INIT_INO of Linux). */
bool process_has_kernel_tids(void);

struct process_how {
	int in, out, err; /* its stdin, stdout and stderr; < 0: as ours */
	int parent_end;   /* the signal that it gets when the calling thread ends */
	bool apart;       /* in a process group of its own: Ctrl-C does not reach it */
	/* it ignores SIGINT and SIGQUIT: Ctrl-C ends this process alone,
	 * which then ends the child */
	bool ignores_interrupts;
};

/* Starts argv, found on $PATH, without signals blocked and with SIGPIPE as by default; signals that
 * we ignore stay ignored.  0 or -errno. */
int process_start(char *const *argv, const struct process_how *how, pid_t *ret_pid);

/* Has this child ended?  Does not wait for it: another does, with its status. */
bool process_has_ended(pid_t pid);

/* The one child that process_kill_descendants() leaves alone, with what it has started; 0: none. */
void process_spare(pid_t pid);

/* process_kill_descendants() until none is left, which takes a second at most. */
void process_end_descendants(void);

/* Kills all descendants of the calling thread's children and of the adopted processes.  Returns the
 * number of children that there were, which the caller waits for.  Processes that the killed ones
 * started meanwhile may become children of this process: repeat until it returns 0. */
unsigned process_kill_descendants(void);

/* The path of another program of ours: beside this one, as in the build tree, in the sbin or bin
 * beside its folder, or else the name, which execvp(3) looks up.  To be freed. */
char *process_program(const char *name);
