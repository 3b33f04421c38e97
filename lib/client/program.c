/* See program.h.  Finds the command in the table, reads its options from the command's own table,
 * runs it. */
#include "program.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "must.h"
#include "runtime.h"
#include "util.h"

static const struct program *program; /* set by program_main() */

/* ---- Options: those of every command first, then the command's own ---- */

enum {
	GLOBAL_SOCKET,
	GLOBAL_HOST,
	GLOBAL_THERE,
	GLOBAL_JSON,
	GLOBAL_NO_COLOR,
	GLOBAL_VERSION,
	GLOBAL_HELP,
	GLOBAL_COUNT
};

static struct option_spec global_options[] = {
	[GLOBAL_SOCKET] = { "socket", OPTION_VALUE, "SOCKET",
			    "the daemon's control socket (or NBSERVED_SOCKET)" },
	[GLOBAL_HOST] = { "host", OPTION_VALUE, "HOST",
			  "the daemon is on that host, reached by ssh ([USER@]HOST)" },
	/* Named by the program: `nbctl --nbctl`. */
	[GLOBAL_THERE] = { "", OPTION_VALUE, "COMMAND", "how to start this program on HOST" },
	[GLOBAL_JSON] = { "json", OPTION_FLAG, NULL, "print JSON" },
	[GLOBAL_NO_COLOR] = { "no-color", OPTION_FLAG, NULL, "no colour (or NO_COLOR=1)" },
	[GLOBAL_VERSION] = { "version", OPTION_FLAG, NULL, "print the version" },
	[GLOBAL_HELP] = { "help", OPTION_FLAG, NULL, "print this help" },
	[GLOBAL_COUNT] = { NULL, OPTION_FLAG, NULL, NULL },
};

/* Short letters of the global options; 0: none. */
static const char global_letters[GLOBAL_COUNT] = {
	[GLOBAL_SOCKET] = 's',
	[GLOBAL_HOST] = 'H',
	[GLOBAL_VERSION] = 'V',
	[GLOBAL_HELP] = 'h',
};

enum {
	RETIRED_MAX = 32,
	OPTIONS_MAX = GLOBAL_COUNT + COMMAND_OPTIONS_MAX,
	LETTERS_MAX = 2 * OPTIONS_MAX + 2,
	OWN_VALUE = 1000,                        /* of getopt, for options without a letter */
	RETIRED_VALUE = OWN_VALUE + OPTIONS_MAX, /* and for those that are no more */
};

static int has_argument(const struct option_spec *o)
{
	return o->kind == OPTION_FLAG       ? no_argument
	       : o->kind == OPTION_OPTIONAL ? optional_argument
					    : required_argument;
}

/* Makes getopt's tables; `val` is the letter, or else OWN_VALUE plus the index in the concatenated
 * lists, or RETIRED_VALUE plus that in the program's table. */
static void make_options(const struct command *command, struct option *options,
			 char letters[static LETTERS_MAX])
{
	unsigned count = 0, max = command ? OPTIONS_MAX : GLOBAL_COUNT;
	char *letter = stpcpy(letters, command ? "" : "+");

	for (unsigned i = 0; i < max; i++) {
		const struct option_spec *spec =
			i < GLOBAL_COUNT ? &global_options[i] : &command->options[i - GLOBAL_COUNT];
		int short_name = i < GLOBAL_COUNT ? global_letters[i] : 0;

		if (!spec->name)
			continue;
		options[count++] = (struct option){ spec->name, has_argument(spec), NULL,
						    short_name ? short_name : OWN_VALUE + (int)i };
		if (short_name)
			letter += sprintf(letter, "%c%s", short_name,
					  has_argument(spec) == required_argument ? ":" : "");
	}
	assert(program->retired_count <= RETIRED_MAX);
	for (unsigned i = 0; i < program->retired_count; i++) {
		const struct program_retired *r = &program->retired[i];

		if (r->option && (!r->command || (command && !strcmp(r->command, command->name))))
			options[count++] = (struct option){ r->option, optional_argument, NULL,
							    RETIRED_VALUE + (int)i };
	}
	options[count] = (struct option){};
}

static void print_options(const struct command *command, const struct option_spec *options,
			  unsigned max)
{
	for (unsigned i = 0; i < max; i++) {
		const struct option_spec *o = &options[i];
		char short_name = (char)(options == global_options ? global_letters[i] : 0);
		char text[64], letter[] = { '-', short_name, ',', ' ', '\0' };

		if (!o->name ||
		    (o == &global_options[GLOBAL_JSON] && command && command->json_instead))
			continue;
		snprintf(text, sizeof(text),
			 o->kind == OPTION_FLAG       ? "--%s"
			 : o->kind == OPTION_OPTIONAL ? "--%s[=%s]"
						      : "--%s %s",
			 o->name, o->argument);
		printf("  %s%-21s %s\n", short_name ? letter : "    ", text, o->help);
	}
}

static void print_examples(const char *example)
{
	printf("\nExample:\n");
	while (*example) {
		size_t bytes = strcspn(example, "\n");

		printf("  %.*s\n", (int)bytes, example);
		example += bytes + (example[bytes] != '\0');
	}
}

static int help(const struct command *command)
{
	if (command) {
		printf("Usage: %s %s [OPTION...]%s%s\n\n%c%s.\n", program->name, command->name,
		       *command->arguments ? " " : "", command->arguments,
		       toupper((unsigned char)*command->summary), command->summary + 1);
		if (command->details)
			printf("\n%s", command->details);
		printf("\nOptions:\n");
		print_options(command, command->options, COMMAND_OPTIONS_MAX);
		print_options(command, global_options, GLOBAL_COUNT);
		print_examples(command->example);
		return CTL_DONE;
	}
	printf("Usage: %s [-H HOST] [-s SOCKET] COMMAND [ARGUMENT...]\n\n%s\n\nCommands:\n",
	       program->name, program->about);
	for (unsigned i = 0; i < program->command_count; i++)
		printf("  %-13s %s\n", program->commands[i]->name, program->commands[i]->summary);
	printf("\nOptions of every command:\n");
	print_options(NULL, global_options, GLOBAL_COUNT);
	printf("\n`%s COMMAND --help` says more and has an example.\n\n%s", program->name,
	       program->status);
	return CTL_DONE;
}

static int version(void)
{
	printf("%s %s\n", program->name, NB_VERSION);
	return CTL_DONE;
}

static void add_to_list(char ***list, char *value)
{
	unsigned count = 0;

	while (*list && (*list)[count])
		count++;
	*list = must(reallocarray(*list, count + 2, sizeof(**list)));
	(*list)[count] = value;
	(*list)[count + 1] = NULL;
}

static int refuse_retired(const struct program_retired *r)
{
	ctl_warn("%s%s was removed: %s", r->option ? "--" : "", r->option ? r->option : r->command,
		 r->instead);
	return CTL_USAGE;
}

/* Reads the options of argv.  Until the command is known, reads up to the first word that is no
 * option.  CTL_DONE with *ret_done set: --help or --version was carried out. */
static int read_options(struct ctl *ctl, int argc, char **argv, bool *ret_done)
{
	struct option options[OPTIONS_MAX + RETIRED_MAX + 1];
	char letters[LETTERS_MAX];
	const struct option_spec *own;
	int option;

	make_options(ctl->command, options, letters);
	optind = 0; /* glibc: start afresh */
	while ((option = getopt_long(argc, argv, letters, options, NULL)) >= 0) {
		switch (option) {
		case '?':
			return ctl_try_help(ctl);
		case 's':
			ctl->target.socket = optarg;
			break;
		case 'H':
			ctl->target.host = optarg;
			break;
		case OWN_VALUE + GLOBAL_THERE:
			ctl->target.program = optarg;
			break;
		case OWN_VALUE + GLOBAL_JSON:
			ctl->out.json = true;
			break;
		case OWN_VALUE + GLOBAL_NO_COLOR:
			ctl->out.colour = false;
			break;
		case 'V':
			*ret_done = true;
			return version();
		case 'h':
			*ret_done = true;
			return help(ctl->command);
		default:
			if (option >= RETIRED_VALUE)
				return refuse_retired(&program->retired[option - RETIRED_VALUE]);
			option -= OWN_VALUE + GLOBAL_COUNT;
			own = &ctl->command->options[option];
			if (own->kind == OPTION_MANY)
				add_to_list(&ctl->lists[option], optarg);
			else if (ctl->values[option] && optarg)
				return ctl_usage(ctl, "--%s is given twice", own->name);
			ctl->values[option] = optarg ? optarg : "";
		}
	}
	return CTL_DONE;
}

/* ---- Commands ---- */

static const struct command *find_command(const char *name)
{
	for (unsigned i = 0; i < program->command_count; i++)
		if (!strcmp(program->commands[i]->name, name))
			return program->commands[i];
	return NULL;
}

/* As find_command(), or the command that has this word as its first argument. */
static const struct command *find_or_other(struct ctl *ctl, const char *name)
{
	const struct command *command = find_command(name);

	return command || !program->other ? command : program->other(ctl, name);
}

static int unknown_command(const struct ctl *ctl, const char *name)
{
	const char *names[PROGRAM_COMMANDS_MAX];

	for (unsigned i = 0; i < program->retired_count; i++)
		if (!program->retired[i].option && !strcmp(program->retired[i].command, name))
			return refuse_retired(&program->retired[i]);
	for (unsigned i = 0; i < program->command_count; i++)
		names[i] = program->commands[i]->name;
	return ctl_unknown(ctl, "there is no command", name, names, program->command_count);
}

/* Completes ctl->target, which the options have begun. */
static int find_target(struct ctl *ctl)
{
	static char found[PATH_MAX];
	const char *socket = getenv("NBSERVED_SOCKET"), *host = ctl->target.host;

	if (host && (!*host || *host == '-'))
		return ctl_usage(ctl, "--host: expected [USER@]HOST, got '%s'", host);
	if (host && ctl->command->here)
		return ctl_usage(ctl, "%s works on this host alone: leave out -H",
				 ctl->command->name);
	/* compare --on has another host as well. */
	if (!host && strcmp(ctl->target.program, program->name) != 0 && !ctl->command->runs_command)
		return ctl_usage(ctl, "--%s is for another host: give -H HOST as well",
				 program->name);
	if (host || ctl->target.socket || ctl->command->serves)
		return CTL_DONE;
	runtime_find_socket(found, sizeof(found));
	ctl->target.socket = socket && *socket ? socket : found;
	return CTL_DONE;
}

static int run_command(struct ctl *ctl, int argc, char **argv)
{
	const struct command *command = ctl->command;
	bool done = false;
	int rc;

	for (int i = 1; command->runs_command && i < argc; i++) {
		if (strcmp(argv[i], "--"))
			continue;
		ctl->rest = argv + i + 1;
		argv[i] = NULL;
		argc = i;
		break;
	}
	argv[0] = program_invocation_short_name; /* for getopt's messages */
	rc = read_options(ctl, argc, argv, &done);
	if (rc != CTL_DONE || done)
		return rc;
	if (ctl->out.json && command->json_instead)
		return ctl_usage(ctl, "%s has no --json: see `%s`", command->name,
				 command->json_instead);
	rc = find_target(ctl);
	if (rc != CTL_DONE)
		return rc;
	ctl->words = argv + optind;
	ctl->word_count = (unsigned)(argc - optind);
	if (ctl->word_count < command->words_min)
		return ctl_usage(ctl, "expected: %s %s %s", program->name, command->name,
				 command->arguments);
	if (ctl->word_count > command->words_max)
		return ctl_usage(ctl, "unexpected argument '%s'", ctl->words[command->words_max]);
	rc = command->run(ctl);
	client_close(ctl->kept);
	return rc;
}

/* An incomplete table in a file must not look complete, so a failed write is an error.  Tables
 * flush themselves: an earlier failure shows only in the stream's error flag.  EPIPE is no error:
 * the reader has what it wanted. */
static bool output_is_complete(void)
{
	int error = fflush(stdout) < 0 ? errno : 0;

	if (error == EPIPE || (error == 0 && !ferror(stdout)))
		return true;
	ctl_warn("standard output: not all could be written%s%s", error ? ": " : "",
		 error ? strerror(error) : "");
	return false;
}

/* getopt reorders argv. */
static char **copy_words(int argc, char **argv)
{
	char **words = calloc((size_t)argc + 1, sizeof(*words));

	for (int i = 0; words && i < argc; i++)
		words[i] = argv[i];
	return words;
}

int program_main(const struct program *p, int argc, char **argv)
{
	static struct ctl ctl;
	bool done = false;
	int rc;

	program = p;
	ctl_program = ctl.target.program = p->name;
	global_options[GLOBAL_THERE].name = p->name;
	ctl.argv = copy_words(argc, argv);
	setlocale(LC_CTYPE, "");
	output_init(&ctl.out, stdout);
	rc = read_options(&ctl, argc, argv, &done);
	if (rc != CTL_DONE || done)
		return rc;
	argc -= optind;
	argv += optind;
	if (argc == 0)
		return ctl_usage(&ctl, "no command is given");
	if (!strcmp(argv[0], "help")) {
		ctl.command = argc > 1 ? find_or_other(&ctl, argv[1]) : NULL;
		return argc > 1 && !ctl.command ? unknown_command(&ctl, argv[1])
						: help(ctl.command);
	}
	ctl.command = find_or_other(&ctl, argv[0]);
	if (!ctl.command)
		return unknown_command(&ctl, argv[0]);
	if (strcmp(ctl.command->name, argv[0]) != 0) {
		argc++; /* the word is the command's first argument */
		argv--;
	}
	rc = run_command(&ctl, argc, argv);
	if (!output_is_complete() && rc == CTL_DONE)
		rc = CTL_USAGE;
	return rc;
}
