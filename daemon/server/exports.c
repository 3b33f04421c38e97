/* Exports: which store opens them, when, and what is said when it cannot.  See exports.h. */
#include "exports.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config_diff.h"
#include "log.h"
#include "server.h"
#include "store.h"
#include "util.h"

/* Time enough for a disk to spin up. */
#define EXPORT_OPEN_NS ((uint64_t)10 * NS_PER_S)

const char *const export_state_names[] = { "unused", "ok", "failed", "unavailable" };

const struct store *export_pick_store(const struct export_config *config, struct reason *reason)
{
	if (config->options.store)
		return config->options.store;
	reason_set(reason, 0, "this version has no store for files");
	for (unsigned i = 0; stores[i]; i++)
		if (stores[i]->file && (!stores[i]->probe || stores[i]->probe(reason) == 0))
			return stores[i];
	return NULL;
}

/* ---- Failures ---- */

static void export_free_unused(struct server_export *x)
{
	/* A failure that is on its way still needs x, and comes back here. */
	if (x->users == 0 && (!atomic_load(&x->export.failed) || x->failure_told))
		free(x);
}

static void export_log_failure(struct call *call)
{
	struct server_export *x = container_of(call, struct server_export, failed_call);
	struct reason reason;

	x->failure_told = true;
	export_state(x, &reason);
	log_write(LOG_ERR, NULL, "export '%s': %s", x->config.name, reason.text);
	if (x->retired)
		export_free_unused(x);
}

/* On a worker's thread. */
static void export_on_failed(struct export *e)
{
	struct server_export *x = container_of(e, struct server_export, export);

	x->failed_call.fn = export_log_failure;
	mailbox_post(&x->server->mailbox, &x->failed_call);
}

/* ---- Open and close ---- */

/* Opening a file may take for ever, as on a file system whose server is gone: a thread does it,
 * with all that it needs in here. */
struct opening {
	struct export export;
	struct export_config config;
	struct reason reason;
	int result;
	sem_t done;
	_Atomic bool left; /* by one of the two: the other frees it */
};

static void opening_free(struct opening *o)
{
	sem_destroy(&o->done);
	free(o);
}

static void *opening_thread(void *context)
{
	struct opening *o = context;

	o->result = o->export.store->open(&o->export, &o->reason);
	if (!atomic_exchange(&o->left, true)) {
		sem_post(&o->done);
		return NULL;
	}
	if (o->result == 0)
		o->export.store->close(&o->export);
	opening_free(o);
	return NULL;
}

/* Waits for it, but not for ever. */
static int opening_run(struct opening *o, struct server_export *x)
{
	pthread_t thread;
	int rc = -pthread_create(&thread, NULL, opening_thread, o);

	if (rc < 0) {
		opening_free(o);
		return reason_set(&x->reason, rc, "cannot start a thread: %s", strerror(-rc));
	}
	if (!sem_wait_until(&o->done, clock_ns() + EXPORT_OPEN_NS) &&
	    !atomic_exchange(&o->left, true)) {
		pthread_detach(thread);
		return reason_set(&x->reason, -ETIMEDOUT,
				  "open %s: no answer within %d s; what is it on?",
				  x->config.options.path, (int)(EXPORT_OPEN_NS / NS_PER_S));
	}
	pthread_join(thread, NULL);
	rc = o->result;
	x->reason = o->reason;
	x->export = o->export;
	x->export.name = x->config.name;
	x->export.options = &x->config.options;
	opening_free(o);
	return rc;
}

static int export_open(struct server_export *x)
{
	const struct store *store = export_pick_store(&x->config, &x->reason);
	struct opening *o;

	if (!store)
		return -ENOSYS;
	o = calloc(1, sizeof(*o));
	if (!o)
		return reason_set(&x->reason, -ENOMEM, "no memory");
	sem_init(&o->done, 0, 0);
	x->failure_told = false;
	x->export = (struct export){ .name = x->config.name,
				     .options = &x->config.options,
				     .store = store,
				     .fd = -1,
				     .on_failed = x->server ? export_on_failed : NULL };
	o->config = x->config;
	o->export = x->export;
	o->export.name = o->config.name;
	o->export.options = &o->config.options;
	return opening_run(o, x);
}

static int export_ref(struct server_export *x)
{
	if (x->users == 0)
		x->error = export_open(x);
	if (x->error)
		return x->error;
	x->users++;
	return 0;
}

void export_put(struct server_export *x)
{
	if (--x->users > 0)
		return;
	x->export.store->close(&x->export);
	x->export.size = 0; /* as of one that was never opened */
	if (x->retired)
		export_free_unused(x);
}

static struct server_export *export_find(struct server *s, const char *name)
{
	for (unsigned i = 0; i < s->export_count; i++)
		if (!strcmp(s->exports[i]->config.name, name))
			return s->exports[i];
	return NULL;
}

struct server_export *export_get(struct server *s, const char *name, struct reason *reason)
{
	struct server_export *x = export_find(s, name);

	if (!x->error && export_ref(x) == 0)
		return x;
	reason_set(reason, x->error, "export '%s' is unavailable", name);
	return NULL;
}

bool exports_are_there(struct server *s, const struct listener_config *config)
{
	for (unsigned i = 0; i < config->export_count; i++)
		if (export_find(s, config->exports[i].name)->error)
			return false;
	return true;
}

/* ---- Without a listener ---- */

/* A file that is not there, or is empty, is made as large as `size` says. */
static bool export_is_new(const struct export_options *o)
{
	struct stat st;

	if (!o->create)
		return false;
	if (stat(o->path, &st) < 0)
		return errno == ENOENT;
	return S_ISREG(st.st_mode) && st.st_size == 0;
}

/* Could a file be made there? */
static int export_probe_new(struct server_export *x)
{
	const struct export_options *o = &x->config.options;
	const struct store *store = export_pick_store(&x->config, &x->reason);
	char folder[EXPORT_PATH_MAX];

	snprintf(folder, sizeof(folder), "%.*s", (int)(strrchr(o->path, '/') - o->path), o->path);
	if (!store)
		return -ENOSYS;
	if (access(*folder ? folder : "/", W_OK | X_OK) < 0)
		return reason_set(&x->reason, -errno, "cannot make %s: %s", o->path,
				  strerror(errno));
	x->export = (struct export){ .store = store, .size = o->size };
	return 0;
}

int export_probe(const struct export_config *config, struct server_export *x, bool *ret_new)
{
	*x = (struct server_export){ .config = *config };
	*ret_new = export_is_new(&config->options);
	x->config.options.create = false;
	x->error = *ret_new ? export_probe_new(x) : export_open(x);
	if (!*ret_new && x->error == 0)
		x->export.store->close(&x->export);
	return x->error;
}

/* ---- All of them ---- */

enum export_need export_need(const struct server_export *x, const struct config *config)
{
	enum export_need need = EXPORT_UNNEEDED;

	for (unsigned i = 0; i < config->listener_count; i++)
		for (unsigned j = 0; j < config->listeners[i].export_count; j++)
			if (!strcmp(config->listeners[i].exports[j].name, x->config.name))
				need = MAX(need, config->listeners[i].optional ? EXPORT_OPTIONAL
									       : EXPORT_REQUIRED);
	return need;
}

void exports_hold(struct server *s, const struct config *config)
{
	for (unsigned i = 0; i < s->export_count; i++) {
		struct server_export *x = s->exports[i];

		if (x->users == 0 && export_need(x, config) != EXPORT_UNNEEDED)
			x->held = export_ref(x) == 0;
	}
}

void exports_release(struct server *s)
{
	for (unsigned i = 0; i < s->export_count; i++) {
		struct server_export *x = s->exports[i];

		if (!x->held)
			continue;
		x->held = false;
		export_put(x);
	}
}

static void export_log(const struct server_export *x, enum export_need need)
{
	char size[NUMBER_TEXT_MAX];

	if (x->error)
		log_write(need == EXPORT_REQUIRED ? LOG_ERR : LOG_WARNING, NULL,
			  "export '%s' (%s:%u): %s", x->config.name, x->config.section.file,
			  x->config.section.line, x->reason.text);
	else if (!x->export.store)
		log_write(LOG_WARNING, NULL, "export '%s': no listener serves it", x->config.name);
	else
		log_write(LOG_INFO, NULL, "export '%s': %s%s%s through %s%s", x->config.name,
			  format_size(x->export.size, size),
			  x->config.options.path[0] ? " of " : "", x->config.options.path,
			  x->export.store->name, x->export.read_only ? ", read-only" : "");
}

static struct server_export *export_new(struct server *s, const struct export_config *config)
{
	struct server_export *x = calloc(1, sizeof(*x));

	if (x) {
		x->config = *config;
		x->server = s;
	}
	return x;
}

int exports_open(struct server *s)
{
	s->exports = calloc(s->config->export_count + 1, sizeof(*s->exports));
	s->export_count = 0;
	if (!s->exports)
		return -ENOMEM;
	for (unsigned i = 0; i < s->config->export_count; i++) {
		struct server_export *x = export_new(s, &s->config->exports[i]);

		if (!x)
			return -ENOMEM;
		s->exports[s->export_count++] = x;
	}
	exports_hold(s, s->config);
	for (unsigned i = 0; i < s->export_count; i++)
		export_log(s->exports[i], export_need(s->exports[i], s->config));
	return 0;
}

int exports_renew(struct server *s, const struct config *config, const struct config_diff *diff,
		  struct server_export ***ret_list)
{
	struct server_export **list = calloc(config->export_count + 1, sizeof(*list));

	for (unsigned i = 0; list && i < config->export_count; i++) {
		const char *name = config->exports[i].name;
		struct server_export *x = export_find(s, name);

		/* One that is not open has nothing to keep, and may have an old error. */
		if (!x || x->users == 0 ||
		    config_diff_has(diff, CONFIG_EXPORT, name, CONFIG_REOPEN))
			x = export_new(s, &config->exports[i]);
		if (!x) {
			exports_retire(list, i, s->exports, s->export_count);
			return -ENOMEM;
		}
		list[i] = x;
	}
	*ret_list = list;
	return list ? 0 : -ENOMEM;
}

void exports_retire(struct server_export **list, unsigned count, struct server_export *const *kept,
		    unsigned kept_count)
{
	for (unsigned i = 0; i < count; i++) {
		unsigned j = 0;

		while (j < kept_count && kept[j] != list[i])
			j++;
		if (j < kept_count)
			continue;
		list[i]->retired = true;
		export_free_unused(list[i]);
	}
	free(list);
}

void exports_free(struct server *s)
{
	for (unsigned i = 0; i < s->export_count; i++)
		free(s->exports[i]);
	free(s->exports);
	s->exports = NULL;
	s->export_count = 0;
}

/* ---- State ---- */

enum export_state export_state(const struct server_export *x, struct reason *reason)
{
	int failed = atomic_load(&x->export.failed);

	*reason = x->reason;
	if (x->error)
		return EXPORT_UNAVAILABLE;
	reason->text[0] = '\0';
	if (x->users == 0)
		return EXPORT_UNUSED;
	if (!failed)
		return EXPORT_OK;
	reason_set(reason, -failed,
		   "a flush failed: %s; what it covered may be lost, and a restart opens it again",
		   strerror(failed));
	return EXPORT_FAILED;
}
