/* The exports of the configuration at run time.  Each is open while listeners serve it, no longer
 * and no shorter; one that a reload took out is freed when the last listener that served it is.
 * Main thread only; mounts point to `export`, which is theirs while they serve it.
 */
#pragma once
#include <stdbool.h>

#include "config.h"
#include "export.h"
#include "mailbox.h"

struct config_diff;
struct file_lock;
struct opening;
struct reason;

enum export_state {
	EXPORT_UNUSED, /* no listener serves it: it was not opened */
	EXPORT_OK,
	EXPORT_FAILED,      /* a flush has failed: it answers nothing but errors */
	EXPORT_UNAVAILABLE, /* it could not be opened */
};
extern const char *const export_state_names[];

enum export_need {
	EXPORT_UNNEEDED, /* no listener serves it */
	EXPORT_OPTIONAL, /* only such as may be unavailable */
	EXPORT_REQUIRED,
};

struct server_export {
	struct export export;
	struct export_config config; /* a copy: an export may outlive the configuration */
	struct mailbox *mailbox;     /* the main thread's */
	struct call failed_call;     /* on its way to the main thread: a flush has failed */
	bool failure_told;           /* it has arrived */
	bool retired;                /* by a reload: freed with its last user, or without */
	bool held;                   /* by exports_hold() */
	struct file_lock *lock;      /* while it is open; NULL: it has none */
	struct opening *opening;     /* under way: see export_open.h */
	unsigned users;              /* listeners that serve it, and who holds it */
	int error;                   /* -errno: it could not be opened, and why */
	struct reason reason;
};

/* The exports of the configuration in force, in its order. */
struct exports {
	struct server_export **list;
	unsigned count;
	struct mailbox *mailbox; /* the main thread's; set before exports_open() */
};

/* Makes those of config, holds those that its listeners will ask for, and logs what became of each.
 * 0, or -ENOMEM. */
int exports_open(struct exports *e, const struct config *config);
void exports_free(struct exports *e);

/* Opens those that config's listeners will ask for, side by side, so that everything that is wrong
 * with them is known at once. */
void exports_hold(struct exports *e, const struct config *config);
/* Closes the exports that no listener has taken. */
void exports_release(struct exports *e);
enum export_need export_need(const struct server_export *x, const struct config *config);

/* For a reload: the exports of config, with those of `now` that are open and that diff leaves as
 * they are.  0, or -ENOMEM: *ret_next is empty. */
int exports_renew(const struct exports *now, const struct config *config,
		  const struct config_diff *diff, struct exports *ret_next);
/* Empties `old`, and frees those of it that are not in `kept`, at once or when their last user has
 * gone. */
void exports_retire(struct exports *old, const struct exports *kept);

/* For listeners: a reference to the export of that name, which is held, or NULL with the reason,
 * which names the export: why it is not open is the export's own reason. */
struct server_export *export_get(const struct exports *e, const char *name, struct reason *reason);
void export_put(struct server_export *x);
/* For export->on_failed; called on a worker's thread. */
void export_on_failed(struct export *e);

/* Could all that a listener serves be opened?  Why not was said of the export: that the listener
 * cannot be served without it is no second error. */
bool exports_are_there(const struct exports *e, const struct listener_config *config);

/* The export's state, and the reason if that is not OK: "" or what reason holds. */
enum export_state export_state(const struct server_export *x, struct reason *reason);

/* The store that `auto` means on this host; NULL with the reason. */
const struct store *export_pick_store(const struct export_config *config, struct reason *reason);
