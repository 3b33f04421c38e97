/* Sessions: a table by key, and calls from member to member.
 *
 * Two kinds of locks: each table's own, for its sessions and their members; and endpoints_lock, for
 * the list of UDP listeners and the references to tables.  No function takes a table's lock while
 * it holds endpoints_lock.  See session.h. */
#include "session.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "conn.h"
#include "log.h"
#include "parse.h"
#include "sockaddr.h"
#include "transport.h"

enum { BUCKETS = 1024 };

/* A bound UDP socket of a listener, in the list of endpoints at which sessions can be joined. */
struct udp_endpoint {
	struct sockaddr_storage sa;
	int receive_buffer, send_buffer;
	uint64_t datagram_max;
};

struct sessions {
	pthread_mutex_t lock;
	unsigned count;
	struct tally clients; /* the sessions of each client */
	struct session *buckets[BUCKETS];

	/* Protected by endpoints_lock. */
	unsigned references; /* one of each listener, and one for each session_twin_get() */
	unsigned listeners;
	const struct service *service;
	struct sessions *next; /* next in with_endpoints */
	struct udp_endpoint *endpoints;
	unsigned endpoint_count;
};

/* The tables of listeners with UDP sockets, newest first; protected by endpoints_lock. */
static struct sessions *with_endpoints;
static pthread_mutex_t endpoints_lock = PTHREAD_MUTEX_INITIALIZER;

void *sessions_new(const struct worker_options *options, const char *listener,
		   struct reason *reason)
{
	struct sessions *all = calloc(1, sizeof(*all));

	(void)options, (void)listener;
	if (!all) {
		reason_set(reason, -ENOMEM, "no memory");
		return NULL;
	}
	if (tally_init(&all->clients) < 0) {
		free(all);
		reason_set(reason, -EIO, "no random bytes");
		return NULL;
	}
	pthread_mutex_init(&all->lock, NULL);
	all->references = all->listeners = 1;
	return all;
}

void *sessions_keep(void *sessions)
{
	struct sessions *all = sessions;

	pthread_mutex_lock(&endpoints_lock);
	all->references++;
	all->listeners++;
	pthread_mutex_unlock(&endpoints_lock);
	return all;
}

bool sessions_are_kept(struct sessions *sessions)
{
	bool kept;

	pthread_mutex_lock(&endpoints_lock);
	kept = sessions->listeners > 1;
	pthread_mutex_unlock(&endpoints_lock);
	return kept;
}

/* The last reference frees the table: its listeners have gone, and no test uses it as a twin. */
static void sessions_put(struct sessions *all)
{
	unsigned left;

	pthread_mutex_lock(&endpoints_lock);
	left = --all->references;
	pthread_mutex_unlock(&endpoints_lock);
	if (left)
		return;
	assert(all->count == 0); /* each member was one of a connection, and these have ended */
	pthread_mutex_destroy(&all->lock);
	tally_fini(&all->clients);
	free(all->endpoints);
	free(all);
}

static void leave_endpoints_locked(struct sessions *all)
{
	struct sessions **at = &with_endpoints;

	while (*at && *at != all)
		at = &(*at)->next;
	if (*at)
		*at = all->next;
	all->endpoint_count = 0;
}

void sessions_free(void *sessions)
{
	struct sessions *all = sessions;

	if (!all)
		return;
	pthread_mutex_lock(&endpoints_lock);
	if (--all->listeners == 0) /* else the endpoints are those of the listener that stays */
		leave_endpoints_locked(all);
	pthread_mutex_unlock(&endpoints_lock);
	sessions_put(all);
}

/* ---- Twins ---- */

static bool has_endpoint(const struct sessions *all, const struct sockaddr_storage *sa)
{
	for (unsigned i = 0; i < all->endpoint_count; i++)
		if (sockaddr_is_same(&all->endpoints[i].sa, sa))
			return true;
	return false;
}

/* Remembers a socket's address.  A listener is in the list while it has an endpoint. */
static void add_endpoint_locked(struct sessions *all, const struct udp_endpoint *endpoint)
{
	struct udp_endpoint *list;

	if (has_endpoint(all, &endpoint->sa))
		return;
	list = realloc(all->endpoints, (all->endpoint_count + 1) * sizeof(*list));
	if (!list)
		return; /* clients then get the error that there is no UDP listener */
	if (all->endpoint_count == 0) {
		all->next = with_endpoints;
		with_endpoints = all;
	}
	all->endpoints = list;
	list[all->endpoint_count++] = *endpoint;
}

static bool read_socket_buffers(int fd, struct udp_endpoint *endpoint)
{
	socklen_t one = sizeof(int), two = one;

	return getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &endpoint->receive_buffer, &one) == 0 &&
	       getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &endpoint->send_buffer, &two) == 0;
}

void sessions_listen(void *sessions, const struct service *service,
		     const struct service_endpoint *endpoint)
{
	struct udp_endpoint udp = { .sa.ss_family = AF_UNSPEC };
	struct sessions *all = sessions;

	pthread_mutex_lock(&endpoints_lock);
	if (!endpoint) {
		leave_endpoints_locked(all);
	} else if (endpoint->transport->datagrams && read_socket_buffers(endpoint->fd, &udp)) {
		udp.sa = endpoint->sa;
		udp.datagram_max = endpoint->datagram_max;
		all->service = service;
		add_endpoint_locked(all, &udp);
	}
	pthread_mutex_unlock(&endpoints_lock);
}

/* Does a socket at this endpoint receive the datagrams sent to `local`?  At most one socket of
 * the process does: the kernel refuses a bind to a wildcard beside one of its addresses,
 * and the reverse (EADDRINUSE). */
static bool serves_at(const struct udp_endpoint *endpoint, const struct sockaddr_storage *local)
{
	return sockaddr_is_same(&endpoint->sa, local) ||
	       (sockaddr_is_wildcard(&endpoint->sa) && endpoint->sa.ss_family == local->ss_family &&
		sockaddr_port(&endpoint->sa) == sockaddr_port(local));
}

bool session_twin_get(const struct service *service, const struct sockaddr_storage *local,
		      struct session_twin *ret_twin)
{
	bool found = false;

	pthread_mutex_lock(&endpoints_lock);
	for (struct sessions *all = with_endpoints; all && !found; all = all->next)
		for (unsigned i = 0; all->service == service && i < all->endpoint_count && !found;
		     i++)
			if (serves_at(&all->endpoints[i], local)) {
				*ret_twin = (struct session_twin){ all,
								   all->endpoints[i].receive_buffer,
								   all->endpoints[i].send_buffer,
								   all->endpoints[i].datagram_max };
				all->references++;
				found = true;
			}
	pthread_mutex_unlock(&endpoints_lock);
	return found;
}

void session_twin_put(struct session_twin *twin)
{
	if (twin->sessions)
		sessions_put(twin->sessions);
	twin->sessions = NULL;
}

void session_twin_missing(const struct conn *c)
{
	static struct log_limit limit;

	if (log_limited(&limit))
		log_listener(LOG_NOTICE, c->worker->listener,
			     "a client asks for a test over UDP: no listener with `transport = "
			     "udp`, `service = %s` and this address and port serves here",
			     c->worker->service->name);
}

void sessions_lock(struct sessions *sessions)
{
	pthread_mutex_lock(&sessions->lock);
}

void sessions_unlock(struct sessions *sessions)
{
	pthread_mutex_unlock(&sessions->lock);
}

void session_member_init(struct session_member *member, struct conn *c)
{
	member->conn = c;
	member->worker = c->worker;
	member->sessions = c->worker->shared;
}

void session_address_of(const struct conn *c, struct session_address *ret)
{
	const struct arrival *arrival = c->worker->accept.arrival;
	uint16_t port = arrival ? arrival->port : 0;
	struct sockaddr_storage sa;
	struct in6_addr address;

	if (!port) {
		sa = conn_local_address(c);
		port = sockaddr_port(&sa);
	}
	if (!arrival || !arrival->peer)
		sa = conn_peer_address(c);
	address = sockaddr_mapped(arrival && arrival->peer ? arrival->peer : &sa);
	memcpy(ret->address, &address, sizeof(ret->address));
	ret->port[0] = (uint8_t)(port >> 8);
	ret->port[1] = (uint8_t)port;
}

/* ---- The table ---- */

/* Address of the pointer to the session with this key, or of the NULL at the end of its bucket. */
static struct session **session_link(struct sessions *all, const uint8_t *key, size_t bytes)
{
	uint64_t words[SESSION_KEY_MAX / sizeof(uint64_t)] = { 0 }, hash;
	struct session **at;

	memcpy(words, key, bytes);
	hash = siphash(&all->clients.key, words, ARRAY_SIZE(words));
	for (at = &all->buckets[hash % BUCKETS]; *at; at = &(*at)->next)
		if ((*at)->key_bytes == bytes && memcmp((*at)->key, key, bytes) == 0)
			break;
	return at;
}

struct session *session_find(struct sessions *sessions, const void *key, size_t bytes)
{
	return *session_link(sessions, key, bytes);
}

/* Puts the session into a table, where no other one has the key. */
static void session_list(struct session *s, struct sessions *all, const void *key, size_t bytes)
{
	memcpy(s->key, key, bytes);
	s->key_bytes = (uint8_t)bytes;
	s->listed = true;
	*session_link(all, key, bytes) = s;
}

/* Counts one more session of this client.  NULL: the client has as many as
 * it may have, or no memory. */
static struct tally_entry *session_count(struct sessions *all, struct in6_addr client)
{
	struct tally_entry *e = tally_add(&all->clients, &client);

	if (e && e->count > SESSIONS_MAX - all->count) {
		tally_drop(&all->clients, e);
		return NULL;
	}
	all->count += e != NULL;
	return e;
}

static void session_uncount(struct sessions *all, struct session *s)
{
	tally_drop(&all->clients, s->client);
	s->client = NULL;
	all->count--;
}

int session_begin(struct session *session, struct session_member *control, const void *key,
		  size_t bytes)
{
	struct sessions *all = control->sessions;

	assert(bytes <= SESSION_KEY_MAX);
	if (session_find(all, key, bytes))
		return -EAGAIN;
	session->client = session_count(all, conn_client(control->conn));
	if (!session->client)
		return -EBUSY;
	session->control = control;
	session->last = &session->data;
	session->references = 1;
	control->session = session;
	session_list(session, all, key, bytes);
	return 0;
}

void session_join(struct session *session, struct session_member *member)
{
	member->session = session;
	member->next = NULL;
	member->at = session->last;
	*member->at = member;
	session->last = &member->next;
	session->references++;
}

void session_unlist(struct session *session)
{
	if (!session->listed)
		return;
	*session_link(session->control->sessions, session->key, session->key_bytes) = session->next;
	session->next = NULL;
	session->listed = false;
}

/* Moves a session between two tables.  This is the only function that takes two tables' locks:
 * always the TCP listener's before the UDP listener's. */
int session_move(struct session *session, struct sessions *to, const void *key, size_t bytes)
{
	struct sessions *from = session->control->sessions;
	struct tally_entry *there;
	int rc = 0;

	assert(bytes <= SESSION_KEY_MAX && session->references == 1 && from != to);
	sessions_lock(from);
	sessions_lock(to);
	if (session_find(to, key, bytes)) {
		rc = -EAGAIN;
	} else if (!(there = session_count(to, session->client->address))) {
		rc = -EBUSY;
	} else {
		session_unlist(session);
		session_uncount(from, session);
		session->client = there;
		session->control->sessions = to;
		session_list(session, to, key, bytes);
	}
	sessions_unlock(to);
	sessions_unlock(from);
	return rc;
}

/* ---- Calls: run on the member's thread ---- */

static void session_called(struct call *call)
{
	struct session_member *m = container_of(call, struct session_member, call);
	struct conn *c;

	sessions_lock(m->sessions);
	m->called = false;
	c = m->conn;
	sessions_unlock(m->sessions);
	if (!c)
		free(m);
	else if (!m->worker->turn.stop) /* a stopping worker closes its connections anyway */
		conn_ready(c);
}

/* Called under the lock by another member's thread.  The call is a part of the member, so one that
 * is posted already is not posted again; the member is not freed before it has run. */
void session_call(struct session_member *member)
{
	if (!member || member->called || !member->conn)
		return;
	member->called = true;
	member->call.fn = session_called;
	worker_call(member->worker, &member->call);
}

void session_call_data(struct session *session)
{
	for (struct session_member *m = session->data; m; m = m->next)
		session_call(m);
}

/* ---- Teardown ---- */

/* Returns the session if that was its last member, to be freed without the lock; else NULL. */
static struct session *part_locked(struct session_member *member,
				   void (*left)(struct session_member *member))
{
	struct session *s = member->session;

	if (!s)
		return NULL;
	if (left)
		left(member);
	if (s->control == member) {
		session_unlist(s);
		session_uncount(member->sessions, s);
		s->control = NULL;
	} else {
		*member->at = member->next;
		*(member->next ? &member->next->at : &s->last) = member->at;
	}
	member->session = NULL;
	return --s->references == 0 ? s : NULL;
}

static void session_free(struct session *session)
{
	if (session && session->release)
		session->release(session);
	free(session);
}

void session_part(struct session_member *member, void (*left)(struct session_member *member))
{
	struct sessions *all = member->sessions;
	struct session *last;

	sessions_lock(all);
	last = part_locked(member, left);
	sessions_unlock(all);
	session_free(last);
}

void session_leave(struct session_member *member, void (*left)(struct session_member *member))
{
	struct sessions *all = member->sessions;
	struct session *last;
	bool called;

	sessions_lock(all);
	last = part_locked(member, left);
	member->conn = NULL;
	called = member->called;
	/* The call may arrive after the twin has been freed: session_called() then uses the table
	 * of the worker's own listener, which still exists, for its lock. */
	if (called)
		member->sessions = member->worker->shared;
	sessions_unlock(all);
	session_free(last);
	if (!called)
		free(member);
}
