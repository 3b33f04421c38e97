/* The running daemon: the configuration in force and its listeners.  Main thread only. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "config.h"
#include "listeners.h"
#include "notify.h"
#include "reload.h"

struct server {
	sd_event *event;
	struct config *config;
	struct listeners listeners;
	uint64_t generation;  /* 1 after the start, one more with each change of config */
	struct reload reload; /* the last reload */
	struct notify notify; /* the service manager */
};

/* server_start() takes ownership of config and prepares all listeners or none: 0, or -errno with
 * all reasons logged.  server_serve() then has them accept. */
int server_start(struct server *s, struct config *config);
void server_serve(struct server *s);

/* May a later start succeed after this -errno?  It may if a file system is not mounted yet, an
 * address is not there or in use, a lock is held, or memory is short. */
bool server_may_start_later(int error);

/* A summary of the listeners' states: "8 listeners, 1 drained". */
struct server_words {
	char text[160];
};
struct server_words server_words(const struct server *s);
/* Informs the service manager: that the server is ready, after its start and each reload; and of
 * other changes of its status, unless it is stopping. */
void server_notify_ready(struct server *s);
void server_notify_status(struct server *s);

/* Stops accepting; the event loop ends when every listener is drained, or at the latest when
 * drain-timeout has passed. */
void server_drain(struct server *s);
/* Ends and frees everything.  False: a worker has not ended, which is logged, and the memory that
 * it may use was not freed: the process must _exit(). */
bool server_stop(struct server *s);
