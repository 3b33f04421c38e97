/* Engine `rdma`: devices that are unplugged, and come back.
 *
 * The kernel does not let go of a device (`rdma link delete` waits) before every process has closed
 * it.  The connection manager's library has opened it for all workers, and closes it when nobody
 * holds it and it looks for devices again; so every worker holds what it uses, and looks when it
 * has let go.  That a device leaves, the connection manager says to whoever has an identifier
 * there; others see its file go from /dev/infiniband.  Addresses that were lost with a device are
 * tried again until it is back. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "conn.h"
#include "rdma.h"

enum { HOTPLUG_RETRY_NS = 500 * NS_PER_MS, HOTPLUG_EVENTS_BYTES = 4096 };

/* ---- Holding a device ---- */

struct ibv_context **rdma_hold(struct ibv_context *verbs)
{
	struct ibv_context **all = rdma_get_devices(NULL), **one = calloc(2, sizeof(verbs));
	unsigned kept = 0;

	for (unsigned i = 0; all && all[i]; i++) {
		if (all[i] == verbs && one)
			one[0] = verbs;
		else
			all[kept++] = all[i];
	}
	if (!all)
		return one;
	all[kept] = NULL;
	rdma_free_devices(all);
	return one;
}

void rdma_let_go(struct ibv_context **held)
{
	struct ibv_context **all;

	if (held)
		rdma_free_devices(held);
	all = rdma_get_devices(NULL); /* finds out which are dead, and closes them */
	if (all)
		rdma_free_devices(all);
}

/* ---- Unplugged ---- */

static void rdma_file_gone(struct rdma *e, const char *name)
{
	for (struct rdma_device *d = e->devices; d; d = d->next)
		if (!strcmp(d->verbs->device->dev_name, name))
			rdma_device_gone(d);
}

static void rdma_hotplug_event(struct op *op, int res, uint32_t flags)
{
	struct rdma *e = container_of(op, struct rdma, hotplug_op);
	char events[HOTPLUG_EVENTS_BYTES]
		__attribute__((aligned(__alignof__(struct inotify_event))));
	ssize_t bytes;

	(void)res, (void)flags;
	while ((bytes = read(e->hotplug_fd, events, sizeof(events))) > 0) {
		const struct inotify_event *event;

		for (char *at = events; at < events + bytes; at += sizeof(*event) + event->len) {
			event = (const struct inotify_event *)(void *)at;
			if (event->len > 0)
				rdma_file_gone(e, event->name);
		}
	}
	rdma_let_go(NULL); /* those that the library has opened, though nobody uses them */
}

/* ---- And back ---- */

static void rdma_retry_in(struct rdma *e, long ns)
{
	struct itimerspec when = { .it_value.tv_nsec = ns };

	timerfd_settime(e->retry_fd, 0, &when, NULL);
}

static void rdma_retry_event(struct op *op, int res, uint32_t flags)
{
	struct rdma *e = container_of(op, struct rdma, retry_op);
	uint64_t times;

	(void)res, (void)flags;
	if (read(e->retry_fd, &times, sizeof(times)) > 0 && !rdma_cm_listen_again(e->worker))
		rdma_retry_in(e, HOTPLUG_RETRY_NS);
}

void rdma_address_lost(struct rdma *e)
{
	rdma_retry_in(e, HOTPLUG_RETRY_NS);
}

/* ---- Life ---- */

void rdma_hotplug_open(struct rdma *e)
{
	e->hotplug_op.done = rdma_hotplug_event;
	e->hotplug_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (e->hotplug_fd >= 0 &&
	    inotify_add_watch(e->hotplug_fd, "/dev/infiniband", IN_DELETE) >= 0)
		rdma_watch(e->worker, e->hotplug_fd, &e->hotplug_op);
	e->retry_op.done = rdma_retry_event;
	e->retry_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (e->retry_fd >= 0)
		rdma_watch(e->worker, e->retry_fd, &e->retry_op);
}

void rdma_hotplug_close(struct rdma *e)
{
	if (e->hotplug_fd >= 0)
		close(e->hotplug_fd);
	if (e->retry_fd >= 0)
		close(e->retry_fd);
}
