/* Listeners: choosing the engine, their sockets and exports, and the start of
 * their workers.  See listener.h. */
#include <errno.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "binding.h"
#include "cpus_usable.h"
#include "listener.h"
#include "listener_address.h"
#include "listeners.h"
#include "log.h"
#include "notify.h"
#include "registry.h"
#include "store.h"
#include "watchdog.h"

/* The wait for workers at the daemon's start. */
#define START_CHECK_NS  NS_PER_S       /* between two readings of its CPU time */
#define START_REPORT_NS (2 * NS_PER_S) /* after which the wait is reported */
#define START_MAX_NS    ((uint64_t)600 * NS_PER_S)
enum { START_WORKS = 10 }; /* a worker works that uses 1/10 of a CPU */

/* Calls of a listener's workers: those that are answered on the worker's thread, and those that the
 * mailbox brings to the main thread. */

/* ---- Callbacks of workers (on their threads) ---- */

static int listener_admit(struct worker *w, int fd, const struct sockaddr_storage *peer)
{
	const struct listener *l = w->owner_context;

	return admission_enter(l->admission, fd, peer);
}

static void listener_release(struct worker *w)
{
	const struct listener *l = w->owner_context;

	admission_release(l->admission);
}

static void listener_log_accept_pause(struct worker *w, int error)
{
	static struct log_limit limit;
	const struct listener *l = w->owner_context;

	if (!log_limited(&limit))
		return;
	if (error == EMFILE || error == ENFILE)
		log_listener(LOG_WARNING, l->name,
			     "accept: %s; connections wait until a descriptor is free (raise "
			     "LimitNOFILE= or `ulimit -n`)",
			     strerror(error));
	else if (error)
		log_listener(LOG_WARNING, l->name, "accept: %s; the listener tries again",
			     strerror(error));
	else
		log_listener(LOG_INFO, l->name, "accepting again");
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
	log_listener(LOG_INFO, l->name, "drained");
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

static const struct worker_owner listener_owner = {
	.admit = listener_admit,
	.release = listener_release,
	.paused = listener_log_accept_pause,
	.accept_ended = listener_accept_ended,
	.drained = listener_drained,
};

/* ---- Exports ---- */

/* Makes the listener's mounts.  Each worker has counters of its own for each export; calloc() takes
 * pages only for those in use, and few of them are. */
static int listener_mount(struct listener *l)
{
	unsigned count = l->exports ? l->config->export_count : 0;

	for (unsigned i = 0; count > 0 && i < l->worker_count; i++) {
		struct worker *w = &l->workers[i];

		w->mounts = calloc(count, sizeof(*w->mounts));
		if (!w->mounts)
			return -ENOMEM;
		w->mount_count = count;
		for (unsigned j = 0; j < count; j++) {
			w->mounts[j].export = &l->exports[j]->export;
			w->mounts[j].store = listener_store(l, j);
			w->mounts[j].automatic =
				!l->config->store && !l->exports[j]->config.options.store;
		}
	}
	return 0;
}

static int listener_get_exports(struct listener *l, const struct exports *exports,
				struct reason *reason)
{
	unsigned count = l->config->export_count;
	int rc = 0;

	if (count == 0)
		return 0;
	l->exports = calloc(count, sizeof(struct server_export *));
	if (!l->exports)
		return reason_set(reason, -ENOMEM, "no memory");
	for (unsigned i = 0; rc == 0 && i < count; i++)
		rc = export_get(exports, l->config->exports[i].name, &l->exports[i], reason);
	return rc;
}

/* ---- Workers ---- */

/* The number of workers: `workers`, else one for each CPU of `cpus`, else for each CPU that the
 * process may use. */
static unsigned listener_workers(const struct listener_config *config)
{
	if (config->workers)
		return config->workers;
	if (CPU_COUNT(&config->options.cpus) > 0)
		return (unsigned)CPU_COUNT(&config->options.cpus);
	return cpus_usable();
}

/* Begins to start further workers, up to `count` in all, and gives them their sockets. */
static int listener_start_workers(struct listener *l, unsigned count, struct binding *sockets,
				  struct reason *reason)
{
	struct worker_socket *taken = malloc((sockets->count + 1) * sizeof(*taken));
	int rc = taken ? 0 : reason_set(reason, -ENOMEM, "no memory");

	for (unsigned i = l->started_count; rc == 0 && i < count; i++) {
		struct worker *w = &l->workers[i];
		unsigned socket_count = binding_take(sockets, i, taken);

		w->service = l->tls ? tls_stage_service(l->tls) : l->config->service;
		w->engine = registry_variant(l->engine, &l->config->options);
		w->options = l->config->options;
		if (l->tls)
			w->options.features_off |= tls_stage_features_off(l->tls);
		w->options.peers_max = listener_peers_max(l, l->config);
		w->counters.mode = l->all->next->server.counters;
		w->owner = &listener_owner;
		w->owner_context = l;
		w->listener = l->name;
		w->shared = l->shared;
		w->index = i;
		w->team.workers = l->workers;
		w->team.count = l->worker_count;
		if (i == 0 && l->endpoints) {
			w->accept.endpoints = l->endpoints;
			w->accept.endpoint_count = listener_address_count(l->config);
		}
		snprintf(w->name, sizeof(w->name), "%.12s/%u", l->name, i % 100);
		rc = worker_start(w, taken, socket_count, reason);
		l->started_count += rc == 0;
	}
	free(taken);
	return rc;
}

/* For `auto`: the last engine of the table that this host can run. */
const struct engine *listener_pick_engine(const struct listener_config *config)
{
	struct reason reason;
	unsigned count = 0;
	uint64_t features;

	const struct engine *pick = NULL;

	if (config->engine)
		return config->engine;
	while (engines[count])
		count++;
	while (count-- > 0) {
		if (!registry_engine_carries(engines[count], config->transport))
			continue;
		pick = engines[count];
		if (worker_probe(registry_variant(pick, &config->options), &config->options,
				 &features, &reason) == 0)
			break;
	}
	return pick;
}

/* Gets the state of l's service: that of the listener which l replaces, if the service keeps it. */
static int listener_share(struct listener *l, struct reason *reason)
{
	const struct service *s = l->config->service;
	const struct listener *old = listeners_find(l->all, l->name);

	if (!s->shared_new)
		return 0;
	if (s->shared_keep && old && old->shared && old->config->service == s)
		l->shared = s->shared_keep(old->shared);
	else
		l->shared = s->shared_new(&l->config->options, l->name, reason);
	return l->shared ? 0 : -EINVAL;
}

/* Allocates the parts of l; on an error listener_free() frees those that exist.  Workers are
 * aligned to cache lines, so that two threads do not write to the same line. */
static int listener_allocate(struct listener *l, struct reason *reason)
{
	l->workers = aligned_alloc(CACHE_LINE, l->worker_count * sizeof(struct worker));
	if (l->workers)
		memset(l->workers, 0, l->worker_count * sizeof(struct worker));
	l->costs = calloc(l->worker_count, sizeof(*l->costs));
	l->addresses = calloc(listener_address_count(l->config), sizeof(*l->addresses));
	l->admission = admission_new(l->config);
	if (!l->workers || !l->costs || !l->addresses || !l->admission || listener_mount(l) < 0)
		return reason_set(reason, -ENOMEM, "no memory");
	if (l->config->tls.mode != TLS_NONE) {
		l->tls = tls_stage_new(l->config->service, &l->config->tls, l->worker_count,
				       l->all->tls_end_ns, reason);
		if (!l->tls)
			return -EINVAL;
	}
	return listener_share(l, reason);
}

/* Must l wait until `old` has ended?  Only one listener at a time can bind an RDMA address, and it
 * cannot be handed over. */
static bool listener_must_wait(const struct listener *l, const struct listener *old)
{
	unsigned old_count = old->endpoints ? listener_address_count(old->config) : 0;

	for (unsigned i = 0; i < old_count && old->state == LISTENER_SERVING; i++)
		for (unsigned j = 0; j < listener_address_count(l->config); j++)
			if (sockaddr_is_same(&old->endpoints[i], &l->endpoints[j]))
				return true;
	return false;
}

/* RDMA: the engine of the first worker binds the addresses, and the others start after that. */
static int listener_open_endpoints(struct listener *l, struct listener *const *going,
				   struct reason *reason)
{
	unsigned count = listener_address_count(l->config);
	struct binding none = { 0 };

	l->endpoints = calloc(count, sizeof(*l->endpoints));
	if (!l->endpoints)
		return reason_set(reason, -ENOMEM, "no memory");
	for (unsigned i = 0; i < count; i++)
		listener_address_at(l->config, i, &l->endpoints[i]);
	for (; going && *going; going++)
		if (listener_must_wait(l, *going))
			return reason_set(reason, -EADDRINUSE,
					  "the RDMA addresses of listener '%s' cannot be handed "
					  "over; remove its section, reload, add it again and "
					  "reload, or restart",
					  (*going)->name);
	return listener_start_workers(l, 1, &none, reason);
}

/* Binds the addresses and starts the workers' threads, but does not wait for them: all listeners
 * start at the same time. */
static int listener_open(struct listener *l, struct listener *const *going, struct reason *reason)
{
	struct binding sockets = { 0 };
	int rc;

	l->worker_count = listener_workers(l->config);
	rc = listener_allocate(l, reason);
	if (rc < 0)
		return rc;
	l->engine = listener_pick_engine(l->config);
	if (!l->config->transport->socket_type)
		return listener_open_endpoints(l, going, reason);
	rc = binding_open(&sockets, l, going, reason);
	if (rc == 0)
		rc = listener_start_workers(l, l->worker_count, &sockets, reason);
	binding_close(&sockets);
	return rc;
}

static struct listener *listener_new(struct listeners *all, const struct listener_config *config)
{
	struct listener *l = calloc(1, sizeof(*l));

	if (!l || !(l->config = malloc(sizeof(*l->config)))) {
		free(l);
		return NULL;
	}
	*l->config = *config;
	strcpy(l->name, config->name);
	sem_init(&l->accept_ended, 0, 0);
	l->all = all;
	l->started_ns = clock_ns();
	return l;
}

int listener_start(struct listeners *all, const struct exports *exports,
		   const struct listener_config *config, struct listener *const *going,
		   struct listener **ret_listener, struct reason *reason)
{
	struct listener *l = listener_new(all, config);

	if (!l)
		return reason_set(reason, -ENOMEM, "no memory");
	l->starting = true;
	l->error = listener_get_exports(l, exports, &l->reason);
	if (l->error == 0)
		l->error = listener_open(l, going, &l->reason);
	*ret_listener = l;
	return 0;
}

int listener_make_drained(struct listeners *all, const struct listener_config *config,
			  struct listener **ret_listener, struct reason *reason)
{
	struct listener *l = listener_new(all, config);

	if (!l)
		return reason_set(reason, -ENOMEM, "no memory");
	l->state = LISTENER_DRAINED;
	*ret_listener = l;
	return 0;
}

/* A wait for workers to start.  At the daemon's start a worker that works, as one that has much
 * memory pinned, gets more time, and the wait is reported.  A reload serves meanwhile, so its wait
 * has an end. */
struct start_wait {
	struct notify *notify; /* NULL: a reload */
	uint64_t begun_ns, end_ns;
	uint64_t next_check_ns; /* when the CPU time of the worker is read next */
	uint64_t cpu_ns;        /* that it had used at the last reading */
	const struct listener *reported;
};

static void listener_report_wait(struct start_wait *wait, const struct listener *l)
{
	notify(wait->notify, "EXTEND_TIMEOUT_USEC=%llu\nSTATUS=Starting: listener '%s': %s",
	       (unsigned long long)(2 * WORKER_START_NS / NS_PER_US), l->name, l->reason.text);
	if (wait->reported == l)
		return;
	wait->reported = l;
	log_listener(LOG_NOTICE, l->name, "%s; waiting while it makes progress", l->reason.text);
}

/* Worker w has not started yet. */
static void listener_check_start(struct start_wait *wait, const struct listener *l,
				 const struct worker *w)
{
	uint64_t now = clock_ns(), cpu_ns = worker_cpu_ns(w);

	if (!wait->notify || now < wait->next_check_ns)
		return;
	if (cpu_ns >= wait->cpu_ns + START_CHECK_NS / START_WORKS)
		wait->end_ns = MIN(now + WORKER_START_NS, wait->begun_ns + START_MAX_NS);
	wait->cpu_ns = cpu_ns;
	wait->next_check_ns = now + START_CHECK_NS;
	if (now - wait->begun_ns >= START_REPORT_NS)
		listener_report_wait(wait, l);
}

static int listener_await_workers(struct listener *l, unsigned first, struct start_wait *wait)
{
	int rc = 0;

	for (unsigned i = first; rc == 0 && i < l->started_count; i++) {
		const struct worker *w = &l->workers[i];

		wait->cpu_ns = worker_cpu_ns(w);
		while ((rc = worker_await_started(
				&l->workers[i],
				watchdog_slice(MIN(wait->end_ns, wait->next_check_ns)),
				&l->reason)) == -ETIMEDOUT) {
			listener_check_start(wait, l, w);
			if (clock_ns() >= wait->end_ns)
				break;
		}
	}
	return rc;
}

/* Waits for the workers.  With RDMA the first worker has then bound the addresses (port 0 has
 * become a number), and the others can start. */
static void listener_await_start(struct listener *l, struct start_wait *wait)
{
	struct binding none = { 0 };

	if (l->error == 0)
		l->error = listener_await_workers(l, 0, wait);
	if (l->error || !l->endpoints)
		return;
	for (unsigned i = 0; i < listener_address_count(l->config); i++)
		format_sockaddr(&l->endpoints[i], l->addresses[l->address_count++].text);
	l->error = listener_start_workers(l, l->worker_count, &none, &l->reason);
	if (l->error == 0)
		l->error = listener_await_workers(l, 1, wait);
}

/* Makes a listener without workers to replace one that has failed.  The failed one may have to stay
 * in memory because a worker hangs. */
static struct listener *listener_replace(struct listener *failed, uint64_t end_ns)
{
	struct listener *l = listener_new(failed->all, failed->config);

	failed->starting = false;
	if (!l) {
		failed->state = LISTENER_UNAVAILABLE;
		return failed;
	}
	l->state = LISTENER_UNAVAILABLE;
	l->reason = failed->reason;
	l->error = failed->config->optional ? 0 : failed->error;
	listeners_stop_one(failed, end_ns);
	return l;
}

/* Two passes, so that the waits overlap: all failed listeners are asked to stop, then they are
 * waited for. */
static void listeners_replace_failed(struct listener **list, unsigned count,
				     struct listener *const *going)
{
	uint64_t end_ns;

	for (unsigned i = 0; i < count; i++) {
		if (!list[i]->starting || !list[i]->error)
			continue;
		binding_undo(list[i], going);
		listener_stop(list[i]);
	}
	end_ns = clock_ns() + LISTENERS_END_NS;
	for (unsigned i = 0; i < count; i++)
		if (list[i]->starting && list[i]->error)
			list[i] = listener_replace(list[i], end_ns);
}

void listeners_await_started(struct listener **list, unsigned count, struct listener *const *going)
{
	uint64_t now = clock_ns();
	struct start_wait wait = { .begun_ns = now,
				   .end_ns = now + WORKER_START_NS,
				   .next_check_ns = going ? UINT64_MAX : now + START_CHECK_NS,
				   .notify = going || count == 0 ? NULL
								 : list[0]->all->fdstore.notify };

	for (unsigned i = 0; i < count; i++)
		if (list[i]->starting)
			listener_await_start(list[i], &wait);
	listeners_replace_failed(list, count, going);
}

void listeners_listen(struct listener **list, unsigned count, struct listener *const *going)
{
	bool good = true;

	for (unsigned i = 0; good && i < count; i++) {
		struct listener *l = list[i];

		if (!l->starting)
			continue;
		l->error = binding_start(l, &l->reason);
		l->starting = l->error != 0;
		good = !l->error || l->config->optional;
	}
	listeners_replace_failed(list, count, going);
}
