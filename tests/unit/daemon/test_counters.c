/* core/counters.c, with a kernel of our own making.  tests/system has the real one. */
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <unistd.h>

#include "counters.h"
#include "reason.h"
#include "syscall.h"
#include "unit.h"
#include "util.h"

/* ---- The kernel: descriptors are pipes, into which a test writes readings ---- */

enum { OPENED_MAX = 32 };
static struct {
	int no_hardware; /* the error for events of hardware; 0: it has them */
	int no_kernel;   /* the error for counting in the kernel */
	int fails_at;    /* the number of the call, from 1 on, that gives EMFILE; 0: none */
	int calls;
	struct {
		int fd, writer;
		bool user_alone;
		uint64_t event;
	} opened[OPENED_MAX];
	int count;
} kernel;

static int open_event(const struct perf_event_attr *attr)
{
	int ends[2];

	if (attr->type == PERF_TYPE_SOFTWARE && attr->config == PERF_COUNT_SW_DUMMY) {
		assert_false(attr->inherit);
		return open("/dev/null", O_RDONLY | O_CLOEXEC);
	}
	assert_true(attr->inherit);
	if (++kernel.calls == kernel.fails_at)
		return -EMFILE;
	if (attr->type == PERF_TYPE_HARDWARE && kernel.no_hardware)
		return -kernel.no_hardware;
	if (!attr->exclude_kernel && kernel.no_kernel)
		return -kernel.no_kernel;
	assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
	assert_true(kernel.count < OPENED_MAX);
	kernel.opened[kernel.count].fd = ends[0];
	kernel.opened[kernel.count].writer = ends[1];
	kernel.opened[kernel.count].event = attr->config;
	kernel.opened[kernel.count++].user_alone = attr->exclude_kernel;
	return ends[0];
}

/* In place of libc's. */
/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name) */
long syscall(long number, ...)
{
	long a[6], result;
	va_list arguments;

	va_start(arguments, number);
	for (unsigned i = 0; i < 6; i++)
		a[i] = va_arg(arguments, long);
	va_end(arguments);
	if (number == SYS_perf_event_open)
		/* NOLINTNEXTLINE(performance-no-int-to-ptr) */
		result = open_event((const struct perf_event_attr *)a[0]);
	else
		result = syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5]);
	if (result >= 0)
		return result;
	errno = (int)-result;
	return -1;
}

static int kernel_begin(void **state)
{
	(void)state;
	memset(&kernel, 0, sizeof(kernel));
	return 0;
}

static int kernel_end(void **state)
{
	(void)state;
	for (int i = 0; i < kernel.count; i++)
		if (kernel.opened[i].writer >= 0)
			close(kernel.opened[i].writer);
	return 0;
}

#define FAKED(name) TEST_WITH(name, kernel_begin, kernel_end, NULL)

/* The next reading of a group of two events, of which fd leads. */
static void will_read(int fd, uint64_t enabled, uint64_t running, uint64_t first, uint64_t second)
{
	const uint64_t raw[] = { 2, enabled, running, first, second };
	int i = 0;

	while (kernel.opened[i].fd != fd)
		i++;
	assert_int_equal(write(kernel.opened[i].writer, raw, sizeof(raw)), sizeof(raw));
}

static struct counters opened(enum counters_mode mode, int expected, struct reason *reason)
{
	struct counters c = { .mode = mode };

	*reason = (struct reason){ "" };
	assert_int_equal(counters_open(&c, reason), expected);
	return c;
}

static void assert_named(const struct counters *c, const char *expected)
{
	char text[128];

	counters_name(c, text, sizeof(text));
	assert_string_equal(text, expected);
}

static bool is_open(int fd)
{
	char byte;

	return read(fd, &byte, 0) == 0;
}

/* ---- Opening ---- */

FAKED(no_opens_nothing)
{
	struct reason reason;
	CLEANUP(counters_close) struct counters c = opened(COUNTERS_NO, 0, &reason);

	assert_int_equal(kernel.calls, 0);
	assert_named(&c, "none");
}

FAKED(all_that_is_granted_is_counted_in_the_kernel_too)
{
	static const uint64_t events[] = {
		PERF_COUNT_HW_CPU_CYCLES,   PERF_COUNT_HW_INSTRUCTIONS,
		PERF_COUNT_HW_CACHE_MISSES, PERF_COUNT_HW_BRANCH_MISSES,
		PERF_COUNT_SW_TASK_CLOCK,   PERF_COUNT_SW_CONTEXT_SWITCHES,
		PERF_COUNT_SW_PAGE_FAULTS,  PERF_COUNT_SW_CPU_MIGRATIONS,
	};
	struct reason reason;
	struct counters c = opened(COUNTERS_YES, 0, &reason);

	assert_named(&c, "hardware, misses, software");
	assert_string_equal(reason.text, "");
	assert_int_equal(kernel.count, ARRAY_SIZE(events));
	counters_close(&c);
	for (int i = 0; i < kernel.count; i++) {
		assert_int_equal(kernel.opened[i].event, events[i]);
		assert_false(is_open(kernel.opened[i].fd));
	}
}

FAKED(without_the_kernel_user_space_alone_is_counted)
{
	struct reason reason;
	struct counters c;

	kernel.no_kernel = EACCES;
	c = opened(COUNTERS_AUTO, 0, &reason);
	assert_named(&c, "hardware (user space), misses (user space)");
	assert_has(reason.text, "perf_event_paranoid");
	assert_has(reason_fix(reason.text), "CAP_PERFMON");
	for (int i = 0; i < kernel.count; i++)
		assert_true(kernel.opened[i].user_alone);
	counters_close(&c);
	c = opened(COUNTERS_YES, -EACCES, &reason);
	counters_close(&c);
}

/* Software events that leave out the kernel would be 0. */
FAKED(a_machine_without_counters_has_those_of_the_kernel)
{
	static const int errors[] = { ENOENT, ENODEV, EOPNOTSUPP };
	struct reason reason;
	struct counters c;

	for (unsigned i = 0; i < ARRAY_SIZE(errors); i++) {
		kernel.no_hardware = errors[i];
		c = opened(COUNTERS_AUTO, 0, &reason);
		assert_named(&c, "software");
		assert_has(reason.text, "virtual");
		counters_close(&c);
		c = opened(COUNTERS_YES, -EOPNOTSUPP, &reason);
		counters_close(&c);
	}
}

FAKED(a_refusal_says_what_mends_it)
{
	static const struct {
		int error;
		const char *text;
	} cases[] = {
		{ EPERM, "filter" },
		{ ENOSYS, "CONFIG_PERF_EVENTS" },
		{ ENOMEM, "Cannot allocate memory" },
	};
	struct reason reason;
	struct counters c;

	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		kernel.no_kernel = kernel.no_hardware = cases[i].error;
		c = opened(COUNTERS_AUTO, 0, &reason);
		assert_named(&c, "none");
		assert_has(reason.text, cases[i].text);
	}
}

FAKED(a_group_is_opened_whole_or_not_at_all)
{
	struct reason reason;
	CLEANUP(counters_close) struct counters c;

	kernel.fails_at = 2;
	c = opened(COUNTERS_AUTO, 0, &reason);
	assert_named(&c, "misses, software");
	assert_has(reason.text, "Too many open files");
	assert_int_equal(kernel.count, 7);
}

/* ---- Reading ---- */

FAKED(what_was_counted_for_less_than_90_percent_is_not_shown)
{
	struct counters_reading sum = { .enabled_ns = 7 };
	struct reason reason;
	CLEANUP(counters_close) struct counters c = opened(COUNTERS_AUTO, 0, &reason);
	int leader = c.groups[COUNTERS_HARDWARE].fds[0];

	will_read(leader, 0, 0, 0, 0);
	assert_false(counters_read(&c, COUNTERS_HARDWARE, &sum));
	will_read(leader, 1000, 899, 5, 6);
	assert_false(counters_read(&c, COUNTERS_HARDWARE, &sum));
	assert_int_equal(sum.enabled_ns, 7);
	will_read(leader, 2000, 1800, 50, 60);
	assert_true(counters_read(&c, COUNTERS_HARDWARE, &sum));
	assert_int_equal(sum.enabled_ns, 2007);
	assert_int_equal(sum.running_ns, 1800);
	assert_int_equal(sum.values[0], 50);
	assert_int_equal(sum.values[1], 60);
}

FAKED(readings_of_workers_add_up)
{
	struct counters_reading sum = { 0 };
	struct reason reason;
	struct counters c[2];

	for (unsigned i = 0; i < 2; i++) {
		c[i] = opened(COUNTERS_AUTO, 0, &reason);
		will_read(c[i].groups[COUNTERS_MISSES].fds[0], 10, 10, 3 + i, 4);
		assert_true(counters_read(&c[i], COUNTERS_MISSES, &sum));
		kernel_end(NULL);
		kernel.count = 0;
	}
	assert_int_equal(sum.values[0], 7);
	assert_int_equal(sum.values[1], 8);
	for (unsigned i = 0; i < 2; i++)
		counters_close(&c[i]);
}

FAKED(a_group_that_vanishes_is_shown_no_more)
{
	struct counters_reading sum = { 0 };
	struct reason reason;
	CLEANUP(counters_close) struct counters c = opened(COUNTERS_AUTO, 0, &reason);
	int leader = c.groups[COUNTERS_HARDWARE].fds[0];

	will_read(leader, 10, 10, 1, 2);
	assert_true(counters_read(&c, COUNTERS_HARDWARE, &sum));
	close(kernel.opened[0].writer); /* as the kernel: a read gives no bytes */
	kernel.opened[0].writer = -1;
	for (unsigned i = 0; i < 2; i++)
		assert_false(counters_read(&c, COUNTERS_HARDWARE, &sum));
	assert_named(&c, "misses, software");
}

FAKED(a_count_that_cannot_be_is_shown_no_more)
{
	static const uint64_t raw[][4] = {
		{ 20, 20, 9, 10 },                       /* falls */
		{ 20, 20, 10, (uint64_t)INT64_MAX + 1 }, /* overflows */
		{ 20, 20, UINT64_MAX, UINT64_MAX },
		{ 20, 21, 10, 10 }, /* counted for longer than it was there */
		{ 5, 5, 10, 10 },   /* time goes back */
		{ (uint64_t)INT64_MAX + 1, 20, 10, 10 },
	};
	struct counters_reading sum = { 0 };
	struct reason reason;

	for (unsigned i = 0; i < ARRAY_SIZE(raw); i++) {
		CLEANUP(counters_close) struct counters c;
		int leader;

		kernel_begin(NULL);
		c = opened(COUNTERS_AUTO, 0, &reason);
		leader = c.groups[COUNTERS_HARDWARE].fds[0];
		will_read(leader, 10, 10, 10, 10);
		assert_true(counters_read(&c, COUNTERS_HARDWARE, &sum));
		will_read(leader, raw[i][0], raw[i][1], raw[i][2], raw[i][3]);
		assert_false(counters_read(&c, COUNTERS_HARDWARE, &sum));
		assert_false(counters_read(&c, COUNTERS_HARDWARE, &sum));
		assert_false(is_open(leader));
		kernel_end(NULL);
	}
	kernel.count = 0;
}

FAKED(what_was_read_at_the_end_stays)
{
	struct counters_reading sum = { 0 };
	struct reason reason;
	struct counters c = opened(COUNTERS_AUTO, 0, &reason);

	will_read(c.groups[COUNTERS_HARDWARE].fds[0], 10, 10, 1, 2);
	kernel_end(NULL); /* the other groups have no reading */
	kernel.count = 0;
	counters_close(&c);
	assert_true(counters_read(&c, COUNTERS_HARDWARE, &sum));
	assert_int_equal(sum.values[1], 2);
	assert_false(counters_read(&c, COUNTERS_MISSES, &sum));
}
