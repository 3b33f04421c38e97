/* Counters of events of a worker's threads.  See counters.h. */
#include "counters.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "reason.h"
#include "text.h"
#include "util.h"

const char *const counters_modes[] = {
	[COUNTERS_NO] = "no", [COUNTERS_AUTO] = "auto", [COUNTERS_YES] = "yes", NULL
};

/* The groups, with few events each: a group of more than the CPU has counters never runs. */
static const struct group {
	const char *name;
	uint32_t type;
	unsigned count;
	uint64_t events[COUNTERS_EVENTS];
} groups[COUNTERS_GROUPS] = {
	[COUNTERS_HARDWARE] = { "hardware",
				PERF_TYPE_HARDWARE,
				2,
				{ PERF_COUNT_HW_CPU_CYCLES, PERF_COUNT_HW_INSTRUCTIONS } },
	[COUNTERS_MISSES] = { "misses",
			      PERF_TYPE_HARDWARE,
			      2,
			      { PERF_COUNT_HW_CACHE_MISSES, PERF_COUNT_HW_BRANCH_MISSES } },
	[COUNTERS_SOFTWARE] = { "software",
				PERF_TYPE_SOFTWARE,
				4,
				{ PERF_COUNT_SW_TASK_CLOCK, PERF_COUNT_SW_CONTEXT_SWITCHES,
				  PERF_COUNT_SW_PAGE_FAULTS, PERF_COUNT_SW_CPU_MIGRATIONS } },
};

/* ---- Opening ---- */

static int group_open_event(const struct group *of, struct counters_group *g)
{
	struct perf_event_attr attr = {
		.type = of->type,
		.size = PERF_ATTR_SIZE_VER0,
		.config = of->events[g->count],
		.inherit = 1,
		.exclude_kernel = g->user_alone,
		.read_format = PERF_FORMAT_GROUP | PERF_FORMAT_TOTAL_TIME_ENABLED |
			       PERF_FORMAT_TOTAL_TIME_RUNNING,
	};
	int leader = g->count ? g->fds[0] : -1;
	long fd = syscall(SYS_perf_event_open, &attr, 0, -1, leader, PERF_FLAG_FD_CLOEXEC);

	if (fd < 0)
		return -errno;
	g->fds[g->count++] = (int)fd;
	return 0;
}

/* An event that counts nothing and is not inherited.  With all events inherited the kernel swaps
 * those of two threads instead of their counts when it switches between them, and counts were lost
 * when one of both then ended (seen on Linux 6.18). */
static void counters_open_unshared(struct counters *c)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = PERF_ATTR_SIZE_VER0,
		.config = PERF_COUNT_SW_DUMMY,
		.exclude_kernel = 1,
	};
	int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);

	c->unshared = fd < 0 ? 0 : fd;
}

static void group_close(struct counters_group *g)
{
	while (g->count > 0)
		close(g->fds[--g->count]);
}

/* All events of the group, or none. */
static int group_open(const struct group *of, struct counters_group *g, bool user_alone)
{
	int rc = 0;

	g->user_alone = user_alone;
	while (rc == 0 && g->count < of->count)
		rc = group_open_event(of, g);
	if (rc < 0)
		group_close(g);
	return rc;
}

static int counters_refused(const struct group *of, int error, struct reason *reason)
{
	char paranoid[16] = "unknown";

	switch (-error) {
	case ENOENT:
	case ENODEV:
	case EOPNOTSUPP:
		return reason_set(
			reason, -EOPNOTSUPP,
			"this machine has no counters for the group '%s', like most virtual "
			"ones; use bare metal, or a hypervisor that passes them on (qemu: "
			"-cpu host,pmu=on)",
			of->name);
	case EACCES:
		text_file_line("/proc/sys/kernel/perf_event_paranoid", paranoid, sizeof(paranoid));
		return reason_set(reason, error,
				  "kernel.perf_event_paranoid is %s, so this user may not have "
				  "the kernel counted; sysctl kernel.perf_event_paranoid=1, or in "
				  "the unit AmbientCapabilities=CAP_PERFMON and "
				  "CapabilityBoundingSet=CAP_PERFMON",
				  paranoid);
	case EPERM:
		return reason_set(reason, error,
				  "a filter of system calls refuses perf_event_open; allow it in "
				  "the unit (SystemCallFilter=) or the container's profile");
	case ENOSYS:
		return reason_set(reason, error,
				  "this kernel has no perf events; use one with "
				  "CONFIG_PERF_EVENTS, or `counters = no`");
	default:
		return reason_set(reason, error,
				  "perf_event_open: %s; `counters = no` does without",
				  strerror(-error));
	}
}

/* Software events happen in the kernel: where user space alone is counted they would be 0. */
int counters_open(struct counters *c, struct reason *reason)
{
	bool any = false;
	int first = 0;

	for (unsigned i = 0; c->mode != COUNTERS_NO && i < COUNTERS_GROUPS; i++) {
		const struct group *of = &groups[i];
		int rc = group_open(of, &c->groups[i], false);

		if (rc < 0 && first == 0)
			first = counters_refused(of, rc, reason);
		if (rc == -EACCES && of->type == PERF_TYPE_HARDWARE)
			group_open(of, &c->groups[i], true);
		any |= c->groups[i].count > 0;
	}
	if (any)
		counters_open_unshared(c);
	return c->mode == COUNTERS_YES ? first : 0;
}

/* ---- Reading ---- */

/* Numbers of 64 bits do not wrap in the life of a thread: those that fall, or that JSON cannot
 * have, are not counts. */
static bool is_believable(const struct counters_reading *now, const struct counters_reading *last)
{
	bool good = now->enabled_ns >= last->enabled_ns && now->running_ns >= last->running_ns &&
		    now->running_ns <= now->enabled_ns && now->enabled_ns <= INT64_MAX;

	for (unsigned i = 0; i < COUNTERS_EVENTS; i++)
		good = good && now->values[i] >= last->values[i] && now->values[i] <= INT64_MAX;
	return good;
}

/* A group that can no longer be read, as when its CPU has gone, is given up. */
static void group_update(struct counters_group *g)
{
	uint64_t raw[3 + COUNTERS_EVENTS]; /* the count of events, enabled, running, values */
	struct counters_reading now = { 0 };
	size_t bytes = (3 + (size_t)g->count) * sizeof(raw[0]);

	if (g->count == 0)
		return;
	if (read(g->fds[0], raw, sizeof(raw)) == (ssize_t)bytes && raw[0] == g->count) {
		now.enabled_ns = raw[1];
		now.running_ns = raw[2];
		memcpy(now.values, &raw[3], g->count * sizeof(raw[0]));
		if (is_believable(&now, &g->last)) {
			g->last = now;
			return;
		}
	}
	group_close(g);
	g->last = (struct counters_reading){ 0 };
}

bool counters_read(struct counters *c, enum counters_group_id id, struct counters_reading *sum)
{
	struct counters_group *g = &c->groups[id];

	group_update(g);
	if (g->last.enabled_ns == 0 ||
	    g->last.enabled_ns - g->last.running_ns > g->last.enabled_ns / 10)
		return false;
	sum->enabled_ns += g->last.enabled_ns;
	sum->running_ns += g->last.running_ns;
	for (unsigned i = 0; i < COUNTERS_EVENTS; i++)
		sum->values[i] += g->last.values[i];
	return true;
}

void counters_close(struct counters *c)
{
	for (unsigned i = 0; i < COUNTERS_GROUPS; i++) {
		group_update(&c->groups[i]);
		group_close(&c->groups[i]);
	}
	if (c->unshared > 0)
		close(c->unshared);
	c->unshared = 0;
}

void counters_name(const struct counters *c, char *text, size_t bytes)
{
	size_t used = (size_t)snprintf(text, bytes, "none");
	const char *before = "";

	for (unsigned i = 0; i < COUNTERS_GROUPS; i++) {
		const struct counters_group *g = &c->groups[i];

		if (g->count == 0)
			continue;
		used = *before ? used : 0;
		used += (size_t)snprintf(text + used, bytes - used, "%s%s%s", before,
					 groups[i].name, g->user_alone ? " (user space)" : "");
		before = ", ";
	}
}
