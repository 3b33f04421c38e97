/* Mailbox: a lock-free stack that the receiver takes whole and reverses.  See mailbox.h. */
#include "mailbox.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

int mailbox_init(struct mailbox *m)
{
	atomic_init(&m->head, NULL);
	m->taken = NULL;
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
	/* Only the first call of a batch has to wake the receiver.  A failed write does no harm:
	 * EAGAIN means that the eventfd's counter is at its maximum, hence readable. */
	if (!head)
		(void)!write(m->fd, &(uint64_t){ 1 }, sizeof(uint64_t));
	return !head;
}

/* Takes all calls posted so far, in order.  It clears the eventfd first: a call posted after the
 * exchange finds an empty stack and makes the eventfd readable again. */
static void mailbox_take(struct mailbox *m)
{
	struct call *posted;

	(void)!read(m->fd, &(uint64_t){ 0 }, sizeof(uint64_t));
	posted = atomic_exchange_explicit(&m->head, NULL, memory_order_acquire);
	while (posted) {
		struct call *next = posted->next;

		posted->next = m->taken;
		m->taken = posted;
		posted = next;
	}
}

bool mailbox_run_some(struct mailbox *m, unsigned max)
{
	bool more = m->taken != NULL;

	if (!more)
		mailbox_take(m);
	for (; m->taken && max > 0; max--) {
		struct call *call = m->taken;

		m->taken = call->next;
		call->fn(call);
	}
	return more || m->taken;
}

void mailbox_run(struct mailbox *m)
{
	while (mailbox_run_some(m, UINT_MAX))
		;
}
