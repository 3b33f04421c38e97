/* The conditions of a measurement, an object that each row has, so that rows saved on another
 * machine keep theirs: date, nbserved, nbbench (versions), host (see host_describe()), listener
 * (the keys that are not default), exports, listener_cpus, generator, command, command_given (with
 * its placeholders), generator_cpus, host_by_ssh, sweep ({ label, place, values }), invocation,
 * other_nodes, throttled (how often meanwhile), generator_host, generator_hosts, on (their names),
 * nic (interface_describe() of that of the listener's clients), energy ({ idle, spent }, each of
 * host_energy_spent(): of a pause before the first visit, and of this one). */
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
	json_t *idle, *spent; /* of conditions.energy; NULL: unknown.  The caller sets spent. */
};

/* conditions_begin() sets the conditions of this run of nbbench.  conditions_ask() asks for those
 * of the host and the daemon, and is called again for each daemon that is started; CTL_DONE, or
 * another exit code with the error printed. */
void conditions_begin(struct conditions *ret, struct ctl *ctl);
int conditions_ask(struct conditions *c, struct ctl *ctl);
/* Where the daemon's host counts energy: waits a second without load, for its idle power.  Returns
 * as conditions_ask(). */
int conditions_rest(struct conditions *c);
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
