/* How one thread asks another to run something: many senders, one receiver, no lock.
 *
 * A call is embedded in what it is about and belongs to the receiver from mailbox_post() until its
 * fn() is entered.  Calls run in the order in which they were posted. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>

struct call {
	struct call *next;
	void (*fn)(struct call *call);
};

struct mailbox {
	_Atomic(struct call *) head; /* last in first */
	int fd;                      /* eventfd: readable when there is something; non-blocking */
};

int mailbox_init(struct mailbox *m); /* 0 or -errno */
void mailbox_fini(struct mailbox *m);
/* True: it had to wake the receiver, with a system call. */
bool mailbox_post(struct mailbox *m, struct call *call);
void mailbox_run(struct mailbox *m); /* the receiver only: runs all that is there */
