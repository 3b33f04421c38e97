/* The listening sockets of a listener, until its workers own them.  They are bound, or taken over
 * from a listener that will end or from the service manager, so that clients in their queues are
 * served.  Main thread. */
#pragma once
struct listener;
struct reason;
struct worker_socket;

struct binding {
	struct binding_socket *list;
	unsigned count, room;
};

/* Sockets for each of l's addresses, at least one for every worker; fills l->addresses.  If a
 * listener of `going` (NULL-terminated, NULL: none) has the address, duplicates of all of its
 * sockets are used, and the old listener continues undisturbed until it is drained.  Otherwise
 * matching sockets that came from the service manager (l->all->fdstore) are taken; if there are
 * none, new ones are bound.  0, or -errno with the reason. */
int binding_open(struct binding *sockets, struct listener *l, struct listener *const *going,
		 struct reason *reason);

/* Calls listen() for the sockets of l, whose workers have started, that share no port with a
 * listener that serves.  0, or -errno with the reason. */
int binding_start(const struct listener *l, struct reason *reason);

/* Undoes the taking over: l was to replace listeners of `going`, and will not. */
void binding_undo(const struct listener *l, struct listener *const *going);

/* Moves the sockets of that worker, and their ownership, to `to`, which has room for
 * sockets->count.  Returns how many. */
unsigned binding_take(struct binding *sockets, unsigned worker, struct worker_socket *to);

/* Closes sockets that no worker took. */
void binding_close(struct binding *sockets);

/* Another listener or process now accepts from the queues of that address of l, which drains. */
void binding_given(struct listener *l, unsigned address);

/* Fills in l->kept, before the workers are asked to drain, with the sockets that were not given;
 * without a free descriptor it stays empty. */
void binding_keep(struct listener *l);
void binding_forget(struct listener *l);

/* Applies `keepalive` to all sockets of l. */
void binding_set_keepalive(const struct listener *l);

/* Calls listen() for the sockets of l that do not listen yet; before the workers accept. */
void binding_listen(const struct listener *l);
