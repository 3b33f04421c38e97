/* The addresses that a listener is configured for, and the sockets that its workers
 * have on each.  Main thread. */
#pragma once
struct listener;
struct listener_config;
struct sockaddr_storage;

/* The addresses of config, one for each port of a range.  `list` has
 * room for listener_address_count(). */
unsigned listener_address_count(const struct listener_config *config);
/* The same with its multicast groups, which are at each port. */
unsigned listener_address_max(const struct listener_config *config);
void listener_address_list(const struct listener_config *config, struct sockaddr_storage *list);

/* The sockets of that address of l, which serves or keeps them (binding_keep()), each once.  The
 * caller frees the array; NULL: no memory. */
int *listener_address_sockets(const struct listener *l, unsigned address, unsigned *ret_count);
