/* A worker's thread: its start, its end, and how its owner waits for both.  worker_thread() and the
 * functions that it calls run on the new thread; worker_start(), worker_start_and_wait() and
 * worker_await_stopped() run on the owner's.  See worker_owner.h. */
#include <errno.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "batch.h"
#include "conn.h"
#include "pressure.h"
#include "slices.h"
#include "sockaddr.h"
#include "store.h"
#include "worker.h"
#include "worker_owner.h"

/* ---- Mounts ---- */

static int mount_attach(struct mount *m, struct reason *reason)
{
	const struct export *e = m->export;

	if (e->align > m->worker->pool.chunk_size)
		return reason_set(reason, -EINVAL,
				  "export '%s': its memory has to be aligned to %u bytes; make "
				  "`buffer-size` at least as large, or set `direct = no`",
				  e->name, e->align);
	return m->store->attach ? m->store->attach(m, reason) : 0;
}

static void mounts_detach(struct worker *w)
{
	for (unsigned i = w->mount_count; i-- > 0;)
		if (w->mounts[i].store->detach)
			w->mounts[i].store->detach(&w->mounts[i]);
	w->mount_count = 0;
}

/* 0, or -errno with the reason and none attached. */
static int mounts_attach(struct worker *w, struct reason *reason)
{
	for (unsigned i = 0; i < w->mount_count; i++) {
		struct mount *m = &w->mounts[i];
		int rc;

		m->worker = w;
		if (m->export->options->direct)
			m->features |= 1U << MOUNT_direct;
		atomic_store(&w->thread.attaching, m->export->name);
		rc = mount_attach(m, reason);
		atomic_store(&w->thread.attaching, NULL);
		if (rc < 0) {
			w->mount_count = i;
			mounts_detach(w);
			return rc;
		}
	}
	return 0;
}

/* ---- Start and end ---- */

/* The mailbox is readable.  Its calls run after this turn's completions, in worker_do_due(). */
static void worker_mailbox(struct op *op, int res, uint32_t flags)
{
	struct worker *w = container_of(op, struct worker, mailbox_op);

	(void)res, (void)flags;
	w->turn.due |= WORKER_DUE_CALLS;
}

/* Allocates everything that the worker needs on its own thread, once this is bound to its CPUs: the
 * memory is then on their NUMA node. */
static int worker_init(struct worker *w, struct reason *reason)
{
	int rc;

	pthread_setname_np(pthread_self(), w->name);
	w->thread.tid = (int)syscall(SYS_gettid);
	if (CPU_COUNT(&w->options.cpus) > 0) {
		rc = pthread_setaffinity_np(pthread_self(), sizeof(cpu_set_t), &w->options.cpus);
		if (rc != 0)
			return reason_set(
				reason, -rc,
				"cannot run on the CPUs of `cpus`: %s; choose among those "
				"that this process may use",
				strerror(rc));
	}
	/* Before any thread is started: only later ones inherit the counters. */
	rc = counters_open(&w->counters, reason);
	if (rc < 0)
		return rc;
	rc = pool_init(&w->pool, (uint32_t)w->options.buffers, (uint32_t)w->options.buffer_size,
		       w->engine->headroom);
	if (rc < 0)
		return reason_set(reason, rc,
				  "no memory for %llu buffers of %llu bytes; lower "
				  "`buffers` or `buffer-size`",
				  (unsigned long long)w->options.buffers,
				  (unsigned long long)w->options.buffer_size);
	w->limits.held_limit = CONN_HELD_MAX;
	if (w->service && w->service->held_max)
		w->limits.held_limit = w->service->held_max;
	pressure_set_held_max(w);
	worker_turn_init(w);
	pressure_check_init(w);
	w->mailbox_op.done = worker_mailbox;
	batch_init(w);
	spin_init(&w->spin, w->options.busy_poll_ns);
	rc = w->engine->init(w, reason);
	if (rc < 0)
		goto no_engine;
	if ((w->engine->features & FEATURE_BIT(rcvlowat)) && worker_wants(w, FEATURE_rcvlowat))
		worker_feature(w, FEATURE_rcvlowat);
	rc = w->engine->watch(w, w->mailbox.fd, &w->mailbox_op);
	if (rc < 0)
		reason_set(reason, rc, "cannot watch the mailbox: %s", strerror(-rc));
	else
		rc = mounts_attach(w, reason);
	if (rc == 0)
		return 0;
	w->engine->fini(w);
no_engine:
	pool_fini(&w->pool);
	return rc;
}

/* Runs turns after a stop until the last operation in flight has completed; operations that take
 * longer than two seconds are abandoned.  Arms a timer so that each turn returns within a
 * millisecond to read the clock. */
static void worker_close_all(struct worker *w)
{
	uint64_t give_up_ns = clock_ns() + 2 * (uint64_t)NS_PER_S;

	worker_stop_accepting(w);
	worker_close_acceptors(w);
	for (struct conn *c = w->conns; c; c = c->next)
		conn_close(c, CONN_END_DRAIN);
	while (w->conns && clock_ns() < give_up_ns) {
		worker_arm(w, &w->drain.timer, clock_ns() + NS_PER_MS);
		worker_turn(w);
	}
}

/* Frees the connections whose operations were abandoned: the engine has ended, so nothing refers to
 * them any more.  Memory to which a store may still write is not freed. */
static void worker_abandon_conns(struct worker *w)
{
	while (w->conns) {
		struct conn *c = w->conns;

		w->conns = c->next;
		deadline_drop(&w->deadlines, &c->due.timer);
		if (c->io.count == 0)
			conn_close_service(c);
		w->owner->release(w);
		close(c->fd);
		free(c);
	}
}

/* The order of the end matters.  Connections are closed first, while engine and stores still
 * complete their operations.  Then the stores end, before the engine, whose ring they may share;
 * then the engine, after which the kernel writes into no memory of the worker.  Connections that
 * were abandoned are freed last, when neither refers to them. */
static void worker_serve(struct worker *w)
{
	while (!w->turn.stop)
		worker_turn(w);
	worker_close_all(w);
	slices_drop_all(w);
	mounts_detach(w);
	w->engine->fini(w);
	worker_abandon_conns(w);
}

/* w belongs to this thread between the two semaphores, except for its atomics and its mailbox. */
static void *worker_thread(void *arg)
{
	struct worker *w = arg;

	w->thread.start_result = worker_init(w, &w->thread.start_reason);
	sem_post(&w->thread.started);
	if (w->thread.start_result == 0)
		worker_serve(w);
	sem_post(&w->thread.ended);
	return NULL;
}

/* To be called when the thread has ended or never existed.  The mailbox is freed here and not by
 * the thread, since other threads may post into it until the owner has joined this one. */
static void worker_free(struct worker *w)
{
	counters_close(&w->counters);
	pool_fini(&w->pool);
	free(w->area.chunks);
	w->area = (struct worker_area){ 0 };
	worker_close_acceptors(w);
	free(w->accept.acceptors);
	w->accept.acceptors = NULL;
	w->accept.count = 0;
	mailbox_fini(&w->mailbox);
	sem_destroy(&w->thread.started);
	sem_destroy(&w->thread.ended);
	sem_destroy(&w->thread.flushed);
}

/* May be called again after -ETIMEDOUT, as the semaphore is posted once at most.  A worker that has
 * failed is joined here, so that its owner only has to free it. */
int worker_await_started(struct worker *w, uint64_t end_ns, struct reason *reason)
{
	if (!sem_wait_until(&w->thread.started, end_ns)) {
		const char *export = atomic_load(&w->thread.attaching);
		const char *does = export ? ": it waits for the file of export '"
				   : atomic_load(&w->thread.registers)
					   ? ": it registers its buffers with the device, which "
					     "takes longer the more memory they are"
					   : "";

		return reason_set(reason, -ETIMEDOUT,
				  "worker %u (thread %d) has not started within %d s%s%s%s",
				  w->index, w->thread.tid,
				  (int)((clock_ns() - w->thread.created_ns) / NS_PER_S), does,
				  export ? export : "", export ? "'" : "");
	}
	w->thread.begun = w->thread.start_result == 0;
	if (!w->thread.begun) {
		*reason = w->thread.start_reason;
		worker_await_stopped(w, UINT64_MAX);
	}
	return w->thread.start_result;
}

int worker_start(struct worker *w, const struct worker_socket *sockets, unsigned count,
		 struct reason *reason)
{
	int rc = mailbox_init(&w->mailbox);

	sem_init(&w->thread.started, 0, 0);
	sem_init(&w->thread.ended, 0, 0);
	sem_init(&w->thread.flushed, 0, 0);
	w->accept.acceptors =
		calloc(count + w->accept.endpoint_count + 1, sizeof(*w->accept.acceptors));
	if (rc < 0 || !w->accept.acceptors) {
		for (unsigned i = 0; i < count; i++)
			close(sockets[i].fd);
		worker_free(w);
		return reason_set(
			reason, rc < 0 ? rc : -ENOMEM,
			"cannot make a worker: %s; raise LimitNOFILE= of the unit, or lower `workers`",
			strerror(rc < 0 ? -rc : ENOMEM));
	}
	w->accept.count = count;
	for (unsigned i = 0; i < count; i++)
		w->accept.acceptors[i] = (struct acceptor){
			.worker = w,
			.fd = sockets[i].fd,
			.port = sockets[i].late ? sockaddr_port(sockets[i].late)
						: sockaddr_fd_port(sockets[i].fd),
			.late = sockets[i].late,
			.shared = sockets[i].shared,
			.taken = sockets[i].taken,
			.address = sockets[i].address,
		};
	w->thread.created_ns = clock_ns();
	rc = -pthread_create(&w->thread.id, NULL, worker_thread, w);
	if (rc < 0) {
		worker_free(w);
		return reason_set(
			reason, rc,
			"cannot start a thread: %s; raise TasksMax= of the unit, or lower `workers`",
			strerror(-rc));
	}
	w->thread.lives = true;
	return 0;
}

uint64_t worker_cpu_ns(const struct worker *w)
{
	struct timespec used = { 0 };
	clockid_t clock;

	if (w->thread.lives && pthread_getcpuclockid(w->thread.id, &clock) == 0)
		clock_gettime(clock, &used);
	return (uint64_t)used.tv_sec * NS_PER_S + (uint64_t)used.tv_nsec;
}

int worker_start_and_wait(struct worker *w, const struct worker_socket *sockets, unsigned count,
			  struct reason *reason)
{
	int rc = worker_start(w, sockets, count, reason);

	return rc < 0 ? rc : worker_await_started(w, clock_ns() + WORKER_START_NS, reason);
}

bool worker_await_stopped(struct worker *w, uint64_t end_ns)
{
	if (!w->thread.lives)
		return true;
	if (!sem_wait_until(&w->thread.ended, end_ns))
		return false;
	pthread_join(w->thread.id, NULL);
	mailbox_run(&w->mailbox); /* calls posted too late still free their own memory */
	w->thread.lives = false;
	worker_free(w);
	return true;
}
