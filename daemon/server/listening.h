/* The listening sockets of a listener, until its workers own them.  They are bound, or taken over
 * from a listener that will end or from the service manager, so that clients in their queues are
 * served.  Main thread. */
#pragma once
struct listener;
struct listener_config;
struct reason;
struct sockaddr_storage;
struct worker;
struct worker_socket;

struct listening {
	struct listening_socket *list;
	unsigned count, room;
};

/* The addresses of config, one for each port of a range.  `list` has room for listening_count(). */
unsigned listening_count(const struct listener_config *config);
void listening_list(const struct listener_config *config, struct sockaddr_storage *list);

/* Sockets for each of l's addresses, at least one for every worker; fills l->addresses.  If a
 * listener of `going` (NULL-terminated, NULL: none) has the address, duplicates of all of its
 * sockets are used, and the old listener continues undisturbed until it is drained.  Sockets of
 * all->kept are taken from there.  0, or -errno with the reason. */
int listening_open(struct listening *sockets, struct listener *l, struct listener *const *going,
		   struct reason *reason);

/* Undoes the taking over: l was to replace listeners of `going`, and will not. */
void listening_return(const struct listener *l, struct listener *const *going);

/* Moves the sockets of that worker, and their ownership, to `to`, which has room for
 * sockets->count.  Returns how many. */
unsigned listening_take(struct listening *sockets, unsigned worker, struct worker_socket *to);

/* Closes sockets that no worker took. */
void listening_close(struct listening *sockets);

/* The sockets of that address of l, which serves, each once.  The caller frees the array; NULL: no
 * memory. */
int *listening_collect(const struct listener *l, unsigned address, unsigned *ret_count);

/* Another listener or process now accepts from the queues of that address of l, which will drain.
 */
void listening_give(struct listener *l, unsigned address);

/* Applies `keepalive` to all sockets of l. */
void listening_set_keepalive(const struct listener *l);

/* Calls listen() for the worker's sockets that do not listen yet; before the worker accepts. */
void listening_start(struct worker *w, const char *listener);
