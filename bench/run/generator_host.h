/* The hosts of the generator: this one, or with --on others, whose bridges run the command.
 * ctl->on are those bridges. */
#pragma once
#include "child.h"
#include "ctl.h"
#include "generator_sum.h"

enum { HOSTS_MAX = 64, HOST_NAME_BYTES = 256 };

/* Connects to the hosts of a list, `c1,c2,root@c3.lab`, which it cuts into names and which must
 * outlive it, and sets ctl->on.  An exit code; generator_host_close() in any case. */
int generator_host_open(struct ctl *ctl, char *list);
void generator_host_close(struct ctl *ctl);

/* At least one. */
unsigned generator_host_count(const struct ctl *ctl);
/* The value of {client}: the host's name as in --on, without USER@; without --on that of this host.
 */
void generator_host_name(const struct ctl *ctl, unsigned host, char name[HOST_NAME_BYTES]);

/* Does the generator run on another host than the daemon? */
bool generator_is_elsewhere(const struct ctl *ctl);

/* The description of this host, or of that of a bridge, as host_describe() makes it; an exit code.
 */
int generator_host_ask(struct ctl *bridge, json_t **ret);
/* generator_host_ask() of one of the generator's hosts, with its name added. */
int generator_host_describe(struct ctl *ctl, unsigned host, json_t **ret);

/* The version of the generator, as version_of() finds it on its hosts; the user is warned if they
 * differ.  The caller frees it. */
char *generator_host_version(struct ctl *ctl);

/* A run of the command on all hosts. */
struct generator_run {
	/* The command; of several hosts the status of the first that failed, the sum of the CPU
	 * times, the busiest thread of all, and as output all lines, each after its host's name. */
	struct child child;
	struct generator_part *parts; /* of several hosts; NULL: of one */
	unsigned part_count;
	uint64_t spread_ns; /* from the calls until the last host had reported its start */
	int failed;         /* the first host whose command failed; -1: none */
};

/* child_run() on the generator's hosts, with a command for each.  All start at the same time.  When
 * one fails, by its status or because its connection is lost, the others are ended, too.  CTL_DONE,
 * or CTL_UNREACHABLE with the reason printed.  generator_run_free(ret) in both cases. */
int generator_host_run(struct ctl *ctl, char **const *commands, enum child_show show, bool keep,
		       unsigned timeout_ms, const struct watcher *watcher,
		       struct generator_run *ret);
void generator_run_free(struct generator_run *run);
