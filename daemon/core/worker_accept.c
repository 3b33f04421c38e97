/* A worker's listening sockets: accepting, pausing when descriptors run out, and closing them.  The
 * owner binds them, or the engine at its endpoints; the worker owns their descriptors from its
 * start to worker_end_accept().  Worker's thread.  See worker.h. */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "conn.h"
#include "worker.h"

/* Resumes accepting, which paused for lack of descriptors or memory, or as listen(2) had failed. */
static void worker_resume_accept(struct worker *w)
{
	deadline_drop(&w->deadlines, &w->accept.timer);
	for (unsigned i = 0; i < w->accept.count; i++) {
		struct acceptor *a = &w->accept.acceptors[i];

		if (!a->paused || a->fd < 0)
			continue;
		a->paused = false;
		if (a->listen_failed)
			a->listen_failed = listen(a->fd, WORKER_BACKLOG) < 0;
		w->engine->watch_listener(w, a, true);
	}
}

static void worker_retry_due(struct timer *t, uint64_t now_ns)
{
	(void)now_ns;
	worker_resume_accept(container_of(t, struct worker, accept.timer));
}

/* Called for each error, by each acceptor; only the first error of a pause reaches the owner. */
void worker_pause_accept(struct acceptor *a, int error)
{
	struct worker *w = a->worker;

	a->paused = true;
	w->engine->watch_listener(w, a, false);
	stat_add(w->stats.accept_paused, 1);
	if (!w->accept.paused)
		w->owner->paused(w, error);
	w->accept.paused = true;
	w->accept.timer.due = worker_retry_due;
	worker_arm(w, &w->accept.timer, clock_ns() + WORKER_RETRY_NS);
}

/* A socket on its way to its worker. */
struct worker_moved {
	struct call call;
	struct worker *worker;
	int fd;
};

/* Runs on that worker or, if it has ended, on its owner's thread. */
static void worker_moved(struct call *call)
{
	struct worker_moved *moved = container_of(call, struct worker_moved, call);
	struct worker *w = moved->worker;

	if (w->engine_state && !w->turn.stop)
		conn_new(w, moved->fd);
	else
		close(moved->fd);
	free(moved);
}

/* True: the socket is another worker's, or closed for lack of memory. */
static bool worker_move(struct worker *w, int fd, const struct sockaddr_storage *peer)
{
	struct worker *to = peer ? w->engine->choose(w, peer) : w;
	struct worker_moved *moved;

	if (to == w)
		return false;
	moved = malloc(sizeof(*moved));
	if (!moved) {
		close(fd);
		return true;
	}
	*moved = (struct worker_moved){ .call.fn = worker_moved, .worker = to, .fd = fd };
	mailbox_post(&to->mailbox, &moved->call);
	return true;
}

/* The arrival lasts for this call: open() of the service may use it in place of system calls. */
void worker_accept_done(struct acceptor *a, int fd, const struct sockaddr_storage *peer)
{
	struct worker *w = a->worker;
	struct arrival arrival = { .peer = peer, .port = a->port };

	if (unlikely(fd >= 0 && w->turn.stop)) {
		close(fd);
	} else if (fd >= 0) {
		if (unlikely(w->accept.paused))
			w->owner->paused(w, 0);
		w->accept.paused = false;
		if (unlikely(w->engine->choose) && worker_move(w, fd, peer))
			return;
		w->accept.arrival = &arrival;
		conn_new(w, fd);
		w->accept.arrival = NULL;
	} else if (!a->paused && a->fd >= 0 &&
		   (fd == -EMFILE || fd == -ENFILE || fd == -ENOBUFS || fd == -ENOMEM ||
		    fd == -EINVAL)) {
		/* listen(2) has failed: epoll would report the socket again and again. */
		a->listen_failed = fd == -EINVAL;
		worker_pause_accept(a, -fd);
	}
	/* Any other error concerns one connection, which ended before it was accepted (ECONNABORTED
	 * and the errors of accept(2)). */
}

static void acceptor_stop(struct acceptor *a)
{
	if (!a->paused)
		a->worker->engine->watch_listener(a->worker, a, false);
	a->paused = true;
}

void worker_stop_accepting(struct worker *w)
{
	if (w->engine->accept)
		w->engine->accept(w, false);
	for (unsigned i = 0; i < w->accept.count; i++)
		acceptor_stop(&w->accept.acceptors[i]);
	deadline_drop(&w->deadlines, &w->accept.timer);
}

/* Accepts until the queue is empty, with a bound: a flood of connections must not keep the turn. */
void worker_accept_queued(struct acceptor *a)
{
	for (unsigned i = 0; i < WORKER_QUEUED_MAX && !a->worker->engine->connectionless; i++) {
		int fd = accept4(a->fd, NULL, NULL, SOCK_CLOEXEC);

		stat_add(a->worker->stats.sys_accept, 1);
		if (fd < 0)
			return;
		worker_accept_done(a, fd, NULL);
	}
}

void worker_close_acceptors(struct worker *w)
{
	for (unsigned i = 0; i < w->accept.count; i++) {
		if (w->accept.acceptors[i].fd >= 0)
			close(w->accept.acceptors[i].fd);
		w->accept.acceptors[i].fd = -1;
	}
}

/* A connectionless worker that drains serves its clients to their end, over its own sockets.  A
 * socket that was handed to another worker is read no more from the begin of the drain on: new
 * clients are the other worker's.  It stays open for the datagrams that are still to be sent.
 * True: no request of the engine reads such a socket. */
static bool worker_leaves_given(struct worker *w)
{
	bool left = true;

	for (unsigned i = 0; i < w->accept.count; i++) {
		struct acceptor *a = &w->accept.acceptors[i];

		if (!a->given)
			continue;
		acceptor_stop(a);
		left &= a->armed == 0;
	}
	return left;
}

/* Does the worker serve clients over sockets that it has not handed to another one? */
static bool worker_still_reads(const struct worker *w)
{
	for (unsigned i = 0; w->conns && i < w->accept.count; i++)
		if (!w->accept.acceptors[i].given)
			return true;
	return false;
}

static bool worker_end_reading(struct worker *w)
{
	bool reads;

	if (!worker_leaves_given(w))
		return false;
	reads = worker_still_reads(w);
	if (!reads)
		worker_stop_accepting(w);
	if (!w->accept.left)
		w->owner->accept_ended(w);
	w->accept.left = true;
	return !reads;
}

/* Runs in each turn of a drain, until the engine has no request in flight on a listening socket.
 * Sockets that another worker or process shares are closed with their queues unread: that one
 * accepts from them. */
void worker_end_accept(struct worker *w)
{
	bool connectionless = w->engine->connectionless;

	if (connectionless && !worker_end_reading(w))
		return;
	for (unsigned i = 0; i < w->accept.count; i++)
		if (w->accept.acceptors[i].armed)
			return;
	w->accept.ended = true;
	if (connectionless)
		return;
	for (unsigned i = 0; i < w->accept.count; i++)
		if (!w->accept.acceptors[i].given)
			worker_accept_queued(&w->accept.acceptors[i]);
	worker_close_acceptors(w);
	w->owner->accept_ended(w);
}
