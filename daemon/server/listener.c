/* Listeners: choosing the engine, starting, draining and stopping workers. */
#include "listener.h"

#include <errno.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "listening.h"
#include "log.h"
#include "server.h"
#include "store.h"

const char *const listener_state_names[] = { "serving", "draining", "drained", "unavailable" };

/* ---- What workers ask of us (on their threads) ---- */

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
	if (error)
		log_write(LOG_WARNING, l->name,
			  "listener '%s': accept: %s; connections wait until a descriptor is free "
			  "(raise LimitNOFILE= or `ulimit -n`)",
			  l->name, strerror(error));
	else
		log_write(LOG_INFO, l->name, "listener '%s': accepting again", l->name);
	if (missed)
		log_write(LOG_INFO, l->name, "%u message%s like this dropped", missed,
			  plural(missed));
}

/* What a worker has to say to the main thread. */
struct listener_call {
	struct call call;
	struct listener *listener;
};

static void listener_tell(struct listener *l, void (*fn)(struct call *))
{
	struct listener_call *c = malloc(sizeof(*c));

	if (!c)
		abort();
	*c = (struct listener_call){ .call.fn = fn, .listener = l };
	mailbox_post(&l->server->mailbox, &c->call);
}

static struct listener *listener_told(struct call *call)
{
	struct listener_call *c = container_of(call, struct listener_call, call);
	struct listener *l = c->listener;

	free(c);
	return l;
}

static void listener_on_deaf(struct call *call)
{
	server_worker_deaf(listener_told(call)->server);
}

static void listener_on_drained(struct call *call)
{
	struct listener *l = listener_told(call);

	if (++l->drained_count < l->worker_count || l->state != LISTENER_DRAINING)
		return;
	l->state = LISTENER_DRAINED;
	log_write(LOG_INFO, l->name, "listener '%s': drained", l->name);
	server_listener_drained(l); /* may free it */
}

static void listener_deaf(struct worker *w)
{
	struct listener *l = w->owner_context;

	sem_post(&l->deaf);
	listener_tell(l, listener_on_deaf);
}

static void listener_drained(struct worker *w)
{
	listener_tell(w->owner_context, listener_on_drained);
}

static const struct worker_owner listener_owner = {
	.admit = listener_admit,
	.release = listener_release,
	.paused = listener_paused,
	.deaf = listener_deaf,
	.drained = listener_drained,
};

/* ---- Exports ---- */

static void listener_put_exports(struct listener *l)
{
	for (unsigned i = 0; l->exports && i < l->config->export_count; i++)
		if (l->exports[i])
			export_put(l->exports[i]);
	free(l->exports);
	l->exports = NULL;
}

const struct store *listener_store(const struct listener *l, unsigned index)
{
	const struct store *store = l->exports[index]->export.store;

	return l->config->store && store->file ? l->config->store : store;
}

/* Each worker has counters of its own for each export; calloc(), because few of them are used. */
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
		}
	}
	return 0;
}

static int listener_get_exports(struct listener *l, struct reason *reason)
{
	unsigned count = l->config->export_count;

	if (count == 0)
		return 0;
	l->exports = calloc(count, sizeof(struct server_export *));
	if (!l->exports)
		return reason_set(reason, -ENOMEM, "no memory");
	for (unsigned i = 0; i < count; i++) {
		l->exports[i] = export_get(l->server, l->config->exports[i].name, reason);
		if (!l->exports[i])
			return -EIO;
	}
	return 0;
}

/* ---- Life ---- */

static unsigned listener_workers(const struct listener_config *config)
{
	cpu_set_t cpus;

	if (config->workers)
		return config->workers;
	if (CPU_COUNT(&config->options.cpus) > 0)
		return (unsigned)CPU_COUNT(&config->options.cpus);
	if (sched_getaffinity(0, sizeof(cpus), &cpus) < 0)
		return 1;
	return (unsigned)CPU_COUNT(&cpus);
}

/* The file of a socket that is kept stays: the next process will serve it. */
static void listener_unbind(struct listener *l)
{
	for (unsigned i = 0; i < l->address_count; i++)
		if (!l->addresses[i].kept[0])
			socket_unbind(&l->addresses[i]);
}

void listener_request_stop(struct listener *l)
{
	listener_unbind(l);
	for (unsigned i = 0; l->workers && i < l->worker_count; i++)
		worker_request_stop(&l->workers[i]);
}

/* A worker that has not ended: a store that waits for its device is the likely reason. */
static void listener_log_stuck(const struct listener *l, unsigned index)
{
	const struct worker *w = &l->workers[index];
	char why[REASON_MAX] = "";

	for (unsigned i = 0; w->mounts && i < l->config->export_count && !why[0]; i++) {
		unsigned long long count = stat_load(w->mounts[i].in_flight);

		if (count > 0)
			snprintf(why, sizeof(why), "export '%s' has %llu request%s under way; ",
				 w->mounts[i].export->name, count, plural(count));
	}
	log_write(LOG_ERR, l->name,
		  "listener '%s': worker %u (thread %d) does not end: %sthe files "
		  "/proc/%d/task/*/stack tell what its threads wait for",
		  l->name, index, w->tid, why, getpid());
}

bool listener_await_end(struct listener *l, uint64_t end_ns)
{
	bool ended = true;

	for (unsigned i = 0; l->workers && i < l->worker_count; i++) {
		if (worker_await_end(&l->workers[i], end_ns))
			continue;
		listener_log_stuck(l, i);
		ended = false;
	}
	return ended;
}

/* For as long as they take to end. */
static void listener_free_workers(struct listener *l)
{
	listener_request_stop(l);
	listener_await_end(l, UINT64_MAX);
	for (unsigned i = 0; l->workers && i < l->worker_count; i++)
		free(l->workers[i].mounts);
	free(l->workers);
	free(l->costs);
	l->workers = NULL;
	l->costs = NULL;
}

/* Starts all workers on `engine`.  Takes the sockets over. */
static int listener_start(struct listener *l, const struct engine *engine,
			  struct listening *sockets, struct reason *reason)
{
	struct worker_socket *taken = malloc((sockets->count + 1) * sizeof(*taken));
	int rc = taken ? 0 : -ENOMEM;

	l->engine = engine;
	for (unsigned i = 0; rc == 0 && i < l->worker_count; i++) {
		struct worker *w = &l->workers[i];
		unsigned count = listening_take(sockets, i, taken);

		w->service = l->config->service;
		w->engine = engine;
		w->options = l->config->options;
		w->owner = &listener_owner;
		w->owner_context = l;
		w->listener = l->name;
		w->shared = l->shared;
		w->index = i;
		w->team = l->workers;
		w->team_count = l->worker_count;
		if (i == 0 && l->endpoints) {
			w->endpoints = l->endpoints;
			w->endpoint_count = listening_count(l->config);
		}
		snprintf(w->name, sizeof(w->name), "%.12s/%u", l->name, i % 100);
		rc = worker_start(w, taken, count, reason);
	}
	free(taken);
	return rc;
}

/* The engine that `auto` means here: the last of the table that this host can run. */
const struct engine *listener_pick_engine(const struct listener_config *config)
{
	struct reason reason;
	unsigned count = 0;
	uint32_t features;

	const struct engine *pick = NULL;

	if (config->engine)
		return config->engine;
	while (engines[count])
		count++;
	while (count-- > 0) {
		if (engines[count]->transport != config->transport)
			continue;
		pick = engines[count];
		if (worker_probe(pick, &config->options, &features, &reason) == 0)
			break;
	}
	return pick;
}

static int listener_allocate(struct listener *l)
{
	l->workers = aligned_alloc(CACHE_LINE, l->worker_count * sizeof(struct worker));
	if (l->workers)
		memset(l->workers, 0, l->worker_count * sizeof(struct worker));
	l->costs = calloc(l->worker_count, sizeof(*l->costs));
	l->addresses = calloc(listening_count(l->config), sizeof(*l->addresses));
	l->admission = admission_new(l->config);
	if (l->config->service->shared_new)
		l->shared = l->config->service->shared_new();
	if (!l->workers || !l->costs || !l->addresses || !l->admission ||
	    (l->config->service->shared_new && !l->shared) || listener_mount(l) < 0)
		return -ENOMEM;
	return 0;
}

/* The kernel gives an RDMA address to one listener at a time, and none of it away: a new listener
 * would have to wait until the old one is gone, and might then fail. */
static bool listener_must_wait(const struct listener *l, const struct listener *old)
{
	unsigned old_count = old->endpoints ? listening_count(old->config) : 0;

	for (unsigned i = 0; i < old_count && old->state == LISTENER_SERVING; i++)
		for (unsigned j = 0; j < listening_count(l->config); j++)
			if (sockaddr_is_same(&old->endpoints[i], &l->endpoints[j]))
				return true;
	return false;
}

/* RDMA: the engine binds the addresses, with its first worker. */
static int listener_open_endpoints(struct listener *l, struct listener *const *going,
				   struct reason *reason)
{
	unsigned count = listening_count(l->config);
	struct listening none = { 0 };
	int rc;

	l->endpoints = calloc(count, sizeof(*l->endpoints));
	if (!l->endpoints)
		return reason_set(reason, -ENOMEM, "no memory");
	listening_list(l->config, l->endpoints);
	for (; going && *going; going++)
		if (listener_must_wait(l, *going))
			return reason_set(reason, -EADDRINUSE,
					  "the RDMA addresses of listener '%s' cannot be handed "
					  "over; reload without it first, or restart",
					  (*going)->name);
	rc = listener_start(l, listener_pick_engine(l->config), &none, reason);
	for (unsigned i = 0; i < count && rc == 0; i++)
		format_sockaddr(&l->endpoints[i], l->addresses[l->address_count++].text);
	return rc;
}

static int listener_open(struct listener *l, struct listener *const *going, struct reason *reason)
{
	struct listening sockets = { 0 };
	int rc;

	l->worker_count = listener_workers(l->config);
	if (listener_allocate(l) < 0)
		return reason_set(reason, -ENOMEM, "no memory");
	if (l->config->transport == TRANSPORT_RDMA)
		return listener_open_endpoints(l, going, reason);
	rc = listening_open(&sockets, l, going, reason);
	if (rc == 0)
		rc = listener_start(l, listener_pick_engine(l->config), &sockets, reason);
	listening_close(&sockets);
	return rc;
}

static struct listener *listener_new(struct server *server, const struct listener_config *config)
{
	struct listener *l = calloc(1, sizeof(*l));

	if (!l || !(l->config = malloc(sizeof(*l->config)))) {
		free(l);
		return NULL;
	}
	*l->config = *config;
	strcpy(l->name, config->name);
	sem_init(&l->deaf, 0, 0);
	l->server = server;
	l->started_ns = clock_ns();
	return l;
}

int listener_prepare(struct server *server, const struct listener_config *config,
		     struct listener *const *going, struct listener **ret_listener,
		     struct reason *reason)
{
	struct listener *l = listener_new(server, config);
	int rc;

	if (!l)
		return reason_set(reason, -ENOMEM, "no memory");
	rc = listener_get_exports(l, reason);
	if (rc == 0)
		rc = listener_open(l, going, reason);
	if (rc < 0) {
		listening_return(l, going);
		server_end_listener(l); /* a worker that hangs may keep it */
		if (!config->optional)
			return rc;
		l = listener_new(server, config);
		if (!l)
			return reason_set(reason, -ENOMEM, "no memory");
		l->state = LISTENER_UNAVAILABLE;
		l->reason = *reason;
	}
	*ret_listener = l;
	return 0;
}

void listener_serve(struct listener *l)
{
	for (unsigned i = 0; i < l->worker_count; i++) {
		listening_start(&l->workers[i], l->name);
		worker_listen(&l->workers[i]);
	}
	kept_store(l);
}

void listener_accept_waiting(struct listener *l)
{
	for (unsigned i = 0; l->inherited && l->state == LISTENER_SERVING && i < l->worker_count;
	     i++)
		worker_accept_waiting(&l->workers[i]);
}

void listener_log(const struct listener *l)
{
	if (l->state == LISTENER_UNAVAILABLE) {
		log_write(LOG_NOTICE, l->name, "listener '%s': unavailable: %s", l->name,
			  l->reason.text);
		return;
	}
	for (unsigned i = 0; i < l->address_count; i++)
		log_write(LOG_INFO, l->name, "listener '%s': %s on %s over %s, %u worker%s",
			  l->name, l->config->service->name, l->addresses[i].text, l->engine->name,
			  l->worker_count, plural(l->worker_count));
}

void listener_change(struct listener *l, const struct listener_config *config)
{
	if (config->options.idle_timeout_ns != l->config->options.idle_timeout_ns)
		for (unsigned i = 0; i < l->worker_count; i++)
			worker_set_idle_timeout(&l->workers[i], config->options.idle_timeout_ns);
	admission_set(l->admission, config);
	*l->config = *config;
}

void listener_drain(struct listener *l, uint64_t deadline_ns)
{
	if (l->state != LISTENER_SERVING)
		return;
	l->state = LISTENER_DRAINING;
	log_write(LOG_INFO, l->name, "listener '%s': draining", l->name);
	if (!l->server->stopping)
		kept_forget(l); /* or connections would wait for somebody to accept them */
	listener_unbind(l);
	for (unsigned i = 0; i < l->worker_count; i++)
		worker_drain(&l->workers[i], deadline_ns);
}

void listener_await_deaf(struct listener *l, uint64_t end_ns)
{
	while (l->deaf_count < l->worker_count && sem_wait_until(&l->deaf, end_ns))
		l->deaf_count++;
}

void listener_free(struct listener *l)
{
	if (!l)
		return;
	listener_free_workers(l);
	listener_put_exports(l);
	if (l->shared)
		l->config->service->shared_free(l->shared);
	admission_free(l->admission);
	free(l->addresses);
	free(l->endpoints);
	free(l->config);
	sem_destroy(&l->deaf);
	free(l);
}
