/* `nbbench bridge`: the far end of -H and of --on.  Besides relaying calls to the daemon it answers
 * org.nbserved.Host: it describes and reads its host, runs a command, serves a daemon for one
 * measurement.  Nothing that it has started may outlive it: a command is ended by bridge_run.c, and
 * a daemon by bridge_unserve(). */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>

#include "bridge_host.h"
#include "ctl.h"
#include "field.h"
#include "host.h"
#include "leftovers.h"
#include "must.h"
#include "util.h"
#include "version.h"

/* While a daemon is served, nbbench sends Alive each second, except when it waits for other hosts.
 */
enum { SERVE_SILENCE_MS = 20 * 1000 };

struct host_bridge {
	struct bridge bridge;
	const char *socket; /* of the daemon that is called unless Serve has started one */
	struct bridge_daemon served;
};

static json_t *describe(struct host_bridge *b, const json_t *parameters)
{
	const char *connection = getenv("SSH_CONNECTION");
	char network[HOST_NETWORK_BYTES];
	struct utsname name;

	(void)parameters;
	uname(&name);
	host_network(network);
	return json_pack("{s:s, s:s, s:s, s:i, s:s, s:s, s:s}", "host", name.nodename, "version",
			 NB_VERSION, "kernel", name.release, "cpus", get_nprocs(), "socket",
			 b->bridge.target.socket, "network", network, "ssh_connection",
			 connection ? connection : "");
}

/* For `compare`, which without -H reads the same of its own host. */
static json_t *conditions(struct host_bridge *b, const json_t *parameters)
{
	(void)b, (void)parameters;
	return host_describe();
}

static json_t *read_host(struct host_bridge *b, const json_t *parameters)
{
	uint64_t pid = field_uint(parameters, "pid");

	(void)b;
	return host_read(pid > INT_MAX ? 0 : (pid_t)pid, field_get(parameters, "threads"),
			 field_get(parameters, "interfaces"));
}

char **bridge_words(const json_t *parameters)
{
	json_t *argv = field_get(parameters, "argv"), *word;
	char **words = must(calloc(json_array_size(argv) + 1, sizeof(*words)));
	size_t i;

	json_array_foreach(argv, i, word)
		words[i] = (char *)(json_is_string(word) ? json_string_value(word) : "");
	return words;
}

/* The version of the load generator that a command runs. */
static json_t *version(struct host_bridge *b, const json_t *parameters)
{
	char **words = bridge_words(parameters);
	char *text = words[0] ? version_of(words) : NULL;
	json_t *made = json_pack("{s:s*}", "version", text);

	(void)b;
	free(text);
	free(words);
	return made;
}

/* Calls go to the daemon that has been started here, else to the one that runs. */
static void take_socket(struct host_bridge *b)
{
	bridge_set_socket(&b->bridge, b->served.pid ? b->served.socket : b->socket);
	b->bridge.silence_ms = b->served.pid ? SERVE_SILENCE_MS : 0;
}

static json_t *serve_here(struct host_bridge *b, const json_t *parameters)
{
	json_t *made = bridge_serve(&b->served, parameters);

	take_socket(b);
	return made;
}

static json_t *end_here(struct host_bridge *b, const json_t *parameters)
{
	(void)parameters;
	bridge_unserve(&b->served);
	take_socket(b);
	return json_object();
}

static bool answer(struct bridge *bridge, const struct varlink_request *call, const char *method)
{
	struct host_bridge *b = (struct host_bridge *)(void *)bridge; /* its first member */
	static const struct {
		const char *name;
		json_t *(*answer)(struct host_bridge *b, const json_t *parameters);
	} methods[] = { { "Describe", describe }, { "Conditions", conditions },
			{ "Version", version },   { "Serve", serve_here },
			{ "Unserve", end_here },  { "Read", read_host } };

	if (!strcmp(method, "Run"))
		return bridge_run(&b->bridge.reader, call);
	for (unsigned i = 0; i < ARRAY_SIZE(methods); i++)
		if (!strcmp(methods[i].name, method))
			return bridge_put(json_pack("{s:o}", "parameters",
						    methods[i].answer(b, call->parameters)));
	return bridge_put_error("org.varlink.service.MethodNotFound",
				json_pack("{s:s}", "method", method));
}

static int run_bridge(struct ctl *ctl)
{
	struct host_bridge b = {
		.bridge = { .target = ctl->target, .answer = answer },
		.socket = ctl->target.socket,
	};

	leftovers_guard(ctl->argv);
	bridge_serve_calls(&b.bridge);
	bridge_unserve(&b.served);
	return CTL_DONE;
}

const struct command command_bridge = {
	.name = "bridge",
	.here = true,
	.arguments = "",
	.summary = "the far end of -H and --on, on stdin and stdout",
	.details =
		"`nbbench -H HOST` and `--on HOST` start it over ssh; there is no other use for it.\n",
	.example = "nbbench bridge <calls >replies",
	.json_instead = "nbctl status --json",
	.run = run_bridge,
};
