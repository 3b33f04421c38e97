/* The running daemon: the configuration in force and its listeners.  Main thread only. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "config.h"
#include "exports.h"
#include "kept.h"
#include "listener.h"
#include "mailbox.h"
#include "notify.h"
#include "proc.h"
#include "reload.h"

struct control;

struct server {
	sd_event *event;
	const char *path; /* of the configuration; NULL: it came with --run */
	struct config *config;
	struct listener **listeners; /* in the order of the configuration; listener_count of them */
	unsigned listener_count;
	/* Those that a reload took out and that are not drained yet, freed then; and those of which
	 * a worker does not end. */
	struct listener *leaving;
	struct server_export **exports; /* likewise */
	unsigned export_count;
	uint64_t generation;    /* of config: 1 after the start, one more with each change */
	struct reload reload;   /* the last one */
	uint64_t started_ns;    /* CLOCK_MONOTONIC */
	struct mailbox mailbox; /* for the workers to reach the main thread */
	struct control *control;
	struct notify notify; /* the service manager */
	struct kept kept;     /* sockets that no listener has taken yet */
	struct proc_threads threads;
	uint64_t threads_ns;  /* when they were last looked at */
	uint64_t bind_end_ns; /* of a start or reload: see SOCKET_WAIT_NS */
	bool stopping;
};

/* Takes config, which was read from path (NULL: no file), over.  Starts every listener, or none: 0,
 * or -errno with all reasons logged. */
int server_start(struct server *s, const char *path, struct config *config);

/* How its listeners are, in words: "8 listeners, 1 drained". */
struct server_words {
	char text[160];
};
struct server_words server_words(const struct server *s);
/* Tells the service manager how the server is: that it is ready, after its start and each reload;
 * and whatever else changes that, unless it stops. */
void server_notify_ready(struct server *s);
void server_notify_status(struct server *s);

/* Stops accepting; the event loop ends when every listener is drained, or at the latest when
 * drain-timeout has passed. */
void server_drain(struct server *s);
/* Ends everything.  False: a worker has not ended, which is logged, and what it may use was left as
 * it is; the process can only _exit(). */
bool server_stop(struct server *s);

/* NULL when there is none of that name. */
struct listener *server_find_listener(struct server *s, const char *name);

/* Has idle workers count what they have not looked at yet: see worker_settle(). */
void server_settle(struct server *s);

/* Called by a listener: one of its workers has stopped accepting. */
void server_worker_deaf(struct server *s);
/* Workers give up what is in flight after two seconds. */
#define SERVER_END_NS ((uint64_t)5 * NS_PER_S)

/* Ends l, which is on no list, and frees it.  If one of its workers does not end by end_ns
 * (CLOCK_MONOTONIC) it stays among those that leave.  Of several, all are first to be requested to
 * stop. */
void server_end_listener(struct listener *l, uint64_t end_ns);
/* Called by a listener; ends it if it is one that leaves. */
void server_listener_drained(struct listener *l);
/* The kernel's threads of this process, looked at now or within the last millisecond. */
struct proc_threads *server_scan_threads(struct server *s);
