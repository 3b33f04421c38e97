/* Messages to the service manager (sd_notify(3)), sent without blocking: libsystemd's functions
 * block while the manager does not read.  Main thread only. */
#pragma once
#include <stdint.h>
#include <systemd/sd-event.h>

struct notify_message;

struct notify {
	sd_event *event;
	struct notify_message *first, **last; /* the queue of unsent messages */
	unsigned count;                       /* messages in the queue */
	int fd;                               /* connected while the queue is not empty */
	sd_event_source *writable;            /* set while the queue is not empty */
};

void notify_open(struct notify *n, sd_event *event);
/* Drops the queued messages. */
void notify_close(struct notify *n);

/* Sends text with duplicates of fds, at once or when the manager reads again; always in
 * order.  0, also without a manager; -errno, above all -ENOBUFS: the queue is full.
 * notify() formats its text. */
int notify_send(struct notify *n, const char *text, const int *fds, unsigned fd_count);
int notify(struct notify *n, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Waits until the manager has processed all messages, at most until end_ns (CLOCK_MONOTONIC). */
void notify_barrier(struct notify *n, uint64_t end_ns);
