/* The listening sockets of a listener, before its workers have them.  The one place where they come
 * from: taken over from listeners that will go or from the service manager, so that whoever waits
 * in their queues is served, or bound.  Main thread. */
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

/* The addresses of config: one for each port of a range.  `list` has room for all. */
unsigned listening_count(const struct listener_config *config);
void listening_list(const struct listener_config *config, struct sockaddr_storage *list);

/* Sockets for each of l's addresses, at least one for every worker; fills l->addresses.  An address
 * of one of `going` (NULL-terminated, NULL: none) is taken over with all of its sockets, by
 * duplicates: the old listener goes on as if nothing had happened until it is drained.  One of
 * all->kept is taken from there.  0, or -errno with the reason. */
int listening_open(struct listening *sockets, struct listener *l, struct listener *const *going,
		   struct reason *reason);

/* l, which was to take over from `going`, will not. */
void listening_return(const struct listener *l, struct listener *const *going);

/* Moves the sockets of that worker to `to`, which has room for sockets->count; how many. */
unsigned listening_take(struct listening *sockets, unsigned worker, struct worker_socket *to);

/* Closes sockets that no worker took. */
void listening_close(struct listening *sockets);

/* The sockets of that address of l, which serves, each once: an array to be freed; NULL: no memory.
 */
int *listening_collect(const struct listener *l, unsigned address, unsigned *ret_count);

/* The queue of that address of l, which will drain, is another listener's now. */
void listening_give(struct listener *l, unsigned address);

/* Has those sockets of a worker listen that do not yet.  Before the worker accepts. */
void listening_start(struct worker *w, const char *listener);
