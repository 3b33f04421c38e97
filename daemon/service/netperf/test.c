/* Netperf: a test, which its control connection and its data connections share, and the choice of
 * the port at which it awaits its data.  See netperf.h.
 *
 * Functions with _locked expect the lock of the sessions to be held. */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "bytes.h"
#include "conn.h"
#include "netperf.h"
#include "sockaddr.h"

/* ---- The port ---- */

/* Does the listener's socket a serve data that comes to the address of sa?  Then its port, which sa
 * has afterwards; 0: it does not, or the client wants another port. */
static uint16_t port_at(const struct conn *c, const struct netperf_conn *n,
			const struct acceptor *a, struct sockaddr_storage *sa)
{
	struct sockaddr_storage own = { .ss_family = AF_UNSPEC };
	struct in6_addr address = sockaddr_mapped(sa), mine;
	socklen_t length = sizeof(own);
	uint16_t port;

	stat_add(c->worker->stats.sys_other, 1);
	if (a->fd < 0 || getsockname(a->fd, (struct sockaddr *)&own, &length) < 0)
		return 0;
	mine = sockaddr_mapped(&own);
	port = sockaddr_port(&own);
	if ((!sockaddr_is_wildcard(&own) && !IN6_ARE_ADDR_EQUAL(&mine, &address)) ||
	    (n->request.port && n->request.port != port))
		return 0;
	sockaddr_set_port(sa, port);
	return port;
}

/* Lists the session at this port: 0; -EAGAIN: another test waits there; -EBUSY: too many tests. */
static int list_locked(struct netperf_conn *n, struct session *session, uint16_t port)
{
	struct session_address key = n->key;

	put_be16(key.port, port);
	return session_begin(session, &n->of, &key, sizeof(key));
}

/* Lists the session at a port of the listener: not the control connection's if there is another
 * one, or the client wants it.  The caller holds the lock.  Returns the port, or as list(). */
static int list_tcp_locked(const struct conn *c, struct netperf_conn *n, struct session *session)
{
	const struct worker *w = c->worker;
	struct sockaddr_storage sa = conn_local_address(c);
	uint16_t own = sockaddr_port(&sa), only = 0;
	int rc = -EADDRNOTAVAIL;

	for (unsigned i = 0; i < w->accept.count && (rc == -EADDRNOTAVAIL || rc == -EAGAIN); i++) {
		uint16_t port = port_at(c, n, &w->accept.acceptors[i], &sa);

		if (port && port == own && !n->request.port)
			only = port;
		else if (port)
			rc = list_locked(n, session, port);
		if (rc == 0)
			return port;
	}
	if (rc == -EADDRNOTAVAIL && only)
		rc = list_locked(n, session, only);
	return rc < 0 ? rc : only;
}

/* Do requests and responses fit into the twin's buffers? */
static bool fit(const struct netperf_request *r, const struct session_twin *twin)
{
	return MAX(r->request_bytes, r->response_bytes) <= twin->datagram_max;
}

static int list_twin(const struct conn *c, struct netperf_conn *n, struct session *session)
{
	struct worker *w = c->worker;
	struct sockaddr_storage sa = conn_local_address(c);
	int rc = -EPROTONOSUPPORT;

	for (unsigned i = 0; i < w->accept.count && rc != -EBUSY; i++) {
		uint16_t port = port_at(c, n, &w->accept.acceptors[i], &sa);

		if (!port || !session_twin_get(w->service, &sa, &n->twin))
			continue;
		n->of.sessions = n->twin.sessions;
		sessions_lock(n->of.sessions);
		rc = fit(&n->request, &n->twin) ? list_locked(n, session, port) : -EMSGSIZE;
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

/* As netperf_test_begin(). */
static int list(const struct conn *c, struct netperf_conn *n, struct session *session)
{
	int rc;

	if (n->request.datagrams)
		return list_twin(c, n, session);
	sessions_lock(n->of.sessions);
	rc = list_tcp_locked(c, n, session);
	sessions_unlock(n->of.sessions);
	return rc;
}

/* ---- The test ---- */

int netperf_test_begin(const struct conn *c, struct netperf_conn *n)
{
	struct netperf_test *t = calloc(1, sizeof(*t));
	int port;

	if (!t)
		return -ENOMEM;
	t->request = n->request;
	n->test = t;
	port = list(c, n, &t->session);
	if (port < 0) {
		n->test = NULL;
		free(t);
	}
	return port;
}

void netperf_test_join_locked(struct netperf_test *t, struct netperf_conn *n)
{
	session_join(&t->session, &n->of);
	n->test = t;
	if (t->request.kind != NETPERF_CRR)
		session_unlist(&t->session); /* frees the port for another test */
	if (t->begin_ns)
		return;
	t->begin_ns = clock_ns();
	if (t->request.wants_cpu)
		t->cpu_ns = netperf_cpu_ns(n->of.worker);
	session_call(t->session.control);
}

static void data_left_locked(struct netperf_conn *n)
{
	struct netperf_test *t = n->test;
	struct netperf_result *sum = &t->result, *counted = &n->counted;

	t->ended++;
	t->end_ns = clock_ns() - n->late_ns;
	if (t->request.wants_cpu && t->request.kind != NETPERF_CRR)
		t->cpu_ns = netperf_cpu_ns(n->of.worker) - t->cpu_ns;
	sum->bytes_in += counted->bytes_in;
	sum->bytes_out += counted->bytes_out;
	sum->transactions += counted->transactions;
	sum->receives += counted->receives;
	sum->sends += counted->sends;
	sum->retransmits += counted->retransmits;
	sum->receive_buffer = MAX(sum->receive_buffer, counted->receive_buffer);
	sum->send_buffer = MAX(sum->send_buffer, counted->send_buffer);
	if (counted->congestion[0])
		memcpy(sum->congestion, counted->congestion, sizeof(sum->congestion));
	if (t->request.kind != NETPERF_CRR ||
	    (t->request.limit && sum->transactions >= t->request.limit))
		session_call(t->session.control);
}

void netperf_left_locked(struct session_member *member)
{
	struct netperf_conn *n = container_of(member, struct netperf_conn, of);

	if (n->step == NETPERF_DATA) {
		data_left_locked(n);
	} else {
		atomic_store(&n->test->dead, true);
		session_call_data(&n->test->session);
	}
}

void netperf_test_leave(struct netperf_conn *n)
{
	session_part(&n->of, netperf_left_locked);
	n->test = NULL;
	n->of.sessions = n->own;
	session_twin_put(&n->twin);
}
