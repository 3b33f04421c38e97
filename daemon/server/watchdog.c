/* The service manager's watchdog: fed only while every worker is alive.  See watchdog.h. */
#include "watchdog.h"

#include <errno.h>
#include <stdlib.h>
#include <systemd/sd-daemon.h>

#include "log.h"
#include "server.h"
#include "util.h"

static struct watchdog {
	struct server *server; /* NULL: there is none */
	uint64_t interval_ns;
	uint64_t due_ns;
} watchdog;

/* A worker lives when it sleeps by its own will, or has made a turn since we last looked. */
static bool worker_alive(struct worker *w)
{
	uint64_t turns = stat_load(w->stats.turns);
	bool alive = atomic_load(&w->idle) || turns != w->watched_turns;

	w->watched_turns = turns;
	return alive;
}

static bool server_alive(struct server *s)
{
	bool all = true;

	for (unsigned i = 0; i < s->listener_count; i++) {
		struct listener *l = s->listeners[i];

		for (unsigned j = 0; j < l->worker_count; j++) {
			if (worker_alive(&l->workers[j]))
				continue;
			all = false;
			log_write(
				LOG_ERR, l->config->name,
				"listener '%s': worker %u makes no turns; the watchdog is not fed",
				l->config->name, j);
		}
	}
	return all;
}

static void watchdog_feed(void)
{
	if (server_alive(watchdog.server))
		notify(&watchdog.server->notify, "WATCHDOG=1");
	watchdog.due_ns = clock_ns() + watchdog.interval_ns;
}

uint64_t watchdog_slice(uint64_t end_ns)
{
	if (!watchdog.server)
		return end_ns;
	if (clock_ns() >= watchdog.due_ns)
		watchdog_feed();
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
	(void)usec, (void)context;
	watchdog_feed();
	sd_event_source_set_time_relative(source, watchdog.interval_ns / NS_PER_US);
	return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

int watchdog_start(struct server *s)
{
	uint64_t usec;
	int rc = sd_watchdog_enabled(0, &usec);

	if (rc <= 0)
		return rc;
	usec /= 3;
	watchdog = (struct watchdog){ .server = s, .interval_ns = usec * NS_PER_US };
	return sd_event_add_time_relative(s->event, NULL, CLOCK_MONOTONIC, usec, usec / 10,
					  watchdog_tick, NULL);
}
