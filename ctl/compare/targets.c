/* See targets.h. */
#include "targets.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "field.h"
#include "printable.h"

static char *must(char *text)
{
	if (!text)
		abort();
	return text;
}

static char *format(const char *format, ...) __attribute__((format(printf, 1, 2)));
static char *format(const char *format, ...)
{
	va_list arguments;
	char *text;

	va_start(arguments, format);
	if (vasprintf(&text, format, arguments) < 0)
		abort();
	va_end(arguments);
	return text;
}

/* How generators name a service in a URI; "tcp" for those that have no name. */
static const char *scheme_of(const char *service)
{
	return !strcmp(service, "nbd") || !strcmp(service, "http") ? service : "tcp";
}

/* `127.0.0.1:7008`, `[::1]:7008`, `unix:/path`; a wildcard is reached on this host. */
static void target_set_address(struct target *t, const char *address)
{
	const char *colon = strrchr(address, ':'), *scheme = scheme_of(t->service);
	int bytes = (int)(colon ? colon - address : 0);

	if (!strncmp(address, "unix:", 5)) {
		t->host = must(strdup(address + 5));
		t->port = must(strdup(""));
		t->uri = format("%s+unix:///?socket=%s", scheme, t->host);
		return;
	}
	t->host = format("%.*s", bytes, address);
	t->port = must(strdup(colon ? colon + 1 : ""));
	if (!strcmp(t->host, "0.0.0.0") || !strcmp(t->host, "[::]")) {
		bool is_ipv4 = t->host[0] == '0';

		free(t->host);
		t->host = must(strdup(is_ipv4 ? "127.0.0.1" : "[::1]"));
	}
	t->uri = format("%s://%s:%s/", scheme, t->host, t->port);
	if (t->host[0] == '[') { /* only a URI needs the brackets */
		t->host[strlen(t->host) - 1] = '\0';
		memmove(t->host, t->host + 1, strlen(t->host));
	}
}

json_t *targets_row(const struct targets *t, const char *listener)
{
	return t->build ? json_sprintf("%s (%s)", listener, t->build) : json_string(listener);
}

void targets_free(struct targets *t)
{
	for (unsigned i = 0; i < t->count; i++) {
		free(t->list[i].host);
		free(t->list[i].port);
		free(t->list[i].uri);
	}
	free(t->list);
	json_decref(t->status);
}

static void targets_add(struct targets *t, const json_t *listener)
{
	struct target *new;

	t->list = reallocarray(t->list, t->count + 1, sizeof(*t->list));
	if (!t->list)
		abort();
	new = &t->list[t->count++];
	*new = (struct target){ .listener = field_text(listener, "name"),
				.service = field_text(listener, "service") };
	target_set_address(new,
			   field_text(json_array_get(field_get(listener, "addresses"), 0), ""));
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

void targets_leave(struct targets *t, const json_t *listener, const char *reason)
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

static int nothing_to_visit(const struct targets *t)
{
	json_t *listener;
	size_t i;

	ctl_warn("no listener serves: nothing to visit");
	json_array_foreach(t->absent, i, listener) {
		char *text = format("%s: %s", field_text(listener, "name"),
				    field_text(listener, "reason"));

		printable_clean(text);
		ctl_warn("%s", text);
		free(text);
	}
	return CTL_REFUSED;
}

static int targets_name(char *const *names, unsigned count, struct targets *t)
{
	for (unsigned i = 0; i < count; i++) {
		const json_t *listener = field_named(t->status, "listeners", names[i]);

		if (!listener) {
			ctl_warn("there is no listener '%s'", names[i]);
			return CTL_REFUSED;
		}
		if (is_serving(listener))
			targets_add(t, listener);
		else
			targets_leave(t, listener, field_text(listener, "state"));
	}
	return t->count ? CTL_DONE : nothing_to_visit(t);
}

static bool is_visited(const json_t *listener)
{
	return is_serving(listener) && !strcmp(field_text(listener, "transport"), "tcp");
}

/* Selects all listeners that serve, if one command suits them all. */
static int targets_all(struct targets *t)
{
	json_t *listener;
	size_t i;

	json_array_foreach(field_get(t->status, "listeners"), i, listener)
		if (is_visited(listener))
			targets_add(t, listener);
	for (unsigned j = 1; j < t->count; j++)
		if (strcmp(t->list[j].service, t->list[0].service) != 0) {
			ctl_warn(
				"which listeners?  They serve different things (%s: %s, %s: %s): name "
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
					      ? "not over TCP: it is visited when it is named"
					      : field_text(listener, "state"));
	return t->count ? CTL_DONE : nothing_to_visit(t);
}

/* All listeners of a daemon that is served for this alone. */
static int targets_served(struct targets *t)
{
	json_t *listener;
	size_t i;

	json_array_foreach(field_get(t->status, "listeners"), i, listener)
		if (is_serving(listener))
			targets_add(t, listener);
		else
			targets_leave(t, listener, field_text(listener, "state"));
	return t->count ? CTL_DONE : nothing_to_visit(t);
}

int targets_find(struct targets *t, struct ctl *ctl, const struct targets_of *of)
{
	int rc = ctl_call(ctl, "GetStatus", NULL, &t->status);

	if (rc != CTL_DONE)
		return rc;
	if (of->count)
		rc = targets_name(of->names, of->count, t);
	else
		rc = of->served ? targets_served(t) : targets_all(t);
	for (unsigned i = 0; i < t->count; i++) {
		json_t *name = targets_row(t, t->list[i].listener);

		t->list[i].timed_out = t->list[i].told = is_absent(t, name);
		json_decref(name);
	}
	return rc;
}
