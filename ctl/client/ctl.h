/* The interface between nbctl's commands and the rest of it: options, where to print, and how to
 * ask the daemon.
 *
 * A command is one line in main.c's table, one struct command and one function in the file of its
 * family. */
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "render.h"

/* nbctl's exit codes. */
enum {
	CTL_DONE = 0,
	CTL_REFUSED = 1,     /* by the daemon; its reasons were printed */
	CTL_USAGE = 2,       /* also: a file that nbctl was given is no good */
	CTL_UNREACHABLE = 3, /* the daemon */
	CTL_RESTART = 4,     /* done only by a restart of the daemon */
	CTL_WORSE = 5,       /* compare --against found a row that got worse */
	/* `compare -- COMMAND` exits as COMMAND did, or with these, as env(1) does. */
	CTL_CANNOT_RUN = 126,
	CTL_NOT_FOUND = 127,
	CTL_SIGNALLED = 128, /* and the signal's number */
};

enum option_kind { OPTION_FLAG, OPTION_VALUE, OPTION_OPTIONAL /* --name[=VALUE] */ };

struct option_spec {
	const char *name; /* NULL ends the list */
	enum option_kind kind;
	const char *argument; /* how help calls the value */
	const char *help;
};

enum { COMMAND_OPTIONS_MAX = 12 };

struct ctl;
struct command {
	const char *name, *arguments, *summary; /* one line of help */
	const char *details;                    /* more of it, ends with a newline; may be NULL */
	const char *example;
	struct option_spec options[COMMAND_OPTIONS_MAX];
	unsigned words_min, words_max; /* arguments that are not options */
	bool runs_command;             /* `-- COMMAND ARG...` may follow */
	const char *json_instead; /* the command that has --json: this one has none; NULL: it has */
	int (*run)(struct ctl *ctl); /* an exit code */
};

struct ctl {
	const struct command *command;
	const char *socket;
	struct output out;
	bool quiet; /* prints no refusal that lists errors: the daemon logs those */
	/* By index in command->options: NULL when not given, "" for a flag and for a bare --name of
	 * OPTION_OPTIONAL. */
	const char *values[COMMAND_OPTIONS_MAX];
	char **words;
	unsigned word_count;
	char **rest; /* the words behind `--`, NULL-terminated; NULL without `--` */
};

/* The commands, by file. */
extern const struct command command_status;
extern const struct command command_stats;
extern const struct command command_compare, command_report;
extern const struct command command_top, command_metrics;
extern const struct command command_exports;
extern const struct command command_connections;
extern const struct command command_drain, command_resume, command_log_level;
extern const struct command command_reload, command_confirm;
extern const struct command command_doctor, command_config;

/* Calls a method of org.nbserved.Control.  Takes `parameters` over (NULL: none).  Returns CTL_DONE
 * and a new reference, or prints what went wrong and returns another exit code. */
int ctl_call(struct ctl *ctl, const char *method, json_t *parameters, json_t **ret_reply);

/* ctl_call(), then prints the reply: as JSON with --json, else with render(). */
int ctl_show(struct ctl *ctl, const char *method, json_t *parameters,
	     void (*render)(struct output *out, const json_t *reply));

/* ctl_call() with `more`: calls reply() for every answer until it returns false or the daemon ends
 * the stream.  interval_ms: the longest time between two answers that is normal. */
int ctl_stream(struct ctl *ctl, const char *method, json_t *parameters, unsigned interval_ms,
	       bool (*reply)(void *context, const json_t *reply), void *context);

/* `nbctl: ...` and how to get help, on stderr; returns CTL_USAGE. */
int ctl_usage(const struct ctl *ctl, const char *format, ...) __attribute__((format(printf, 2, 3)));
int ctl_try_help(const struct ctl *ctl); /* the second half */
/* `nbctl: ...` on stderr. */
void ctl_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));

enum { CTL_STREAM_MIN_MS = 50 }; /* of GetStats: the daemon's least interval_ms */

/* The value of the option `--name`: seconds as `2`, `0.5`, or a duration with its unit, `500ms`;
 * min_ms to 1 day.  CTL_DONE; or CTL_USAGE, with the message printed. */
int ctl_interval(const struct ctl *ctl, const char *name, const char *text, unsigned min_ms,
		 unsigned *ret_ms);

/* The words from `first` on as a JSON array; NULL when there is none. */
json_t *ctl_words(const struct ctl *ctl);

/* `nbctl: WHAT 'NAME'` with the one out of `names` that is near; returns CTL_USAGE. */
int ctl_unknown(const struct ctl *ctl, const char *what, const char *name, const char *const *names,
		unsigned count);
