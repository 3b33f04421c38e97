/* See descendants.h. */
#include "descendants.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "process.h"

enum {
	DESCENDANTS_DEPTH_MAX = 32,      /* depth of their tree */
	DESCENDANTS_KILLS_MAX = 100,     /* rounds, 10 ms each */
	DESCENDANTS_CHILDREN_MAX = 1024, /* children of one process */
};

void descendants_adopt(void)
{
	prctl(PR_SET_CHILD_SUBREAPER, 1);
}

/* Reads the list of children, up to its end or DESCENDANTS_CHILDREN_MAX. */
static unsigned children_of(pid_t pid, pid_t *children)
{
	char path[64];
	unsigned count = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
	file = fopen(path, "re");
	while (file && count < DESCENDANTS_CHILDREN_MAX &&
	       fscanf(file, "%d", &children[count]) == 1)
		count++;
	if (file)
		fclose(file);
	return count;
}

/* Kills the children of the children first: without their parent they would get another one while
 * this looks for them. */
static unsigned kill_children(pid_t pid, unsigned depth)
{
	pid_t *children = malloc(DESCENDANTS_CHILDREN_MAX * sizeof(*children));
	unsigned count = children ? children_of(pid, children) : 0;

	for (unsigned i = 0; i < count; i++) {
		if (children[i] == process_spared()) {
			children[i--] = children[--count];
			continue;
		}
		if (depth < DESCENDANTS_DEPTH_MAX)
			kill_children(children[i], depth + 1);
		kill(children[i], SIGKILL);
	}
	free(children);
	return count;
}

unsigned descendants_kill(void)
{
	return kill_children(getpid(), 0);
}

/* Not by waitpid(-1), as the spared child is to be waited for by its owner. */
static void reap_children(void)
{
	pid_t *children = malloc(DESCENDANTS_CHILDREN_MAX * sizeof(*children));
	unsigned count = children ? children_of(getpid(), children) : 0;

	for (unsigned i = 0; i < count; i++)
		if (children[i] != process_spared())
			waitpid(children[i], NULL, WNOHANG);
	free(children);
}

void descendants_end(void)
{
	struct timespec pause = { 0, 10 * 1000 * 1000 };

	for (unsigned i = 0; i < DESCENDANTS_KILLS_MAX && descendants_kill(); i++) {
		reap_children();
		nanosleep(&pause, NULL);
	}
}
