/* See bench.h. */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cpus.h"
#include "generators.h"
#include "guard.h"
#include "suggest.h"
#include "text.h"
#include "util.h"

enum { COMMAND_WORDS_MAX = 32 };

/* "redis-benchmark, valkey-benchmark"; those that are installed, or the others. */
static void print_generators(FILE *to, const struct bench *b, bool installed)
{
	const char *before = "";

	for (const struct generator *g = b->generators; g->needs; g++)
		if (generator_is_installed(g) == installed) {
			fprintf(to, "%s%s", before, g->needs);
			before = ", ";
		}
}

void bench_help(FILE *to)
{
	for (const struct bench *b = benches; b->word; b++) {
		bool installed = bench_generator(b);

		fprintf(to, "%-9s %s: %s", b->word, b->summary, installed ? "" : "not here: ");
		print_generators(to, b, installed);
		putc('\n', to);
	}
}

/* The word that a generator of this name measures; NULL: none. */
static const char *word_of(const char *generator)
{
	size_t length = strlen(generator);

	for (const struct bench *b = benches; b->word; b++)
		for (const struct generator *g = b->generators; g->needs; g++)
			if (strcspn(g->needs, " ") == length &&
			    !strncmp(g->needs, generator, length))
				return b->word;
	return NULL;
}

static int unknown_word(const char *word)
{
	struct suggestion near = { .text = word };
	const char *measured = word_of(word);

	for (const struct bench *b = benches; b->word; b++)
		suggest_try(&near, b->word);
	if (measured)
		fprintf(stderr, "nbserved: --bench: '%s' is a generator: --bench %s takes it\n",
			word, measured);
	else
		fprintf(stderr,
			"nbserved: --bench: there is no '%s'%s; --bench help lists the words\n",
			word, suggest_hint(&near));
	return -EINVAL;
}

/* How to get each of them. */
static int not_installed(const struct bench *b)
{
	fprintf(stderr, "nbserved: --bench %s: it needs one of these generators:\n", b->word);
	for (const struct generator *g = b->generators; g->needs; g++)
		fprintf(stderr, "  %s: apt install %s%s%s\n", g->needs, g->debian,
			g->fedora ? "; dnf install " : "", g->fedora ? g->fedora : "");
	return -ENOENT;
}

/* Two CPUs that share no core, else any two; false: there is one. */
static bool choose_cpus(int *ret_server, int *ret_generator)
{
	cpu_set_t ours;

	if (cpus_apart(ret_server, ret_generator))
		return true;
	if (cpus_of(0, &ours) < 0)
		return false;
	CPU_CLR((size_t)*ret_server, &ours);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET((size_t)cpu, &ours)) {
			*ret_generator = cpu;
			return true;
		}
	return false;
}

/* The value that the user gave an option; NULL: none. */
static char *value_of(const struct run_mode *run, const char *option)
{
	for (unsigned i = 0; i + 1 < run->option_count; i++)
		if (!strcmp(run->options[i], option))
			return run->options[i + 1];
	return NULL;
}

static void print_word(const char *word)
{
	bool plain = *word && !word[strcspn(word, " \t\n'\"\\$&|;<>()*?[]#~`!")];

	fputs(plain ? " " : " '", stderr);
	for (; *word; word++)
		if (*word == '\'')
			fputs("'\\''", stderr);
		else
			putc(*word, stderr);
	fputs(plain ? "" : "'", stderr);
}

/* Prints the equivalent `--run` command, for a user who wants to change a part of it. */
static void print_command(const struct run_mode *run)
{
	fputs("nbserved", stderr);
	for (unsigned i = 0; i < run->count; i++) {
		fputs(" --run", stderr);
		print_word(run->specs[i]);
	}
	for (unsigned i = 0; i < run->option_count; i++)
		print_word(run->options[i]);
	fputs(" --", stderr);
	for (char **word = run->command; *word; word++)
		print_word(*word);
	putc('\n', stderr);
}

/* Makes an empty file where a disk has room; /tmp may be memory.  The daemon gives it its size.
 * NULL: failed, and printed. */
static char *make_file(const struct run_mode *run)
{
	const char *folder = run_folder(access("/var/tmp", W_OK) == 0 ? "/var/tmp" : "/tmp");
	char *path;
	int fd;

	if (*folder != '/' || strpbrk(folder, ", \t\n")) {
		fprintf(stderr,
			"nbserved: --bench: TMPDIR: expected an absolute path without white space "
			"or ',', got '%s'\n",
			folder);
		return NULL;
	}
	guard_start(run->argv, NULL);
	path = text_new("%s/nbserved-XXXXXX.img", folder);
	fd = mkostemps(path, strlen(".img"), O_CLOEXEC);
	if (fd >= 0) {
		close(fd);
		guard_remove(path);
		return path;
	}
	fprintf(stderr, "nbserved: --bench: cannot make %s: %s\n", path, strerror(errno));
	free(path);
	return NULL;
}

/* A word of a spec, with the file and the CPU, unless it is negative. */
static char *spec_new(const struct run_mode *run, const char *word, int cpu)
{
	const char *file = strstr(word, "{file}");
	char *with_file = file ? text_new("%.*s%s%s", (int)(file - word), word, run->file,
					  file + strlen("{file}"))
			       : text_new("%s", word);
	char *spec = with_file;

	if (cpu >= 0) {
		spec = text_new("%s,cpus=%d", with_file, cpu);
		free(with_file);
	}
	return spec;
}

/* The next word of *rest, which it ends there; NULL: none. */
static char *next_word(char **rest)
{
	char *word = *rest + strspn(*rest, " ");
	char end = ' ';

	if (*word == '\'')
		end = *word++;
	*rest = strchrnul(word, end);
	if (**rest)
		*(*rest)++ = '\0';
	return *word ? word : NULL;
}

/* Adds an option for nbctl with a value that the user did not choose. */
static char *choose(struct run_mode *run, const char *option, char *value)
{
	run->options[run->option_count++] = (char *)option;
	run->options[run->option_count++] = value;
	return value;
}

int bench_prepare(struct run_mode *run, const char *word)
{
	static char *command[COMMAND_WORDS_MAX + 1];
	const struct bench *b = bench_find(word);
	const struct generator *g = b ? bench_generator(b) : NULL;
	int server, generator;
	unsigned count = 0;
	bool apart;
	char *words, *specs;

	if (!b)
		return unknown_word(word);
	if (!g)
		return not_installed(b);
	apart = choose_cpus(&server, &generator);
	if (b->needs_file) {
		run->file = make_file(run);
		if (!run->file)
			return -EIO;
	}
	specs = words = text_new("%s", b->spec);
	for (char *w; run->count < RUN_SPECS_MAX && (w = next_word(&words));)
		run->specs[run->count++] = spec_new(run, w, apart ? server : -1);
	free(specs);
	words = apart ? text_new("taskset -c %d %s", generator, g->command)
		      : text_new("%s", g->command);
	for (char *w; count < COMMAND_WORDS_MAX && (w = next_word(&words));)
		command[count++] = w;
	run->command = command;
	if (!value_of(run, "--label"))
		choose(run, "--label",
		       text_new("%.*s, %s", (int)strcspn(g->needs, " "), g->needs, b->summary));
	run->page = value_of(run, "--html");
	if (!run->page)
		run->page = choose(run, "--html", text_new("nbserved-%s.html", b->word));
	print_command(run);
	return 0;
}

void bench_end(const struct run_mode *run, int status)
{
	char *path = run->page && status == 0 ? realpath(run->page, NULL) : NULL;

	if (run->file)
		unlink(run->file);
	if (path)
		fprintf(stderr, "The page: %s\n", path);
	free(path);
}
