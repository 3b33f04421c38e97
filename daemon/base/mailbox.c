/* Mailbox: a lock-free stack that the receiver takes whole and reverses.  See mailbox.h. */
#include "mailbox.h"

#include <errno.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

int mailbox_init(struct mailbox *m)
{
	atomic_init(&m->head, NULL);
	m->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return m->fd < 0 ? -errno : 0;
}

void mailbox_fini(struct mailbox *m)
{
	if (m->fd >= 0)
		close(m->fd);
	m->fd = -1;
}

bool mailbox_post(struct mailbox *m, struct call *call)
{
	struct call *head = atomic_load_explicit(&m->head, memory_order_relaxed);

	do
		call->next = head;
	while (!atomic_compare_exchange_weak_explicit(&m->head, &head, call, memory_order_release,
						      memory_order_relaxed));
	/* Only the first of a batch has to wake the receiver.  The write cannot fail in a way
	 * that matters: EAGAIN means that the counter is huge, hence readable. */
	if (!head)
		(void)!write(m->fd, &(uint64_t){ 1 }, sizeof(uint64_t));
	return !head;
}

void mailbox_run(struct mailbox *m)
{
	struct call *taken, *ordered = NULL;

	(void)!read(m->fd, &(uint64_t){ 0 }, sizeof(uint64_t));
	taken = atomic_exchange_explicit(&m->head, NULL, memory_order_acquire);
	while (taken) {
		struct call *next = taken->next;

		taken->next = ordered;
		ordered = taken;
		taken = next;
	}
	while (ordered) {
		struct call *call = ordered;

		ordered = call->next;
		call->fn(call);
	}
}
