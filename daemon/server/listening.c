/* Binding, and taking over.  See listening.h. */
#include "listening.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "listener.h"
#include "log.h"

struct listening_socket {
	struct worker_socket socket; /* fd -1: a worker has it */
	unsigned worker;
	/* It shares its port with a listener that serves: were it to listen now, connections would
	 * come to it that nobody accepts if the reload is undone. */
	bool joins;
};

/* ---- Addresses ---- */

static uint16_t port_of(const struct sockaddr_storage *sa)
{
	if (sa->ss_family == AF_UNIX)
		return 0;
	return ntohs(sa->ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)sa)->sin6_port
					       : ((const struct sockaddr_in *)sa)->sin_port);
}

static void set_port(struct sockaddr_storage *sa, uint16_t port)
{
	if (sa->ss_family == AF_INET6)
		((struct sockaddr_in6 *)sa)->sin6_port = htons(port);
	else if (sa->ss_family == AF_INET)
		((struct sockaddr_in *)sa)->sin_port = htons(port);
}

static bool is_same(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	if (a->ss_family != b->ss_family || port_of(a) != port_of(b))
		return false;
	if (a->ss_family == AF_UNIX)
		return memcmp(((const struct sockaddr_un *)a)->sun_path,
			      ((const struct sockaddr_un *)b)->sun_path,
			      sizeof(((struct sockaddr_un *)0)->sun_path)) == 0;
	if (a->ss_family == AF_INET6) {
		const struct sockaddr_in6 *x = (const void *)a, *y = (const void *)b;

		return x->sin6_scope_id == y->sin6_scope_id &&
		       memcmp(&x->sin6_addr, &y->sin6_addr, sizeof(x->sin6_addr)) == 0;
	}
	return ((const struct sockaddr_in *)a)->sin_addr.s_addr ==
	       ((const struct sockaddr_in *)b)->sin_addr.s_addr;
}

unsigned listening_count(const struct listener_config *config)
{
	unsigned count = 0;

	for (unsigned i = 0; i < config->address_count; i++)
		count += 1U + config->addresses[i].port_last - config->addresses[i].port_first;
	return count;
}

void listening_list(const struct listener_config *config, struct sockaddr_storage *list)
{
	for (unsigned i = 0; i < config->address_count; i++) {
		const struct address *a = &config->addresses[i];

		for (unsigned port = a->port_first; port <= a->port_last; port++) {
			*list = a->sa;
			set_port(list++, (uint16_t)port);
		}
	}
}

/* ---- Taking over ---- */

/* Of a listener that will go, and serves: its workers close sockets only when they are told to. */
static bool may_give(const struct listener *l)
{
	return l->state == LISTENER_SERVING;
}

/* `wanted` of l is that address.  Port 0 is whatever port the listener of the same name has. */
static bool is_wanted(const struct listener *l, const struct sockaddr_storage *wanted,
		      const struct listener *giver, const struct bound *a)
{
	if (a->heir)
		return false;
	if (wanted->ss_family == AF_UNIX || port_of(wanted))
		return is_same(wanted, &a->sa);
	return !strcmp(l->name, giver->name) && is_same(wanted, &a->wanted);
}

static struct bound *find_giver(const struct listener *l, const struct sockaddr_storage *wanted,
				struct listener *const *going, const struct listener **ret_giver)
{
	for (; going && *going; going++)
		for (unsigned i = 0; may_give(*going) && i < (*going)->address_count; i++)
			if (is_wanted(l, wanted, *going, &(*going)->addresses[i])) {
				*ret_giver = *going;
				return &(*going)->addresses[i];
			}
	return NULL;
}

static bool is_port_of(struct listener *const *going, uint16_t port)
{
	for (; port && going && *going; going++)
		for (unsigned i = 0; may_give(*going) && i < (*going)->address_count; i++)
			if (port_of(&(*going)->addresses[i].sa) == port)
				return true;
	return false;
}

/* Takes socket.fd over. */
static int add_socket(struct listening *sockets, struct worker_socket socket, unsigned worker,
		      bool joins)
{
	if (sockets->count == sockets->room) {
		unsigned room = 2 * sockets->room + 16;
		void *list = realloc(sockets->list, room * sizeof(*sockets->list));

		if (!list) {
			close(socket.fd);
			return -ENOMEM;
		}
		sockets->list = list;
		sockets->room = room;
	}
	sockets->list[sockets->count++] = (struct listening_socket){ socket, worker, joins };
	return 0;
}

static int add_duplicate(struct listening *sockets, const struct acceptor *a, unsigned address,
			 unsigned worker)
{
	struct worker_socket socket = { .fd = fcntl(a->fd, F_DUPFD_CLOEXEC, 0),
					.shared = a->shared,
					.address = address };

	return socket.fd < 0 ? -errno : add_socket(sockets, socket, worker, true);
}

/* The one socket of a Unix address, for every worker. */
static int take_over_unix(struct listening *sockets, struct acceptor *from, struct listener *l)
{
	struct acceptor a = { .fd = from->fd, .shared = l->worker_count > 1 };
	int rc = 0;

	for (unsigned i = 0; rc == 0 && i < l->worker_count; i++)
		rc = add_duplicate(sockets, &a, l->address_count, i);
	return rc;
}

/* All sockets of that address, however many workers there were and will be: one that is closed
 * takes its queue with it. */
static int take_over(struct listening *sockets, const struct listener *giver, struct bound *given,
		     struct listener *l)
{
	unsigned address = (unsigned)(given - giver->addresses), count = 0;
	int rc = 0;

	for (unsigned i = 0; i < giver->worker_count; i++)
		for (unsigned j = 0; rc == 0 && j < giver->workers[i].acceptor_count; j++) {
			struct acceptor *a = &giver->workers[i].acceptors[j];

			if (a->address != address)
				continue;
			if (given->sa.ss_family == AF_UNIX)
				return take_over_unix(sockets, a, l);
			rc = add_duplicate(sockets, a, l->address_count, count++ % l->worker_count);
		}
	return rc;
}

/* ---- All of them ---- */

static int bind_rest(struct listening *sockets, struct listener *l, unsigned have, bool joins,
		     const struct sockaddr_storage *wanted, struct reason *reason)
{
	struct bound *bound = &l->addresses[l->address_count];
	unsigned count = l->worker_count - have;
	struct worker_socket *list = calloc(count, sizeof(*list));
	int rc;

	if (!list)
		return reason_set(reason, -ENOMEM, "no memory");
	for (unsigned i = 0; i < count; i++)
		list[i] = (struct worker_socket){ .fd = -1, .address = l->address_count };
	rc = socket_bind(wanted, list, count, joins, bound, reason);
	for (unsigned i = 0; i < count; i++)
		if (list[i].fd >= 0 && add_socket(sockets, list[i], have + i, joins) < 0)
			rc = reason_set(reason, -ENOMEM, "no memory");
	free(list);
	return rc;
}

static int open_address(struct listening *sockets, struct listener *l,
			const struct sockaddr_storage *wanted, struct listener *const *going,
			struct reason *reason)
{
	struct bound *bound = &l->addresses[l->address_count], *given;
	unsigned first = sockets->count, have;
	const struct listener *giver;
	int rc = 0;

	given = find_giver(l, wanted, going, &giver);
	if (!given) {
		rc = bind_rest(sockets, l, 0, is_port_of(going, port_of(wanted)), wanted, reason);
	} else {
		rc = take_over(sockets, giver, given, l);
		if (rc < 0)
			return reason_set(reason, rc, "%s: %s", given->text, strerror(-rc));
		have = sockets->count - first;
		if (have < l->worker_count)
			rc = bind_rest(sockets, l, have, true, &given->sa, reason);
		l->inherited = true;
		bound->sa = given->sa;
		bound->wanted = *wanted;
		strcpy(bound->text, given->text);
		given->heir = bound;
	}
	l->address_count += rc == 0;
	return rc;
}

int listening_open(struct listening *sockets, struct listener *l, struct listener *const *going,
		   struct reason *reason)
{
	unsigned count = listening_count(l->config);
	struct sockaddr_storage *wanted = calloc(count, sizeof(*wanted));
	int rc = wanted ? 0 : reason_set(reason, -ENOMEM, "no memory");

	if (wanted)
		listening_list(l->config, wanted);
	for (unsigned i = 0; rc == 0 && i < count; i++)
		rc = open_address(sockets, l, &wanted[i], going, reason);
	free(wanted);
	/* Listen only when every socket has its address: a connection that came before would be
	 * given to a socket that might yet be closed. */
	for (unsigned i = 0; rc == 0 && i < sockets->count; i++) {
		rc = sockets->list[i].joins ? 0 : socket_listen(sockets->list[i].socket.fd);
		if (rc < 0)
			reason_set(reason, rc, "listen: %s", strerror(-rc));
	}
	return rc;
}

unsigned listening_take(struct listening *sockets, unsigned worker, struct worker_socket *to)
{
	unsigned count = 0;

	for (unsigned i = 0; i < sockets->count; i++)
		if (sockets->list[i].worker == worker) {
			to[count++] = sockets->list[i].socket;
			sockets->list[i].socket.fd = -1;
		}
	return count;
}

void listening_close(struct listening *sockets)
{
	for (unsigned i = 0; i < sockets->count; i++)
		if (sockets->list[i].socket.fd >= 0)
			close(sockets->list[i].socket.fd);
	free(sockets->list);
	*sockets = (struct listening){ 0 };
}

void listening_start(struct worker *w, const char *listener)
{
	for (unsigned i = 0; i < w->acceptor_count; i++) {
		int rc = socket_listen(w->acceptors[i].fd);

		if (rc < 0)
			log_write(LOG_ERR, listener, "listener '%s': listen: %s", listener,
				  strerror(-rc));
	}
}

void listening_give(struct listener *l, unsigned address)
{
	for (unsigned i = 0; i < l->worker_count; i++)
		for (unsigned j = 0; j < l->workers[i].acceptor_count; j++)
			if (l->workers[i].acceptors[j].address == address)
				l->workers[i].acceptors[j].given = true;
}
