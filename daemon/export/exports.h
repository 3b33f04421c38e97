/* The exports of the configuration at run time.  An export is open exactly while listeners serve
 * it; one that a reload removed is freed with the last listener that served it.  Main thread only,
 * except that workers' mounts use `export` while they serve it. */
#pragma once
#include <stdbool.h>

#include "config.h"
#include "export.h"
#include "mailbox.h"
#include "reason.h"

struct config_diff;
struct file_lock;
struct mount;
struct opening;

enum export_state {
	EXPORT_UNUSED, /* no listener serves it, so it is not open */
	EXPORT_OK,
	EXPORT_FAILED,      /* a flush has failed: every request is answered with an error */
	EXPORT_UNAVAILABLE, /* it could not be opened */
};
extern const char *const export_state_names[];

enum export_need {
	EXPORT_UNNEEDED, /* no listener serves it */
	EXPORT_OPTIONAL, /* only `optional` listeners serve it */
	EXPORT_REQUIRED,
};

struct server_export {
	struct export export;
	struct export_config config; /* a copy, as an export may outlive the configuration */
	struct mailbox *mailbox;     /* the main thread's */
	struct call failed_call;     /* reports a failed flush to the main thread */
	bool failure_reported;       /* failed_call has run */
	bool retired;                /* removed by a reload: freed when it has no user */
	bool held;                   /* held by exports_hold(), one of the users */
	struct file_lock *lock;      /* lock on its file while it is open; NULL: none */
	struct opening *opening;     /* while it is being opened: see exports.c */
	unsigned users;              /* listeners that serve it, and exports_hold() */
	int error;                   /* -errno: it could not be opened; reason says why */
	struct reason reason;
	/* Set by exports_check_files(): why a reload opens it again although its section has not
	 * changed;
	 * "": it does not. */
	struct reason outdated;
};

/* The exports of the configuration in force, in its order. */
struct exports {
	struct server_export **list;
	unsigned count;
	struct mailbox *mailbox; /* the main thread's; set before exports_open() */
};

/* Creates the exports of config, opens those that its listeners need (exports_hold()), and logs the
 * result of each.  0, or -ENOMEM. */
int exports_open(struct exports *e, const struct config *config);
void exports_free(struct exports *e);

/* Listeners serve these exports from now on: files that were made stay. */
void exports_keep(struct exports *e);

/* Opens the exports that config's listeners need, concurrently, so that all errors are known at
 * once.  They stay open until exports_release(). */
void exports_hold(struct exports *e, const struct config *config);
/* Closes the exports that no listener has taken. */
void exports_release(struct exports *e);
/* Why something that the configuration asks of the export is not in force in a listener, by one of
 * its mounts; "": all is.  For the log and all documents. */
struct reason export_shortfall(const struct mount *m);
enum export_need export_need(const struct server_export *x, const struct config *config);

struct server_export *exports_find(const struct exports *e, const char *name);

/* For a reload: sets x->outdated of each export that is open and has failed, or whose file is not
 * the one that it was; waits EXPORT_CHECK_NS at most. */
#define EXPORT_CHECK_NS NS_PER_S
void exports_check_files(struct exports *e);
/* For a reload: makes the list of the exports of config, reusing those of `now` that are open, not
 * outdated, and not changed by diff.  0, or -ENOMEM with *ret_next empty. */
int exports_renew(const struct exports *now, const struct config *config,
		  const struct config_diff *diff, struct exports *ret_next);
/* Empties `old`, and frees its exports that are not in `kept`, now or when
 * their last user has gone. */
void exports_retire(struct exports *old, const struct exports *kept);

/* For listeners: takes a reference to the open export of that name.  0, or the -errno with which it
 * could not be opened; the reason then only names the export, whose own reason has the cause. */
int export_get(const struct exports *e, const char *name, struct server_export **ret_export,
	       struct reason *reason);
void export_put(struct server_export *x);

/* Are all exports of this listener open?  If not, the export's error was reported already, and the
 * caller reports none for the listener. */
bool exports_are_there(const struct exports *e, const struct listener_config *config);

/* The export's state, and in *reason why it is not EXPORT_OK, or "". */
enum export_state export_state(const struct server_export *x, struct reason *reason);

/* ---- Opening, probing and closing the store of one export, on a thread of its own (detached.h)
 * ---- */

/* Time enough for a disk to spin up. */
#define EXPORT_OPEN_NS ((uint64_t)10 * NS_PER_S)

/* Releases the lock on the file of x, which stays open: no client can write to it any more. */
void export_unlock(struct server_export *x);

/* Probes config: fills in x as if it were open, but creates, fills and changes nothing.  The
 * second step awaits the first one until end_ns.  *ret_new: opening would create the file.  0, or
 * -errno with x->reason. */
void export_probe_begin(const struct export_config *config, struct server_export *x);
int export_probe_end(struct server_export *x, uint64_t end_ns, bool *ret_new);
