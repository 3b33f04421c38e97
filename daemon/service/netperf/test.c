/* Netperf: a test, which its control connection and its data connections share.  See netperf.h.
 *
 * Functions with _locked expect the lock of the sessions to be held. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "conn.h"
#include "netperf.h"

static void test_release(struct session *session)
{
	free(container_of(session, struct netperf_test, session));
}

int netperf_test_begin(const struct conn *c, struct netperf_conn *n)
{
	struct netperf_test *t = calloc(1, sizeof(*t));
	int port;

	if (!t)
		return -ENOMEM;
	t->request = n->request;
	t->session.release = test_release;
	n->test = t;
	port = netperf_list(c, n, &t->session);
	if (port < 0) {
		n->test = NULL;
		free(t);
	}
	return port;
}

void netperf_test_end_locked(struct netperf_conn *n)
{
	atomic_store(&n->test->dead, true);
	for (struct netperf_conn *data = n->test->data; data; data = data->next)
		session_call(&data->of);
}

void netperf_test_end(struct netperf_conn *n)
{
	struct session *last;

	sessions_lock(n->of.sessions);
	netperf_test_end_locked(n);
	last = session_part(&n->of);
	sessions_unlock(n->of.sessions);
	n->test = NULL;
	n->of.sessions = n->own;
	session_twin_put(&n->twin);
	if (last)
		last->release(last);
}

void netperf_test_join_locked(struct netperf_test *t, struct netperf_conn *n)
{
	session_join(&t->session, &n->of);
	n->test = t;
	n->next = t->data;
	n->at = &t->data;
	if (n->next)
		n->next->at = &n->next;
	t->data = n;
	if (t->request.kind != NETPERF_CRR)
		session_unlist(&t->session); /* frees the port for another test */
	if (t->begin_ns)
		return;
	t->begin_ns = clock_ns();
	if (t->request.wants_cpu)
		t->cpu_ns = netperf_cpu_ns(n->of.worker);
	session_call(t->session.control);
}

void netperf_test_left_locked(struct netperf_conn *n)
{
	struct netperf_test *t = n->test;
	struct netperf_result *sum = &t->result, *counted = &n->counted;

	*n->at = n->next;
	if (n->next)
		n->next->at = n->at;
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
