/* Start, drain and stop of all listeners and of the process.  Owns the configuration in force and
 * the list of listeners.  Main thread. */
#include "server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "binding.h"
#include "event_first.h"
#include "json.h"
#include "log.h"
#include "reserve.h"
#include "util.h"

enum { SERVER_SPARE_FDS = 8 }; /* for some control clients and /proc */

/* ---- Start ---- */

/* Calls of workers: listeners that drained, exports that failed, answers of ListConnections. */
static int server_on_mailbox(sd_event_source *source, int fd, uint32_t events, void *context)
{
	struct server *s = context;

	(void)source, (void)fd, (void)events;
	mailbox_run(&s->listeners.mailbox);
	return 0;
}

/* listeners->changed. */
static void server_on_change(struct listeners *all, bool listed)
{
	struct server *s = container_of(all, struct server, listeners);

	if (listed)
		server_notify_status(s);
	if (all->stopping)
		listeners_unlock(all);
	if (all->stopping && !listeners_are_busy(all))
		sd_event_exit(s->event, 0);
}

/* main.c ends with EXIT_LATER for these errors: the unit restarts the daemon after them alone. */
bool server_may_start_later(int error)
{
	static const int passing[] = {
		EADDRINUSE, EADDRNOTAVAIL, EAGAIN, EBUSY,   EHOSTUNREACH, EIO,    EMFILE,
		ENETDOWN,   ENETUNREACH,   ENFILE, ENOBUFS, ENODEV,       ENOENT, ENOMEM,
		ENOSPC,     ENOTDIR,       ENXIO,  ESTALE,  ETIMEDOUT,
	};

	for (size_t i = 0; i < ARRAY_SIZE(passing); i++)
		if (-error == passing[i])
			return true;
	return false;
}

/* Reports the listeners that cannot start.  Returns an error that a later start would meet again,
 * if there is one; else one that may pass; else 0. */
static int server_report(const struct listeners *all)
{
	int result = 0;

	for (unsigned i = 0; i < all->count; i++) {
		const struct listener *l = all->list[i];

		if (!l->error)
			continue;
		if (result == 0 || server_may_start_later(result))
			result = l->error;
		if (exports_are_there(&all->exports, l->config))
			log_write(LOG_ERR, "listener '%s' (%s:%u): %s", l->name,
				  l->config->section.file, l->config->section.line, l->reason.text);
	}
	return result;
}

/* Starts all listeners even after an error, so that every error is reported at once. */
static int server_prepare(struct server *s)
{
	struct listeners *all = &s->listeners;
	int result = exports_open(&all->exports, s->config);

	if (result < 0) {
		log_error("cannot start: exports: %s", strerror(-result));
		return result;
	}
	listeners_begin(all, s->config);
	for (unsigned i = 0; i < s->config->listener_count; i++) {
		const struct listener_config *lc = &s->config->listeners[i];
		struct reason reason = { "" };

		if (listener_start(all, &all->exports, lc, NULL, &all->list[i], &reason) < 0) {
			log_error("cannot start: %s", reason.text);
			return -ENOMEM;
		}
		all->count++;
	}
	listeners_await_started(all->list, all->count, NULL);
	result = server_report(all);
	if (result == 0) {
		listeners_listen(all->list, all->count, NULL);
		result = server_report(all);
	}
	exports_release(&all->exports);
	return result;
}

/* Reserves the spare descriptors first, before anything else can use up the limit.  Sockets of the
 * service manager that no listener uses are closed last, when each listener has picked its own. */
int server_start(struct server *s, struct config *config)
{
	struct listeners *all = &s->listeners;
	sd_event_source *source = NULL;
	int rc;

	s->config = config;
	s->generation = 1;
	all->started_ns = clock_ns();
	all->changed = server_on_change;
	all->exports.mailbox = &all->mailbox;
	all->list = calloc(config->listener_count + 1, sizeof(*all->list));
	reserve_open(SERVER_SPARE_FDS);
	rc = mailbox_init(&all->mailbox);
	if (rc == 0)
		rc = all->list ? sd_event_add_io(s->event, &source, all->mailbox.fd, EPOLLIN,
						 server_on_mailbox, s)
			       : -ENOMEM;
	if (rc >= 0)
		rc = event_keep_first(source);
	if (rc < 0) {
		log_error("cannot start: event loop: %s", strerror(-rc));
		return rc;
	}
	fdstore_open(&all->fdstore, &s->notify, config);
	rc = server_prepare(s);
	fdstore_end_start(all, rc == 0);
	return rc;
}

void server_serve(struct server *s)
{
	struct listeners *all = &s->listeners;

	exports_keep(&all->exports);
	for (unsigned i = 0; i < all->count; i++) {
		listener_log(all->list[i]);
		listener_serve(all->list[i]);
	}
	listeners_settle(all);
	listeners_log_unavailable(all->list, all->count);
}

/* ---- The status line, for nbctl and for the service manager ---- */

struct server_words server_words(const struct server *s)
{
	static const enum listener_state others[] = { LISTENER_DRAINING, LISTENER_DRAINED,
						      LISTENER_UNAVAILABLE };
	unsigned counts[LISTENER_STATES] = { 0 };
	struct server_words words;
	int used;

	for (unsigned i = 0; i < s->listeners.count; i++)
		counts[s->listeners.list[i]->state]++;
	used = snprintf(words.text, sizeof(words.text), "%u listener%s", counts[LISTENER_SERVING],
			plural(counts[LISTENER_SERVING]));
	for (unsigned i = 0; i < ARRAY_SIZE(others); i++)
		if (counts[others[i]] > 0)
			used += snprintf(words.text + used, sizeof(words.text) - (size_t)used,
					 ", %u %s", counts[others[i]],
					 listener_state_names[others[i]]);
	return words;
}

static void notify_status(struct server *s, const char *before)
{
	notify(&s->notify, "%sSTATUS=Serving %s, generation %llu%s", before, server_words(s).text,
	       (unsigned long long)s->generation,
	       s->reload.refused ? "; the last reload was refused, see nbctl status" : "");
}

void server_notify_ready(struct server *s)
{
	notify_status(s, "READY=1\n");
}

void server_notify_status(struct server *s)
{
	if (!s->listeners.stopping)
		notify_status(s, "");
}

/* ---- Drain and stop ---- */

/* Ends the event loop, even if a worker does not respond. */
static int server_on_drain_timeout(sd_event_source *source, uint64_t usec, void *context)
{
	struct server *s = context;

	(void)source, (void)usec;
	log_warning("drain-timeout has passed; ending with connections open");
	return sd_event_exit(s->event, 0);
}

void server_drain(struct server *s)
{
	uint64_t timeout_ns = s->config->server.drain_timeout_ns;
	struct listeners *all = &s->listeners;

	all->stopping = true;
	/* Without listeners_settle(): hosts of NVMe would remove the disks of ports that are no
	 * longer listed, while the next process may serve these soon. */
	for (unsigned i = 0; i < all->count; i++)
		listener_drain(all->list[i], clock_ns() + timeout_ns);
	/* Workers close what is left at the deadline; this leaves them time to report it. */
	sd_event_add_time_relative(s->event, NULL, CLOCK_MONOTONIC,
				   timeout_ns / NS_PER_US + 2 * 1000 * 1000, 10 * 1000,
				   server_on_drain_timeout, s);
	server_on_change(all, true);
}

/* Workers end before the mailbox to which they post, listeners before the exports that they use. */
bool server_stop(struct server *s)
{
	struct listeners *all = &s->listeners;

	if (!listeners_stop(all))
		return false;
	if (all->mailbox.fd > 0)
		mailbox_run(&all->mailbox); /* runs the last calls of workers */
	mailbox_fini(&all->mailbox);
	listeners_free(all);
	exports_free(&all->exports);
	json_decref(s->reload.result);
	s->reload.result = NULL;
	fdstore_free(&all->fdstore);
	notify_close(&s->notify);
	reserve_close();
	config_free(s->config);
	s->config = NULL;
	return true;
}
