/* Engine `io_uring` when the kernel takes only some of a submission, or nothing, as it does without
 * memory for a request.  The worker's io_uring_enter() is caught on its way into the kernel
 * (syscall user dispatch: prctl(2), Linux 5.11) and made to submit less, by the real kernel. */
#include <liburing.h>
#include <link.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include "registry.h"
#include "worker_case.h"

/* No test elsewhere; ThreadSanitizer runs handlers later. */
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#define PR_SYS_DISPATCH_ON           1
#endif

enum { CLIENTS = 8, MESSAGE = 2048 }; /* as many as are sent silently; two fill a chunk */
enum { DISPATCH_ALLOW, DISPATCH_BLOCK };

/* A submission of at least `least` is cut short; the next one waits until the test has looked. */
static struct cut {
	enum { CUT_OFF, CUT_ARMED, CUT_DONE } state;
	unsigned least, take;
	bool once; /* the next submission does not wait */
	sem_t held, go;
} cut;

static char selector = DISPATCH_ALLOW;

/* In the worker's thread, instead of its call. */
static long cut_enter(const greg_t *regs)
{
	unsigned submit = (unsigned)regs[REG_RSI];

	if (cut.state == CUT_ARMED && submit >= cut.least) {
		cut.state = cut.once ? CUT_OFF : CUT_DONE;
		if (cut.once)
			sem_post(&cut.held);
		/* A call that submits only a part neither waits nor runs deferred work. */
		return cut.take == 0 ? -EAGAIN
				     : syscall(SYS_io_uring_enter, regs[REG_RDI], cut.take, 0,
					       regs[REG_R10] & ~IORING_ENTER_GETEVENTS, NULL, 0);
	}
	if (cut.state == CUT_DONE && submit > 0) {
		cut.state = CUT_OFF;
		sem_post(&cut.held);
		while (sem_wait(&cut.go) < 0)
			;
	}
	return syscall(SYS_io_uring_enter, regs[REG_RDI], regs[REG_RSI], regs[REG_RDX],
		       regs[REG_R10], regs[REG_R8], regs[REG_R9]);
}

/* Any other call (a sanitizer's) is made as it was. */
static void dispatch(int signal, siginfo_t *info, void *context)
{
	greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
	int saved = errno;
	long result;

	(void)signal;
	if (info->si_syscall == SYS_io_uring_enter)
		result = cut_enter(regs);
	else
		result = syscall(info->si_syscall, regs[REG_RDI], regs[REG_RSI], regs[REG_RDX],
				 regs[REG_R10], regs[REG_R8], regs[REG_R9]);
	regs[REG_RAX] = result == -1 ? -errno : result;
	errno = saved;
}

struct text {
	uintptr_t start, size;
};

static int find_text(struct dl_phdr_info *info, size_t size, void *context)
{
	struct text *libc = context;

	(void)size;
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uintptr_t start = info->dlpi_addr + p->p_vaddr;

		if (p->p_type != PT_LOAD || (uintptr_t)syscall - start >= p->p_memsz)
			continue;
		*libc = (struct text){ start, p->p_memsz };
		return 1;
	}
	return 0;
}

/* From now on this thread's system calls that are not made inside libc go through dispatch(). */
static void run_catch(struct call *call)
{
	struct stall *s = container_of(call, struct stall, call);
	struct sigaction action = { .sa_sigaction = dispatch, .sa_flags = SA_SIGINFO };
	struct text libc = { 0 };

	dl_iterate_phdr(find_text, &libc);
	sigaction(SIGSYS, &action, NULL);
	if (prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, libc.start, libc.size,
		  &selector) == 0)
		selector = DISPATCH_BLOCK;
	sem_post(&s->there);
}

/* Memory that the pool may give away: a request must not name any of it. */
static void scribble(struct pool *p)
{
	for (unsigned i = 0; i < p->free_count; i++)
		memset(p->free[i]->base, '!', p->chunk_size);
	for (unsigned i = 0; i < p->chunk_count; i++) /* lent ones too */
		memset(p->chunks[i].base + p->chunks[i].used, '!',
		       p->chunk_size - p->chunks[i].used);
}

static char letter(unsigned round, unsigned client)
{
	return (char)('a' + (round * CLIENTS + client) % 26);
}

static void expect_echo(int fd, char what)
{
	char in[MESSAGE], out[MESSAGE];

	memset(out, what, sizeof(out));
	assert_int_equal(recv(fd, in, sizeof(in), MSG_WAITALL), sizeof(in));
	assert_memory_equal(in, out, sizeof(in));
}

/* All of them send while the worker stands still, so one submission answers all. */
static void send_at_once(struct bench *b, const int *fds, unsigned round)
{
	char out[MESSAGE];
	CLEANUP(stall_fini) struct stall s;

	stall(&b->worker, &s);
	await(&s.there);
	for (unsigned i = 0; i < CLIENTS; i++) {
		memset(out, letter(round, i), sizeof(out));
		assert_int_equal(send(fds[i], out, sizeof(out), MSG_NOSIGNAL), sizeof(out));
	}
	cut.state = CUT_ARMED;
	sem_post(&s.go);
	await(&cut.held);
}

static uint64_t arrived(const int *fds)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < CLIENTS; i++) {
		int n = 0;

		assert_int_equal(ioctl(fds[i], FIONREAD, &n), 0);
		bytes += (unsigned)n;
	}
	return bytes;
}

/* Some are timed, and then not silent. */
static void try_rounds(struct bench *b, unsigned take, uint64_t *received)
{
	int fds[CLIENTS];

	cut.take = take;
	for (unsigned i = 0; i < CLIENTS; i++) {
		fds[i] = client_connect(&b->place);
		assert_int_equal(client_echo(fds[i]), 1);
		++*received;
	}
	for (unsigned round = 0; round < 12; round++) {
		send_at_once(b, fds, round);
		assert_in_range(stat_load(b->worker.stats.bytes_out), 0, *received + arrived(fds));
		scribble(&b->worker.pool);
		sem_post(&cut.go);
		for (unsigned i = 0; i < CLIENTS; i++)
			expect_echo(fds[i], letter(round, i));
		*received += CLIENTS * MESSAGE;
	}
	for (unsigned i = 0; i < CLIENTS; i++)
		close(fds[i]);
}

static const unsigned takes[] = { 0, 1, 5 };

static void catch_calls(struct bench *b)
{
	CLEANUP(stall_fini) struct stall s = { .call.fn = run_catch };

	sem_init(&s.there, 0, 0);
	sem_init(&s.go, 0, 0);
	worker_call(&b->worker, &s.call);
	await(&s.there);
	if (selector == DISPATCH_ALLOW)
		print_message("skipped: this kernel dispatches no system calls\n");
}

TEST(submissions_that_the_kernel_refused_do_not_count_as_sent)
{
	struct bench *b = bench_start(registry_engine("io_uring"), echo());
	uint64_t received = 0;

	catch_calls(b);
	cut.least = CLIENTS;
	for (unsigned i = 0; i < ARRAY_SIZE(takes) && selector == DISPATCH_BLOCK; i++)
		try_rounds(b, takes[i], &received);
	bench_stop(b);
}

static int datagram_socket(struct place *p)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&p->sa, p->size), 0);
	p->size = sizeof(p->sa);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&p->sa, &p->size), 0);
	return fd;
}

/* Each to another client, all in one batch. */
TEST(datagrams_that_the_kernel_did_not_take_are_sent_again)
{
	const struct worker_options options = { .datagrams = true };
	struct bench *b =
		bench_new(registry_variant(registry_engine("io_uring"), &options), echo());
	struct timeval timeout = { .tv_sec = TIMEOUT_S };
	int fds[CLIENTS];

	selector = DISPATCH_ALLOW;
	worker_begin(&b->worker, datagram_socket(&b->place), false);
	worker_request(&b->worker, REQUEST_SERVE, 0);
	catch_calls(b);
	for (unsigned i = 0; i < CLIENTS; i++) {
		fds[i] = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		setsockopt(fds[i], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
		assert_int_equal(connect(fds[i], (struct sockaddr *)&b->place.sa, b->place.size),
				 0);
	}
	cut.once = true;
	cut.least = 2; /* the first datagram may be answered by itself */
	for (unsigned round = 0; round < 12 && selector == DISPATCH_BLOCK; round++) {
		char got = 0;

		cut.take = takes[round % ARRAY_SIZE(takes)];
		send_at_once(b, fds, round);
		for (unsigned i = 0; i < CLIENTS; i++) {
			assert_int_equal(recv(fds[i], &got, 1, 0), 1);
			assert_int_equal(got, letter(round, i));
		}
	}
	cut.once = false;
	for (unsigned i = 0; i < CLIENTS; i++)
		close(fds[i]);
	bench_stop(b);
}

static int prepare(void **state)
{
	(void)state;
	sem_init(&cut.held, 0, 0);
	sem_init(&cut.go, 0, 0);
	return 0;
}

ALL_TESTS_WITH(prepare, NULL)
#endif
