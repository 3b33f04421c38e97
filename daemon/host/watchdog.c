/* The service manager's watchdog: WATCHDOG=1 is sent only while every worker is alive.  See
 * watchdog.h. */
#include "watchdog.h"

#include <pthread.h>
#include <systemd/sd-daemon.h>

#include "event_first.h"
#include "notify.h"
#include "util.h"

static struct watchdog {
	struct notify *notify; /* NULL: no watchdog */
	watchdog_alive *alive;
	void *context;
	uint64_t interval_ns;
	uint64_t due_ns;
	pthread_t thread; /* the main one; other threads send no WATCHDOG=1 */
} watchdog;

static void watchdog_ping(void)
{
	if (watchdog.alive(watchdog.context))
		notify(watchdog.notify, "WATCHDOG=1");
	watchdog.due_ns = clock_ns() + watchdog.interval_ns;
}

uint64_t watchdog_slice(uint64_t end_ns)
{
	if (!watchdog.notify || !pthread_equal(watchdog.thread, pthread_self()))
		return end_ns;
	if (clock_ns() >= watchdog.due_ns)
		watchdog_ping();
	return MIN(end_ns, watchdog.due_ns);
}

bool watchdog_wait(sem_t *sem, uint64_t end_ns)
{
	while (!sem_wait_until(sem, watchdog_slice(end_ns)))
		if (clock_ns() >= end_ns)
			return false;
	return true;
}

static int watchdog_tick(sd_event_source *source, uint64_t usec, void *context)
{
	uint64_t now;

	(void)usec, (void)context;
	/* A long wait may have sent WATCHDOG=1 just now.  The workers then need time for a turn
	 * before they are checked again, so this sends it only if it is due. */
	watchdog_slice(UINT64_MAX);
	now = clock_ns();
	sd_event_source_set_time_relative(
		source, watchdog.due_ns > now ? (watchdog.due_ns - now) / NS_PER_US + 1 : 0);
	return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

int watchdog_start(sd_event *event, struct notify *notify, watchdog_alive *alive, void *context)
{
	sd_event_source *source;
	uint64_t usec;
	int rc = sd_watchdog_enabled(0, &usec);

	if (rc <= 0)
		return rc;
	usec /= 3;
	watchdog = (struct watchdog){ .notify = notify,
				      .alive = alive,
				      .context = context,
				      .interval_ns = usec * NS_PER_US,
				      .thread = pthread_self() };
	rc = sd_event_add_time_relative(event, &source, CLOCK_MONOTONIC, usec, usec / 10,
					watchdog_tick, NULL);
	return rc < 0 ? rc : event_keep_first(source);
}
