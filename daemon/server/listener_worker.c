/* Calls of a listener's workers: those that are answered on the worker's thread, and those that the
 * mailbox brings to the main thread. */
#include <errno.h>
#include <semaphore.h>
#include <string.h>

#include "binding.h"
#include "listener.h"
#include "listeners.h"
#include "log.h"

/* ---- Callbacks of workers (on their threads) ---- */

static int listener_admit(struct worker *w, int fd, const struct sockaddr_storage *peer,
			  void **ret_ticket)
{
	const struct listener *l = w->owner_context;

	return admission_enter(l->admission, fd, peer, ret_ticket);
}

static void listener_release(struct worker *w, void *ticket)
{
	const struct listener *l = w->owner_context;

	admission_release(l->admission, ticket);
}

static void listener_paused(struct worker *w, int error)
{
	static struct log_limit limit;
	const struct listener *l = w->owner_context;
	unsigned missed;

	if (!log_limited(&limit, &missed))
		return;
	if (error == EMFILE || error == ENFILE)
		log_write(LOG_WARNING, l->name,
			  "listener '%s': accept: %s; connections wait until a descriptor is free "
			  "(raise LimitNOFILE= or `ulimit -n`)",
			  l->name, strerror(error));
	else if (error)
		log_write(LOG_WARNING, l->name,
			  "listener '%s': accept: %s; tried again until it succeeds", l->name,
			  strerror(error));
	else
		log_write(LOG_INFO, l->name, "listener '%s': accepting again", l->name);
	if (missed)
		log_write(LOG_INFO, l->name, "%u message%s like this dropped", missed,
			  plural(missed));
}

/* ---- Messages of workers to the main thread ---- */

/* Posts a call that is a part of w, so it needs no memory and cannot fail.  Each is posted once in
 * the life of w. */
static void listener_notify(struct worker *w, enum worker_notice what, void (*fn)(struct call *))
{
	const struct listener *l = w->owner_context;

	if (w->notices[what].fn)
		return;
	w->notices[what].fn = fn;
	mailbox_post(&l->all->mailbox, &w->notices[what]);
}

static void listener_on_accept_ended(struct call *call)
{
	const struct worker *w = container_of(call, struct worker, notices[NOTICE_ACCEPT_ENDED]);
	const struct listener *l = w->owner_context;

	listeners_accept_ended(l->all);
}

/* One worker has drained.  The listener has when all have; a stop may have come before that. */
static void listener_on_drained(struct call *call)
{
	const struct worker *w = container_of(call, struct worker, notices[NOTICE_DRAINED]);
	struct listener *l = w->owner_context;

	if (++l->drained_count < l->worker_count || l->state != LISTENER_DRAINING)
		return;
	l->state = LISTENER_DRAINED;
	binding_forget(l);
	log_write(LOG_INFO, l->name, "listener '%s': drained", l->name);
	listeners_drained_one(l); /* may free it */
}

static void listener_accept_ended(struct worker *w)
{
	struct listener *l = w->owner_context;

	sem_post(&l->accept_ended);
	listener_notify(w, NOTICE_ACCEPT_ENDED, listener_on_accept_ended);
}

static void listener_drained(struct worker *w)
{
	listener_notify(w, NOTICE_DRAINED, listener_on_drained);
}

const struct worker_owner listener_owner = {
	.admit = listener_admit,
	.release = listener_release,
	.paused = listener_paused,
	.accept_ended = listener_accept_ended,
	.drained = listener_drained,
};
