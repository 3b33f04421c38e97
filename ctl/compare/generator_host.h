/* The hosts of the generator: this one, or with --on others, whose bridges run the command.
 * ctl->on are those bridges. */
#pragma once
#include "child.h"
#include "ctl.h"
#include "generator_sum.h"
#include "host_list.h"

/* Connects to the hosts, and sets ctl->on.  The list must outlive it.  An exit code;
 * generator_host_close() in any case. */
int generator_host_open(struct ctl *ctl, const struct host_list *hosts);
void generator_host_close(struct ctl *ctl);

/* At least one. */
unsigned generator_host_count(const struct ctl *ctl);
/* For {client}: as --on names it, without USER@; without --on this host's. */
void generator_host_name(const struct ctl *ctl, unsigned host, char name[HOST_NAME_BYTES]);

/* Is it another one than the daemon's? */
bool generator_is_elsewhere(const struct ctl *ctl);

/* host_describe() of it, with --on by its name; an exit code. */
int generator_host_describe(struct ctl *ctl, unsigned host, json_t **ret);

/* version_of() of the command there; where hosts differ that is said. */
char *generator_host_version(struct ctl *ctl);

/* A run of the command on all hosts. */
struct generator_run {
	/* Of several hosts: the status of the first that failed, the sum of their CPU time, the
	 * busiest thread of all, and as output all lines, each with its host. */
	struct child child;           /* its link: of one host */
	struct generator_part *parts; /* of several hosts; NULL: of one */
	unsigned part_count;
	uint64_t spread_ns; /* from the call to the last that told its start */
	/* What the drivers of their network interfaces tell: [{ "host": "c1", ... }], of hosts that
	 * are not the daemon's; owned. */
	json_t *nics;
	int failed; /* the first host whose command failed; -1: none */
};

/* child_run() there, with a command for each host.  All start at the same time, and are ended when
 * one fails: with a status, or when its connection is lost.  CTL_DONE, or CTL_UNREACHABLE with the
 * reason printed.  generator_run_free(ret) in both cases. */
int generator_host_run(struct ctl *ctl, char **const *commands, enum child_show show, bool keep,
		       unsigned timeout_ms, const struct watcher *watcher,
		       struct generator_run *ret);
void generator_run_free(struct generator_run *run);

/* The same of ctl->on alone (far.c).  *ret is zeroed but for `failed`. */
int far_run(struct ctl *ctl, char **const *commands, enum child_show show, bool keep,
	    unsigned timeout_ms, const struct watcher *watcher, struct generator_run *ret);
