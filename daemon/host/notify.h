/* Messages to the service manager (sd_notify(3)), sent without ever waiting for it: libsystemd's
 * functions block as long as it does not read.  Main thread only. */
#pragma once
#include <stdint.h>
#include <systemd/sd-event.h>

struct notify_message;

struct notify {
	sd_event *event;
	struct notify_message *first, **last; /* those that wait */
	unsigned count;                       /* of them */
	int fd;                               /* connected while any waits */
	sd_event_source *writable;            /* likewise */
};

void notify_open(struct notify *n, sd_event *event);
/* Forgets what waits. */
void notify_close(struct notify *n);

/* Tells text, with copies of fds, at once or when the manager reads again; always in order.  0,
 * also if there is no manager to tell; -errno, above all -ENOBUFS: too much waits. */
int notify_send(struct notify *n, const char *text, const int *fds, unsigned fd_count);
int notify(struct notify *n, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Waits until the manager has done what it was told, at most until end_ns (CLOCK_MONOTONIC). */
void notify_barrier(struct notify *n, uint64_t end_ns);
