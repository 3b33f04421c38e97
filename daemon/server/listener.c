/* Listeners: binding, choosing the engine, starting, draining and stopping workers. */
#include "listener.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "log.h"
#include "server.h"
#include "store.h"

enum {
	LISTENER_BACKLOG = 4096,
	LISTENER_BIND_NS = 500 * NS_PER_MS, /* an address in use may become free */
	LISTENER_BIND_PAUSE_NS = 10 * NS_PER_MS,
};

const char *const listener_state_names[] = { "serving", "draining", "drained", "unavailable" };

/* ---- Sockets ---- */

/* The first socket of an address is bound without SO_REUSEPORT, so that an address in use is an
 * error even when the other program is another nbserved; the workers' other sockets then join it.
 */
static int socket_open(const struct sockaddr_storage *sa, bool first)
{
	int fd = socket(sa->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1;
	socklen_t len = sa->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
						  : sizeof(struct sockaddr_in);
	int error;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)); /* connections inherit it */
	if (sa->ss_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	if ((first || setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) == 0) &&
	    bind(fd, (const struct sockaddr *)sa, len) == 0 &&
	    (!first || setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) == 0))
		return fd;
	error = errno;
	close(fd);
	return -error;
}

/* The rings of a daemon that was killed hold its sockets for some milliseconds more: the next start
 * must not fail on them. */
static int socket_open_patiently(const struct sockaddr_storage *sa, bool first)
{
	static const struct timespec pause = { .tv_nsec = LISTENER_BIND_PAUSE_NS };
	uint64_t end_ns = clock_ns() + LISTENER_BIND_NS;
	int fd;

	while ((fd = socket_open(sa, first)) == -EADDRINUSE && clock_ns() < end_ns)
		nanosleep(&pause, NULL);
	return fd;
}

static void sockaddr_set_port(struct sockaddr_storage *sa, uint16_t port)
{
	if (sa->ss_family == AF_INET6)
		((struct sockaddr_in6 *)sa)->sin6_port = htons(port);
	else
		((struct sockaddr_in *)sa)->sin_port = htons(port);
}

static const char *bind_advice(int error)
{
	switch (error) {
	case EADDRINUSE:
		return "; another program listens there (ss -ltnp shows which), choose another port";
	case EADDRNOTAVAIL:
		return "; this host does not have that address (ip address shows which it has)";
	case EACCES:
		return "; ports below 1024 need CAP_NET_BIND_SERVICE";
	default:
		return "";
	}
}

/* Binds one address for every worker: fds[worker * stride + index]. */
static int listener_bind(struct listener *l, const struct sockaddr_storage *wanted, int *fds,
			 unsigned stride, struct reason *reason)
{
	struct sockaddr_storage sa = *wanted;
	unsigned index = l->address_count;
	char text[ADDRESS_TEXT_MAX];

	for (unsigned i = 0; i < l->worker_count; i++) {
		socklen_t len = sizeof(sa);
		int fd = socket_open_patiently(&sa, i == 0);

		if (fd < 0)
			return reason_set(reason, fd, "bind %s: %s%s", format_sockaddr(&sa, text),
					  strerror(-fd), bind_advice(-fd));
		fds[i * stride + index] = fd;
		if (i == 0)
			getsockname(fd, (struct sockaddr *)&sa, &len); /* port 0 is now a port */
	}
	format_sockaddr(&sa, l->addresses[index]);
	l->address_count++;
	return 0;
}

static unsigned listener_count_sockets(const struct listener_config *config)
{
	unsigned count = 0;

	for (unsigned i = 0; i < config->address_count; i++)
		count += 1U + config->addresses[i].port_last - config->addresses[i].port_first;
	return count;
}

static int listener_bind_all(struct listener *l, int *fds, unsigned stride, struct reason *reason)
{
	for (unsigned i = 0; i < l->config->address_count; i++) {
		const struct address *a = &l->config->addresses[i];

		for (unsigned port = a->port_first; port <= a->port_last; port++) {
			struct sockaddr_storage sa = a->sa;
			int rc;

			sockaddr_set_port(&sa, (uint16_t)port);
			rc = listener_bind(l, &sa, fds, stride, reason);
			if (rc < 0)
				return rc;
		}
	}
	/* Listen only when every socket has its address: a connection that came before would be
	 * given to a socket that might yet be closed. */
	for (unsigned i = 0; i < stride * l->worker_count; i++)
		if (listen(fds[i], LISTENER_BACKLOG) < 0)
			return reason_set(reason, -errno, "listen: %s", strerror(errno));
	return 0;
}

/* ---- What workers ask of us (on their threads) ---- */

static int listener_admit(struct worker *w, int fd, void **ret_ticket)
{
	const struct listener *l = w->owner_context;

	return admission_enter(l->admission, fd, ret_ticket);
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
		log_write(LOG_WARNING, l->config->name,
			  "listener '%s': accept: %s; connections wait until a descriptor is free "
			  "(raise LimitNOFILE= or `ulimit -n`)",
			  l->config->name, strerror(error));
	else
		log_write(LOG_INFO, l->config->name, "listener '%s': accepting again",
			  l->config->name);
	if (missed)
		log_write(LOG_INFO, l->config->name, "%u messages like this were dropped", missed);
}

struct listener_drained_call {
	struct call call;
	struct listener *listener;
};

static void listener_on_drained(struct call *call)
{
	struct listener_drained_call *d = container_of(call, struct listener_drained_call, call);
	struct listener *l = d->listener;

	free(d);
	if (++l->drained_count < l->worker_count || l->state != LISTENER_DRAINING)
		return;
	l->state = LISTENER_DRAINED;
	log_write(LOG_INFO, l->config->name, "listener '%s': drained", l->config->name);
	server_listener_drained(l->server);
}

static void listener_drained(struct worker *w)
{
	struct listener *l = w->owner_context;
	struct listener_drained_call *d = malloc(sizeof(*d));

	if (!d)
		abort();
	*d = (struct listener_drained_call){ .call.fn = listener_on_drained, .listener = l };
	mailbox_post(&l->server->mailbox, &d->call);
}

static const struct worker_owner listener_owner = {
	.admit = listener_admit,
	.release = listener_release,
	.paused = listener_paused,
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

void listener_stop(struct listener *l)
{
	for (unsigned i = 0; l->workers && i < l->worker_count; i++)
		worker_stop(&l->workers[i]);
}

static void listener_free_workers(struct listener *l)
{
	listener_stop(l);
	for (unsigned i = 0; l->workers && i < l->worker_count; i++)
		free(l->workers[i].mounts);
	free(l->workers);
	free(l->costs);
	l->workers = NULL;
	l->costs = NULL;
}

/* Starts all workers on `engine`.  Takes the fds over. */
static int listener_start(struct listener *l, const struct engine *engine, const int *fds,
			  unsigned stride, struct reason *reason)
{
	int rc = 0;

	l->engine = engine;
	for (unsigned i = 0; i < l->worker_count; i++) {
		struct worker *w = &l->workers[i];

		w->service = l->config->service;
		w->engine = engine;
		w->options = l->config->options;
		w->owner = &listener_owner;
		w->owner_context = l;
		w->listener = l->config->name;
		w->shared = l->shared;
		w->index = i;
		snprintf(w->name, sizeof(w->name), "%.12s/%u", l->config->name, i % 100);
		rc = worker_start(w, fds + i * stride, stride, reason);
		if (rc < 0) {
			for (unsigned j = (i + 1) * stride; j < l->worker_count * stride; j++)
				close(fds[j]);
			listener_free_workers(l);
			return rc;
		}
	}
	return 0;
}

/* The engine that `auto` means here: the last of the table that this host can run. */
const struct engine *listener_pick_engine(const struct listener_config *config)
{
	struct reason reason;
	unsigned count = 0;
	uint32_t features;

	if (config->engine)
		return config->engine;
	while (engines[count])
		count++;
	while (--count > 0)
		if (worker_probe(engines[count], &config->options, &features, &reason) == 0)
			break;
	return engines[count];
}

static int listener_open(struct listener *l, struct reason *reason)
{
	unsigned stride = listener_count_sockets(l->config), total;
	int *fds, rc;

	l->worker_count = listener_workers(l->config);
	total = stride * l->worker_count;
	fds = malloc(total * sizeof(*fds));
	l->workers = aligned_alloc(CACHE_LINE, l->worker_count * sizeof(struct worker));
	if (l->workers)
		memset(l->workers, 0, l->worker_count * sizeof(struct worker));
	l->costs = calloc(l->worker_count, sizeof(*l->costs));
	l->addresses = calloc(stride, sizeof(*l->addresses));
	l->admission = admission_new(l->config);
	if (l->config->service->shared_new)
		l->shared = l->config->service->shared_new();
	if (!fds || !l->workers || !l->costs || !l->addresses || !l->admission ||
	    (l->config->service->shared_new && !l->shared) || listener_mount(l) < 0) {
		free(fds);
		return reason_set(reason, -ENOMEM, "no memory");
	}
	for (unsigned i = 0; i < total; i++)
		fds[i] = -1;
	rc = listener_bind_all(l, fds, stride, reason);
	if (rc < 0) {
		for (unsigned i = 0; i < total; i++)
			if (fds[i] >= 0)
				close(fds[i]);
	} else {
		rc = listener_start(l, listener_pick_engine(l->config), fds, stride, reason);
	}
	free(fds);
	return rc;
}

int listener_prepare(struct server *server, const struct listener_config *config,
		     struct listener **ret_listener, struct reason *reason)
{
	struct listener *l = calloc(1, sizeof(*l));
	int rc;

	if (!l)
		return reason_set(reason, -ENOMEM, "no memory");
	l->config = config;
	l->server = server;
	rc = listener_get_exports(l, reason);
	if (rc == 0)
		rc = listener_open(l, reason);
	if (rc < 0) {
		listener_free_workers(l);
		listener_put_exports(l);
		l->worker_count = 0;
		l->engine = NULL;
		if (!config->optional) {
			listener_free(l);
			return rc;
		}
		l->state = LISTENER_UNAVAILABLE;
		l->reason = *reason;
	}
	*ret_listener = l;
	return 0;
}

void listener_serve(struct listener *l)
{
	for (unsigned i = 0; i < l->worker_count; i++)
		worker_listen(&l->workers[i]);
}

void listener_drain(struct listener *l, uint64_t deadline_ns)
{
	if (l->state != LISTENER_SERVING)
		return;
	l->state = LISTENER_DRAINING;
	log_write(LOG_INFO, l->config->name, "listener '%s': draining", l->config->name);
	for (unsigned i = 0; i < l->worker_count; i++)
		worker_drain(&l->workers[i], deadline_ns);
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
	free(l);
}

/* ---- Cost ---- */

bool listener_owns(const struct listener *l, pid_t tid)
{
	for (unsigned i = 0; i < l->worker_count; i++)
		if (l->workers[i].tid == tid)
			return true;
	return false;
}

void listener_cost(struct listener *l, struct proc_cost *ret_cost, struct proc_cost *ret_kernel,
		   unsigned *ret_kernel_threads)
{
	struct proc_threads *threads;

	*ret_kernel = l->retired;
	*ret_kernel_threads = 0;
	*ret_cost = (struct proc_cost){ 0 };
	threads = server_scan_threads(l->server);
	for (unsigned i = 0; i < threads->count; i++) {
		const struct proc_thread *thread = &threads->list[i];

		if (!listener_owns(l, thread->worker))
			continue;
		proc_cost_add(thread->kernel ? ret_kernel : ret_cost, &thread->cost);
		*ret_kernel_threads += thread->kernel;
	}
	proc_cost_add(ret_cost, ret_kernel);
	for (unsigned i = 0; i < l->worker_count; i++) {
		proc_cost_update(l->workers[i].tid, &l->costs[i]);
		proc_cost_add(ret_cost, &l->costs[i]);
	}
}
