/* The control socket: interface org.nbserved.Control.  Main thread.
 *
 * To add a method: a function and its line in control_methods (control.c), its definition in
 * org.nbserved.Control.varlink, a paragraph in nbserved-control(7). */
#pragma once

#include "varlink.h"

struct reason;
struct server;

/* A call of Doctor that waits for its answer. */
struct doctor_caller {
	struct varlink_call *call;
	bool text; /* the report as text as well */
	uint64_t since_ns;
};

/* Zeroed before control_start(); must stay valid until the server has stopped, since workers may
 * still send answers. */
struct control {
	struct server *server;
	struct varlink *varlink;
	struct varlink_interface interface;
	char *description;      /* description of the interface; owned */
	unsigned listing_count; /* ListConnections requests that workers have not answered yet */
	struct examination *examination; /* the one that runs; NULL: none */
	struct doctor_caller doctor_callers[VARLINK_CLIENTS_MAX];
	unsigned doctor_caller_count;
};

/* Listens on the configuration's `control`.  0, or -errno with the reason. */
int control_start(struct control *c, struct server *s, struct reason *reason);

/* Ends all calls and removes the socket.  Outstanding answers of workers arrive later, by the
 * mailbox.  Requests the thread of a Doctor to end, and does not wait for it; may be called twice,
 * or without control_start(). */
void control_stop(struct control *c);

/* After control_stop(), when the mailbox has ended: waits for the thread of a Doctor.  False: it
 * hangs, in a file system or a driver: the process must _exit(). */
bool control_end(struct control *c);

/* control_idl.c: the interface in Varlink's language, to be freed.  NULL: no memory. */
char *control_describe(void);
