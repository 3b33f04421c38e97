/* host/proc.c: the owner of a kernel thread, and the cost of a thread. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "proc.h"
#include "unit.h"
#include "util.h"

static pid_t own_tid(void)
{
	return (pid_t)syscall(SYS_gettid);
}

TEST(the_owner_is_read_from_the_name)
{
	static const struct {
		const char *comm;
		pid_t owner;
		bool kernel;
	} cases[] = {
		{ "iou-wrk-123\n", 123, true },
		{ "iou-sqp-4194304", 4194304, true },
		{ "store-77\n", 77, false },
		{ "iou-wrk-", 0, false },
		{ "iou-wrk-x", 0, false },
		{ "iou-wrk", 0, false },
		{ "iou-abc-123", 0, false },
		{ "echo/0", 0, false },
		{ "", 0, false },
		{ "x iou-wrk-123", 0, false },
	};

	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		bool kernel = false;

		assert_int_equal(proc_thread_owner(cases[i].comm, &kernel), cases[i].owner);
		if (cases[i].owner)
			assert_int_equal(kernel, cases[i].kernel);
	}
}

static uint64_t total_ns(const struct proc_cost *cost)
{
	return cost->cpu_user_ns + cost->cpu_system_ns;
}

/* CPU time of the calling thread. */
static uint64_t thread_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

TEST(the_cost_of_a_thread_that_works_grows)
{
	struct proc_cost before = { 0 }, after;
	uint64_t start_ns = thread_ns();

	assert_int_equal(proc_cost_update(own_tid(), &before), 0);
	after = before;
	while (thread_ns() - start_ns < 30 * NS_PER_MS)
		;
	assert_int_equal(proc_cost_update(own_tid(), &after), 0);
	assert_in_range(total_ns(&after) - total_ns(&before), 20 * NS_PER_MS, 10ULL * NS_PER_S);
	assert_true(total_ns(&after) <= thread_ns() + 20 * NS_PER_MS);
}

static void *spin(void *stop)
{
	while (!__atomic_load_n((bool *)stop, __ATOMIC_RELAXED))
		cpu_relax();
	return NULL;
}

/* It cannot have used more CPU time since the cost was read than has passed. */
TEST(the_cost_of_a_running_thread_is_that_until_now)
{
	struct proc_cost cost = { 0 };
	struct timespec used;
	bool stop = false;
	clockid_t clock;
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, spin, &stop), 0);
	assert_int_equal(pthread_getcpuclockid(thread, &clock), 0);
	for (unsigned i = 0; i < 30; i++) {
		pid_t tid = (pid_t)(~(unsigned)clock >> 3);
		uint64_t before_ns, now_ns;

		nanosleep(&(struct timespec){ .tv_nsec = 2 * NS_PER_MS + i * 100000 }, NULL);
		before_ns = clock_ns();
		assert_int_equal(proc_cost_update(tid, &cost), 0);
		assert_int_equal(clock_gettime(clock, &used), 0);
		now_ns = (uint64_t)used.tv_sec * NS_PER_S + (uint64_t)used.tv_nsec;
		assert_in_range(now_ns - total_ns(&cost), 0, clock_ns() - before_ns + 100000);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
}

TEST(waiting_is_a_voluntary_switch)
{
	struct proc_cost before = { 0 }, after;
	uint64_t switches = 0;

	assert_int_equal(proc_cost_update(own_tid(), &before), 0);
	/* Not each sleep is a switch: where the host takes the CPU away for longer than the sleep,
	 * its timer has expired before the thread could leave the CPU. */
	for (unsigned i = 0; i < 10000 && switches < 20; i++) {
		nanosleep(&(struct timespec){ .tv_nsec = 100000 }, NULL);
		after = before;
		assert_int_equal(proc_cost_update(own_tid(), &after), 0);
		assert_true(after.switches_involuntary >= before.switches_involuntary);
		switches = after.switches_voluntary - before.switches_voluntary;
	}
	assert_true(switches >= 20);
}

TEST(no_part_of_a_cost_decreases)
{
	struct proc_cost cost = { 0 }, before = { 0 };
	uint64_t start_ns = thread_ns();

	while (thread_ns() - start_ns < 20 * NS_PER_MS) {
		assert_int_equal(proc_cost_update(own_tid(), &cost), 0);
		assert_true(cost.cpu_user_ns >= before.cpu_user_ns);
		assert_true(cost.cpu_system_ns >= before.cpu_system_ns);
		assert_true(cost.switches_voluntary >= before.switches_voluntary);
		assert_true(cost.switches_involuntary >= before.switches_involuntary);
		before = cost;
	}
}

TEST(a_thread_that_is_not_there_is_enoent)
{
	struct proc_cost cost, untouched;

	memset(&cost, 0x5a, sizeof(cost));
	untouched = cost;
	assert_int_equal(proc_cost_update(0x3fffffff, &cost), -ENOENT);
	assert_memory_equal(&cost, &untouched, sizeof(cost));
}

/* ---- The kernel's threads: played by ours, which take their names ---- */

struct actor {
	pthread_t thread;
	char name[16];
	pid_t tid;
	sem_t named, end;
};

static void *act(void *arg)
{
	struct actor *actor = arg;

	actor->tid = own_tid();
	prctl(PR_SET_NAME, actor->name);
	sem_post(&actor->named);
	while (sem_wait(&actor->end) < 0)
		;
	return NULL;
}

static void actor_start(struct actor *actor, const char *prefix, pid_t owner)
{
	snprintf(actor->name, sizeof(actor->name), "%s%d", prefix, (int)owner);
	sem_init(&actor->named, 0, 0);
	sem_init(&actor->end, 0, 0);
	assert_int_equal(pthread_create(&actor->thread, NULL, act, actor), 0);
	sem_wait(&actor->named);
}

static void actor_end(struct actor *actor)
{
	char path[64];

	sem_post(&actor->end);
	pthread_join(actor->thread, NULL);
	snprintf(path, sizeof(path), "/proc/self/task/%d", (int)actor->tid);
	while (access(path, F_OK) == 0) /* the kernel may still be at it */
		sched_yield();
}

struct retired {
	pid_t worker; /* of the caller */
	unsigned count;
	struct proc_thread last;
};

static void on_retire(void *context, const struct proc_thread *thread)
{
	struct retired *r = context;

	r->count++;
	r->last = *thread;
}

static bool is_worker(void *context, pid_t tid)
{
	return tid == ((const struct retired *)context)->worker;
}

/* These tests name their threads themselves, by numbers of this namespace. */
static pid_t worker_of(void *context, pid_t kernel_tid)
{
	(void)context;
	return kernel_tid;
}

static const struct proc_threads_caller caller = { is_worker, worker_of, on_retire };

static const struct proc_thread *find(const struct proc_threads *t, pid_t tid)
{
	for (unsigned i = 0; i < t->count; i++)
		if (t->list[i].tid == tid)
			return &t->list[i];
	return NULL;
}

TEST(a_scan_finds_the_threads_of_rings_and_no_others)
{
	CLEANUP(free_p) struct proc_threads *t = calloc(1, sizeof(*t));
	struct actor wq = { 0 }, other = { 0 };
	struct retired retired = { 0 };

	actor_start(&wq, "iou-wrk-", 4711);
	actor_start(&other, "echo/", 0);
	proc_threads_scan(t, &caller, &retired);
	assert_int_equal(t->count, 1);
	assert_int_equal(t->list[0].tid, wq.tid);
	assert_int_equal(t->list[0].worker, 4711);
	proc_threads_scan(t, &caller, &retired);
	assert_int_equal(t->count, 1);
	assert_int_equal(retired.count, 0);
	actor_end(&wq);
	actor_end(&other);
}

TEST(a_worker_works_for_no_other_whatever_its_name)
{
	CLEANUP(free_p) struct proc_threads *t = calloc(1, sizeof(*t));
	struct actor worker = { 0 };
	struct retired retired = { 0 };

	actor_start(&worker, "iou-wrk-", 4711);
	retired.worker = worker.tid;
	proc_threads_scan(t, &caller, &retired);
	assert_int_equal(t->count, 0);
	actor_end(&worker);
}

TEST(threads_beyond_the_list_are_counted)
{
	CLEANUP(free_p) struct proc_threads *t = calloc(1, sizeof(*t));
	struct actor wq = { 0 };
	struct retired retired = { 0 };

	actor_start(&wq, "iou-wrk-", 4711);
	for (; t->count < PROC_THREADS_MAX; t->count++) /* of threads that have ended */
		t->list[t->count].tid = -1 - (pid_t)t->count;
	proc_threads_scan(t, &caller, &retired);
	assert_int_equal(t->dropped, 1);
	assert_int_equal(retired.count, PROC_THREADS_MAX);
	proc_threads_scan(t, &caller, &retired);
	assert_int_equal(t->dropped, 0);
	assert_int_equal(t->count, 1);
	actor_end(&wq);
}

TEST(a_thread_that_ended_is_retired_once_with_its_cost)
{
	CLEANUP(free_p) struct proc_threads *t = calloc(1, sizeof(*t));
	struct actor wq = { 0 };
	struct retired retired = { 0 };
	struct proc_cost seen;
	pid_t tid;

	actor_start(&wq, "iou-wrk-", 4711);
	proc_threads_scan(t, &caller, &retired);
	assert_int_equal(t->count, 1);
	seen = t->list[0].cost;
	tid = wq.tid;
	actor_end(&wq);
	proc_threads_scan(t, &caller, &retired);
	assert_int_equal(t->count, 0);
	assert_int_equal(retired.count, 1);
	assert_int_equal(retired.last.tid, tid);
	assert_int_equal(retired.last.worker, 4711);
	assert_memory_equal(&retired.last.cost, &seen, sizeof(seen));
	proc_threads_scan(t, &caller, &retired);
	assert_int_equal(retired.count, 1);
}

TEST(a_helper_of_the_sqpoll_thread_works_for_its_worker)
{
	CLEANUP(free_p) struct proc_threads *t = calloc(1, sizeof(*t));
	struct actor sqp = { 0 }, wq = { 0 };
	struct retired retired = { 0 };

	actor_start(&sqp, "iou-sqp-", 4711);
	actor_start(&wq, "iou-wrk-", sqp.tid);
	for (unsigned i = 0; i < 2; i++) {
		proc_threads_scan(t, &caller, &retired);
		assert_int_equal(t->count, 2);
		assert_int_equal(find(t, sqp.tid)->worker, 4711);
		assert_int_equal(find(t, wq.tid)->worker, 4711);
	}
	actor_end(&sqp);
	proc_threads_scan(t, &caller, &retired);
	assert_int_equal(find(t, wq.tid)->worker, 4711);
	actor_end(&wq);
}
