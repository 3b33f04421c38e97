/* The words of `nbserved --bench`: the listeners of each, and the load generators that can drive
 * it, of which the first that is installed is used.  Main thread. */
#pragma once
#include <stdbool.h>

struct generator {
	const char
		*needs; /* its program, then others, last a device: "fio nvme /dev/nvme-fabrics" */
	/* packages, and further steps to install it; NULL: it is in no package */
	const char *debian, *fedora;
	/* Its command and arguments, with placeholders of `nbctl compare`; an argument with spaces
	 * is in single quotes. */
	const char *command;
};

enum { BENCH_GENERATORS_MAX = 5 };
struct bench {
	const char *word;
	const char *summary; /* what is measured */
	const char *spec;    /* as of --run, several with a space between */
	bool needs_file;     /* {file} in `spec` stands for a new one */
	struct generator generators[BENCH_GENERATORS_MAX + 1]; /* ends with needs NULL */
};

extern const struct bench benches[]; /* ends with word NULL */

/* NULL: there is none of that word. */
const struct bench *bench_find(const char *word);

/* The first of its generators that is installed; NULL: none is. */
const struct generator *bench_generator(const struct bench *b);

bool generator_is_installed(const struct generator *g);

/* "redis-benchmark, wrk": all that are installed, each once; to be freed. */
char *generators_installed(void);
