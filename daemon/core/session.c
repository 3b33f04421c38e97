/* Sessions: a table by key, and calls from member to member.  See session.h. */
#include "session.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "conn.h"

enum { BUCKETS = 1024 };

struct sessions {
	pthread_mutex_t lock;
	unsigned count;
	struct session *buckets[BUCKETS];
};

void *sessions_new(const struct worker_options *options, const char *listener,
		   struct reason *reason)
{
	struct sessions *all = calloc(1, sizeof(*all));

	(void)options, (void)listener;
	if (all)
		pthread_mutex_init(&all->lock, NULL);
	else
		reason_set(reason, -ENOMEM, "no memory");
	return all;
}

void sessions_free(void *sessions)
{
	struct sessions *all = sessions;

	if (!all)
		return;
	pthread_mutex_destroy(&all->lock);
	free(all);
}

void sessions_lock(struct sessions *sessions)
{
	pthread_mutex_lock(&sessions->lock);
}

void sessions_unlock(struct sessions *sessions)
{
	pthread_mutex_unlock(&sessions->lock);
}

unsigned sessions_count(struct sessions *sessions)
{
	unsigned count;

	sessions_lock(sessions);
	count = sessions->count;
	sessions_unlock(sessions);
	return count;
}

void session_member_init(struct session_member *member, struct conn *c)
{
	member->conn = c;
	member->worker = c->worker;
	member->sessions = c->worker->shared;
}

/* ---- The table ---- */

/* The place of the pointer to it, or of the NULL at the end. */
static struct session **session_place(struct sessions *all, const uint8_t *key, size_t bytes)
{
	uint32_t hash = 2166136261U; /* FNV-1a */
	struct session **at;

	for (size_t i = 0; i < bytes; i++)
		hash = (hash ^ key[i]) * 16777619U;
	for (at = &all->buckets[hash % BUCKETS]; *at; at = &(*at)->next)
		if ((*at)->key_bytes == bytes && memcmp((*at)->key, key, bytes) == 0)
			break;
	return at;
}

struct session *session_find(struct sessions *sessions, const void *key, size_t bytes)
{
	return *session_place(sessions, key, bytes);
}

int session_begin(struct session *session, struct session_member *control, const void *key,
		  size_t bytes)
{
	struct sessions *all = control->sessions;

	assert(bytes <= SESSION_KEY_MAX && !session_find(all, key, bytes));
	if (all->count >= SESSIONS_MAX)
		return -EBUSY;
	memcpy(session->key, key, bytes);
	session->key_bytes = (uint8_t)bytes;
	session->control = control;
	session->listed = true;
	*session_place(all, key, bytes) = session;
	all->count++;
	session_join(session, control);
	return 0;
}

void session_join(struct session *session, struct session_member *member)
{
	member->session = session;
	session->references++;
}

void session_unlist(struct session *session)
{
	if (!session->listed)
		return;
	*session_place(session->control->sessions, session->key, session->key_bytes) =
		session->next;
	session->next = NULL;
	session->listed = false;
}

/* ---- Calls: on the member's thread ---- */

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
	else if (!m->worker->stop) /* then connections end anyway */
		conn_ready(c);
}

void session_call(struct session_member *member)
{
	if (!member || member->called || !member->conn)
		return;
	member->called = true;
	member->call.fn = session_called;
	worker_call(member->worker, &member->call);
}

/* ---- The end ---- */

struct session *session_part(struct session_member *member)
{
	struct session *s = member->session;

	if (!s)
		return NULL;
	if (s->control == member) {
		session_unlist(s);
		member->sessions->count--;
		s->control = NULL;
	}
	member->session = NULL;
	return --s->references == 0 ? s : NULL;
}

void session_leave(struct session_member *member, void (*left)(struct session_member *member))
{
	struct sessions *all = member->sessions;
	struct session *last;
	bool called;

	sessions_lock(all);
	if (member->session)
		left(member);
	last = session_part(member);
	member->conn = NULL;
	called = member->called;
	sessions_unlock(all);
	if (last)
		last->release(last);
	if (!called)
		free(member);
}
