/* Opening, probing and closing of exports.  See exports.h. */
#include "exports.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "detached.h"
#include "file_lock.h"
#include "registry.h"
#include "sandbox.h"
#include "store.h"
#include "util.h"

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
		const char *sandbox = sandbox_advice(options->path, true, error);

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

	if (o->probe) { /* makes no file, and takes no memory but for the export's description */
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
			"open %s: no answer within %d s; look at the device or file system under it",
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

void export_open_begin(struct server_export *x)
{
	const struct export blank = { .fd = -1, .on_failed = x->export.on_failed };

	x->failure_reported = false;
	x->error = opening_begin(x, &blank, false);
}

void export_open_end(struct server_export *x, uint64_t end_ns)
{
	if (x->opening)
		x->error = opening_end(x, end_ns, NULL);
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

static void looking_run(struct detached_call *detached)
{
	struct opening *o = container_of(detached, struct opening, detached);

	o->result = o->export.store->changed(&o->export, &o->reason);
}

static void closing_left(struct detached_call *detached)
{
	free(container_of(detached, struct opening, detached));
}

void export_look_begin(struct server_export *x)
{
	struct opening *o = x->export.store->changed ? opening_new(x) : NULL;

	if (!o)
		return;
	o->detached.run = looking_run;
	o->detached.left = closing_left;
	if (detached_start(&o->detached) < 0)
		free(o);
	else
		x->opening = o;
}

void export_look_end(struct server_export *x, uint64_t end_ns)
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

/* Runs run() on a detached thread, as it may hang, and frees o, which may be
 * NULL.  False: it was not run. */
static bool opening_spend(struct opening *o, void (*run)(struct detached_call *detached))
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

void export_close(struct server_export *x)
{
	struct opening *o = opening_new(x);

	if (o)
		o->lock = x->lock;
	if (!opening_spend(o, closing_run)) {
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
	if (opening_spend(o, unlocking_run))
		x->lock = NULL;
}
