/* See conditions.h. */
#include "conditions.h"

#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "boot_id.h"
#include "child.h"
#include "cores.h"
#include "field.h"
#include "generator_host.h"
#include "host.h"
#include "measure_file.h"
#include "must.h"
#include "parse.h"
#include "siphash.h"
#include "util.h"

/* ---- The host of the daemon: this one, or with -H another, whose bridge is asked ---- */

/* An exit code, with a new reference in *ret after CTL_DONE.  threads: ids, or NULL. */
static int read_host(struct ctl *ctl, pid_t pid, json_t *threads, json_t **ret)
{
	if (ctl->target.host)
		return ctl_call(ctl, "Host.Read",
				json_pack("{s:i, s:O*}", "pid", (int)pid, "threads", threads), ret);
	*ret = host_read(pid, threads, NULL);
	return CTL_DONE;
}

/* ---- Conditions that do not change while nbbench runs, or while a daemon runs ---- */

static void forget_daemon(struct conditions *c)
{
	json_decref(c->common);
	json_decref(c->config);
	json_decref(c->interfaces);
	free(c->build);
	c->common = c->config = c->interfaces = NULL;
	c->build = NULL;
}

void conditions_begin(struct conditions *ret, struct ctl *ctl)
{
	struct siphash_key random;

	*ret = (struct conditions){ .ctl = ctl, .command = ctl->rest };
	if (siphash_key_init(&random) < 0)
		abort();
	snprintf(ret->run, sizeof(ret->run), "%016" PRIx64, random.words[0]);
	ret->generator = ctl->rest ? generator_host_version(ctl) : NULL;
}

/* Refuses a socket that is forwarded from another host, as by `ssh -L`: its pid and its host's
 * /proc would be looked up on this host. */
static int check_place(const struct ctl *ctl, const json_t *status)
{
	const char *there = field_text(status, "boot");

	if (ctl->target.host || !*there || !*boot_id() || !strcmp(there, boot_id()))
		return CTL_DONE;
	ctl_warn(
		"the daemon behind %s is on another host, whose CPUs and addresses are not those of "
		"this one: `nbbench -H HOST compare`",
		ctl->target.socket);
	return CTL_USAGE;
}

/* Describes each of the generator's hosts that is not the daemon's, which is described already. */
static int describe_generators(struct ctl *ctl, json_t *ret_hosts)
{
	unsigned count = ctl->target.host || ctl->on ? generator_host_count(ctl) : 0;
	int rc = CTL_DONE;

	for (unsigned i = 0; i < count && rc == CTL_DONE; i++) {
		json_t *host = NULL;

		rc = generator_host_describe(ctl, i, &host);
		json_object_del(host, "interfaces");
		if (host)
			json_array_append_new(ret_hosts, host);
	}
	return rc;
}

static json_t *names_of(const struct ctl *ctl)
{
	json_t *names = json_array();

	for (unsigned i = 0; i < ctl->on_count; i++)
		json_array_append_new(names, json_string(ctl->on[i].target.host));
	return names;
}

int conditions_ask(struct conditions *c, struct ctl *ctl)
{
	json_t *status = NULL, *host = NULL, *now = NULL, *generators = json_array();
	int rc = ctl_call(ctl, "GetStatus", NULL, &status);

	forget_daemon(c);
	c->pid = (pid_t)field_uint(status, "pid");
	if (rc == CTL_DONE)
		rc = check_place(ctl, status);
	if (rc == CTL_DONE)
		rc = ctl_call(ctl, "GetConfig", NULL, &c->config);
	if (rc == CTL_DONE)
		rc = generator_host_ask(ctl->target.host ? ctl : NULL, &host);
	if (rc == CTL_DONE) {
		c->interfaces = json_incref(field_get(host, "interfaces"));
		json_object_del(host, "interfaces");
	}
	if (rc == CTL_DONE && ctl->rest)
		rc = describe_generators(ctl, generators);
	if (rc == CTL_DONE)
		rc = read_host(ctl, c->pid, NULL, &now);
	if (rc == CTL_DONE) {
		c->throttled = field_uint(now, "throttled");
		c->build = strdup(field_text(status, "build"));
		c->common = json_pack("{s:s, s:s, s:O}", "nbserved", field_text(status, "version"),
				      "nbbench", NB_VERSION, "host", host);
		if (json_array_size(generators))
			json_object_set(c->common, "generator_host", json_array_get(generators, 0));
		if (json_array_size(generators) > 1)
			json_object_set(c->common, "generator_hosts", generators);
		if (ctl->on)
			json_object_set_new(c->common, "on", names_of(ctl));
		json_object_set_new(c->common, "invocation", field_words(ctl->argv));
	}
	json_decref(now);
	json_decref(generators);
	json_decref(host);
	json_decref(status);
	return rc;
}

/* A second has a thousand steps of the counter. */
enum { REST_MS = 1000 };

int conditions_rest(struct conditions *c)
{
	json_t *before = NULL, *after = NULL;
	int rc = read_host(c->ctl, 0, NULL, &before);

	if (rc == CTL_DONE && field_get(before, "energy")) {
		poll(NULL, 0, REST_MS);
		rc = read_host(c->ctl, 0, NULL, &after);
		c->idle =
			host_energy_spent(field_get(before, "energy"), field_get(after, "energy"));
	}
	json_decref(before);
	json_decref(after);
	return rc;
}

void conditions_fini(struct conditions *c)
{
	forget_daemon(c);
	json_decref(c->idle);
	json_decref(c->spent);
	free(c->generator);
}

/* The keys of a section that are not default: { "engine": "epoll", "port": ["1", "2"] }. */
static json_t *keys_set(const json_t *section)
{
	json_t *set = json_object(), *key;
	const char *name;

	json_object_foreach(field_get(section, "keys"), name, key)
		if (strcmp(field_text(key, "origin"), "default") != 0)
			json_object_set(set, name, field_get(key, "value"));
	return set;
}

/* Those of the listener, and the one of [server] that changes what requests cost. */
static json_t *listener_keys(const json_t *config, const char *name)
{
	json_t *keys = keys_set(field_named(config, "listeners", name));
	const json_t *counters = field_get(field_get(config, "server"), "counters");

	if (strcmp(field_text(counters, "origin"), "default") != 0)
		json_object_set(keys, "counters", field_get(counters, "value"));
	return keys;
}

/* The exports that the listener serves: those it names, or all. */
static json_t *exports_of(const json_t *config, const char *service)
{
	json_t *exports = json_object(), *section;
	size_t i;

	if (!strcmp(service, "nbd") || !strcmp(service, "nvme"))
		json_array_foreach(field_get(config, "exports"), i, section)
			json_object_set_new(exports, field_text(section, "name"),
					    keys_set(section));
	return exports;
}

static void set_cpus(json_t *to, const char *name, const cpu_set_t *cpus)
{
	char text[256];

	if (*format_cpus(cpus, text, sizeof(text)))
		json_object_set_new(to, name, json_string(text));
}

/* now: read_host() of the row's listener. */
static json_t *conditions_of(const struct conditions *c, const struct measure *row,
			     const json_t *now)
{
	const json_t *nic = json_object_get(c->interfaces, row->link.interface);
	json_t *exports = exports_of(c->config, row->service), *made;
	uint64_t throttled = field_uint(now, "throttled");
	time_t time_now = time(NULL);
	char date[32];
	struct tm utc;

	strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&time_now, &utc));
	made = json_pack("{s:s, s:o, s:O*, s:O*, s:O*}", "date", date, "listener",
			 listener_keys(c->config, row->listener), "exports",
			 json_object_size(exports) ? exports : NULL, "listener_cpus",
			 field_get(now, "listener_cpus"), "nic", nic);
	json_object_update(made, c->common);
	json_decref(exports);
	if (throttled > c->throttled)
		json_object_set_new(made, "throttled",
				    json_integer((json_int_t)(throttled - c->throttled)));
	if (c->idle && json_object_size(field_get(c->idle, "uj")) ==
			       json_object_size(field_get(c->spent, "uj")))
		json_object_set_new(made, "energy",
				    json_pack("{s:O, s:O}", "idle", c->idle, "spent", c->spent));
	return made;
}

static bool has_address(char *const *command)
{
	for (; *command; command++)
		if (strstr(*command, "{host}") || strstr(*command, "{uri}"))
			return true;
	return false;
}

static void add_command(const struct conditions *c, json_t *to, const struct measure *row,
			char *const *argv, const struct generator_run *run)
{
	json_t *command = field_words(argv), *given = field_words(c->command);
	cpu_set_t cpus;

	json_object_set_new(to, "command", command);
	if (!json_equal(command, given))
		json_object_set(to, "command_given", given);
	json_decref(given);
	if (c->by_ssh && has_address(c->command))
		json_object_set_new(to, "host_by_ssh", json_string(c->by_ssh));
	if (c->sweep)
		json_object_set(to, "sweep", (json_t *)c->sweep);
	json_object_set_new(to, "generator", json_string(c->generator));
	set_cpus(to, "generator_cpus", &run->child.cpus);
	if (c->ctl->target.host || c->ctl->on)
		return;
	host_thread_cpus(field_get(row->source, "threads"), &cpus);
	if (cores_other_nodes(&cpus, &run->child.cpus))
		json_object_set_new(to, "other_nodes", json_true());
}

/* A copy of a host's description without the properties that differ between runs on the same host:
 * the memory (the kernel's share differs between boots) and the CPUs that nbbench may use.  Also
 * without the CPU's flags, which older rows do not have.  NULL: the conditions have no such host.
 */
static json_t *lasting_host(const json_t *of)
{
	json_t *host = json_copy((json_t *)of);

	json_object_del(host, "memory_bytes");
	json_object_del(host, "apart");
	json_object_del(host, "cpu_flags");
	return host;
}

/* NULL: the generator ran on one host. */
static json_t *lasting_hosts(const json_t *conditions)
{
	json_t *hosts = field_get(conditions, "generator_hosts"), *made, *host;
	size_t i;

	if (!hosts)
		return NULL;
	made = json_array();
	json_array_foreach(hosts, i, host)
		json_array_append_new(made, lasting_host(host));
	return made;
}

/* A hash of the conditions that must be equal in two intervals for these to be visits of one row.
 */
static uint64_t setup_of(const struct conditions *c, const json_t *conditions)
{
	static const struct siphash_key no_secret;
	json_t *same = json_pack(
		"{s:o, s:s*, s:o, s:o*, s:o*, s:O, s:O*}", "command", field_words(c->command),
		"generator", c->generator, "host", lasting_host(field_get(conditions, "host")),
		"generator_host", lasting_host(field_get(conditions, "generator_host")),
		"generator_hosts", lasting_hosts(conditions), "listener",
		field_get(conditions, "listener"), "exports", field_get(conditions, "exports"));
	unsigned count;
	uint64_t *words, hash;
	size_t bytes;
	char *text;

	text = json_dumps(same, JSON_COMPACT | JSON_SORT_KEYS);
	bytes = strlen(text);
	count = (unsigned)(bytes / sizeof(*words)) + 1;
	words = must(calloc(count, sizeof(*words)));
	memcpy(words, text, bytes);
	hash = siphash(&no_secret, words, count);
	free(words);
	free(text);
	json_decref(same);
	return hash;
}

/* seen: what the documents of the visit told of the listener. */
static json_t *visit_of(const struct conditions *c, const json_t *conditions, struct place place,
			const struct measure_visit *seen)
{
	char setup[17];

	snprintf(setup, sizeof(setup), "%016" PRIx64, setup_of(c, conditions));
	return json_pack("{s:s, s:i, s:i, s:I, s:s, s:s, s:I, s:I, s:I}", "run", c->run, "round",
			 (int)place.round, "position", (int)place.position, "seed",
			 (json_int_t)place.seed, "setup", setup, "build", c->build, "since_ns",
			 (json_int_t)(place.fresh ? 0 : seen->since_ns), "generation",
			 (json_int_t)seen->generation, "changed", (json_int_t)seen->changed);
}

int conditions_set(struct conditions *c, struct measures *m, unsigned first, struct place place,
		   char *const *argv, const struct generator_run *run)
{
	uint64_t throttled = c->throttled;
	int rc = CTL_DONE;

	for (unsigned i = first; i < m->count && rc == CTL_DONE; i++) {
		json_t *now = NULL, *made;

		if (m->rows[i]->conditions || m->rows[i]->count == 0)
			continue;
		rc = read_host(c->ctl, c->pid, field_get(m->rows[i]->source, "threads"), &now);
		if (rc != CTL_DONE)
			break;
		made = conditions_of(c, m->rows[i], now);
		if (argv)
			add_command(c, made, m->rows[i], argv, run);
		throttled = MAX(throttled, field_uint(now, "throttled"));
		json_decref(now);
		measures_set_conditions(m, m->rows[i], made,
					visit_of(c, made, place, &m->rows[i]->visit));
	}
	c->throttled = throttled;
	return rc;
}
