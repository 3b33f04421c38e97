/* Counts the user instructions of a worker's thread, by single steps.
 *
 *   steps TID TURNS   of TURNS turns, each apart
 *   steps TID all     of all that it does from the line "ready" to our SIGTERM, which ends its
 *                     process as well
 *
 * With a number the thread runs free most of the time; every few milliseconds one turn is stepped
 * through, from the return of the call it sleeps in to the next such call.  With one connection a
 * turn is one request.  Instructions that read the clock (vDSO) are counted apart: valgrind, which
 * counts the same but cannot run a ring, does not see them. */
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
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
	PAUSE_MS = 3,
	STEPS_MAX = 1000 * 1000,
	RANGES_MAX = 8,
	SYSCALL_INSTRUCTION = 0x050f,
};

static bool sleeps(uint64_t number)
{
	return number == SYS_epoll_wait || number == SYS_epoll_pwait ||
	       number == SYS_epoll_pwait2 || number == SYS_io_uring_enter;
}

/* Lets the stopped thread continue until its next stop. */
static void thread_resume(pid_t tid, int request)
{
	int status;

	if (ptrace(request, tid, NULL, NULL) < 0 || waitpid(tid, &status, __WALL) < 0)
		err(1, "ptrace");
	if (!WIFSTOPPED(status))
		errx(1, "the thread has ended");
}

/* Stops the thread where the call that it slept in returns. */
static void turn_find(pid_t tid)
{
	struct ptrace_syscall_info info;
	bool entered = false;

	for (;;) {
		thread_resume(tid, PTRACE_SYSCALL);
		if (ptrace(PTRACE_GET_SYSCALL_INFO, tid, sizeof(info), &info) < 0)
			err(1, "ptrace");
		if (info.op == PTRACE_SYSCALL_INFO_ENTRY)
			entered = sleeps(info.entry.nr);
		else if (info.op == PTRACE_SYSCALL_INFO_EXIT && entered && info.exit.rval >= 0)
			return;
	}
}

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

/* Steps to the call that the turn ends with; returns its instructions, adds the clock's. */
static unsigned turn_count(pid_t tid, const struct range *clock, uint64_t *clock_steps)
{
	struct user_regs_struct regs;
	unsigned steps = 0;
	long code;

	for (;; steps++) {
		thread_resume(tid, PTRACE_SINGLESTEP);
		if (ptrace(PTRACE_GETREGS, tid, NULL, &regs) < 0)
			err(1, "ptrace");
		*clock_steps += in_clock(clock, regs.rip);
		errno = 0;
		code = ptrace(PTRACE_PEEKTEXT, tid, regs.rip, NULL);
		if (errno || steps > STEPS_MAX)
			errx(1, "lost the thread's turn");
		if ((code & 0xffff) == SYSCALL_INSTRUCTION && sleeps(regs.rax))
			return steps + 1;
	}
}

/* ---- All that it does ---- */

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

static int compare_counts(const void *a, const void *b)
{
	unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	const struct timespec pause = { .tv_nsec = PAUSE_MS * NS_PER_MS };
	struct range clock[RANGES_MAX];
	unsigned turns, *counts;
	uint64_t sum = 0, clock_steps = 0;
	int status;
	pid_t tid;

	if (argc != 3) {
		fprintf(stderr, "usage: steps TID TURNS|all\n");
		return 2;
	}
	tid = (pid_t)option_uint("tid", argv[1], 1, INT32_MAX);
	if (ptrace(PTRACE_SEIZE, tid, NULL, (void *)PTRACE_O_TRACESYSGOOD) < 0)
		err(77, "ptrace");
	clock_ranges(tid, clock);
	if (!strcmp(argv[2], "all"))
		return count_all(tid, clock);
	turns = (unsigned)option_uint("turns", argv[2], 1, 100 * 1000);
	counts = allocate(turns, sizeof(*counts));
	for (unsigned i = 0; i < turns; i++) {
		nanosleep(&pause, NULL);
		if (ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) < 0 ||
		    waitpid(tid, &status, __WALL) < 0)
			err(1, "ptrace");
		turn_find(tid); /* our stop may have cut this one's beginning off */
		turn_find(tid);
		counts[i] = turn_count(tid, clock, &clock_steps);
		sum += counts[i];
		ptrace(PTRACE_CONT, tid, NULL, NULL);
	}
	qsort(counts, turns, sizeof(*counts), compare_counts);
	printf("{\"turns\":%u,\"mean\":%.1f,\"clock\":%.1f,\"q1\":%u,\"median\":%u,\"q3\":%u}\n",
	       turns, (double)sum / turns, (double)clock_steps / turns, counts[turns / 4],
	       counts[turns / 2], counts[turns * 3 / 4]);
	free(counts);
	return 0; /* which sets the thread free */
}
#endif
