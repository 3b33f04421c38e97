/* Converts the arguments of `nbserved --run` to the text of a configuration file.  See
 * config_run.h. */
#include "config_run.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config_keys.h"
#include "registry.h"
#include "store.h"
#include "suggest.h"
#include "text.h"
#include "util.h"

enum { RUN_KEYS_MAX = 64 };

/* One argument of --run, split; the strings point into `words`. */
struct run {
	char *words;
	const struct service *service;
	struct {
		const char *key, *value;
	} keys[RUN_KEYS_MAX];
	unsigned count;
	const char *port, *export, *engine, *name, *counters; /* NULL: not given */
};

/* ---- Reading ---- */

/* The next KEY= after a comma; other commas are a list's: `allow=10.0.0.0/8,127.0.0.1,port=7`. */
static char *next_key(char *text)
{
	for (char *comma = strchr(text, ','); comma; comma = strchr(comma + 1, ',')) {
		size_t bytes = 0;

		while (isalnum((unsigned char)comma[1 + bytes]) || comma[1 + bytes] == '-')
			bytes++;
		if (bytes > 0 && comma[1 + bytes] == '=')
			return comma;
	}
	return NULL;
}

static int unknown_key(const struct run *run, const char *name, struct reason *reason)
{
	const char *instead = config_key_removed(CONFIG_LISTENER, name);
	struct suggestion near = { .text = name };
	const struct config_key *key;

	if (!instead)
		instead = config_key_removed(CONFIG_EXPORT, name);
	if (instead)
		return reason_set(reason, -EINVAL, "--run %s: %s: removed: %s", run->service->name,
				  name, instead);
	suggest_try(&near, "port");
	suggest_try(&near, "export");
	suggest_try(&near, "name");
	suggest_try(&near, "counters");
	for (unsigned i = 0; (key = config_key_at(i)); i++)
		if (key->section != CONFIG_SERVER)
			suggest_try(&near, key->name);
	return reason_set(reason, -EINVAL,
			  "--run %s: unknown key '%s'%s; nbserved.ini(5) lists them",
			  run->service->name, name, suggest_hint(&near));
}

/* False: value has characters that would end the line or begin a comment in a file. */
static bool run_fits(const char *value)
{
	for (const char *c = value; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f ||
		    (*c == ';' && c > value && c[-1] == ' '))
			return false;
	return true;
}

static int run_set(struct run *run, char *text, struct reason *reason)
{
	char *value = strchr(text, '=');
	const struct {
		const char *name;
		const char **to;
	} own[] = { { "port", &run->port },
		    { "export", &run->export },
		    { "engine", &run->engine },
		    { "name", &run->name },
		    { "counters", &run->counters } };

	if (!value || value == text)
		return reason_set(reason, -EINVAL, "--run %s: expected KEY=VALUE, got '%s'",
				  run->service->name, text);
	*value++ = '\0';
	if (!run_fits(value))
		return reason_set(
			reason, -EINVAL,
			"--run %s: %s: a value must not contain control characters or ` ;`, "
			"which begins a comment",
			run->service->name, text);
	for (unsigned i = 0; i < ARRAY_SIZE(own); i++)
		if (!strcmp(text, own[i].name)) {
			*own[i].to = value;
			return 0;
		}
	if (!config_key_find(CONFIG_LISTENER, text) && !config_key_find(CONFIG_EXPORT, text))
		return unknown_key(run, text, reason);
	if (run->count == RUN_KEYS_MAX)
		return reason_set(reason, -EINVAL, "--run %s: too many keys", run->service->name);
	run->keys[run->count].key = text;
	run->keys[run->count++].value = value;
	return 0;
}

static void unknown_service(const char *name, struct reason *reason)
{
	struct suggestion near = { .text = name };

	for (unsigned i = 0; services[i]; i++)
		suggest_try(&near, services[i]->name);
	reason_set(reason, -EINVAL,
		   "--run %s: there is no such service%s; nbserved.ini(5) lists them", name,
		   suggest_hint(&near));
}

static int run_parse(struct run *run, const char *spec, struct reason *reason)
{
	char *text, *next;

	*run = (struct run){ .words = strdup(spec) };
	if (!run->words)
		abort();
	text = strchr(run->words, ',');
	if (text)
		*text++ = '\0';
	run->service = registry_service(run->words);
	if (!run->service) {
		unknown_service(run->words, reason);
		return -EINVAL;
	}
	for (; text; text = next) {
		int rc;

		next = next_key(text);
		if (next)
			*next++ = '\0';
		rc = run_set(run, text, reason);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* ---- Writing ---- */

/* Is key i one of the export's section?  `store` is, if it is a store without a file; else it
 * belongs to the listener. */
static bool is_of_export(const struct run *run, unsigned i)
{
	const struct store *store = registry_store(run->keys[i].value);

	if (!strcmp(run->keys[i].key, "store"))
		return store && !store->file;
	return !config_key_find(CONFIG_LISTENER, run->keys[i].key);
}

/* NULL: not given. */
static const char *value_of(const struct run *run, const char *key)
{
	for (unsigned i = 0; i < run->count; i++)
		if (!strcmp(run->keys[i].key, key))
			return run->keys[i].value;
	return NULL;
}

/* Writes the export's section; without a path it is in memory.  A file or memory that is made is
 * filled with data: a measurement of holes would say nothing about the disk or the network. */
static void write_export(FILE *to, const struct run *run, const char *name)
{
	bool file = run->export || value_of(run, "path"), null = false, made;
	const char *create = value_of(run, "create"), *store = value_of(run, "store");
	const char *size = value_of(run, "size");

	fprintf(to, "[export %s]\n", name);
	if (run->export)
		fprintf(to, "path = %s\n", run->export);
	for (unsigned i = 0; i < run->count; i++)
		if (is_of_export(run, i)) {
			fprintf(to, "%s = %s\n", run->keys[i].key, run->keys[i].value);
			null |= !strcmp(run->keys[i].key, "store");
		}
	if (file && size && !create)
		fputs("create = yes\n", to);
	if (!file && !null)
		fputs("store = memory\n", to);
	if (!file && !size)
		fputs("size = 256M\n", to);
	made = create ? strcmp(create, "no") != 0 : size != NULL;
	if (!file)
		made = !store || strcmp(store, "null") != 0;
	if (made && !value_of(run, "fill"))
		fputs("fill = yes\n", to);
}

/* An address without a port, which `port=` gives or the kernel chooses: `10.0.0.1`, `[::1]`. */
static bool lacks_port(const char *address)
{
	size_t bytes = strlen(address);

	return bytes > 0 && !strchr(address, ',') && strncmp(address, "unix:", 5) != 0 &&
	       (address[bytes - 1] == ']' || !strchr(address, ':'));
}

static void write_listener(FILE *to, const struct run *run, const char *name, const char *engine,
			   const char *export, unsigned port_offset)
{
	char *end;
	unsigned long port = run->port ? strtoul(run->port, &end, 10) : 0;
	const char *address = value_of(run, "address");
	bool whole = address && !lacks_port(address); /* as the file takes it */

	fprintf(to, "[listener %s]\nservice = %s\n", name, run->service->name);
	/* Not a number: written as it is, and reported as an invalid address. */
	if (run->port && (!*run->port || *end))
		fprintf(to, "address = 127.0.0.1:%s\n", run->port);
	else if (!whole)
		fprintf(to, "address = %s:%lu\n", address ? address : "127.0.0.1",
			port ? port + port_offset : 0);
	if (engine)
		fprintf(to, "engine = %s\n", engine);
	if (export)
		fprintf(to, "exports = %s\n", export);
	for (unsigned i = 0; i < run->count; i++)
		if ((whole || strcmp(run->keys[i].key, "address")) &&
		    (!export ||
		     !is_of_export(run, i))) /* reported as an error if there is no export */
			fprintf(to, "%s = %s\n", run->keys[i].key, run->keys[i].value);
}

/* Writes a name, with the engine if several serve it, and with a number from the second on. */
static void write_name(char name[static CONFIG_NAME_MAX], const char *first, const char *engine,
		       unsigned number)
{
	snprintf(name, CONFIG_NAME_MAX, number > 1 ? "%s%s%s-%u" : "%s%s%s", first,
		 engine ? "-" : "", engine ? engine : "", number);
}

/* A listener has the name that --run gives it, else its service's and engine's. */
static void write_listener_name(char name[static CONFIG_NAME_MAX], const struct run *run,
				const char *engine, bool all, unsigned number)
{
	if (run->name)
		write_name(name, run->name, all ? engine : NULL, 1);
	else
		write_name(name, run->service->name, engine, number);
}

/* The number of runs[index] among those of its service, from 1. */
static unsigned number_of(const struct run *runs, unsigned index)
{
	unsigned number = 1;

	for (unsigned i = 0; i < index; i++)
		number += runs[i].service == runs[index].service && !runs[i].name;
	return number;
}

/* The run that writes the export of runs[index]: the first one with the same path. */
static unsigned owner_of_export(const struct run *runs, unsigned index)
{
	for (unsigned i = 0; runs[index].export && i < index; i++)
		if (runs[i].export && !strcmp(runs[i].export, runs[index].export))
			return i;
	return index;
}

/* The keys of an export are with the first --run that has it. */
static int check_export(const struct run *runs, unsigned index, struct reason *reason)
{
	const struct run *run = &runs[index];
	bool owns = owner_of_export(runs, index) == index;

	for (unsigned i = 0; !owns && i < run->count; i++)
		if (is_of_export(run, i))
			return reason_set(reason, -EINVAL,
					  "--run %s: %s: give it with the first --run of export %s",
					  run->service->name, run->keys[i].key, run->export);
	return 0;
}

static void write_run(FILE *to, const struct run *runs, unsigned index)
{
	const struct run *run = &runs[index];
	unsigned owner = owner_of_export(runs, index);
	bool all = run->engine && !strcmp(run->engine, "all");
	char name[CONFIG_NAME_MAX], disk[CONFIG_NAME_MAX];
	const char *export = (run->service->flags & SERVICE_EXPORTS) ? disk : NULL;
	unsigned offset = 0, number = number_of(runs, index);

	write_name(disk, "disk", NULL, owner + 1);
	if (export && owner == index)
		write_export(to, run, disk);
	if (!all) {
		write_listener_name(name, run, run->engine, false, number);
		write_listener(to, run, name, run->engine, export, 0);
	}
	for (unsigned i = 0; all && engines[i]; i++) {
		if (engines[i]->transport != &transport_tcp)
			continue;
		write_listener_name(name, run, engines[i]->name, true, number);
		write_listener(to, run, name, engines[i]->name, export, offset++);
		fputs("optional = yes\n",
		      to); /* a listener that this host cannot serve is skipped with a message */
	}
}

int config_run_text(char *const *specs, unsigned count, const char *server, char **ret_text,
		    struct reason *reason)
{
	struct run *runs = calloc(count, sizeof(*runs));
	char *text;
	FILE *to = text_open(&text);
	int rc = 0;

	if (!runs)
		abort();
	for (unsigned i = 0; i < count && rc == 0; i++) {
		rc = run_parse(&runs[i], specs[i], reason);
		if (rc == 0)
			rc = check_export(runs, i, reason);
	}
	fprintf(to, "[server]\n%s", server);
	for (unsigned i = 0; i < count; i++)
		if (runs[i].counters)
			fprintf(to, "counters = %s\n", runs[i].counters);
	for (unsigned i = 0; i < count && rc == 0; i++)
		write_run(to, runs, i);
	fclose(to);
	for (unsigned i = 0; i < count; i++)
		free(runs[i].words);
	free(runs);
	if (rc < 0)
		free(text);
	else
		*ret_text = text;
	return rc;
}

static void print_engines(FILE *to, const struct transport *transport)
{
	fprintf(to, "  %s:", transport->name);
	for (unsigned i = 0; engines[i]; i++)
		if (registry_engine_carries(engines[i], transport))
			fprintf(to, " %s%s", engines[i]->name,
				engines[i]->absent ? " (not in this build)" : "");
	putc('\n', to);
}

void config_run_help(FILE *to)
{
	fputs("Services:", to);
	for (unsigned i = 0; services[i]; i++)
		fprintf(to, " %s", services[i]->name);
	fputs("\nEngines, by transport; engine=all takes each of tcp:\n", to);
	for (unsigned i = 0; transports[i]; i++)
		print_engines(to, transports[i]);
	fputs("Other keys are those of nbserved.ini(5), and port=N, export=PATH, name=NAME, counters=auto.\n",
	      to);
}
