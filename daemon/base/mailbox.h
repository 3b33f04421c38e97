/* A mailbox: threads ask another thread to run functions.  Many senders, one receiver, no lock.
 *
 * A call is embedded in the object that it is about.  It belongs to the receiver from
 * mailbox_post() until fn() is entered; from then on fn() may free it or post it again.  Calls run
 * in the order in which they were posted. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>

struct call {
	struct call *next;
	void (*fn)(struct call *call);
};

struct mailbox {
	_Atomic(struct call *) head; /* last in first */
	int fd;                      /* eventfd, non-blocking: readable when calls are waiting */
	/* Calls in order, taken and not run yet; receiver's thread only. */
	struct call *taken;
};

int mailbox_init(struct mailbox *m); /* 0 or -errno */
void mailbox_fini(struct mailbox *m);
/* Any thread.  True: the receiver had to be woken by a system call. */
bool mailbox_post(struct mailbox *m, struct call *call);
/* Receiver's thread only. */
void mailbox_run(struct mailbox *m); /* runs all calls posted so far */
/* Runs at most `max` calls.  True: others may be waiting, for which fd need not be readable. */
bool mailbox_run_some(struct mailbox *m, unsigned max);
