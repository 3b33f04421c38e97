/* The control socket: interface org.nbserved.Control.  Main thread.
 *
 * To add a method: a function and its line in control_methods (control.c), its definition in
 * control_idl.c, a paragraph in nbserved-control(7). */
#pragma once

struct reason;
struct server;

/* Listens on the configuration's `control`.  0, or -errno with the reason. */
int control_start(struct server *s, struct reason *reason);

/* Ends all calls and removes the socket.  What workers still owe comes later, through
 * server->mailbox.  May be called twice, or without a start. */
void control_stop(struct server *s);
