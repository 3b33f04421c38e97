/* Binding and taking over of listening sockets.  See binding.h. */
#include "binding.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "listener.h"
#include "listener_address.h"
#include "listeners.h"
#include "log.h"
#include "util.h"

struct binding_socket {
	struct worker_socket socket; /* fd -1: a worker owns it now */
	unsigned worker;
};

/* ---- Taking over ---- */

/* May the sockets of that address be taken from l?  Its workers keep them open until they are asked
 * to drain; then some are kept here. */
static bool may_give(const struct listener *l, unsigned address)
{
	for (unsigned i = 0; i < l->kept_count; i++)
		if (l->kept[i].address == address)
			return true;
	return l->state == LISTENER_SERVING;
}

static bool is_named(const struct listener_config *config, const struct sockaddr_storage *sa)
{
	uint16_t port = sockaddr_port(sa);

	for (unsigned i = 0; i < config->address_count; i++) {
		const struct address *a = &config->addresses[i];
		struct sockaddr_storage named = a->sa;

		if (named.ss_family == AF_UNIX || !a->port_first || port < a->port_first ||
		    port > a->port_last)
			continue;
		sockaddr_set_port(&named, port);
		if (sockaddr_is_same(&named, sa))
			return true;
	}
	return false;
}

/* Must `wants` give up the socket at sa that it had?  With port 0 it must if a listener names that
 * port in the file, before or after it. */
static bool is_left(const struct listeners *all, const struct socket_name *wants,
		    const struct sockaddr_storage *sa)
{
	if (wants->wanted.ss_family == AF_UNIX || sockaddr_port(&wants->wanted))
		return false;
	for (unsigned i = 0; i < all->next->listener_count; i++)
		if (all->next->listeners[i].transport->socket_type == wants->type &&
		    is_named(&all->next->listeners[i], sa))
			return true;
	return false;
}

static bool is_wanted(const struct socket_name *wants, const struct listener *giver,
		      const struct bound *a)
{
	struct socket_name had = { .wanted = a->wanted,
				   .type = giver->config->transport->socket_type };

	strcpy(had.listener, giver->name);
	return !a->heir && socket_name_fits(wants, &had, &a->sa) &&
	       !is_left(giver->all, wants, &a->sa);
}

static struct bound *find_giver(const struct socket_name *wants, struct listener *const *going,
				const struct listener **ret_giver)
{
	for (; going && *going; going++)
		for (unsigned i = 0; i < (*going)->address_count; i++)
			if (may_give(*going, i) &&
			    is_wanted(wants, *going, &(*going)->addresses[i])) {
				*ret_giver = *going;
				return &(*going)->addresses[i];
			}
	return NULL;
}

static bool is_port_of(struct listener *const *going, uint16_t port, int type)
{
	for (; port && going && *going; going++)
		for (unsigned i = 0; i < (*going)->address_count; i++)
			if (may_give(*going, i) &&
			    (*going)->config->transport->socket_type == type &&
			    sockaddr_port(&(*going)->addresses[i].sa) == port)
				return true;
	return false;
}

/* May a new socket share the port of l's sockets?  Not beside a socket unit's socket, which would
 * get all clients. */
static bool may_join(const struct listener *l, struct listener *const *going,
		     const struct sockaddr_storage *wanted)
{
	int type = l->config->transport->socket_type;

	return is_port_of(going, sockaddr_port(wanted), type) &&
	       !fdstore_conflict(&l->all->fdstore, wanted, type);
}

/* Takes ownership of socket.fd. */
static int add_socket(struct binding *sockets, struct worker_socket socket, unsigned worker)
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
	sockets->list[sockets->count++] = (struct binding_socket){ socket, worker };
	return 0;
}

/* Can further sockets share the port of fd (SO_REUSEPORT)?  The kernel requires the same user, and
 * a socket of the service manager belongs to root. */
static bool can_join(int fd, const struct sockaddr_storage *sa)
{
	struct stat st;

	return sa->ss_family != AF_UNIX && fstat(fd, &st) == 0 && st.st_uid == geteuid();
}

/* Adds duplicates of all sockets of an address, whatever the number of l's workers, since closing a
 * socket would lose its queue.  Workers share sockets if there are too few.  UDP sockets are not
 * shared, as all datagrams of a client must go to one worker. */
static int add_duplicates(struct binding *sockets, const struct listener *l, const int *fds,
			  unsigned count, bool share)
{
	bool streams = l->config->transport->socket_type == SOCK_STREAM;
	unsigned total = share && streams ? MAX(count, l->worker_count) : count;
	int rc = 0;

	assert(count > 0);
	for (unsigned i = 0; rc == 0 && i < total; i++) {
		struct worker_socket socket = { .fd = fcntl(fds[i % count], F_DUPFD_CLOEXEC, 0),
						.shared = count < total,
						.taken = true,
						.address = l->address_count };

		rc = socket.fd < 0 ? -errno : add_socket(sockets, socket, i % l->worker_count);
	}
	return rc;
}

/* ---- All sockets of a listener ---- */

/* `wanted` is in use: adds to the reason the socket unit that has the address, if there is one. */
static void explain_unit(const struct fdstore *f, const struct sockaddr_storage *wanted, int type,
			 struct reason *reason)
{
	const struct fdstore_unit *unit = fdstore_conflict(f, wanted, type);
	char here[ADDRESS_TEXT_MAX], there[ADDRESS_TEXT_MAX];

	if (unit)
		reason_set(reason, -EADDRINUSE,
			   "bind %s: the service manager already listens on %s for '%s'; change "
			   "that unit to Listen%s=%s (systemctl edit --full %s), or disable it",
			   format_sockaddr(wanted, here), format_sockaddr(&unit->sa, there),
			   unit->name, type == SOCK_DGRAM ? "Datagram" : "Stream", here,
			   unit->name);
}

static int bind_rest(struct binding *sockets, struct listener *l, unsigned have, bool joins,
		     const struct sockaddr_storage *wanted, struct reason *reason)
{
	struct bound *bound = &l->addresses[l->address_count];
	unsigned count = l->worker_count - have;
	struct worker_socket *list = calloc(count, sizeof(*list));
	int type = l->config->transport->socket_type, rc;

	if (!list)
		return reason_set(reason, -ENOMEM, "no memory");
	for (unsigned i = 0; i < count; i++)
		list[i] = (struct worker_socket){ .fd = -1, .address = l->address_count };
	rc = socket_bind(wanted, type, list, count, joins, l->all->bind_end_ns, bound, reason);
	bound->joins = joins;
	if (rc == -EADDRINUSE)
		explain_unit(&l->all->fdstore, wanted, type, reason);
	for (unsigned i = 0; i < count; i++)
		if (list[i].fd >= 0 && add_socket(sockets, list[i], have + i) < 0)
			rc = reason_set(reason, -ENOMEM, "no memory");
	free(list);
	return rc;
}

static int take_over(struct binding *sockets, struct listener *l, const int *fds, unsigned count,
		     const struct sockaddr_storage *sa, struct reason *reason)
{
	struct bound *bound = &l->addresses[l->address_count];
	bool share = !can_join(fds[0], sa);
	int rc = 0;

	format_sockaddr(sa, bound->text);
	bound->sa = *sa;
	bound->joins = true;
	for (unsigned i = 0; rc == 0 && i < count; i++)
		rc = socket_adopt(fds[i], sa->ss_family, !share);
	if (rc == 0)
		rc = add_duplicates(sockets, l, fds, count, share);
	if (rc < 0)
		return reason_set(reason, rc, "%s: %s", bound->text, strerror(-rc));
	if (!share && count < l->worker_count)
		rc = bind_rest(sockets, l, count, true, sa, reason);
	return rc;
}

/* Takes sockets over from a listener that will end. */
static int take_given(struct binding *sockets, struct listener *l, const struct listener *giver,
		      struct bound *given, struct reason *reason)
{
	struct bound *bound = &l->addresses[l->address_count];
	unsigned count;
	int *fds = listener_address_sockets(giver, (unsigned)(given - giver->addresses), &count);
	int rc = fds ? take_over(sockets, l, fds, count, &given->sa, reason)
		     : reason_set(reason, -ENOMEM, "no memory");

	free(fds);
	bound->activated = given->activated;
	given->heir = bound;
	l->inherited = true;
	return rc;
}

/* Takes sockets of the service manager: all that are bound to the address of the first match.
 * *ret_count 0: there is no match. */
static int take_stored(struct binding *sockets, struct listener *l, const struct socket_name *wants,
		       unsigned *ret_count, struct reason *reason)
{
	struct bound *bound = &l->addresses[l->address_count];
	struct fdstore *stored = &l->all->fdstore;
	struct fdstore_socket *found, *first = NULL;
	unsigned position = 0, count = 0;
	int *fds = calloc(stored->count + 1, sizeof(*fds)), rc = 0;

	*ret_count = 0;
	if (!fds)
		return reason_set(reason, -ENOMEM, "no memory");
	while ((found = fdstore_find(stored, wants, &position))) {
		if (is_left(l->all, wants, &found->sa))
			continue;
		first = first ? first : found;
		if (!sockaddr_is_same(&found->sa, &first->sa))
			continue;
		fds[count] = fdstore_take(found, wants);
		if (fds[count] < 0) {
			rc = reason_set(reason, fds[count],
					"cannot duplicate a socket of the service manager: %s; "
					"raise LimitNOFILE=",
					strerror(-fds[count]));
			break;
		}
		count++;
		bound->activated |= !found->name.listener[0];
	}
	*ret_count = count;
	if (count > 0 && rc == 0)
		rc = take_over(sockets, l, fds, count, &first->sa, reason);
	if (count > 0 && !bound->activated)
		bound->file = fdstore_file(first);
	for (unsigned i = 0; i < count; i++)
		close(fds[i]);
	free(fds);
	return rc;
}

static int open_address(struct binding *sockets, struct listener *l,
			const struct sockaddr_storage *wanted, struct listener *const *going,
			struct reason *reason)
{
	struct bound *bound = &l->addresses[l->address_count], *given;
	struct socket_name wants = { .wanted = *wanted, .type = l->config->transport->socket_type };
	const struct listener *giver;
	unsigned taken = 0;
	int rc;

	strcpy(wants.listener, l->name);
	given = find_giver(&wants, going, &giver);
	if (given)
		rc = take_given(sockets, l, giver, given, reason);
	else
		rc = take_stored(sockets, l, &wants, &taken, reason);
	if (rc == 0 && !given && !taken)
		rc = bind_rest(sockets, l, 0, may_join(l, going, wanted), wanted, reason);
	if (rc == 0 && taken)
		log_write(LOG_INFO, "listener '%s' has taken over %u socket%s on %s", l->name,
			  taken, plural(taken), bound->text);
	bound->wanted = *wanted;
	l->address_count += rc == 0;
	return rc;
}

int binding_open(struct binding *sockets, struct listener *l, struct listener *const *going,
		 struct reason *reason)
{
	struct sockaddr_storage wanted;
	int rc = 0;

	for (unsigned i = 0; rc == 0 && listener_address_at(l->config, i, &wanted); i++)
		rc = open_address(sockets, l, &wanted, going, reason);
	return rc;
}

int binding_start(const struct listener *l, struct reason *reason)
{
	bool streams = l->config->transport->socket_type == SOCK_STREAM;
	const struct acceptor *a = NULL;
	int rc = 0;

	while (streams && rc == 0 && (a = listener_next_acceptor(l, a))) {
		const struct bound *bound = &l->addresses[a->address];

		/* bind_rest() has given the first socket to the first worker. */
		if (!bound->joins)
			rc = socket_listen(a->fd, a->worker->index == 0, &bound->sa,
					   l->all->bind_end_ns, reason);
	}
	return rc;
}

void binding_undo(const struct listener *l, struct listener *const *going)
{
	for (; going && *going; going++)
		for (unsigned i = 0; i < (*going)->address_count; i++)
			for (unsigned j = 0; l->addresses && j < listener_address_count(l->config);
			     j++)
				if ((*going)->addresses[i].heir == &l->addresses[j])
					(*going)->addresses[i].heir = NULL;
}

unsigned binding_take(struct binding *sockets, unsigned worker, struct worker_socket *to)
{
	unsigned count = 0;

	for (unsigned i = 0; i < sockets->count; i++)
		if (sockets->list[i].worker == worker) {
			to[count++] = sockets->list[i].socket;
			sockets->list[i].socket.fd = -1;
		}
	return count;
}

void binding_close(struct binding *sockets)
{
	for (unsigned i = 0; i < sockets->count; i++)
		if (sockets->list[i].socket.fd >= 0)
			close(sockets->list[i].socket.fd);
	free(sockets->list);
	*sockets = (struct binding){ 0 };
}

void binding_set_keepalive(const struct listener *l)
{
	for (const struct acceptor *a = NULL; (a = listener_next_acceptor(l, a));)
		socket_set_keepalive(a->fd, l->config->keepalive_ns);
}

void binding_listen(const struct listener *l)
{
	for (const struct acceptor *a = NULL; (a = listener_next_acceptor(l, a));) {
		int rc = socket_start(a->fd, a->late);

		if (rc < 0)
			log_listener(LOG_ERR, l->name, "%s: %s", a->late ? "bind" : "listen",
				     strerror(-rc));
	}
}

void binding_keep(struct listener *l)
{
	const struct acceptor *a = NULL;
	unsigned room = 1;

	while ((a = listener_next_acceptor(l, a)))
		room++;
	l->kept = calloc(room, sizeof(*l->kept));
	while (l->kept && (a = listener_next_acceptor(l, a))) {
		int fd = a->given ? -1 : fcntl(a->fd, F_DUPFD_CLOEXEC, 0);

		if (fd >= 0)
			l->kept[l->kept_count++] = (struct kept_socket){ fd, a->address };
		else if (!a->given)
			binding_forget(l);
	}
}

void binding_forget(struct listener *l)
{
	while (l->kept_count > 0)
		close(l->kept[--l->kept_count].fd);
	free(l->kept);
	l->kept = NULL;
}

void binding_given(struct listener *l, unsigned address)
{
	unsigned left = 0;

	for (struct acceptor *a = NULL; (a = listener_next_acceptor(l, a));)
		a->given |= a->address == address;
	for (unsigned i = 0; i < l->kept_count; i++)
		if (l->kept[i].address == address)
			close(l->kept[i].fd);
		else
			l->kept[left++] = l->kept[i];
	l->kept_count = left;
}
