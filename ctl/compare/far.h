/* A command that runs on other hosts, by their bridges; ctl/bridge/run.c is the other end. */
#pragma once
#include "generator_host.h"

/* generator_host_run() with ctl->on.  *ret is zeroed but for `failed`. */
int far_run(struct ctl *ctl, char **const *commands, enum child_show show, bool keep,
	    unsigned timeout_ms, const struct watcher *watcher, struct generator_run *ret);

/* A command as JSON, a new reference. */
json_t *far_words(char *const *argv);
