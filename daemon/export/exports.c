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
#include "file_lock.h"
#include "log.h"
#include "registry.h"
#include "store.h"
#include "util.h"

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
	log_write(LOG_ERR, NULL, "export '%s': %s", x->config.name, reason.text);
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
		reason_set(&reason, 0, "the store %s does not poll; use `store = io_uring`",
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

		if (x->users == 0 && export_need(x, config) != EXPORT_UNNEEDED &&
		    x->config.options.read_only == read_only)
			export_open_begin(x);
	}
	for (unsigned i = 0; i < e->count; i++) {
		struct server_export *x = e->list[i];

		if (!x->opening)
			continue;
		export_open_end(x, end_ns);
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

void exports_look(struct exports *e)
{
	uint64_t end_ns = clock_ns() + EXPORT_LOOK_NS;

	for (unsigned i = 0; i < e->count; i++)
		if (export_state(e->list[i], &e->list[i]->outdated) == EXPORT_OK)
			export_look_begin(e->list[i]);
	for (unsigned i = 0; i < e->count; i++)
		export_look_end(e->list[i], end_ns);
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
