/* The choice of the port at which a test awaits its data.  See netperf.h. */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "conn.h"
#include "netperf.h"
#include "sockaddr.h"

static void mapped_address(const struct sockaddr_storage *sa, uint8_t to[static 16])
{
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)sa;

	memset(to, 0, 16);
	if (sa->ss_family == AF_INET6) {
		memcpy(to, &((const struct sockaddr_in6 *)sa)->sin6_addr, 16);
	} else if (sa->ss_family == AF_INET) {
		to[10] = to[11] = 0xff;
		memcpy(to + 12, &v4->sin_addr, 4);
	}
}

static bool is_wildcard(const uint8_t address[static 16])
{
	static const uint8_t any[16], any_v4[16] = { [10] = 0xff, [11] = 0xff };

	return memcmp(address, any, 16) == 0 || memcmp(address, any_v4, 16) == 0;
}

static void set_port(struct session_address *key, uint16_t port)
{
	key->port[0] = (uint8_t)(port >> 8);
	key->port[1] = (uint8_t)port;
}

/* The port of this socket if it serves the address `local`; 0: it does not. */
static uint16_t port_at(struct worker *w, const struct acceptor *a, const uint8_t local[static 16])
{
	struct sockaddr_storage sa = { .ss_family = AF_UNSPEC };
	socklen_t length = sizeof(sa);
	uint8_t address[16];

	stat_add(w->stats.sys_other, 1);
	if (a->fd < 0 || getsockname(a->fd, (struct sockaddr *)&sa, &length) < 0)
		return 0;
	mapped_address(&sa, address);
	return is_wildcard(address) || memcmp(address, local, 16) == 0 ? sockaddr_port(&sa) : 0;
}

/* A port whose key is free, or -EAGAIN; the caller holds the lock. */
static int choose_port(const struct conn *c, const struct netperf_conn *n)
{
	struct worker *w = c->worker;
	struct sockaddr_storage sa = conn_local_address(c);
	uint16_t own = sockaddr_port(&sa), only = 0;
	struct session_address key = n->key;
	bool others = false;
	uint8_t local[16];

	mapped_address(&sa, local);
	for (unsigned i = 0; i < w->accept.count; i++) {
		uint16_t port = port_at(w, &w->accept.acceptors[i], local);

		if (!port || (n->request.port && n->request.port != port))
			continue;
		if (port == own && !n->request.port) {
			only = port;
			continue;
		}
		others = true;
		set_port(&key, port);
		if (!session_find(n->of.sessions, &key, sizeof(key)))
			return port;
	}
	if (others || !only)
		return others ? -EAGAIN : -EADDRNOTAVAIL;
	set_port(&key, only);
	return session_find(n->of.sessions, &key, sizeof(key)) ? -EAGAIN : only;
}

static int list_at(struct netperf_conn *n, struct session *session, uint16_t port)
{
	struct session_address key = n->key;

	set_port(&key, port);
	if (session_find(n->of.sessions, &key, sizeof(key)))
		return -EAGAIN;
	return session_begin(session, &n->of, &key, sizeof(key));
}

/* Do requests and responses fit into the twin's buffers? */
static bool fit(const struct netperf_request *r, const struct session_twin *twin)
{
	return MAX(r->request_bytes, r->response_bytes) <= twin->datagram_max;
}

/* netperf_list() for UDP. */
static int list_twin(const struct conn *c, struct netperf_conn *n, struct session *session)
{
	struct worker *w = c->worker;
	struct sockaddr_storage sa = conn_local_address(c);
	uint8_t local[16];
	int rc = -EPROTONOSUPPORT;

	mapped_address(&sa, local);
	for (unsigned i = 0; i < w->accept.count && rc != 0 && rc != -EBUSY; i++) {
		uint16_t port = port_at(w, &w->accept.acceptors[i], local);

		sockaddr_set_port(&sa, port);
		if (!port || (n->request.port && n->request.port != port) ||
		    !session_twin_get(w->service, &sa, &n->twin))
			continue;
		n->of.sessions = n->twin.sessions;
		sessions_lock(n->of.sessions);
		rc = fit(&n->request, &n->twin) ? list_at(n, session, port) : -EMSGSIZE;
		sessions_unlock(n->of.sessions);
		if (rc == 0)
			return port;
		n->of.sessions = n->own;
		session_twin_put(&n->twin);
	}
	if (rc == -EPROTONOSUPPORT)
		session_twin_missing(c);
	return rc;
}

int netperf_list(const struct conn *c, struct netperf_conn *n, struct session *session)
{
	int port, rc = 0;

	if (n->request.datagrams)
		return list_twin(c, n, session);
	sessions_lock(n->of.sessions);
	port = choose_port(c, n);
	if (port > 0)
		rc = list_at(n, session, (uint16_t)port);
	sessions_unlock(n->of.sessions);
	return rc < 0 ? rc : port;
}
