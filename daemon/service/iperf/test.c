/* The tests of one iperf3 listener.  See iperf/test.h. */
#include "test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conn.h"

/* The functions with _locked expect the lock of the listener's sessions to be held. */

/* ---- Tests ---- */

static void release(struct session *session)
{
	free(container_of(session, struct iperf3_test, session)->streams);
}

static int begin_locked(struct iperf3_member *m, const uint8_t *cookie)
{
	struct iperf3_test *t = calloc(1, sizeof(*t));
	int rc;

	if (!t)
		return -ENOMEM;
	t->session.release = release;
	rc = session_begin(&t->session, &m->of, cookie, IPERF3_COOKIE);
	if (rc < 0)
		free(t);
	else
		m->test = t;
	return rc;
}

static int join_locked(struct iperf3_test *t, struct iperf3_member *m)
{
	struct iperf3_stream *s;

	if (!t->streams || t->joined == t->stream_count || iperf3_phase(t) != IPERF3_SETUP)
		return -EACCES;
	s = &t->streams[t->joined++];
	s->member = m;
	s->opened_ns = m->of.conn->opened_ns;
	s->worker = m->of.worker;
	m->stream = s;
	m->test = t;
	session_join(&t->session, &m->of);
	return 0;
}

int iperf3_enter(struct iperf3_member *member, const uint8_t cookie[static IPERF3_COOKIE])
{
	struct sessions *all = member->of.sessions;
	struct session *found;
	struct iperf3_test *t;
	int rc;

	sessions_lock(all);
	found = session_find(all, cookie, IPERF3_COOKIE);
	t = found ? container_of(found, struct iperf3_test, session) : NULL;
	if (!t)
		rc = begin_locked(member, cookie);
	else
		rc = t->params.datagrams ? -EACCES : join_locked(t, member);
	sessions_unlock(all);
	return rc;
}

/* Clients open the streams that they send on first, one after the other. */
int iperf3_join(struct iperf3_member *member, const struct session_address *at)
{
	struct sessions *all = member->of.sessions;
	struct session *found;
	struct iperf3_test *t;
	int rc = -ENOENT;

	sessions_lock(all);
	found = session_find(all, at, sizeof(*at));
	if (found) {
		t = container_of(found, struct iperf3_test, session);
		rc = join_locked(t, member);
	}
	if (rc == 0) {
		bool receives = t->params.receives && t->joined <= t->params.parallel;

		atomic_store(&member->stream->role, receives ? IPERF3_RECEIVES : IPERF3_SENDS);
		member->stream->opened_ns = t->joined;
		if (t->joined == t->stream_count)
			session_unlist(found); /* complete: the key is free for another test */
	}
	sessions_unlock(all);
	return rc;
}

int iperf3_expect(struct iperf3_test *test, const struct iperf3_params *params)
{
	struct sessions *all = test->session.control->sessions;
	unsigned count = params->parallel * (params->sends && params->receives ? 2 : 1);
	struct iperf3_stream *streams = calloc(count, sizeof(*streams));

	if (!streams)
		return -ENOMEM;
	sessions_lock(all);
	test->params = *params;
	test->stream_count = count;
	test->streams = streams;
	atomic_store(&test->budget, params->limit_bytes);
	sessions_unlock(all);
	return 0;
}

void iperf3_arrive(struct iperf3_member *member, int error, const char *congestion)
{
	struct iperf3_test *t = member->test;

	sessions_lock(member->of.sessions);
	if (error)
		atomic_store(&t->error, error);
	atomic_fetch_add(&t->arrived, 1);
	snprintf(t->congestion, sizeof(t->congestion), "%s", congestion);
	if (error || t->arrived == t->stream_count)
		session_call(t->session.control);
	sessions_unlock(member->of.sessions);
}

void iperf3_set_phase(struct iperf3_test *test, enum iperf3_phase phase)
{
	struct sessions *all = test->session.control->sessions;

	sessions_lock(all);
	atomic_store_explicit(&test->phase, phase, memory_order_release);
	session_call_data(&test->session);
	sessions_unlock(all);
}

void iperf3_receives(struct iperf3_member *member)
{
	struct iperf3_test *t = member->test;
	_Atomic uint8_t *role = &member->stream->role;

	sessions_lock(member->of.sessions);
	if (atomic_load(role) == IPERF3_UNKNOWN) { /* else give_roles_locked() has set the role */
		unsigned more = t->params.parallel - atomic_load(&t->receivers);

		/* If there are enough receivers, the stream becomes a sender,
		 * and its input is dropped. */
		atomic_store(role, more ? IPERF3_RECEIVES : IPERF3_SENDS);
		if (more)
			atomic_fetch_add(&t->receivers, 1);
		if (more == 1)
			session_call_data(&t->session);
	}
	sessions_unlock(member->of.sessions);
}

static void finish_locked(struct iperf3_member *m)
{
	struct iperf3_test *t = m->test;

	if (m->stream->finished)
		return;
	m->stream->finished = true;
	if (atomic_fetch_add(&t->finished, 1) + 1 == t->stream_count)
		session_call(t->session.control);
}

void iperf3_finish(struct iperf3_member *member)
{
	sessions_lock(member->of.sessions);
	finish_locked(member);
	sessions_unlock(member->of.sessions);
}

uint64_t iperf3_take_budget(struct iperf3_test *test, uint64_t bytes)
{
	uint64_t left = atomic_load(&test->budget), n;

	do
		n = MIN(left, bytes);
	while (n > 0 && !atomic_compare_exchange_weak(&test->budget, &left, left - n));
	return n;
}

uint64_t iperf3_stream_bytes(const struct iperf3_stream *stream)
{
	uint64_t bytes = atomic_load_explicit(&stream->bytes, memory_order_relaxed);

	return bytes > stream->bytes_before ? bytes - stream->bytes_before : 0;
}

uint64_t iperf3_bytes(const struct iperf3_test *t)
{
	uint64_t bytes = 0;

	for (unsigned k = 0; k < t->stream_count; k++)
		bytes += atomic_load_explicit(&t->streams[k].bytes, memory_order_relaxed);
	return bytes;
}

/* ---- Order of streams ---- */

static int compare_streams(const void *one, const void *other)
{
	const struct iperf3_stream *a = *(struct iperf3_stream *const *)one;
	const struct iperf3_stream *b = *(struct iperf3_stream *const *)other;

	if (atomic_load(&a->role) != atomic_load(&b->role))
		return atomic_load(&a->role) < atomic_load(&b->role) ? -1 : 1;
	if (a->opened_ns != b->opened_ns)
		return a->opened_ns < b->opened_ns ? -1 : 1;
	return 0;
}

/* Gives streams without a role one by order of arrival: receivers first. */
static void give_roles_locked(struct iperf3_test *t, struct iperf3_stream **sorted)
{
	unsigned receivers = atomic_load(&t->receivers);

	for (unsigned i = 0; i < t->stream_count; i++) {
		_Atomic uint8_t *role = &sorted[i]->role;

		if (atomic_load(role) == IPERF3_UNKNOWN)
			atomic_store(role, receivers++ < t->params.parallel ? IPERF3_RECEIVES
									    : IPERF3_SENDS);
	}
}

void iperf3_sort_streams(struct iperf3_test *test, struct iperf3_stream **ret_sorted)
{
	struct sessions *all = test->session.control->sessions;

	sessions_lock(all);
	for (unsigned i = 0; i < test->stream_count; i++)
		ret_sorted[i] = &test->streams[i];
	qsort(ret_sorted, test->stream_count, sizeof(*ret_sorted), compare_streams);
	give_roles_locked(test, ret_sorted);
	sessions_unlock(all);
	qsort(ret_sorted, test->stream_count, sizeof(*ret_sorted), compare_streams);
}

/* ---- The end ---- */

static void left_locked(struct session_member *of)
{
	struct iperf3_member *m = container_of(of, struct iperf3_member, of);
	struct iperf3_test *t = m->test;

	if (m->stream) {
		finish_locked(m);
		m->stream->member = NULL;
		if (iperf3_phase(t) == IPERF3_SETUP) {
			atomic_store(&t->error, IPERF3_STREAM_LOST);
			session_call(t->session.control);
		}
	} else {
		atomic_store_explicit(&t->phase, IPERF3_DEAD, memory_order_release);
		session_call_data(&t->session);
	}
}

void iperf3_leave(struct iperf3_member *member)
{
	session_leave(&member->of, left_locked);
}
