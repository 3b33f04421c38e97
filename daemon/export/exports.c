/* Exports: choice of the store, opening and closing, and error messages.  Owns each server_export
 * until it is retired; a retired one is freed by its last user.  Main thread.  See exports.h. */
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
#include "detached.h"
#include "file_lock.h"
#include "log.h"
#include "registry.h"
#include "sandbox.h"
#include "store.h"
#include "util.h"

/* ---- Opening ---- */

/* close() may wait until written data has reached the device. */
#define EXPORT_CLOSE_NS NS_PER_S

/* An operation on an export, with all data that its thread needs. */
struct opening {
	struct detached_call detached;
	struct export export;
	struct export_config config;
	struct file_lock *lock; /* the lock on its file */
	struct reason reason;
	int result;
	bool probe;  /* creates nothing, and closes it again */
	bool is_new; /* a probe: opening would make the file */
};

/* The store that `auto` selects on this host; NULL with the reason. */
static const struct store *pick_store(const struct export_config *config, struct reason *reason)
{
	if (config->options.store)
		return config->options.store;
	reason_set(reason, 0, "this version has no store for files");
	for (unsigned i = 0; stores[i]; i++)
		if (stores[i]->file && (!stores[i]->probe || stores[i]->probe(reason) == 0))
			return stores[i];
	return NULL;
}

/* ---- On the thread ---- */

/* Would opening create the file or set its size?  It does if the file is missing or empty. */
static bool export_is_new(const struct export_options *o)
{
	struct stat st;

	if (!o->create)
		return false;
	if (stat(o->path, &st) < 0)
		return errno == ENOENT;
	return S_ISREG(st.st_mode) && st.st_size == 0;
}

/* Checks whether the file could be created. */
static int opening_probe_new(struct opening *o)
{
	const struct export_options *options = &o->config.options;
	char folder[EXPORT_PATH_MAX];

	snprintf(folder, sizeof(folder), "%.*s", (int)(strrchr(options->path, '/') - options->path),
		 options->path);
	if (access(*folder ? folder : "/", W_OK | X_OK) < 0) {
		int error = errno;
		const char *sandbox = sandbox_advice(options->path, error);

		return reason_set(&o->reason, -error, "cannot make %s: %s%s", options->path,
				  strerror(error),
				  *sandbox ? sandbox
					   : "; make its folder first, and let the daemon's user "
					     "write there");
	}
	o->export.size = options->size;
	return 0;
}

static void opening_close(struct opening *o)
{
	file_lock_put(o->lock, !o->export.read_only);
	o->lock = NULL;
	o->export.store->close(&o->export);
}

/* Nothing is written to a file before its lock is held.  A probe takes none, as it writes nothing.
 */
static int opening_prepare(struct opening *o)
{
	const struct store *store = o->export.store;
	bool made = false;
	int rc = 0;

	if (store->file && !o->probe)
		rc = file_lock_get(o->export.fd, o->config.options.path, !o->export.read_only,
				   &o->lock, &o->reason);
	if (rc < 0 || !store->prepare)
		return rc;
	file_lock_begin(o->lock);
	rc = store->prepare(&o->export, &made, &o->reason);
	file_lock_end(o->lock, made);
	return rc;
}

static int opening_open(struct opening *o)
{
	int rc = o->export.store->open(&o->export, &o->reason);

	if (rc < 0)
		return rc;
	rc = opening_prepare(o);
	if (rc < 0)
		opening_close(o);
	return rc;
}

static void opening_run(struct detached_call *detached)
{
	struct opening *o = container_of(detached, struct opening, detached);

	if (o->probe) { /* neither creates nor fills a file */
		o->is_new = export_is_new(&o->config.options);
		o->config.options.create = o->config.options.fill = false;
	}
	o->result = o->is_new ? opening_probe_new(o) : opening_open(o);
	if (o->probe && !o->is_new && o->result == 0)
		opening_close(o);
}

static void opening_left(struct detached_call *detached)
{
	struct opening *o = container_of(detached, struct opening, detached);

	if (o->result == 0 && !o->probe)
		opening_close(o);
	free(o);
}

static void closing_run(struct detached_call *detached)
{
	opening_close(container_of(detached, struct opening, detached));
}

static void unlocking_run(struct detached_call *detached)
{
	const struct opening *o = container_of(detached, struct opening, detached);

	file_lock_put(o->lock, !o->export.read_only);
}

/* ---- On the main thread ---- */

/* NULL: no memory. */
static struct opening *opening_new(const struct server_export *x)
{
	struct opening *o = calloc(1, sizeof(*o));

	if (!o)
		return NULL;
	o->config = x->config;
	o->export = x->export;
	o->export.name = o->config.name;
	o->export.options = &o->config.options;
	return o;
}

static int opening_begin(struct server_export *x, const struct export *blank, bool probe)
{
	const struct store *store = pick_store(&x->config, &x->reason);
	struct opening *o;
	int rc;

	if (!store)
		return -ENOSYS;
	x->export = *blank;
	x->export.store = store;
	o = opening_new(x);
	if (!o)
		return reason_set(&x->reason, -ENOMEM, "no memory");
	o->probe = probe;
	o->detached.run = opening_run;
	o->detached.left = opening_left;
	rc = detached_start(&o->detached);
	if (rc < 0) {
		free(o);
		return reason_set(&x->reason, rc, "cannot start a thread: %s", strerror(-rc));
	}
	x->opening = o;
	return 0;
}

/* *ret_new (may be NULL): a probe found that opening would make the file. */
static int opening_end(struct server_export *x, uint64_t end_ns, bool *ret_new)
{
	struct opening *o = x->opening;
	int rc;

	x->opening = NULL;
	if (!detached_await(&o->detached, end_ns))
		return reason_set(
			&x->reason, -ETIMEDOUT,
			"open %s: no answer within %d s; check the device or file system under it",
			x->config.options.path, (int)(EXPORT_OPEN_NS / NS_PER_S));
	rc = o->result;
	if (ret_new)
		*ret_new = o->is_new;
	x->reason = o->reason;
	x->lock = o->lock;
	x->export = o->export;
	x->export.name = x->config.name;
	x->export.options = &x->config.options;
	free(o);
	return rc;
}

void export_probe_begin(const struct export_config *config, struct server_export *x)
{
	const struct export blank = { .fd = -1 };

	*x = (struct server_export){ .config = *config };
	x->error = opening_begin(x, &blank, true);
}

int export_probe_end(struct server_export *x, uint64_t end_ns, bool *ret_new)
{
	*ret_new = false;
	if (x->opening)
		x->error = opening_end(x, end_ns, ret_new);
	return x->error;
}

/* ---- Has its file changed? ---- */

static void checking_run(struct detached_call *detached)
{
	struct opening *o = container_of(detached, struct opening, detached);

	o->result = o->export.store->changed(&o->export, &o->reason);
}

static void closing_left(struct detached_call *detached)
{
	free(container_of(detached, struct opening, detached));
}

/* Checks whether the file of the open export x has changed, and then sets x->outdated.  A first
 * step starts all checks, a second one waits for them. */
static void export_check_begin(struct server_export *x)
{
	struct opening *o = x->export.store->changed ? opening_new(x) : NULL;

	if (!o)
		return;
	o->detached.run = checking_run;
	o->detached.left = closing_left;
	if (detached_start(&o->detached) < 0)
		free(o);
	else
		x->opening = o;
}

static void export_check_end(struct server_export *x, uint64_t end_ns)
{
	struct opening *o = x->opening;

	x->opening = NULL;
	if (!o || !detached_await(&o->detached, end_ns))
		return;
	if (o->result)
		x->outdated = o->reason;
	free(o);
}

/* ---- Closing ---- */

/* Runs run() on a detached thread, as it may hang, and frees o.  False: o is NULL, or no thread
 * could be started. */
static bool opening_run_and_free(struct opening *o, void (*run)(struct detached_call *detached))
{
	if (!o)
		return false;
	o->detached.run = run;
	o->detached.left = closing_left;
	if (detached_start(&o->detached) < 0) {
		free(o);
		return false;
	}
	if (detached_await(&o->detached, clock_ns() + EXPORT_CLOSE_NS))
		free(o);
	return true;
}

/* Closes x, and releases its lock; waits for a limited time. */
static void export_close(struct server_export *x)
{
	struct opening *o = opening_new(x);

	if (o)
		o->lock = x->lock;
	if (!opening_run_and_free(o, closing_run)) {
		file_lock_put(x->lock, !x->export.read_only);
		x->export.store->close(&x->export);
	}
	x->lock = NULL;
}

void export_unlock(struct server_export *x)
{
	struct opening *o = x->lock ? opening_new(x) : NULL;

	if (o)
		o->lock = x->lock;
	if (opening_run_and_free(o, unlocking_run))
		x->lock = NULL;
}

const char *const export_state_names[] = { "unused", "ok", "failed", "unavailable" };

/* ---- Failures ---- */

static void export_free_unused(struct server_export *x)
{
	/* While failed_call is posted and has not run, x is still needed: then this
	 * function is called again. */
	if (x->users == 0 && (!atomic_load(&x->export.failed) || x->failure_reported))
		free(x);
}

static void export_log_failure(struct call *call)
{
	struct server_export *x = container_of(call, struct server_export, failed_call);
	struct reason reason;

	x->failure_reported = true;
	export_state(x, &reason);
	log_write(LOG_ERR, "export '%s': %s", x->config.name, reason.text);
	if (x->retired)
		export_free_unused(x);
}

/* Runs on the worker's thread, once: export_fail() calls it only for the first error. */
static void export_on_failed(struct export *e)
{
	struct server_export *x = container_of(e, struct server_export, export);

	x->failed_call.fn = export_log_failure;
	mailbox_post(x->mailbox, &x->failed_call);
}

/* ---- Users ---- */

/* Drops a reference.  The last one closes the file on a detached thread, as close() may hang. */
void export_put(struct server_export *x)
{
	if (--x->users > 0)
		return;
	export_close(x);
	x->export.size = 0; /* as before it was first opened */
	if (x->retired)
		export_free_unused(x);
}

struct server_export *exports_find(const struct exports *e, const char *name)
{
	for (unsigned i = 0; i < e->count; i++)
		if (!strcmp(e->list[i]->config.name, name))
			return e->list[i];
	return NULL;
}

int export_get(const struct exports *e, const char *name, struct server_export **ret_export,
	       struct reason *reason)
{
	struct server_export *x = exports_find(e, name);

	if (x->users == 0)
		return reason_set(reason, x->error ? x->error : -EIO, "export '%s' is unavailable",
				  name);
	x->users++;
	*ret_export = x;
	return 0;
}

bool exports_are_there(const struct exports *e, const struct listener_config *config)
{
	for (unsigned i = 0; i < config->export_count; i++)
		if (exports_find(e, config->exports[i].name)->error)
			return false;
	return true;
}

/* ---- The list of exports ---- */

struct reason export_shortfall(const struct mount *m)
{
	struct reason reason = m->reason;
	bool is_polled = stat_load(m->features) & 1U << MOUNT_iopoll;

	if (reason.text[0] || m->export->options->direct != EXPORT_POLLED || is_polled)
		return reason;
	/* A file may have refused it after the start, as reads of holes succeed without it. */
	if (m->store == registry_store("io_uring"))
		reason_set(&reason, 0, IO_POLL_REFUSED, strerror(EOPNOTSUPP));
	else
		reason_set(&reason, 0, "the store %s cannot poll a device; use `store = io_uring`",
			   m->store->name);
	return reason;
}

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

/* Refuses x if another export of the same configuration writes to the same file, under any name.
 * The old and the new export of a reload may both write to it. */
static int export_check_file(const struct exports *e, struct server_export *x)
{
	for (unsigned i = 0; i < e->count && x->lock; i++) {
		const struct server_export *y = e->list[i];

		if (y != x && y->users > 0 && y->lock == x->lock && !x->export.read_only &&
		    !y->export.read_only)
			return reason_set(&x->reason, -EBUSY,
					  "%s is the file of export '%s', too: one of them has to "
					  "be `read-only = yes`",
					  x->config.options.path, y->config.name);
	}
	return 0;
}

/* Opens the read-only or the other exports side by side, then waits for all: a hung file system
 * costs its time limit once. */
static void exports_hold_some(struct exports *e, const struct config *config, bool read_only)
{
	uint64_t end_ns = clock_ns() + EXPORT_OPEN_NS;

	for (unsigned i = 0; i < e->count; i++) {
		struct server_export *x = e->list[i];
		const struct export blank = { .fd = -1, .on_failed = x->export.on_failed };

		if (x->users > 0 || export_need(x, config) == EXPORT_UNNEEDED ||
		    x->config.options.read_only != read_only)
			continue;
		x->failure_reported = false;
		x->error = opening_begin(x, &blank, false);
	}
	for (unsigned i = 0; i < e->count; i++) {
		struct server_export *x = e->list[i];

		if (!x->opening)
			continue;
		x->error = opening_end(x, end_ns, NULL);
		if (x->error == 0) {
			x->error = export_check_file(e, x);
			if (x->error)
				export_close(x);
		}
		x->held = x->error == 0;
		x->users += x->held;
	}
}

/* Read-only exports come second: another export may create the file, under any of its names. */
void exports_hold(struct exports *e, const struct config *config)
{
	exports_hold_some(e, config, false);
	exports_hold_some(e, config, true);
}

void exports_release(struct exports *e)
{
	for (unsigned i = 0; i < e->count; i++) {
		struct server_export *x = e->list[i];

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
		log_write(need == EXPORT_REQUIRED ? LOG_ERR : LOG_WARNING,
			  "export '%s' (%s:%u): %s", x->config.name, x->config.section.file,
			  x->config.section.line, x->reason.text);
	else if (!x->export.store)
		log_write(LOG_WARNING, "export '%s': no listener serves it", x->config.name);
	else
		log_write(LOG_INFO, "export '%s': %s%s%s through %s%s", x->config.name,
			  format_size(x->export.size, size),
			  x->config.options.path[0] ? " of " : "", x->config.options.path,
			  x->export.store->name, x->export.read_only ? ", read-only" : "");
}

static struct server_export *export_new(const struct exports *e, const struct export_config *config)
{
	struct server_export *x = calloc(1, sizeof(*x));

	if (x) {
		x->config = *config;
		x->mailbox = e->mailbox;
		x->export.on_failed = export_on_failed;
	}
	return x;
}

int exports_open(struct exports *e, const struct config *config)
{
	e->list = calloc(config->export_count + 1, sizeof(*e->list));
	e->count = 0;
	if (!e->list)
		return -ENOMEM;
	for (unsigned i = 0; i < config->export_count; i++) {
		struct server_export *x = export_new(e, &config->exports[i]);

		if (!x)
			return -ENOMEM;
		e->list[e->count++] = x;
	}
	exports_hold(e, config);
	for (unsigned i = 0; i < e->count; i++)
		export_log(e->list[i], export_need(e->list[i], config));
	return 0;
}

void exports_check_files(struct exports *e)
{
	uint64_t end_ns = clock_ns() + EXPORT_CHECK_NS;

	for (unsigned i = 0; i < e->count; i++)
		if (export_state(e->list[i], &e->list[i]->outdated) == EXPORT_OK)
			export_check_begin(e->list[i]);
	for (unsigned i = 0; i < e->count; i++)
		export_check_end(e->list[i], end_ns);
}

/* Open exports that do not change are shared by both lists, with their references. */
int exports_renew(const struct exports *now, const struct config *config,
		  const struct config_diff *diff, struct exports *ret_next)
{
	struct exports next = { .mailbox = now->mailbox };

	*ret_next = next;
	next.list = calloc(config->export_count + 1, sizeof(*next.list));
	for (unsigned i = 0; next.list && i < config->export_count; i++) {
		const char *name = config->exports[i].name;
		struct server_export *x = exports_find(now, name);

		/* An export that is not open has nothing to keep, and its error may be outdated. */
		if (!x || x->users == 0 || x->outdated.text[0] ||
		    config_diff_has(diff, CONFIG_EXPORT, name, CONFIG_REOPEN))
			x = export_new(now, &config->exports[i]);
		if (!x) {
			exports_retire(&next, now);
			return -ENOMEM;
		}
		next.list[next.count++] = x;
	}
	if (!next.list)
		return -ENOMEM;
	*ret_next = next;
	return 0;
}

void exports_keep(struct exports *e)
{
	for (unsigned i = 0; i < e->count; i++)
		file_lock_keep(e->list[i]->lock);
}

static bool exports_have(const struct exports *e, const struct server_export *x)
{
	for (unsigned i = 0; i < e->count; i++)
		if (e->list[i] == x)
			return true;
	return false;
}

/* An export that still has users serves them; the others are freed here. */
void exports_retire(struct exports *old, const struct exports *kept)
{
	for (unsigned i = 0; i < old->count; i++) {
		if (exports_have(kept, old->list[i]))
			continue;
		old->list[i]->retired = true;
		export_free_unused(old->list[i]);
	}
	free(old->list);
	old->list = NULL;
	old->count = 0;
}

void exports_free(struct exports *e)
{
	for (unsigned i = 0; i < e->count; i++)
		free(e->list[i]);
	free(e->list);
	e->list = NULL;
	e->count = 0;
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
	reason_set(
		reason, -failed,
		"a flush failed: %s; the writes before it may be lost, and `nbctl reload` opens it again",
		strerror(failed));
	return EXPORT_FAILED;
}
