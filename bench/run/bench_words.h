/* The words of nbbench, as `nbbench echo`: the listeners of each, and the load generators that can
 * drive it, of which the first that is installed is used.  Main thread. */
#pragma once
#include <stdbool.h>

struct bench_generator {
	const char
		*needs; /* its program, then others, last a device: "fio nvme /dev/nvme-fabrics" */
	/* packages, and further steps to install it; NULL: it is in no package */
	const char *debian, *fedora;
	/* Its command and arguments, with placeholders; an argument with spaces
	 * is in single quotes. */
	const char *command;
};

enum { BENCH_GENERATORS_MAX = 5 };
struct bench {
	const char *word;
	const char *summary; /* what is measured */
	const char *spec;    /* as of `nbbench run`, several with a space between */
	bool needs_file;     /* {file} in `spec` stands for a new one */
	struct bench_generator generators[BENCH_GENERATORS_MAX + 1]; /* ends with needs NULL */
};

extern const struct bench benches[]; /* ends with word NULL */

/* NULL: there is none of that word. */
const struct bench *bench_find(const char *word);

/* The first of its generators that is installed; NULL: none is. */
const struct bench_generator *bench_generator_of(const struct bench *b);

bool bench_generator_is_installed(const struct bench_generator *g);

/* The word that a generator of this name measures; NULL: none. */
const char *bench_measures(const char *generator);
