/* The addresses that a listener is configured for, and the sockets that its workers
 * have on each.  Main thread. */
#pragma once
#include <stdbool.h>

struct acceptor;
struct listener;
struct listener_config;
struct sockaddr_storage;

/* The addresses of config, one for each port of a range: how many, and each of them; false: there
 * is no such index. */
unsigned listener_address_count(const struct listener_config *config);
bool listener_address_at(const struct listener_config *config, unsigned index,
			 struct sockaddr_storage *ret_sa);

/* The sockets of that address of l, which serves or keeps them (binding_keep()), each once.  The
 * caller frees the array; NULL: no memory. */
int *listener_address_sockets(const struct listener *l, unsigned address, unsigned *ret_count);

/* The listening socket of l's workers behind a; a NULL: the first.  NULL: there is none. */
struct acceptor *listener_next_acceptor(const struct listener *l, const struct acceptor *a);
