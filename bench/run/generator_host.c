/* See generator_host.h; far.c runs the command. */
#include "generator_host.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "field.h"
#include "host.h"
#include "must.h"
#include "version.h"

int generator_host_open(struct ctl *ctl, const struct host_list *hosts)
{
	struct ctl *on = must(calloc(hosts->count, sizeof(*on)));
	int rc;

	for (unsigned i = 0; i < hosts->count; i++) {
		on[i].command = ctl->command;
		on[i].target = (struct client_target){ .host = hosts->names[i],
						       .program = ctl->target.program };
	}
	ctl->on = on;
	ctl->on_count = hosts->count;
	rc = ctl_open_all(on, hosts->count);
	for (unsigned i = 0; i < hosts->count; i++)
		on[i].steady = true;
	return rc;
}

void generator_host_close(struct ctl *ctl)
{
	for (unsigned i = 0; i < ctl->on_count; i++)
		client_close(ctl->on[i].kept);
	free(ctl->on);
	ctl->on = NULL;
	ctl->on_count = 0;
}

unsigned generator_host_count(const struct ctl *ctl)
{
	return ctl->on ? ctl->on_count : 1;
}

void generator_host_name(const struct ctl *ctl, unsigned host, char name[HOST_NAME_BYTES])
{
	const char *of = ctl->on ? ctl->on[host].target.host : NULL,
		   *at = of ? strrchr(of, '@') : NULL;

	if (of)
		strcpy(name, at ? at + 1 : of); /* shorter: see host_list.h */
	else if (gethostname(name, HOST_NAME_BYTES) < 0)
		strcpy(name, "localhost");
	name[HOST_NAME_BYTES - 1] = '\0';
}

/* Is the generator's host the daemon's as well? */
static bool is_daemons(const struct ctl *ctl, unsigned host)
{
	const char *daemon = ctl->target.host;

	return ctl->on ? daemon && !strcmp(daemon, ctl->on[host].target.host) : !daemon;
}

bool generator_is_elsewhere(const struct ctl *ctl)
{
	for (unsigned i = 0; i < generator_host_count(ctl); i++)
		if (!is_daemons(ctl, i))
			return true;
	return false;
}

int generator_host_describe(struct ctl *ctl, unsigned host, json_t **ret)
{
	int rc = CTL_DONE;

	if (!ctl->on) {
		*ret = host_describe();
		return CTL_DONE;
	}
	rc = ctl_call(&ctl->on[host], "Host.Conditions", NULL, ret);
	if (rc == CTL_DONE)
		json_object_set_new(*ret, "name", json_string(ctl->on[host].target.host));
	return rc;
}

static char *far_version(struct ctl *on, char *const *command)
{
	json_t *reply = NULL;
	char *version = NULL;

	if (ctl_call(on, "Host.Version", json_pack("{s:o}", "argv", field_words(command)),
		     &reply) == CTL_DONE &&
	    field_get(reply, "version"))
		version = strdup(field_text(reply, "version"));
	json_decref(reply);
	return version;
}

char *generator_host_version(struct ctl *ctl)
{
	char *first = NULL, *other;

	if (!ctl->on)
		return version_of(ctl->rest);
	for (unsigned i = 0; i < ctl->on_count; i++) {
		if (!ctl->on[i].kept)
			return first; /* the reason was printed */
		other = far_version(&ctl->on[i], ctl->rest);
		if (i && first && other && strcmp(first, other) != 0)
			ctl_warn("%s has %s, and %s has %s: rows save the former",
				 ctl->on[0].target.host, first, ctl->on[i].target.host, other);
		if (i)
			free(other);
		else
			first = other;
	}
	return first;
}

int generator_host_run(struct ctl *ctl, char **const *commands, enum child_show show, bool keep,
		       unsigned timeout_ms, const struct watcher *watcher,
		       struct generator_run *ret)
{
	int rc = CTL_DONE;

	*ret = (struct generator_run){ .failed = -1 };
	if (ctl->on)
		rc = far_run(ctl, commands, show, keep, timeout_ms, watcher, ret);
	else
		child_run(commands[0], show, keep, timeout_ms, watcher, &ret->child);
	if (!ctl->on && ret->child.status != 0)
		ret->failed = 0;
	return rc;
}

void generator_run_free(struct generator_run *run)
{
	child_free(&run->child);
	free(run->parts);
	run->parts = NULL;
}
