/* Programs that this process starts; none outlives it.  Any thread may start one, which then lives
 * no longer than that thread. */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

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

/* The path of another program of ours: beside this one, as in the build tree, in the sbin or bin
 * beside its folder, or else the name, which execvp(3) looks up.  To be freed. */
char *process_program(const char *name);
