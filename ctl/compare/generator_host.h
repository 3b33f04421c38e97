/* The host of the generator: this one, or with --on another, whose bridge runs the command. ctl->on
 * is that bridge. */
#pragma once
#include "child.h"
#include "ctl.h"

/* Connects to `host`, and sets ctl->on.  An exit code; generator_host_close() in any case. */
int generator_host_open(struct ctl *ctl, const char *host);
void generator_host_close(struct ctl *ctl);

/* Is it another one than the daemon's? */
bool generator_is_elsewhere(const struct ctl *ctl);

/* host_describe() of it, with --on by its name; an exit code. */
int generator_host_describe(struct ctl *ctl, json_t **ret);

/* version_of() of the command there. */
char *generator_host_version(struct ctl *ctl);

/* child_run() there.  CTL_DONE, or CTL_UNREACHABLE with the reason printed: the connection was
 * lost.  child_free(ret) in both cases. */
int generator_host_run(struct ctl *ctl, char *const *argv, enum child_show show, bool keep,
		       unsigned timeout_ms, const struct watcher *watcher, struct child *ret);
