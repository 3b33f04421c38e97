/* The load generators whose output is understood, and how their names are found in a command
 * line.  See generator.h. */
#include "generator.h"

#include <math.h>
#include <string.h>

#include "field.h"
#include "generator_text.h"
#include "util.h"

static const struct generator {
	const char *program;
	generator_parser *parse;
	uint64_t step_ns;    /* resolution of its round trips, if that is coarse; else 0 */
	const char *version; /* the option that prints its version */
} generators[] = {
	{ "redis-benchmark", parse_redis, 0, "--version" },
	{ "valkey-benchmark", parse_redis, 0, "--version" },
	{ "fio", parse_fio, 0, "--version" },
	{ "iperf3", parse_iperf3, 0, "--version" },
	{ "wrk", parse_wrk, 0, "-v" },
	{ "wrk2", parse_wrk, 0, "-v" },
	{ "h2load", parse_h2load, 0, "--version" },
	{ "ab", parse_ab, 1000000, "-V" },
	{ "sockperf", parse_sockperf, 0, "--version" },
	{ "netperf", parse_netperf, 1000, "-V" },
	{ "qemu-img", parse_qemu_img, 0, "--version" },
};

static const struct generator *generator_of(const char *word)
{
	const char *slash = strrchr(word, '/');

	for (unsigned i = 0; i < ARRAY_SIZE(generators); i++)
		if (!strcmp(slash ? slash + 1 : word, generators[i].program))
			return &generators[i];
	return NULL;
}

/* Programs that run the rest of their arguments. */
static bool is_wrapper(const char *word)
{
	static const char *const wrappers[] = { "taskset", "numactl", "nice", "chrt", "env",
						"timeout", "stdbuf",  "sudo", "ip",   "perf" };
	const char *slash = strrchr(word, '/');

	for (unsigned i = 0; i < ARRAY_SIZE(wrappers); i++)
		if (!strcmp(slash ? slash + 1 : word, wrappers[i]))
			return true;
	return false;
}

/* Advances *argv to the generator's own name. */
static const struct generator *generator_find(char *const **argv)
{
	const struct generator *found = (*argv)[0] ? generator_of((*argv)[0]) : NULL;

	if (found || !(*argv)[0] || !is_wrapper((*argv)[0]))
		return found;
	for (char *const *word = *argv + 1; *word && !found; word++) {
		found = generator_of(*word);
		*argv = found ? word : *argv;
	}
	return found;
}

const char *generator_name(char *const *argv)
{
	const struct generator *found = generator_find(&argv);

	return found ? found->program : NULL;
}

const char *generator_version(char *const *argv, const char **ret_program)
{
	const struct generator *found = generator_find(&argv);

	*ret_program = argv[0];
	return found ? found->version : NULL;
}

uint64_t generator_step_ns(const char *name)
{
	const struct generator *found = generator_of(name);

	return found ? found->step_ns : 0;
}

bool generator_parse(char *const *argv, const char *output, struct generator_result *ret_result)
{
	const struct generator *found = generator_find(&argv);
	struct generator_result result = { 0 };

	if (!found || !found->parse(argv, output, &result) ||
	    !isfinite(result.requests + result.requests_per_s + result.errors) ||
	    !isfinite(result.bytes + result.bytes_per_s))
		return false;
	*ret_result = result;
	return true;
}
