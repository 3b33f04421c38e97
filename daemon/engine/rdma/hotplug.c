/* Engine `rdma`: devices that are unplugged.
 *
 * The connection manager sends an event to each identifier on the device.  But workers without one
 * get none, and if the module rdma_cm was loaded before ib_uverbs, the kernel waits until all have
 * closed the device before the connection manager hears of it.  So its file in /dev/infiniband,
 * which is removed first, is watched as well. */
#include "rdma_engine.h"

#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "util.h"

enum { HOTPLUG_EVENTS_BYTES = 4096 };

/* ---- Unplugged ---- */

static void rdma_file_gone(struct rdma *e, const char *name)
{
	for (struct rdma_device *d = e->devices; d; d = d->next)
		if (!strcmp(d->verbs->device->dev_name, name))
			rdma_cm_removed(e->worker, NULL, d->verbs);
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
	rdma_let_go(NULL); /* closes devices that the library has opened and no worker uses */
}

/* ---- Life ---- */

void rdma_hotplug_open(struct rdma *e)
{
	e->hotplug_op.done = rdma_hotplug_event;
	e->hotplug_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (e->hotplug_fd >= 0 &&
	    inotify_add_watch(e->hotplug_fd, "/dev/infiniband", IN_DELETE) >= 0)
		rdma_watch(e->worker, e->hotplug_fd, &e->hotplug_op);
}

void rdma_hotplug_close(struct rdma *e)
{
	if (e->hotplug_fd >= 0)
		close(e->hotplug_fd);
}
