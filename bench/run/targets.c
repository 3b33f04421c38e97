/* See targets.h. */
#include "targets.h"

#include <stdlib.h>
#include <string.h>

#include "field.h"
#include "generator_host.h"
#include "host.h"
#include "must.h"
#include "placeholders.h"
#include "printable.h"
#include "text.h"
#include "util.h"

/* How generators name a service in a URI, without and with TLS. */
static const char *scheme_of(const char *service, bool tls)
{
	static const char *const schemes[][3] = {
		{ "nbd", "nbd", "nbds" },
		{ "http", "http", "https" },
	};

	for (unsigned i = 0; i < ARRAY_SIZE(schemes); i++)
		if (!strcmp(service, schemes[i][0]))
			return schemes[i][1 + tls];
	return tls ? "tls" : "tcp";
}

/* The way from one of the generator's hosts to the daemon's host. */
struct way {
	bool far;         /* in another network: its loopback is not the generator's */
	char address[64]; /* of the daemon's host, as used by an ssh to or from it; "": unknown */
};

/* Asks a bridge for its network, and for an address in its SSH_CONNECTION ("CLIENT PORT SERVER
 * PORT"): the one that the scanf format `form` reads. */
static int ask_network(struct ctl *ctl, char network[HOST_NETWORK_BYTES], const char *form,
		       char address[64])
{
	json_t *there = NULL;
	int rc = ctl_call(ctl, "Host.Describe", NULL, &there);

	snprintf(network, HOST_NETWORK_BYTES, "%s", field_text(there, "network"));
	/* The address is UNKNOWN if ssh came by a ProxyCommand and not by a network. */
	if (sscanf(field_text(there, "ssh_connection"), form, address) != 1 ||
	    !strcmp(address, "UNKNOWN"))
		*address = '\0';
	json_decref(there);
	return rc;
}

static int find_way(struct ctl *ctl, struct ctl *on, struct way *ret)
{
	char daemon[HOST_NETWORK_BYTES], generator[HOST_NETWORK_BYTES], address[64];
	int rc = CTL_DONE;

	*ret = (struct way){ 0 };
	host_network(daemon);
	host_network(generator);
	if (on)
		rc = ask_network(on, generator, "%63s", ret->address);
	if (rc == CTL_DONE && ctl->target.host) {
		rc = ask_network(ctl, daemon, "%*s %*s %63s", address);
		memcpy(ret->address, address, sizeof(address));
	}
	ret->far = (on || ctl->target.host) && (!*daemon || strcmp(daemon, generator) != 0);
	return rc;
}

/* The address by which a client on the generator's host reaches a listener at `bound`, without
 * brackets; NULL with the reason in *ret_lacks: there is none. */
static const char *reach(const struct way *way, const char *bound, const char **ret_lacks)
{
	bool is_ipv6 = strchr(bound, ':');
	bool wildcard = !strcmp(bound, "0.0.0.0") || !strcmp(bound, "::");

	if (wildcard && !way->far)
		return is_ipv6 ? "::1" : "127.0.0.1";
	if (wildcard && *way->address)
		return way->address;
	if (wildcard)
		*ret_lacks = "it listens on every address of its host, and ssh does not tell one: "
			     "write one instead";
	else if (way->far && (!strncmp(bound, "127.", 4) || !strcmp(bound, "::1")))
		*ret_lacks = "it listens on its host's loopback alone: give it an `address` that "
			     "the generator's host reaches, and `allow` that host";
	else
		return bound;
	return NULL;
}

/* `127.0.0.1:7008`, `[::1]:7008`, `unix:/path` */
static void set_address(struct target_address *t, const struct way *way, const char *address,
			const char *scheme)
{
	const char *colon = strrchr(address, ':'), *host;
	bool bracket = *address == '[';
	char *bound;

	if (!strncmp(address, "unix:", 5)) {
		t->lacks = "its address is a Unix socket";
		t->host = must(strdup(way->far ? "" : address + 5));
		t->port = must(strdup(""));
		t->uri = way->far ? must(strdup(""))
				  : text_new("%s+unix:///?socket=%s", scheme, t->host);
		return;
	}
	bound = text_new("%.*s", (int)(colon ? colon - address : 0) - 2 * bracket,
			 address + bracket);
	host = reach(way, bound, &t->lacks);
	t->by_ssh = host == way->address;
	t->host = must(strdup(host ? host : ""));
	t->port = must(strdup(colon ? colon + 1 : ""));
	if (host) /* only a URI needs brackets */
		t->uri = text_new(strchr(host, ':') ? "%s://[%s]:%s/" : "%s://%s:%s/", scheme, host,
				  t->port);
	else
		t->uri = must(strdup(""));
	free(bound);
}

json_t *targets_row(const struct targets *t, const char *listener)
{
	return t->build ? json_sprintf("%s (%s)", listener, t->build) : json_string(listener);
}

void targets_free(struct targets *t)
{
	for (unsigned i = 0; i < t->count; i++) {
		for (unsigned j = 0; j < t->hosts; j++) {
			free(t->list[i].addresses[j].host);
			free(t->list[i].addresses[j].port);
			free(t->list[i].addresses[j].uri);
		}
		free(t->list[i].addresses);
	}
	free(t->list);
	json_decref(t->status);
}

static bool is_serving(const json_t *listener)
{
	return !strcmp(field_text(listener, "state"), "serving");
}

static bool is_absent(const struct targets *t, const json_t *name)
{
	json_t *listener;
	size_t i;

	json_array_foreach(t->absent, i, listener)
		if (json_equal(field_get(listener, "name"), name))
			return true;
	return false;
}

/* Notes that the listener, of t->status, is not visited.  The table names it with this reason, or
 * with the daemon's if it has one. */
static void targets_leave(struct targets *t, const json_t *listener, const char *reason)
{
	json_t *copy = json_copy((json_t *)listener);

	json_object_set_new(copy, "name", targets_row(t, field_text(listener, "name")));
	if (is_absent(t, field_get(copy, "name"))) { /* of an earlier round */
		json_decref(copy);
		return;
	}
	if (!*field_text(copy, "reason"))
		json_object_set_new(copy, "reason", json_string(reason));
	json_object_set_new(copy, "state", json_string("unavailable"));
	json_array_append_new(t->absent, copy);
}

/* A listener that does not serve is kept in t->absent. */
static void targets_add(struct targets *t, const struct way *ways, const json_t *listener)
{
	struct target *new;

	if (!is_serving(listener)) {
		targets_leave(t, listener, field_text(listener, "state"));
		return;
	}
	t->list = must(reallocarray(t->list, t->count + 1, sizeof(*t->list)));
	new = &t->list[t->count++];
	*new = (struct target){ .listener = field_text(listener, "name"),
				.service = field_text(listener, "service"),
				.addresses = must(calloc(t->hosts, sizeof(*new->addresses))) };
	for (unsigned i = 0; i < t->hosts; i++)
		set_address(&new->addresses[i], &ways[i],
			    field_text(json_array_get(field_get(listener, "addresses"), 0), ""),
			    scheme_of(new->service, field_get(listener, "tls")));
}

static int nothing_to_visit(const struct targets *t)
{
	json_t *listener;
	size_t i;

	ctl_warn("no listener that COMMAND could load is serving");
	json_array_foreach(t->absent, i, listener) {
		char *text = text_new("%s: %s", field_text(listener, "name"),
				      field_text(listener, "reason"));

		printable_clean(text);
		ctl_warn("%s", text);
		free(text);
	}
	return CTL_REFUSED;
}

static int targets_name(char *const *names, unsigned count, struct targets *t,
			const struct way *ways)
{
	for (unsigned i = 0; i < count; i++) {
		const json_t *listener = field_named(t->status, "listeners", names[i]);

		if (!listener) {
			ctl_warn("there is no listener '%s'", names[i]);
			return CTL_REFUSED;
		}
		targets_add(t, ways, listener);
	}
	return CTL_DONE;
}

static bool is_visited(const json_t *listener)
{
	return is_serving(listener) && !strcmp(field_text(listener, "transport"), "tcp");
}

/* Selects all listeners that serve.  An error if their services differ: one command cannot load
 * them. */
static int targets_all(struct targets *t, const struct way *ways)
{
	json_t *listener;
	size_t i;

	json_array_foreach(field_get(t->status, "listeners"), i, listener)
		if (is_visited(listener))
			targets_add(t, ways, listener);
	for (unsigned j = 1; j < t->count; j++)
		if (strcmp(t->list[j].service, t->list[0].service) != 0) {
			ctl_warn("the listeners serve different services (%s: %s, %s: %s): name "
				 "those that COMMAND is to visit",
				 t->list[0].listener, t->list[0].service, t->list[j].listener,
				 t->list[j].service);
			return CTL_USAGE;
		}
	json_array_foreach(field_get(t->status, "listeners"), i, listener)
		if (!is_visited(listener) &&
		    (t->count == 0 || !strcmp(field_text(listener, "service"), t->list[0].service)))
			targets_leave(t, listener,
				      is_serving(listener)
					      ? "not over TCP: visited only when it is named"
					      : field_text(listener, "state"));
	return CTL_DONE;
}

/* Selects all listeners of a daemon that `nbbench run` has started. */
static void targets_served(struct targets *t, const struct way *ways)
{
	json_t *listener;
	size_t i;

	json_array_foreach(field_get(t->status, "listeners"), i, listener)
		targets_add(t, ways, listener);
}

int targets_find(struct targets *t, struct ctl *ctl, bool served)
{
	struct way ways[HOSTS_MAX];
	int rc = ctl_call(ctl, "GetStatus", NULL, &t->status);

	t->hosts = generator_host_count(ctl);
	for (unsigned i = 0; i < t->hosts && rc == CTL_DONE; i++)
		rc = find_way(ctl, ctl->on ? &ctl->on[i] : NULL, &ways[i]);
	if (rc != CTL_DONE)
		return rc;
	if (ctl->word_count)
		rc = targets_name(ctl->words, ctl->word_count, t, ways);
	else if (served)
		targets_served(t, ways);
	else
		rc = targets_all(t, ways);
	if (rc == CTL_DONE && t->count == 0)
		rc = nothing_to_visit(t);
	return rc;
}

/* ---- Commands ---- */

void generator_command_free(char ***commands)
{
	for (char ***command = commands; command && *command; command++) {
		for (char **word = *command; *word; word++)
			free(*word);
		free(*command);
	}
	free(commands);
}

static char **fill(char *const *argv, const char *const *values, const char **ret_missing)
{
	unsigned count = 0;
	char **words;

	while (argv[count])
		count++;
	words = must(calloc(count + 1, sizeof(*words)));
	for (unsigned i = 0; i < count; i++)
		words[i] = placeholders_fill(argv[i], values, ret_missing);
	return words;
}

char ***generator_command_fill(const struct ctl *ctl, char *const *argv,
			       const struct target *target)
{
	unsigned hosts = generator_host_count(ctl);
	char ***commands = must(calloc(hosts + 1, sizeof(*commands)));
	const char *missing = NULL;

	for (unsigned i = 0; i < hosts && !missing; i++) {
		const struct target_address *at = target ? &target->addresses[i] : NULL;
		char client[HOST_NAME_BYTES], index[16];
		const char *const values[PLACEHOLDER_COUNT] = {
			[PLACEHOLDER_HOST] = at ? at->host : NULL,
			[PLACEHOLDER_PORT] = at ? at->port : NULL,
			[PLACEHOLDER_URI] = at ? at->uri : NULL,
			[PLACEHOLDER_LISTENER] = target ? target->listener : NULL,
			[PLACEHOLDER_CLIENT] = client,
			[PLACEHOLDER_INDEX] = index,
		};

		generator_host_name(ctl, i, client);
		snprintf(index, sizeof(index), "%u", i);
		commands[i] = fill(argv, values, &missing);
		if (missing && at)
			ctl_warn("listener '%s' has no {%s}: %s", target->listener, missing,
				 at->lacks);
	}
	if (!missing)
		return commands;
	generator_command_free(commands);
	return NULL;
}
