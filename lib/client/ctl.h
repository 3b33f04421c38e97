/* The interface between the commands of nbctl and nbbench and program.c: options, output, calls to
 * the daemon.
 *
 * A command is one line in its program's table, one struct command and one function in the file
 * of its family. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "client.h"
#include "render.h"

/* Exit codes. */
enum {
	CTL_DONE = 0,
	CTL_REFUSED = 1,      /* the daemon refused; its reasons were printed */
	CTL_USAGE = 2,        /* wrong usage, or an invalid input file */
	CTL_UNREACHABLE = 3,  /* the daemon cannot be reached */
	CTL_RESTART = 4,      /* the change needs a restart of the daemon */
	CTL_WORSE = 5,        /* a gate of compare found a row that got worse */
	CTL_UNDECIDED = 6,    /* a gate found a row that may be worse */
	CTL_INCOMPARABLE = 7, /* a gate found a row that it cannot compare, or none at all */
	CTL_NOTHING = 8,      /* compare -- COMMAND: a listener got no operation */
	/* `compare -- COMMAND` exits as COMMAND did, or with these, as timeout(1) does. */
	CTL_TIMED_OUT = 124, /* COMMAND ran longer than --timeout */
	CTL_CANNOT_RUN = 126,
	CTL_NOT_FOUND = 127,
	CTL_SIGNALLED = 128, /* COMMAND was ended by a signal: this plus the signal's number */
};

enum option_kind {
	OPTION_FLAG,
	OPTION_VALUE,
	OPTION_OPTIONAL, /* --name[=VALUE] */
	OPTION_MANY,     /* may be given again */
};

struct option_spec {
	const char *name; /* a table of options ends with name NULL */
	enum option_kind kind;
	const char *argument; /* name of the value in help */
	const char *help;
};

enum { COMMAND_OPTIONS_MAX = 40 };

struct ctl;
struct command {
	const char *name, *arguments, *summary; /* one line of help */
	const char *details;                    /* further help, ends with a newline; may be NULL */
	const char *example;
	struct option_spec options[COMMAND_OPTIONS_MAX];
	unsigned words_min, words_max; /* arguments that are not options */
	bool runs_command;             /* `-- COMMAND ARG...` may follow */
	bool here;                     /* works on this host alone, so that -H has no meaning */
	bool serves;                   /* starts a daemon, and chooses its control socket itself */
	/* This command has no --json: its usage error recommends this command line instead.
	 * NULL: the command has --json. */
	const char *json_instead;
	int (*run)(struct ctl *ctl); /* an exit code */
};

struct ctl {
	const struct command *command;
	struct client_target target; /* the daemon */
	struct client *kept; /* the connection of ctl_call(), for the next call; NULL: none */
	bool steady;         /* a lost `kept` is an error, and is not opened again */
	uint64_t sent_ns;    /* time of the last ctl_send() */
	uint64_t alive_ns;   /* time of the last Alive that ctl_alive() sent */
	struct ctl *on;      /* bridges of the generator's hosts, on_count; NULL: it runs here */
	unsigned on_count;
	unsigned awaited; /* replies of ctl_send() that have not come */
	struct output out;
	bool quiet; /* no lists of errors are printed, since the daemon logs them */
	/* Values by index in command->options: NULL when not given, "" for a flag and for a bare
	 * --name of OPTION_OPTIONAL. */
	const char *values[COMMAND_OPTIONS_MAX];
	char **lists[COMMAND_OPTIONS_MAX]; /* of OPTION_MANY all values, NULL-terminated; or NULL */
	char **words;
	unsigned word_count;
	char **specs; /* `run`: what its daemons serve, NULL-terminated; NULL: a running daemon is
			 asked */
	char **argv;  /* all that this process was started with, NULL-terminated */
	char **rest;  /* the arguments after `--`, NULL-terminated; NULL without `--` */
};

/* Connects to the hosts of all `count` elements of the list at the same time, and keeps
 * the connections in them.  CTL_DONE, or CTL_UNREACHABLE with the error of each host
 * that failed printed. */
int ctl_open_all(struct ctl *list, unsigned count);

/* The daemon's place for messages: its socket, or HOST. */
const char *ctl_place(const struct ctl *ctl);

/* Calls a method of org.nbserved.Control, or with -H one of the bridge, "Host.NAME".  Takes
 * ownership of `parameters` (NULL: none).  CTL_DONE with a new reference in *ret_reply, or another
 * exit code, with the error printed. */
int ctl_call(struct ctl *ctl, const char *method, json_t *parameters, json_t **ret_reply);

/* ctl_call() in two halves, for a caller that must not wait.  After ctl_send() it polls
 * ctl_fd() for POLLIN until ctl_is_ready(), which is true at the latest when the time limit of
 * the call is over, and then calls ctl_receive().  Several calls may be sent before the first
 * reply is received: replies come in the same order.  ctl_forget() gives all of them up, and
 * closes the connection. */
int ctl_send(struct ctl *ctl, const char *method, json_t *parameters);
int ctl_fd(const struct ctl *ctl);
bool ctl_is_ready(const struct ctl *ctl);
int ctl_receive(struct ctl *ctl, const char *method, json_t **ret_reply);
void ctl_forget(struct ctl *ctl);
/* Tells the bridge of the kept connection each second that nbctl lives; else the bridge ends the
 * command or the daemon that it has started.  To be called often; without a bridge does nothing. */
void ctl_alive(struct ctl *ctl);
/* Prints why the kept connection failed, by an errno, and closes it.  CTL_UNREACHABLE. */
int ctl_lost(struct ctl *ctl, int error);

/* Within which time the daemon answers a method of org.nbserved.Control. */
unsigned ctl_limit_ms(const char *method);

/* ctl_call(), then prints the reply: as JSON with --json, else with render(); NULL: nothing. */
int ctl_show(struct ctl *ctl, const char *method, json_t *parameters,
	     void (*render)(struct output *out, const json_t *reply));

/* ctl_call() with `more`: calls reply() for each answer until reply() returns false or the daemon
 * ends the stream.  interval_ms: longest expected time between two answers. */
int ctl_stream(struct ctl *ctl, const char *method, json_t *parameters, unsigned interval_ms,
	       bool (*reply)(void *context, const json_t *reply), void *context);

/* The name before each message: of the program. */
extern const char *ctl_program;

/* Prints `nbctl: ...` and how to get help on stderr; returns CTL_USAGE. */
int ctl_usage(const struct ctl *ctl, const char *format, ...) __attribute__((format(printf, 2, 3)));
int ctl_try_help(const struct ctl *ctl); /* prints only the hint at --help */
/* Prints `nbctl: ...` on stderr. */
void ctl_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));

enum { CTL_STREAM_MIN_MS = 50 }; /* GetStats: the daemon's minimum of interval_ms */

/* Parses text, the value of option `--name`: seconds as `2`, `0.5`, or a duration with a unit,
 * `500ms`; min_ms to 1 day.  CTL_DONE, or CTL_USAGE with the error printed. */
int ctl_interval(const struct ctl *ctl, const char *name, const char *text, unsigned min_ms,
		 unsigned *ret_ms);

/* ctl->words as a JSON array, a new reference; NULL: there are none. */
json_t *ctl_words(const struct ctl *ctl);

/* Prints `nbctl: WHAT 'NAME'` with the nearest of `names` as suggestion; returns CTL_USAGE. */
int ctl_unknown(const struct ctl *ctl, const char *what, const char *name, const char *const *names,
		unsigned count);
