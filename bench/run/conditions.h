/* The conditions of a measurement: host, versions, configuration of the listener, command, CPUs.
 * Each row has its own, so that rows saved on another machine keep theirs:
 *
 * { "date": "2026-11-22T05:28:03Z", "nbserved": "0.1.0", "nbbench": "0.1.0",
 *   "host": { "kernel": ..., see host_describe() }, "listener": { "engine": "epoll", ... the keys
 *   that are not default }, "exports": { "disk0": {...} }, "listener_cpus": "0",
 *   "generator": "redis-benchmark 7.0.15", "command": ["redis-benchmark", ...],
 *   "host_by_ssh": "10.0.0.1", {host} where it is ssh's address of the listener's host,
 *   "command_given": the same with its placeholders, "generator_cpus": "1",
 *   "sweep": { "label": that of --label, "place": 2, "values": { "c": "10" } }, if there was one,
 *   "invocation": ["nbbench", "compare", ...],
 *   "other_nodes": true, if generator and listener were only on different NUMA nodes,
 *   "throttled": 3, the number of times that CPUs were throttled meanwhile,
 *   "generator_host": as "host", if it is another one, "generator_hosts": an array of them, if
 * there are several, "on": ["c1"], their names, "nic": interface_describe() of the interface of the
 * listener's clients, unless it was loopback } */
#pragma once
#include <sys/types.h>

#include "ctl.h"
#include "measure.h"

struct generator_run;
struct conditions {
	struct ctl *ctl;
	json_t *common;      /* conditions that do not change while nbbench runs */
	json_t *config;      /* reply of GetConfig */
	json_t *interfaces;  /* of the daemon's host, see interface_describe(); NULL: unknown */
	char *build;         /* the daemon's build id */
	char *generator;     /* its version; NULL: unknown */
	char run[17];        /* names this run of nbbench */
	const json_t *sweep; /* of the point; NULL: none */
	const char *by_ssh; /* the value of {host}, if it is the address that ssh uses; else NULL */
	char *const *command; /* as the user gave it, with its placeholders; NULL: none */
	pid_t pid;            /* of the daemon */
	uint64_t throttled;   /* as host_read() of its host told at the end of the last visit */
};

/* conditions_begin() sets the conditions of this run of nbbench.  conditions_ask() asks for those
 * of the host and the daemon, and is called again for each daemon that is started; CTL_DONE, or
 * another exit code with the error printed. */
void conditions_begin(struct conditions *ret, struct ctl *ctl);
int conditions_ask(struct conditions *c, struct ctl *ctl);
void conditions_fini(struct conditions *c);

/* Sets the conditions and the place (round and position in it, both from 1 on) of the rows of m
 * from `first` on, which have just been measured.  argv: the command, NULL-terminated, and `run`
 * its result; NULL: none was run.  May ask the daemon's host with -H, hence the exit code. */
struct place {
	unsigned round, position;
	uint64_t seed; /* of the order of visits; 0: none */
	bool fresh;    /* the daemon was started for this round */
};
int conditions_set(struct conditions *c, struct measures *m, unsigned first, struct place place,
		   char *const *argv, const struct generator_run *run);
