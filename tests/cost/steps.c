/* steps TID: counts the user instructions of a worker's thread, by single steps, of all that it
 * does from the line "ready" to our SIGTERM, which ends its process as well.  Instructions that
 * read the clock (vDSO) are counted apart: how many there are depends on the host. */
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>

#include "../peers/bench.h"

#ifndef __x86_64__
int main(void)
{
	errx(77, "instructions are counted on x86-64 only");
}
#else
#include <linux/ptrace.h>

enum {
	RANGES_MAX = 8,
};

/* Where the clock's code lies; an empty range ends the list. */
struct range {
	uint64_t start, end;
};

static void clock_ranges(pid_t tid, struct range ranges[static RANGES_MAX])
{
	char path[64], line[512], mode[8];
	unsigned count = 0;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)tid);
	maps = fopen(path, "r");
	if (!maps)
		err(1, "%s", path);
	while (count < RANGES_MAX - 1 && fgets(line, sizeof(line), maps)) {
		struct range *r = &ranges[count];

		if (strstr(line, "[vdso]") &&
		    sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s", &r->start, &r->end, mode) == 3 &&
		    mode[2] == 'x')
			count++;
	}
	ranges[count] = (struct range){ 0 };
	fclose(maps);
}

static bool in_clock(const struct range *r, uint64_t address)
{
	for (; r->end; r++)
		if (address >= r->start && address < r->end)
			return true;
	return false;
}

static volatile sig_atomic_t over;

static void on_term(int signal)
{
	(void)signal;
	over = 1;
}

/* A thread that sleeps in a call makes no step: only the signal ends that wait. */
static int count_all(pid_t tid, const struct range *clock)
{
	struct sigaction term = { .sa_handler = on_term }; /* interrupts waitpid() */
	uint64_t steps = 0, clock_steps = 0;
	struct user_regs_struct regs;
	int status;

	sigaction(SIGTERM, &term, NULL);
	if (ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) < 0 || waitpid(tid, &status, __WALL) < 0)
		err(1, "ptrace");
	/* It would die of a step's trap that comes when we are gone: so it dies with us. */
	if (ptrace(PTRACE_SETOPTIONS, tid, NULL, PTRACE_O_EXITKILL) < 0)
		err(1, "ptrace");
	printf("ready\n");
	fflush(stdout);
	while (!over) {
		if (ptrace(PTRACE_SINGLESTEP, tid, NULL, NULL) < 0)
			err(1, "ptrace");
		if (waitpid(tid, &status, __WALL) < 0) {
			if (errno == EINTR)
				continue;
			err(1, "waitpid");
		}
		if (!WIFSTOPPED(status))
			errx(1, "the thread has ended");
		if (ptrace(PTRACE_GETREGS, tid, NULL, &regs) < 0)
			err(1, "ptrace");
		steps++;
		clock_steps += in_clock(clock, regs.rip);
	}
	printf("{\"instructions\":%ju,\"clock\":%ju}\n", (uintmax_t)(steps - clock_steps),
	       (uintmax_t)clock_steps);
	return 0;
}

int main(int argc, char **argv)
{
	struct range clock[RANGES_MAX];
	pid_t tid;

	if (argc != 2) {
		fprintf(stderr, "usage: steps TID\n");
		return 2;
	}
	tid = (pid_t)option_uint("tid", argv[1], 1, INT32_MAX);
	if (ptrace(PTRACE_SEIZE, tid, NULL, (void *)PTRACE_O_TRACESYSGOOD) < 0)
		err(77, "ptrace");
	clock_ranges(tid, clock);
	return count_all(tid, clock);
}
#endif
