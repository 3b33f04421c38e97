/* The host of the daemon: this one, or with -H another, whose bridge is asked.  Exit codes, with a
 * new reference in *ret after CTL_DONE. */
#pragma once
#include <sys/types.h>

#include "ctl.h"

int daemon_host_describe(struct ctl *ctl, json_t **ret); /* see host_describe() */
int daemon_host_read(struct ctl *ctl, pid_t pid, const char *listener,
		     json_t **ret); /* host_read() */
