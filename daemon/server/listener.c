/* Listeners: serving, draining and stopping.  See listener.h. */
#include "listener.h"

#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "binding.h"
#include "brace.h"
#include "config.h"
#include "listener_address.h"
#include "listeners.h"
#include "log.h"
#include "store.h"
#include "watchdog.h"

const char *const listener_state_names[] = { "serving", "draining", "drained", "unavailable" };

/* ---- Exports ---- */

/* Gives the references to the exports back; the last user of an export closes it. */
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

/* ---- Workers ---- */

unsigned listener_worker_of(const struct listener *l, pid_t tid)
{
	for (unsigned i = 0; i < l->worker_count; i++)
		if (l->workers[i].thread.tid == tid)
			return i;
	return LISTENER_NO_WORKER;
}

/* Each worker evicts clients by its own table: the limit of the listener
 * is divided and rounded up. */
uint64_t listener_peers_max(const struct listener *l, const struct listener_config *config)
{
	return config->max_connections
		       ? (config->max_connections + l->worker_count - 1) / l->worker_count
		       : 0;
}

/* ---- Setup and teardown ---- */

/* Removes the files of Unix sockets, except of those stored with the service manager, which the
 * next process will serve. */
static void listener_unbind(struct listener *l)
{
	for (unsigned i = 0; i < l->address_count; i++)
		if (!l->addresses[i].stored_as[0])
			unix_socket_remove(&l->addresses[i].file);
}

/* Stops the workers of l; clients can no longer find its Unix sockets from now on. */
void listener_stop(struct listener *l)
{
	listener_unbind(l);
	for (unsigned i = 0; l->workers && i < l->worker_count; i++)
		worker_stop(&l->workers[i]);
}

/* Logs the workers that have not ended, most likely because a store waits for its device. */
static void listener_log_stuck(const struct listener *l, unsigned index)
{
	const struct worker *w = &l->workers[index];
	char why[REASON_MAX] = "";

	for (unsigned i = 0; w->mounts && i < l->config->export_count && !why[0]; i++) {
		unsigned long long count = stat_load(w->mounts[i].in_flight);

		if (count > 0)
			snprintf(why, sizeof(why), "export '%s' has %llu request%s in flight; ",
				 w->mounts[i].export->name, count, plural(count));
	}
	log_listener(LOG_ERR, l->name,
		     "worker %u (thread %d) does not end: %sthe files /proc/%d/task/*/stack show "
		     "where its threads wait",
		     index, w->thread.tid, why, getpid());
}

/* Waits in slices, and sends WATCHDOG=1 between them if it is due. */
bool listener_await_stopped(struct listener *l, uint64_t end_ns)
{
	bool ended = true;

	for (unsigned i = 0; l->workers && i < l->worker_count; i++) {
		struct worker *w = &l->workers[i];
		bool has;

		do
			has = worker_await_stopped(w, watchdog_slice(end_ns));
		while (!has && clock_ns() < end_ns);
		if (has)
			continue;
		listener_log_stuck(l, i);
		ended = false;
	}
	return ended;
}

/* Waits without limit until the workers have ended. */
static void listener_free_workers(struct listener *l)
{
	listener_stop(l);
	listener_await_stopped(l, UINT64_MAX);
	for (unsigned i = 0; l->workers && i < l->worker_count; i++)
		free(l->workers[i].mounts);
	free(l->workers);
	free(l->costs);
	l->workers = NULL;
	l->costs = NULL;
}

/* Tells the service of an address; fd: a socket of a worker, or -1. */
static void listener_announce_one(const struct listener *l, const struct sockaddr_storage *sa,
				  int fd)
{
	const struct service *s = l->config->service;
	struct service_endpoint endpoint = { .transport = l->config->transport,
					     .sa = *sa,
					     .fd = fd,
					     .datagram_max = l->config->options.buffer_size,
					     .tls = l->config->tls.mode != TLS_NONE };

	s->listens(l->shared, s, &endpoint);
}

/* Tells the service where it serves, or that it no longer serves. */
static void listener_announce(const struct listener *l, bool serves)
{
	const struct service *s = l->config->service;

	if (!s->listens || !l->shared)
		return;
	for (const struct acceptor *a = NULL; serves && (a = listener_next_acceptor(l, a));)
		listener_announce_one(l, &l->addresses[a->address].sa, a->fd);
	for (unsigned i = 0; serves && l->endpoints && i < l->address_count; i++)
		listener_announce_one(l, &l->endpoints[i], -1);
	if (!serves)
		s->listens(l->shared, s, NULL);
}

/* The order matters: the service knows its places before a client can use them, and the service
 * manager stores only sockets that listen. */
void listener_serve(struct listener *l)
{
	binding_set_keepalive(l);
	binding_listen(l);
	listener_announce(l, true);
	for (unsigned i = 0; i < l->worker_count; i++)
		worker_request(&l->workers[i], REQUEST_SERVE, 0);
	fdstore_store(l);
}

/* Only if l shares queues with another listener: else the kernel wakes a worker of l. */
void listener_accept_waiting(struct listener *l)
{
	for (unsigned i = 0; l->inherited && l->state == LISTENER_SERVING && i < l->worker_count;
	     i++)
		worker_request(&l->workers[i], REQUEST_ACCEPT_WAITING, 0);
}

static bool is_unavailable(const struct listener *l, const char *reason)
{
	return l->state == LISTENER_UNAVAILABLE && !strcmp(l->reason.text, reason);
}

/* Logs one line with all listeners of list that are unavailable for the same reason. */
static void log_unavailable(struct listener *const *list, unsigned count, const char *reason)
{
	char names[256] = "";
	size_t used = 0;
	unsigned found = 0;

	for (unsigned i = 0; i < count; i++) {
		if (!is_unavailable(list[i], reason))
			continue;
		if (used < sizeof(names))
			used += (size_t)snprintf(names + used, sizeof(names) - used, "%s'%s'",
						 found ? ", " : "", list[i]->name);
		found++;
	}
	log_write(LOG_NOTICE, "listener%s %s%s: unavailable: %s", plural(found), names,
		  used < sizeof(names) ? "" : " ...", reason);
}

void listeners_log_unavailable(struct listener *const *list, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		unsigned first = 0;

		if (list[i]->state != LISTENER_UNAVAILABLE)
			continue;
		while (!is_unavailable(list[first], list[i]->reason.text))
			first++;
		if (first == i)
			log_unavailable(list, count, list[i]->reason.text);
	}
}

static void log_certificate(const struct listener *l)
{
	const struct tls_certificate *certificate = tls_stage_certificate(l->tls);

	if (certificate->shared_keys)
		log_listener(LOG_INFO, l->name, "new TLS clients need one of %u pre-shared key%s",
			     certificate->shared_keys, plural(certificate->shared_keys));
	else
		log_listener(LOG_INFO, l->name,
			     "new clients get the certificate of %s, for %lld days",
			     certificate->subject, (long long)tls_days_left(certificate));
}

const struct mount *listener_mount_of(const struct listener *l, const struct server_export *x)
{
	for (unsigned i = 0; l->exports && l->worker_count && i < l->config->export_count; i++)
		if (l->exports[i] == x)
			return &l->workers[0].mounts[i];
	return NULL;
}

static void log_shortfalls(const struct listener *l)
{
	for (unsigned i = 0; l->exports && i < l->config->export_count; i++) {
		const struct mount *m = listener_mount_of(l, l->exports[i]);
		struct reason shortfall = m ? export_shortfall(m) : (struct reason){ "" };

		if (shortfall.text[0])
			log_listener(LOG_NOTICE, l->name, "export '%s': %s", m->export->name,
				     shortfall.text);
	}
}

void listener_log(const struct listener *l)
{
	for (unsigned i = 0; i < l->address_count; i++)
		log_listener(LOG_INFO, l->name, "%s on %s%s over %s, %u worker%s",
			     l->config->service->name,
			     l->config->transport == &transport_udp ? "udp " : "",
			     l->addresses[i].text, l->engine->name, l->worker_count,
			     plural(l->worker_count));
	log_shortfalls(l);
}

int listener_prepare(struct listener *l, const struct listener_config *config,
		     struct reason *reason)
{
	return l->tls ? tls_stage_prepare(l->tls, &config->tls, l->all->tls_end_ns, reason) : 0;
}

void listener_undo(struct listener *l)
{
	if (l->tls)
		tls_stage_undo(l->tls);
}

/* Workers take the keys in a later turn; *l->config is read by the main thread only. */
void listener_change(struct listener *l, const struct listener_config *config)
{
	if (config->options.idle_timeout_ns != l->config->options.idle_timeout_ns)
		for (unsigned i = 0; i < l->worker_count; i++)
			worker_request(&l->workers[i], REQUEST_IDLE_TIMEOUT,
				       config->options.idle_timeout_ns);
	for (unsigned i = 0; i < l->worker_count; i++)
		worker_request(&l->workers[i], REQUEST_PEERS_MAX, listener_peers_max(l, config));
	if (l->tls && tls_stage_commit(l->tls))
		log_certificate(l);
	admission_set(l->admission, config);
	*l->config = *config;
	binding_set_keepalive(l);
}

void listener_drain(struct listener *l, uint64_t deadline_ns)
{
	if (l->state != LISTENER_SERVING)
		return;
	l->state = LISTENER_DRAINING;
	log_listener(LOG_INFO, l->name, "draining");
	listener_announce(l, false);
	if (!l->all->stopping)
		/* Otherwise clients would wait in the queues of the stored sockets. */
		fdstore_forget(l);
	for (unsigned i = 0; l->all->stopping && i < l->address_count; i++)
		if (l->config->transport->datagrams && l->addresses[i].stored_as[0])
			binding_given(l, i); /* the next process accepts from the queue */
	if (l->config->transport->datagrams && !l->all->stopping)
		binding_keep(l);
	listener_unbind(l);
	for (unsigned i = 0; i < l->worker_count; i++)
		worker_request(&l->workers[i], REQUEST_DRAIN, deadline_ns);
}

void listener_leave_given(struct listener *l, uint64_t end_ns)
{
	/* First the workers' answers to the request that began the drain. */
	listener_await_accept_ended(l, end_ns);
	l->accept_ended_count = 0;
	for (unsigned i = 0; i < l->worker_count; i++)
		worker_request(&l->workers[i], REQUEST_DRAIN,
			       atomic_load(&l->workers[i].requests[REQUEST_DRAIN].value));
}

void listener_await_accept_ended(struct listener *l, uint64_t end_ns)
{
	while (l->accept_ended_count < l->worker_count && watchdog_wait(&l->accept_ended, end_ns))
		l->accept_ended_count++;
}

/* l must be on no list.  The workers end before the objects that they use: exports,
 * the service's state, admission. */
void listener_free(struct listener *l)
{
	if (!l)
		return;
	listener_free_workers(l);
	listener_put_exports(l);
	if (l->shared)
		l->config->service->shared_free(l->shared);
	tls_stage_free(l->tls);
	admission_free(l->admission);
	binding_forget(l);
	free(l->addresses);
	free(l->endpoints);
	free(l->config);
	sem_destroy(&l->accept_ended);
	free(l);
}

/* ---- The command to try a listener: its service's example with the {names} replaced ---- */

struct filling {
	const struct listener *listener;
	const char *example;
	/* The address without the port; IPv6 has brackets only in a URI. */
	char host[ADDRESS_TEXT_MAX], host_in_uri[ADDRESS_TEXT_MAX];
};

static void fill_hosts(struct filling *f)
{
	const char *at = f->listener->addresses[0].text;
	int bytes = (int)(strrchr(at, ':') - at), bracket = at[0] == '[';

	if (!strncmp(at, "0.0.0.0:", 8) || !strncmp(at, "[::]:", 5)) {
		at = "ADDRESS"; /* any address of this host: the user has to choose one */
		bytes = (int)strlen(at);
		bracket = 0;
	}
	snprintf(f->host_in_uri, sizeof(f->host_in_uri), "%.*s", bytes, at);
	snprintf(f->host, sizeof(f->host), "%.*s", bytes - 2 * bracket, at + bracket);
}

static const char *value_of(const void *context, const struct brace *b)
{
	const struct filling *f = context;
	const struct listener *l = f->listener;
	const struct service *s = l->config->service;

	if (brace_is(b, "host"))
		return b->text > f->example && strchr("/:", b->text[-1]) ? f->host_in_uri : f->host;
	if (brace_is(b, "port"))
		return strrchr(l->addresses[0].text, ':') + 1;
	if (brace_is(b, "transport"))
		return l->config->transport->name;
	return brace_is(b, "name") && s->name_of ? s->name_of(l->shared) : NULL;
}

static const char *example_of(const struct listener_config *c)
{
	static const char by_psk[] =
		"openssl s_client -connect {host}:{port} -psk_identity NAME -psk HEX";
	const struct service *s = c->service;
	const char *other = c->transport->datagrams ? s->example_udp
			    : c->transport->verbs   ? s->example_rdma
			    : c->tls.psk_file[0]    ? (s->example_psk ? s->example_psk : by_psk)
			    : c->tls.mode           ? s->example_tls
						    : NULL;

	return other ? other : s->example;
}

char *listener_example(const struct listener *l)
{
	struct filling f = { .listener = l, .example = example_of(l->config) };

	if (!f.example || l->state != LISTENER_SERVING || l->address_count == 0 ||
	    l->config->addresses[0].sa.ss_family == AF_UNIX)
		return NULL;
	fill_hosts(&f);
	return brace_fill(f.example, value_of, &f, true);
}
