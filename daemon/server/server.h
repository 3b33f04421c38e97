/* The running daemon: the configuration in force and its listeners.  Main thread only. */
#pragma once
#include <systemd/sd-event.h>

#include "config.h"
#include "listener.h"
#include "mailbox.h"

struct varlink;

struct server {
	sd_event *event;
	struct config *config;
	struct listener **listeners; /* in the order of the configuration; listener_count of them */
	unsigned listener_count;
	uint64_t generation; /* 1 after the start */
	uint64_t started_ns; /* CLOCK_MONOTONIC */
	struct mailbox mailbox; /* for the workers to reach the main thread */
	struct varlink *control;
	bool stopping;
};

/* NULL when there is none of that name. */
struct listener *server_find_listener(struct server *s, const char *name);
