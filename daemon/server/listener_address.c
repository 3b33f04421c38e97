/* The addresses of a listener and the sockets of each.  See listener_address.h. */
#include "listener_address.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "listener.h"

unsigned listener_address_count(const struct listener_config *config)
{
	unsigned count = 0;

	for (unsigned i = 0; i < config->address_count; i++)
		count += 1U + config->addresses[i].port_last - config->addresses[i].port_first;
	return count;
}

bool listener_address_at(const struct listener_config *config, unsigned index,
			 struct sockaddr_storage *ret_sa)
{
	for (unsigned i = 0; i < config->address_count; i++) {
		const struct address *a = &config->addresses[i];
		unsigned ports = 1U + a->port_last - a->port_first;

		if (index < ports) {
			*ret_sa = a->sa;
			sockaddr_set_port(ret_sa, (uint16_t)(a->port_first + index));
			return true;
		}
		index -= ports;
	}
	return false;
}

struct acceptor *listener_next_acceptor(const struct listener *l, const struct acceptor *a)
{
	unsigned i = a ? a->worker->index : 0;
	size_t at = a ? (size_t)(a - a->worker->accept.acceptors) + 1 : 0;

	for (; l->workers && i < l->worker_count; i++, at = 0)
		if (at < l->workers[i].accept.count)
			return &l->workers[i].accept.acceptors[at];
	return NULL;
}

static bool is_same_socket(int a, int b)
{
	struct stat x, y;

	return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev &&
	       x.st_ino == y.st_ino;
}

int *listener_address_sockets(const struct listener *l, unsigned address, unsigned *ret_count)
{
	unsigned count = 0, room = 1;
	const struct acceptor *a = NULL;
	int *fds;

	while ((a = listener_next_acceptor(l, a)))
		room++;
	room += l->kept_count;
	fds = calloc(room, sizeof(*fds));
	for (unsigned i = 0; fds && i < l->kept_count; i++)
		if (l->kept[i].address == address)
			fds[count++] = l->kept[i].fd;
	while (fds && l->state == LISTENER_SERVING && (a = listener_next_acceptor(l, a))) {
		unsigned k = 0;

		while (a->shared && k < count && !is_same_socket(fds[k], a->fd))
			k++;
		if (a->address == address && (!a->shared || k == count))
			fds[count++] = a->fd;
	}
	*ret_count = count;
	return fds;
}
