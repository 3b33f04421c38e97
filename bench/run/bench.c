/* `nbbench WORD...`: a whole measurement for each word, chosen for the user; `nbbench list`. */
#include "bench.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "child.h"
#include "compare.h"
#include "cores.h"
#include "field.h"
#include "guard.h"
#include "leftovers.h"
#include "runtime.h"
#include "suggest.h"
#include "text.h"
#include "util.h"

/* ---- The words ---- */

struct bench_generator {
	const char
		*needs; /* its program, then others, last a device: "fio nvme /dev/nvme-fabrics" */
	/* packages, and further steps to install it; NULL: it is in no package */
	const char *debian, *fedora;
	/* Its command and arguments, with placeholders; an argument with spaces
	 * is in single quotes. */
	const char *command;
};

enum { BENCH_GENERATORS_MAX = 5, BENCH_SPECS_MAX = 3 };
struct bench {
	const char *word;
	const char *summary;                    /* what is measured */
	const char *specs[BENCH_SPECS_MAX + 1]; /* as of `nbbench run`; ends with NULL */
	bool needs_file;                        /* {file} in them stands for a new one */
	struct bench_generator generators[BENCH_GENERATORS_MAX + 1]; /* ends with needs NULL */
};

/* Commands run for 0.2 to 0.4 s where the generator allows it: many short visits decide
 * more than a few long ones.  wrk takes whole seconds, and counts right when SIGINT ends it
 * earlier, but not before it has a handler for it, which takes 0.25 s on a host that is very busy;
 * fio calibrates the CPU's clock at each start, unless another one is named. */
#define REDIS     " -h {host} -p {port} -t set -d 512 -c 50 -P 16 -n 100000 -q"
#define WRK       "timeout --preserve-status -s INT 0.4 wrk -t1 -d10 --latency"
#define FIO_TIMED " --clocksource=clock_gettime --time_based --runtime=200ms --output-format=json"
#define FIO_NET                                                                                    \
	"fio --name=net --ioengine=net --protocol=tcp --hostname={host} --port={port} --size=1t"
#define FIO_PACKAGES     "fio", "fio"
#define FIO_NBD_PACKAGES "fio", "fio fio-engine-nbd"
#define QEMU_PACKAGES    "qemu-utils qemu-block-extra", "qemu-img"
#define FIO_DISK         " --bs=4k --iodepth=32" FIO_TIMED
#define FIO_NBD          "fio --name=nbd --ioengine=nbd --uri={uri} --size=64m" FIO_DISK
/* The kernel is the client, so this needs root and the kernel's module.  Its disk appears some time
 * after the connection was made.  The command disconnects also when a signal ends it. */
#define NVME_NAME "nqn.2026-11.local.nbserved:bench"
#define NVME                                                                                       \
	"env sh -c 'trap exit INT TERM; trap \"nvme disconnect -n " NVME_NAME " >&2\" EXIT; "      \
	"nvme connect -t tcp -a {host} -s {port} -n " NVME_NAME " >&2 || exit; "                   \
	"for try in $(seq 100); do sleep 0.05; disk=$(grep -lxs " NVME_NAME " "                    \
	"/sys/block/nvme*n*/device/subsysnqn | cut -d/ -f4 | grep -vm1 c) && break; done; "        \
	"\"$@\" --filename=/dev/$disk' nvme fio --name=nvme --ioengine=libaio --direct=1 --size=16m --rw=randrw" FIO_DISK
/* A negative time is a number of transactions. */
#define NETPERF                                                                                    \
	"netperf -H {host} -p {port} -t TCP_RR -l -20000 -j -- -k "                                \
	"THROUGHPUT,THROUGHPUT_UNITS,LOCAL_SEND_CALLS,P50_LATENCY,P90_LATENCY,P99_LATENCY"

/* All three serve one file, which the first listener makes.  Optional: a host without io_uring
 * measures the other two. */
#define DISK(store) "nbd,store=" store ",export={file},optional=yes,name=nbd-" store

static const struct bench benches[] = {
	{ .word = "echo",
	  .summary = "512 bytes, 50 connections, 16 deep",
	  .specs = { "echo,engine=all",
		     "echo,engine=io_uring,sqpoll=yes,optional=yes,name=echo-sqpoll" },
	  .generators = { { "redis-benchmark", "redis-tools", "redis", "redis-benchmark" REDIS },
			  { "valkey-benchmark", "valkey-tools", "valkey",
			    "valkey-benchmark" REDIS },
			  { "fio", FIO_PACKAGES,
			    FIO_NET " --rw=write --pingpong=1 --bs=4k" FIO_TIMED } } },
	{ .word = "disk",
	  .summary = "random reads of 4 KiB of a cached file, 32 in flight",
	  .specs = { DISK("io_uring") ",size=64M", DISK("threads"), DISK("blocking") },
	  .needs_file = true,
	  .generators = { { "fio", FIO_NBD_PACKAGES, FIO_NBD " --rw=randread" },
			  { "qemu-img", QEMU_PACKAGES,
			    "qemu-img bench -f raw -d 32 -c 10000 -S 36864 {uri}" } } },
	{ .word = "tls",
	  .summary = "GET without TLS and with it, 8 connections",
	  .specs = { "http,name=http", "http,tls=user,name=https" },
	  .generators = { { "wrk", "wrk", "wrk", WRK " -c8 {uri}" },
			  { "h2load", "nghttp2-client", "nghttp2",
			    "h2load --h1 -n 20000 -c 8 {uri}" } } },
	{ .word = "bulk",
	  .summary = "receiving in bulk, 1 connection",
	  .specs = { "iperf3,engine=all" },
	  .generators = { { "iperf3", "iperf3", "iperf3",
			    "iperf3 -c {host} -p {port} -n 512M -J" } } },
	{ .word = "http",
	  .summary = "GET, 64 connections",
	  .specs = { "http,engine=all" },
	  .generators = { { "wrk", "wrk", "wrk", WRK " -c64 {uri}" },
			  { "h2load", "nghttp2-client", "nghttp2",
			    "h2load --h1 -n 20000 -c 64 {uri}" },
			  { "ab", "apache2-utils", "httpd-tools",
			    "ab -k -q -n 20000 -c 64 {uri}" } } },
	{ .word = "nbd",
	  .summary = "random blocks of 4 KiB, 32 in flight",
	  .specs = { "nbd,engine=all" },
	  .generators = { { "fio", FIO_NBD_PACKAGES, FIO_NBD " --rw=randrw" },
			  { "qemu-img", QEMU_PACKAGES,
			    "qemu-img bench -f raw -n -d 32 -c 10000 {uri}" } } },
	{ .word = "nvme",
	  .summary = "random blocks of 4 KiB over NVMe/TCP, 32 in flight",
	  .specs = { "nvme,engine=all,size=16M,nqn=" NVME_NAME },
	  .generators = { { "fio nvme /dev/nvme-fabrics",
			    "fio nvme-cli, then `modprobe nvme-tcp` as root (the client of "
			    "NVMe/TCP is the kernel)",
			    "fio nvme-cli", NVME } } },
	{ .word = "netperf",
	  .summary = "round trips of 1 byte, one at a time",
	  .specs = { "netperf,engine=all" },
	  .generators = { { "netperf", "netperf (in non-free)", NULL, NETPERF } } },
	{ .word = "discard",
	  .summary = "receiving in bulk, blocks of 64 KiB",
	  .specs = { "discard,engine=all" },
	  .generators = { { "fio", FIO_PACKAGES, FIO_NET " --rw=write --bs=64k" FIO_TIMED } } },
	{ .word = "sockperf",
	  .summary = "round trips over TCP, one at a time",
	  .specs = { "sockperf,engine=all" },
	  .generators = { { "sockperf", "sockperf", "sockperf",
			    "sockperf ping-pong --tcp -i {host} -p {port} -t 1 --full-rtt" } } },
	{ .word = "udp",
	  .summary = "round trips over UDP, one at a time",
	  .specs = { "sockperf,transport=udp,engine=all" },
	  .generators = { { "sockperf", "sockperf", "sockperf",
			    "sockperf ping-pong -i {host} -p {port} -t 1 --full-rtt" } } },
	{ .word = NULL },
};

/* NULL: there is none of that word. */
static const struct bench *bench_find(const char *word)
{
	if (!strcmp(word, "https")) /* its name until 0.2 */
		word = "tls";
	for (const struct bench *b = benches; b->word; b++)
		if (!strcmp(b->word, word))
			return b;
	return NULL;
}

/* Is it there: a device that may be written to, or a program?  access() and not stat(), which a
 * sandbox may forbid for programs. */
static bool is_there(const char *what, int length)
{
	const char *path = getenv("PATH"), *end;
	char file[PATH_MAX];

	if (*what == '/')
		return access(what, W_OK) == 0;
	for (; path && *path; path = *end ? end + 1 : end) {
		int bytes;

		end = strchrnul(path, ':');
		bytes = snprintf(file, sizeof(file), "%.*s/%.*s", (int)(end - path), path, length,
				 what);
		if (bytes > 0 && (size_t)bytes < sizeof(file) && access(file, X_OK) == 0)
			return true;
	}
	return false;
}

static bool bench_generator_is_installed(const struct bench_generator *g)
{
	const char *what = g->needs;
	size_t length;
	bool all = true;

	for (; all && *what; what += length + (what[length] != '\0')) {
		length = strcspn(what, " ");
		all = is_there(what, (int)length);
	}
	return all;
}

/* The first of its generators that is installed; NULL: none is. */
static const struct bench_generator *bench_generator_of(const struct bench *b)
{
	for (const struct bench_generator *g = b->generators; g->needs; g++)
		if (bench_generator_is_installed(g))
			return g;
	return NULL;
}

/* The word that a generator of this name measures; NULL: none. */
static const char *bench_measures(const char *generator)
{
	size_t length = strlen(generator);

	for (const struct bench *b = benches; b->word; b++)
		for (const struct bench_generator *g = b->generators; g->needs; g++)
			if (strcspn(g->needs, " ") == length &&
			    !strncmp(g->needs, generator, length))
				return b->word;
	return NULL;
}

bool bench_knows(const char *word)
{
	return bench_find(word) || bench_measures(word);
}

/* ---- Measuring ---- */

enum { COMMAND_WORDS_MAX = 32 };

/* The listeners, the command and the file of a word's measurement. */
struct bench_run {
	char *specs[BENCH_SPECS_MAX + 1];     /* NULL-terminated */
	char *texts;                          /* owns the words of `command` */
	char *command[COMMAND_WORDS_MAX + 1]; /* NULL-terminated */
	char *file;                           /* of a disk, removed at the end; NULL: none */
	char *label, *page;                   /* unless the user has chosen them */
};

static int unknown_word(const struct ctl *ctl, const char *word)
{
	struct suggestion near = { .text = word };
	const char *measured = bench_measures(word);

	for (const struct bench *b = benches; b->word; b++)
		suggest_try(&near, b->word);
	if (measured)
		return ctl_usage(ctl, "'%s' is a load generator; `nbbench %s` runs it", word,
				 measured);
	return ctl_usage(ctl, "there is no '%s'%s; `nbbench list` lists the words", word,
			 suggest_hint(&near));
}

/* Prints how to install each generator of the word. */
static int not_installed(const struct bench *b)
{
	ctl_warn("%s: no load generator for it is installed; install one of these:", b->word);
	for (const struct bench_generator *g = b->generators; g->needs; g++)
		fprintf(stderr, "  %s: apt install %s%s%s\n", g->needs, g->debian,
			g->fedora ? "; dnf install " : "", g->fedora ? g->fedora : "");
	return CTL_REFUSED;
}

/* Two CPUs that share no core, else any two; false: there is one. */
static bool choose_cpus(int *ret_server, int *ret_generator)
{
	cpu_set_t ours;

	if (cores_apart(ret_server, ret_generator))
		return true;
	if (sched_getaffinity(0, sizeof(ours), &ours) < 0)
		return false;
	CPU_CLR((size_t)*ret_server, &ours);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET((size_t)cpu, &ours)) {
			*ret_generator = cpu;
			return true;
		}
	return false;
}

static void add_option(json_t *words, const struct ctl *ctl, unsigned i)
{
	const struct option_spec *o = &ctl->command->options[i];
	char *const one[] = { (char *)ctl->values[i], NULL };

	for (char *const *value = ctl->lists[i] ? ctl->lists[i] : one; *value; value++) {
		json_array_append_new(words, json_sprintf("--%s", o->name));
		if (o->kind != OPTION_FLAG)
			json_array_append_new(words, json_string(*value));
	}
}

/* Prints the equivalent `nbbench run`, for a user who wants to change a part of it. */
static void print_command(const struct ctl *ctl)
{
	json_t *words = json_pack("[ss]", "nbbench", "run");
	char *text;

	assert(ctl->specs);
	for (char **spec = ctl->specs; *spec; spec++)
		json_array_append_new(words, json_string(*spec));
	for (unsigned i = 0; i < COMMAND_OPTIONS_MAX; i++)
		if (ctl->values[i])
			add_option(words, ctl, i);
	json_array_append_new(words, json_string("--"));
	for (char **word = ctl->rest; *word; word++)
		json_array_append_new(words, json_string(*word));
	text = field_show_words(words);
	fprintf(stderr, "%s\n", text);
	free(text);
	json_decref(words);
}

/* Makes an empty file where a disk has room; /tmp may be memory.  The daemon gives it its size.
 * NULL: failed, and printed. */
static char *make_file(char **argv)
{
	const char *folder = runtime_folder(access("/var/tmp", W_OK) == 0 ? "/var/tmp" : "/tmp");
	char *path;
	int fd;

	if (*folder != '/' || strpbrk(folder, ", \t\n")) {
		ctl_warn("TMPDIR: expected an absolute path without white space or ',', got '%s'",
			 folder);
		return NULL;
	}
	leftovers_guard(argv);
	path = text_new("%s/nbserved-XXXXXX.img", folder);
	fd = mkostemps(path, strlen(".img"), O_CLOEXEC);
	if (fd >= 0) {
		close(fd);
		guard_remove(path);
		return path;
	}
	ctl_warn("cannot make %s: %s", path, strerror(errno));
	free(path);
	return NULL;
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

/* The specs of a word, with the file, and with the CPU unless it is negative. */
static void set_specs(struct bench_run *run, const struct bench *b, int cpu)
{
	char cpus[32] = "";

	if (cpu >= 0)
		snprintf(cpus, sizeof(cpus), ",cpus=%d", cpu);
	for (unsigned i = 0; b->specs[i]; i++) {
		const char *file = strstr(b->specs[i], "{file}");

		run->specs[i] =
			file ? text_new("%.*s%s%s%s", (int)(file - b->specs[i]), b->specs[i],
					run->file, file + strlen("{file}"), cpus)
			     : text_new("%s%s", b->specs[i], cpus);
	}
}

/* An exit code, with the error printed. */
static int prepare(struct bench_run *run, const struct bench *b, char **argv)
{
	const struct bench_generator *g = bench_generator_of(b);
	int server, generator;
	unsigned count = 0;
	bool apart;
	char *rest;

	if (!g)
		return not_installed(b);
	if (b->needs_file && !(run->file = make_file(argv)))
		return CTL_REFUSED;
	apart = choose_cpus(&server, &generator);
	set_specs(run, b, apart ? server : -1);
	run->texts = apart ? text_new("taskset -c %d %s", generator, g->command)
			   : text_new("%s", g->command);
	rest = run->texts;
	for (char *w; count < COMMAND_WORDS_MAX && (w = next_word(&rest));)
		run->command[count++] = w;
	run->label = text_new("%.*s, %s", (int)strcspn(g->needs, " "), g->needs, b->summary);
	run->page = text_new("nbserved-%s.html", b->word);
	return CTL_DONE;
}

static void bench_run_free(struct bench_run *run)
{
	if (run->file)
		unlink(run->file);
	free(run->file);
	for (char **spec = run->specs; *spec; spec++)
		free(*spec);
	free(run->texts);
	free(run->label);
	free(run->page);
}

static void show_page(const char *page)
{
	char *path = realpath(page, NULL);

	if (path)
		fprintf(stderr, "The page: %s\n", path);
	free(path);
}

/* rows: the file for the rows of a page of several words; NULL: this word has a page of its own. */
static int measure_word(const struct ctl *ctl, const struct bench *b, const char *rows)
{
	struct bench_run run = { 0 };
	struct ctl own = *ctl;
	int rc = prepare(&run, b, ctl->argv);

	if (rc == CTL_DONE) {
		own.specs = run.specs;
		own.rest = run.command;
		own.word_count = 0;
		if (!own.values[VALUE_LABEL])
			own.values[VALUE_LABEL] = run.label;
		if (rows) {
			own.values[VALUE_SAVE] = rows;
			own.values[VALUE_HTML] = NULL;
		} else if (!own.values[VALUE_HTML]) {
			own.values[VALUE_HTML] = run.page;
		}
		print_command(&own);
		rc = compare_serving(&own);
	}
	if (rc == CTL_DONE && !rows)
		show_page(own.values[VALUE_HTML]);
	bench_run_free(&run);
	return rc;
}

/* One page for all words, of the rows that each has saved. */
static int measure_words(const struct ctl *ctl)
{
	const char *rows = ctl->values[VALUE_SAVE], *page = ctl->values[VALUE_HTML];
	char *made = rows ? NULL : text_new("%s/nbbench-XXXXXX", runtime_folder("/tmp"));
	int fd = made ? mkostemp(made, O_CLOEXEC) : -1, rc = CTL_DONE;

	if (made && fd < 0) {
		ctl_warn("cannot make %s: %s", made, strerror(errno));
		free(made);
		return CTL_CANNOT_RUN;
	}
	if (fd >= 0)
		close(fd);
	for (unsigned i = 0; i < ctl->word_count && !child_interrupted(); i++) {
		int done = measure_word(ctl, bench_find(ctl->words[i]), rows ? rows : made);

		rc = rc == CTL_DONE ? done : rc;
	}
	page = page ? page : "nbserved-bench.html";
	if (compare_page(page, rows ? rows : made) == CTL_DONE)
		show_page(page);
	if (made)
		unlink(made);
	free(made);
	return rc;
}

static int run_words(struct ctl *ctl)
{
	for (unsigned i = 0; i < ctl->word_count; i++)
		if (!bench_find(ctl->words[i]))
			return unknown_word(ctl, ctl->words[i]);
	if (ctl->word_count == 0)
		return ctl_usage(ctl, "expected a word, as in `nbbench echo`");
	return ctl->word_count == 1 ? measure_word(ctl, bench_find(ctl->words[0]), NULL)
				    : measure_words(ctl);
}

/* ---- nbbench list ---- */

/* Prints names as in "redis-benchmark, valkey-benchmark": of the generators that are installed, or
 * of those that are not. */
static void print_generators(FILE *to, const struct bench *b, bool installed)
{
	const char *before = "";

	for (const struct bench_generator *g = b->generators; g->needs; g++)
		if (bench_generator_is_installed(g) == installed) {
			fprintf(to, "%s%s", before, g->needs);
			before = ", ";
		}
}

static int run_list(struct ctl *ctl)
{
	FILE *to = ctl->out.file;

	for (const struct bench *b = benches; b->word; b++) {
		bool installed = bench_generator_of(b);

		fprintf(to, "%-9s %s: %s", b->word, b->summary, installed ? "" : "not here: ");
		print_generators(to, b, installed);
		putc('\n', to);
	}
	return CTL_DONE;
}

/* clang-format off */
const struct command command_words = {
	.name = "WORD...",
	.here = true,
	.arguments = "",
	.summary = "measure echo, disk, tls, bulk, ...: `nbbench list` has the words",
	.details =
		"Serves what the word names, runs a generator that is installed against it, and writes a\n"
		"page.  Server and generator have CPUs of different cores.  It prints the `nbbench run`\n"
		"that does the same.  Several words are measured one after the other, with one page,\n"
		"which with --save FILE has all rows of FILE.\n",
	.example = "nbbench echo\nnbbench echo disk tls --time 20",
	.options = {
#define OPTION(id, in, ...) COMPARE_OPTION(id, in, WORDS, __VA_ARGS__)
#include "compare_option_list.h"
#undef OPTION
	},
	.words_max = 32,
	.serves = true,
	.run = run_words,
};
const struct command command_list = {
	.name = "list",
	.here = true,
	.arguments = "",
	.summary = "the words, what each measures, and with which generator here",
	.example = "nbbench list",
	.json_instead = "nbbench list",
	.run = run_list,
};
