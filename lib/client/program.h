/* A program that consists of commands: its main(), its help, its options. */
#pragma once
#include "ctl.h"

enum { PROGRAM_COMMANDS_MAX = 32 };

/* What earlier releases had: refused for one release, with what to use instead. */
struct program_retired {
	const char *command; /* NULL: any command had the option */
	const char *option;  /* NULL: the whole command */
	const char *instead;
};

struct program {
	const char *name;
	const char *about;  /* a sentence of the help */
	const char *status; /* what the exit statuses mean: the end of the help */
	const struct command *const *commands;
	unsigned command_count; /* PROGRAM_COMMANDS_MAX at most */
	const struct program_retired *retired;
	unsigned retired_count;
	/* For a word that is no command: the command whose first argument it is, or NULL.  May be
	 * NULL. */
	const struct command *(*other)(struct ctl *ctl, const char *word);
};

/* Returns the exit status. */
int program_main(const struct program *program, int argc, char **argv);
