/* Events that the kernel counts for a thread: cycles, instructions, misses (perf_event_open(2)).
 *
 * A worker opens them on its own thread before it makes any other.  They are inherited: by the
 * threads of its stores, and by those that the kernel makes for its ring (SQPOLL, io-wq), from
 * their first instruction to their last.  So they count for the threads whose CPU time is the
 * worker's. Nothing is read but for a snapshot, by the main thread, and nothing is scaled. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct reason;

enum counters_mode { COUNTERS_NO, COUNTERS_AUTO, COUNTERS_YES };
extern const char *const counters_modes[]; /* their words, NULL at the end */

/* Events that are counted at the same times, as the kernel schedules a group as a whole. */
enum counters_group_id { COUNTERS_HARDWARE, COUNTERS_MISSES, COUNTERS_SOFTWARE, COUNTERS_GROUPS };
enum { COUNTERS_EVENTS = 4 }; /* of a group, at most */

/* values: in the order of the fields that the schema has for the group (lib/base/statistics.h).
 * running_ns: the part of enabled_ns, which is time on a CPU, in which the events were counted. */
struct counters_reading {
	uint64_t enabled_ns, running_ns, values[COUNTERS_EVENTS];
};

struct counters_group {
	int fds[COUNTERS_EVENTS]; /* the first leads the group */
	unsigned count;           /* open ones; 0: the group is not counted */
	bool user_alone;          /* the kernel refuses to count while it runs itself */
	struct counters_reading last;
};

/* Zero: nothing is counted. */
struct counters {
	enum counters_mode mode;
	struct counters_group groups[COUNTERS_GROUPS];
	int unshared; /* keeps threads from sharing events; 0: not open */
};

/* Opens what the kernel grants of all events for the calling thread.  Unless all are, the reason
 * says what is missing, and what to do about it: -errno with COUNTERS_YES, otherwise 0. */
int counters_open(struct counters *c, struct reason *reason);
void counters_close(struct counters *c); /* the last readings stay */

/* Adds a group's reading to *sum.  False, with *sum as it was: the group is not counted, or was for
 * less than 90 % of the time, as others use the counters as well. */
bool counters_read(struct counters *c, enum counters_group_id id, struct counters_reading *sum);

/* "hardware (user space), software": the groups that are open; "none". */
void counters_name(const struct counters *c, char *text, size_t bytes);
