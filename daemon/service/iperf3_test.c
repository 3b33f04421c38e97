/* The tests of one iperf3 listener.  See iperf3_test.h. */
#include "iperf3_test.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conn.h"

enum { BUCKETS = 1024 };

struct iperf3_registry {
	pthread_mutex_t lock;
	unsigned tests;
	struct iperf3_test *buckets[BUCKETS];
};

void *iperf3_registry_new(const struct worker_options *options, const char *listener,
			  struct reason *reason)
{
	struct iperf3_registry *r = calloc(1, sizeof(*r));

	(void)options, (void)listener;
	if (r)
		pthread_mutex_init(&r->lock, NULL);
	else
		reason_set(reason, -ENOMEM, "no memory");
	return r;
}

void iperf3_registry_free(void *registry)
{
	struct iperf3_registry *r = registry;

	if (!r)
		return;
	pthread_mutex_destroy(&r->lock);
	free(r);
}

unsigned iperf3_registry_tests(struct iperf3_registry *r)
{
	unsigned tests;

	pthread_mutex_lock(&r->lock);
	tests = r->tests;
	pthread_mutex_unlock(&r->lock);
	return tests;
}

/* ---- Calls: on the member's thread ---- */

static void member_called(struct call *call)
{
	struct iperf3_member *m = container_of(call, struct iperf3_member, call);
	struct iperf3_registry *r = m->registry;
	struct conn *c;

	pthread_mutex_lock(&r->lock);
	m->called = false;
	c = m->conn;
	pthread_mutex_unlock(&r->lock);
	if (!c)
		free(m);
	else if (!m->worker->stop) /* then connections end anyway */
		conn_ready(c);
}

/* The functions with _locked expect the registry's lock to be held. */
static void member_call_locked(struct iperf3_member *m)
{
	if (!m || m->called || !m->conn)
		return;
	m->called = true;
	m->call.fn = member_called;
	worker_call(m->worker, &m->call);
}

static void streams_call_locked(struct iperf3_test *t)
{
	for (unsigned i = 0; i < t->joined; i++)
		member_call_locked(t->streams[i].member);
}

/* ---- Tests ---- */

static struct iperf3_test **bucket_of(struct iperf3_registry *r, const uint8_t *cookie)
{
	uint32_t hash = 2166136261U; /* FNV-1a */

	for (unsigned i = 0; i < IPERF3_COOKIE; i++)
		hash = (hash ^ cookie[i]) * 16777619U;
	return &r->buckets[hash % BUCKETS];
}

/* The place of the pointer to it, or of the NULL at the end. */
static struct iperf3_test **find_locked(struct iperf3_registry *r, const uint8_t *cookie)
{
	struct iperf3_test **at = bucket_of(r, cookie);

	while (*at && memcmp((*at)->cookie, cookie, IPERF3_COOKIE) != 0)
		at = &(*at)->next;
	return at;
}

static int begin_locked(struct iperf3_registry *r, struct iperf3_test **at, struct iperf3_member *m,
			const uint8_t *cookie)
{
	struct iperf3_test *t;

	if (r->tests >= IPERF3_TESTS_MAX)
		return -EBUSY;
	t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	memcpy(t->cookie, cookie, IPERF3_COOKIE);
	t->control = m;
	t->references = 1;
	m->test = t;
	*at = t;
	r->tests++;
	return 0;
}

static int join_locked(struct iperf3_test *t, struct iperf3_member *m)
{
	struct iperf3_stream *s;

	if (!t->streams || t->joined == t->stream_count || iperf3_phase(t) != IPERF3_SETUP)
		return -EACCES;
	s = &t->streams[t->joined++];
	s->member = m;
	s->opened_ns = m->conn->opened_ns;
	s->worker_index = m->worker->index;
	m->stream = s;
	m->test = t;
	t->references++;
	return 0;
}

int iperf3_enter(struct iperf3_registry *r, struct iperf3_member *member,
		 const uint8_t cookie[static IPERF3_COOKIE])
{
	struct iperf3_test **at;
	int rc;

	pthread_mutex_lock(&r->lock);
	at = find_locked(r, cookie);
	rc = *at ? join_locked(*at, member) : begin_locked(r, at, member, cookie);
	pthread_mutex_unlock(&r->lock);
	return rc;
}

int iperf3_expect(struct iperf3_test *test, const struct iperf3_params *params)
{
	struct iperf3_registry *r = test->control->registry;
	unsigned count = params->parallel * (params->sends && params->receives ? 2 : 1);
	struct iperf3_stream *streams = calloc(count, sizeof(*streams));

	if (!streams)
		return -ENOMEM;
	pthread_mutex_lock(&r->lock);
	test->params = *params;
	test->stream_count = count;
	test->streams = streams;
	atomic_store(&test->budget, params->limit_bytes);
	pthread_mutex_unlock(&r->lock);
	return 0;
}

void iperf3_arrive(struct iperf3_member *member, int error, const char *congestion)
{
	struct iperf3_test *t = member->test;

	pthread_mutex_lock(&member->registry->lock);
	t->arrived++;
	if (error)
		t->error = error;
	snprintf(t->congestion, sizeof(t->congestion), "%s", congestion);
	if (error || t->arrived == t->stream_count)
		member_call_locked(t->control);
	pthread_mutex_unlock(&member->registry->lock);
}

bool iperf3_is_complete(struct iperf3_test *test, int *ret_error)
{
	struct iperf3_registry *r = test->control->registry;
	bool complete;

	pthread_mutex_lock(&r->lock);
	complete = test->arrived == test->stream_count;
	*ret_error = test->error;
	pthread_mutex_unlock(&r->lock);
	return complete;
}

void iperf3_set_phase(struct iperf3_test *test, enum iperf3_phase phase)
{
	struct iperf3_registry *r = test->control->registry;

	pthread_mutex_lock(&r->lock);
	atomic_store_explicit(&test->phase, phase, memory_order_release);
	streams_call_locked(test);
	pthread_mutex_unlock(&r->lock);
}

void iperf3_receives(struct iperf3_member *member)
{
	struct iperf3_test *t = member->test;
	_Atomic uint8_t *role = &member->stream->role;

	pthread_mutex_lock(&member->registry->lock);
	if (atomic_load(role) == IPERF3_UNKNOWN) { /* control may have said: give_roles_locked() */
		unsigned more = t->params.parallel - atomic_load(&t->receivers);

		/* One too many is no receiver: what it sends is dropped. */
		atomic_store(role, more ? IPERF3_RECEIVES : IPERF3_SENDS);
		if (more)
			atomic_fetch_add(&t->receivers, 1);
		if (more == 1)
			streams_call_locked(t);
	}
	pthread_mutex_unlock(&member->registry->lock);
}

static void finish_locked(struct iperf3_member *m)
{
	struct iperf3_test *t = m->test;

	if (m->stream->finished)
		return;
	m->stream->finished = true;
	if (++t->finished == t->stream_count)
		member_call_locked(t->control);
}

void iperf3_finish(struct iperf3_member *member)
{
	pthread_mutex_lock(&member->registry->lock);
	finish_locked(member);
	pthread_mutex_unlock(&member->registry->lock);
}

bool iperf3_is_finished(struct iperf3_test *test)
{
	struct iperf3_registry *r = test->control->registry;
	bool finished;

	pthread_mutex_lock(&r->lock);
	finished = test->finished == test->stream_count;
	pthread_mutex_unlock(&r->lock);
	return finished;
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

/* ---- Order ---- */

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

/* By order of arrival, whoever has no role yet gets the first that is left. */
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
	struct iperf3_registry *r = test->control->registry;

	pthread_mutex_lock(&r->lock);
	for (unsigned i = 0; i < test->stream_count; i++)
		ret_sorted[i] = &test->streams[i];
	qsort(ret_sorted, test->stream_count, sizeof(*ret_sorted), compare_streams);
	give_roles_locked(test, ret_sorted);
	pthread_mutex_unlock(&r->lock);
	qsort(ret_sorted, test->stream_count, sizeof(*ret_sorted), compare_streams);
}

/* ---- The end ---- */

static void test_free(struct iperf3_test *t)
{
	if (!t)
		return;
	free(t->streams);
	free(t);
}

/* The test with its last member, for the caller to free. */
static struct iperf3_test *leave_locked(struct iperf3_registry *r, struct iperf3_member *m)
{
	struct iperf3_test *t = m->test;

	if (!t)
		return NULL;
	if (m->stream) {
		finish_locked(m);
		m->stream->member = NULL;
		if (iperf3_phase(t) == IPERF3_SETUP) {
			t->error = IPERF3_STREAM_LOST;
			member_call_locked(t->control);
		}
	} else {
		*find_locked(r, t->cookie) = t->next;
		r->tests--;
		t->control = NULL;
		atomic_store_explicit(&t->phase, IPERF3_DEAD, memory_order_release);
		streams_call_locked(t);
	}
	return --t->references == 0 ? t : NULL;
}

void iperf3_leave(struct iperf3_member *member)
{
	struct iperf3_registry *r = member->registry;
	struct iperf3_test *last;
	bool called;

	pthread_mutex_lock(&r->lock);
	last = leave_locked(r, member);
	member->conn = NULL;
	called = member->called;
	pthread_mutex_unlock(&r->lock);
	test_free(last);
	if (!called)
		free(member);
}
