/* Starting, draining and stopping all listeners; what concerns the process as a whole. */
#include "server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "control.h"
#include "export_open.h"
#include "log.h"
#include "reserve.h"
#include "util.h"

enum { SERVER_SPARE_FDS = 8 }; /* some control clients, and /proc */

/* ---- Start ---- */

static int server_on_mailbox(sd_event_source *source, int fd, uint32_t events, void *context)
{
	struct server *s = context;

	(void)source, (void)fd, (void)events;
	mailbox_run(&s->mailbox);
	return 0;
}

/* All of them, so that every error is said at once. */
static int server_prepare(struct server *s)
{
	int result = exports_open(s);

	if (result < 0) {
		log_error("cannot start: %s", strerror(-result));
		return result;
	}
	s->bind_end_ns = clock_ns() + SOCKET_WAIT_NS;
	for (unsigned i = 0; i < s->config->listener_count; i++) {
		const struct listener_config *lc = &s->config->listeners[i];
		struct reason reason = { "" };

		if (listener_begin(s, lc, NULL, &s->listeners[i], &reason) < 0) {
			log_error("cannot start: %s", reason.text);
			return -ENOMEM;
		}
		s->listener_count++;
	}
	listeners_await_start(s->listeners, s->listener_count, NULL);
	exports_release(s);
	for (unsigned i = 0; i < s->listener_count; i++) {
		const struct listener *l = s->listeners[i];

		if (!l->error)
			continue;
		result = l->error;
		if (exports_are_there(s, l->config))
			log_write(LOG_ERR, l->name, "listener '%s' (%s:%u): %s", l->name,
				  l->config->section.file, l->config->section.line, l->reason.text);
	}
	return result;
}

int server_start(struct server *s, const char *path, struct config *config)
{
	struct reason reason = { "" };
	int rc;

	s->path = path;
	s->config = config;
	s->started_ns = clock_ns();
	s->generation = 1;
	s->listeners = calloc(config->listener_count + 1, sizeof(struct listener *));
	reserve_open(SERVER_SPARE_FDS);
	rc = mailbox_init(&s->mailbox);
	if (rc == 0)
		rc = s->listeners ? sd_event_add_io(s->event, NULL, s->mailbox.fd, EPOLLIN,
						    server_on_mailbox, s)
				  : -ENOMEM;
	if (rc < 0) {
		log_error("cannot start: %s", strerror(-rc));
		return rc;
	}
	kept_open(&s->kept, &s->notify, config);
	rc = server_prepare(s);
	kept_close(&s->kept);
	if (rc == 0) {
		rc = control_start(s, &reason);
		if (rc < 0)
			log_error("%s", reason.text);
	}
	if (rc < 0)
		return rc;
	for (unsigned i = 0; i < s->listener_count; i++) {
		listener_log(s->listeners[i]);
		listener_serve(s->listeners[i]);
	}
	listeners_log_unavailable(s->listeners, s->listener_count);
	return 0;
}

struct server_words server_words(const struct server *s)
{
	static const enum listener_state others[] = { LISTENER_DRAINING, LISTENER_DRAINED,
						      LISTENER_UNAVAILABLE };
	unsigned counts[LISTENER_STATES] = { 0 };
	struct server_words words;
	int used;

	for (unsigned i = 0; i < s->listener_count; i++)
		counts[s->listeners[i]->state]++;
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
	       (unsigned long long)s->generation, reload_remark(s));
}

void server_notify_ready(struct server *s)
{
	notify_status(s, "READY=1\n");
}

void server_notify_status(struct server *s)
{
	if (!s->stopping)
		notify_status(s, "");
}

/* ---- Drain and stop ---- */

static bool server_drained(const struct server *s)
{
	for (unsigned i = 0; i < s->listener_count; i++)
		if (s->listeners[i]->state == LISTENER_SERVING ||
		    s->listeners[i]->state == LISTENER_DRAINING)
			return false;
	for (const struct listener *l = s->leaving; l; l = l->next)
		if (l->state == LISTENER_DRAINING)
			return false;
	return true;
}

static void server_end_if_drained(struct server *s)
{
	if (s->stopping && server_drained(s))
		sd_event_exit(s->event, 0);
}

void server_worker_deaf(struct server *s)
{
	for (unsigned i = 0; i < s->listener_count; i++)
		listener_accept_waiting(s->listeners[i]);
}

void server_end_listener(struct listener *l, uint64_t end_ns)
{
	struct server *s = l->server;

	listener_request_stop(l);
	if (listener_await_end(l, end_ns)) {
		listener_free(l);
		return;
	}
	l->state = LISTENER_DRAINED;
	l->next = s->leaving;
	s->leaving = l;
}

void server_listener_drained(struct listener *l)
{
	struct server *s = l->server;

	for (struct listener **p = &s->leaving; *p; p = &(*p)->next)
		if (*p == l) {
			*p = l->next;
			server_end_listener(l, clock_ns() + SERVER_END_NS);
			return server_end_if_drained(s);
		}
	server_notify_status(s);
	server_end_if_drained(s);
}

/* A worker that does not answer must not keep us from ending. */
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

	s->stopping = true;
	exports_unlock();
	for (unsigned i = 0; i < s->listener_count; i++)
		listener_drain(s->listeners[i], clock_ns() + timeout_ns);
	/* The workers close what is left at the deadline; give them the time to say so. */
	sd_event_add_time_relative(s->event, NULL, CLOCK_MONOTONIC,
				   timeout_ns / NS_PER_US + 2 * 1000 * 1000, 10 * 1000,
				   server_on_drain_timeout, s);
	server_end_if_drained(s);
}

/* All at once: each may take its time. */
static bool server_end_workers(struct server *s)
{
	uint64_t end_ns = clock_ns() + SERVER_END_NS;
	bool ended = true;

	for (unsigned i = 0; i < s->listener_count; i++)
		listener_request_stop(s->listeners[i]);
	for (struct listener *l = s->leaving; l; l = l->next)
		listener_request_stop(l);
	for (unsigned i = 0; i < s->listener_count; i++)
		ended &= listener_await_end(s->listeners[i], end_ns);
	for (struct listener *l = s->leaving; l; l = l->next)
		ended &= listener_await_end(l, end_ns);
	return ended;
}

bool server_stop(struct server *s)
{
	control_stop(s);
	if (!server_end_workers(s))
		return false;
	if (s->mailbox.fd > 0)
		mailbox_run(&s->mailbox); /* what the workers still had to say of their listeners */
	mailbox_fini(&s->mailbox);
	for (unsigned i = 0; i < s->listener_count; i++)
		listener_free(s->listeners[i]);
	while (s->leaving) {
		struct listener *l = s->leaving;

		s->leaving = l->next;
		listener_free(l);
	}
	exports_free(s);
	reload_fini(s);
	kept_free(&s->kept);
	notify_close(&s->notify);
	reserve_close();
	free(s->listeners);
	s->listeners = NULL;
	s->listener_count = 0;
	config_free(s->config);
	s->config = NULL;
	return true;
}

/* ---- Look-ups ---- */

struct listener *server_find_listener(struct server *s, const char *name)
{
	for (unsigned i = 0; i < s->listener_count; i++)
		if (!strcmp(s->listeners[i]->config->name, name))
			return s->listeners[i];
	return NULL;
}

void server_settle(struct server *s)
{
	struct settle *settle = settle_new();

	for (unsigned i = 0; i < s->listener_count; i++)
		for (unsigned j = 0; j < s->listeners[i]->worker_count; j++)
			worker_settle(&s->listeners[i]->workers[j], settle);
	settle_wait(settle);
}

static void server_retire_thread(void *context, const struct proc_thread *thread)
{
	struct server *s = context;

	for (unsigned i = 0; i < s->listener_count; i++)
		if (listener_owns(s->listeners[i], thread->worker))
			proc_cost_add(&s->listeners[i]->retired, &thread->cost);
}

struct proc_threads *server_scan_threads(struct server *s)
{
	uint64_t now = clock_ns();

	if (now - s->threads_ns >= NS_PER_MS) {
		proc_threads_scan(&s->threads, server_retire_thread, s);
		s->threads_ns = now;
	}
	return &s->threads;
}
