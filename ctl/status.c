/* `nbctl status`: is it well?  `nbctl connections`: who is there? */
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "field.h"
#include "human.h"
#include "parse.h"
#include "util.h"

/* ---- status ---- */

static enum style state_style(const char *state)
{
	if (!strcmp(state, "serving") || !strcmp(state, "ok"))
		return STYLE_GOOD;
	return strcmp(state, "unavailable") ? STYLE_WARN : STYLE_BAD;
}

static void render_listeners(struct output *out, const json_t *reply)
{
	static const struct column columns[] = {
		{ .title = "listener", .left = true },
		{ .title = "state", .left = true },
		{ .title = "service", .left = true },
		{ .title = "engine", .left = true },
		{ .title = "workers", .optional = true, .rank = 1 },
		{ .title = "open" },
		{ .title = "addresses", .left = true, .rank = 2 },
	};
	struct table *t = table_new(columns, ARRAY_SIZE(columns));
	json_t *listener;
	size_t i;

	json_array_foreach(field_get(reply, "listeners"), i, listener) {
		const char *state = field_text(listener, "state");
		uint64_t workers = field_uint(listener, "workers");
		char *addresses = field_show(field_get(listener, "addresses"));

		table_cell(t, STYLE_BOLD, "%s", field_text(listener, "name"));
		table_cell(t, state_style(state), "%s", state);
		table_cell(t, STYLE_PLAIN, "%s", field_text(listener, "service"));
		table_cell(t, STYLE_PLAIN, "%s", field_text(listener, "engine"));
		table_cell(t, STYLE_PLAIN, "%s", workers ? human_count(workers).text : "");
		table_cell(t, STYLE_PLAIN, "%s",
			   human_count(field_uint(listener, "connections_open")).text);
		table_cell(t, STYLE_PLAIN, "%s", addresses);
		free(addresses);
	}
	table_print(t, out, 0, true);
	table_free(t);
}

static void render_reasons(struct output *out, const json_t *reply)
{
	json_t *listener;
	size_t i;

	json_array_foreach(field_get(reply, "listeners"), i, listener) {
		const char *reason = field_text(listener, "reason");

		if (*reason)
			output_wrapped(out, STYLE_WARN, 2, "%s: %s", field_text(listener, "name"),
				       reason);
	}
}

static void render_reload(struct output *out, const json_t *reply)
{
	json_t *reload = field_get(reply, "reload"), *error;
	size_t i;

	if (!*field_text(reload, "time"))
		return;
	if (field_bool(reload, "ok")) {
		output_text(out, STYLE_DIM, "last reload: %s, done\n", field_text(reload, "time"));
		return;
	}
	output_text(out, STYLE_BAD, "last reload: %s, refused:\n", field_text(reload, "time"));
	json_array_foreach(field_get(reload, "errors"), i, error) {
		char *text = field_show(error);

		output_wrapped(out, STYLE_BAD, 4, "  %s", text);
		free(text);
	}
}

static void render_status(struct output *out, const json_t *reply)
{
	output_text(out, STYLE_BOLD, "nbserved %s", field_text(reply, "version"));
	output_text(out, STYLE_PLAIN, ", pid %llu, up %s, generation %llu",
		    (unsigned long long)field_uint(reply, "pid"),
		    human_time(field_uint(reply, "uptime_ns")).text,
		    (unsigned long long)field_uint(reply, "generation"));
	output_text(out, STYLE_WARN, "%s\n\n", field_bool(reply, "stopping") ? ", stopping" : "");
	render_listeners(out, reply);
	render_reasons(out, reply);
	render_reload(out, reply);
}

static int run_status(struct ctl *ctl)
{
	return ctl_show(ctl, "GetStatus", NULL, render_status);
}

const struct command command_status = {
	.name = "status",
	.arguments = "",
	.summary = "is it well: listeners, the engine really in use, state and reason",
	.example = "nbctl status",
	.run = run_status,
};

/* ---- connections ---- */

enum {
	CONNECTIONS_SHOWN = 100, /* without --limit */
	CONNECTIONS_MAX = 10000, /* that the daemon lists */
};

enum { VALUE_LISTENER, VALUE_SORT, VALUE_LIMIT };

static uint64_t bytes_of(const json_t *c)
{
	return field_uint(c, "bytes_in") + field_uint(c, "bytes_out");
}

/* How to sort: largest first by a number, or by a text. */
static const struct sort_key {
	const char *name, *field;
	bool text;
} sort_keys[] = {
	{ "bytes", NULL, false },     { "age", "age_ns", false },
	{ "idle", "idle_ns", false }, { "held", "held_bytes", false },
	{ "rtt", "rtt_us", false },   { "retransmits", "retransmits", false },
	{ "peer", "peer", true },     { "listener", "listener", true },
};

static int compare_connections(const void *a, const void *b, void *context)
{
	const json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;
	const struct sort_key *key = context;
	uint64_t m, n;

	if (key->text)
		return strcmp(field_text(x, key->field), field_text(y, key->field));
	m = key->field ? field_uint(x, key->field) : bytes_of(x);
	n = key->field ? field_uint(y, key->field) : bytes_of(y);
	return (m < n) - (m > n);
}

/* Sorts the reply's list in place and cuts it to `limit`. */
static void sort_connections(json_t *list, const struct sort_key *key, uint64_t limit)
{
	size_t count = json_array_size(list);
	json_t **items = calloc(count + 1, sizeof(json_t *));

	if (!items)
		abort();
	for (size_t i = 0; i < count; i++)
		items[i] = json_incref(json_array_get(list, i));
	if (key)
		qsort_r(items, count, sizeof(json_t *), compare_connections, (void *)key);
	json_array_clear(list);
	for (size_t i = 0; i < count; i++)
		if (i < limit)
			json_array_append_new(list, items[i]);
		else
			json_decref(items[i]);
	free(items);
}

static void add_connection(struct table *t, const json_t *c)
{
	uint64_t rtt_us = field_uint(c, "rtt_us");
	uint64_t retransmits = field_uint(c, "retransmits");
	const char *state = field_text(c, "state");

	table_cell(t, STYLE_BOLD, "%s", field_text(c, "listener"));
	table_cell(t, STYLE_PLAIN, "%s", field_text(c, "peer"));
	table_cell(t, strcmp(state, "open") ? STYLE_WARN : STYLE_PLAIN, "%s", state);
	table_cell(t, STYLE_PLAIN, "%s", human_time(field_uint(c, "age_ns")).text);
	table_cell(t, STYLE_PLAIN, "%s", human_time(field_uint(c, "idle_ns")).text);
	table_cell(t, STYLE_PLAIN, "%s", human_bytes(field_uint(c, "bytes_in")).text);
	table_cell(t, STYLE_PLAIN, "%s", human_bytes(field_uint(c, "bytes_out")).text);
	table_cell(t, STYLE_PLAIN, "%s", human_bytes(field_uint(c, "held_bytes")).text);
	table_cell(t, STYLE_PLAIN, "%s", human_bytes(field_uint(c, "unsent_bytes")).text);
	table_cell(t, STYLE_PLAIN, "%s", human_time(rtt_us * NS_PER_US).text);
	table_cell(t, retransmits ? STYLE_WARN : STYLE_PLAIN, "%s", human_count(retransmits).text);
}

static void render_connections(struct output *out, const json_t *list)
{
	static const struct column columns[] = {
		{ .title = "listener", .left = true },
		{ .title = "peer", .left = true },
		{ .title = "state", .left = true },
		{ .title = "age" },
		{ .title = "idle", .rank = 2 },
		{ .title = "in" },
		{ .title = "out" },
		{ .title = "held", .rank = 3 },
		{ .title = "unsent", .rank = 4 },
		{ .title = "rtt" },
		{ .title = "retrans", .rank = 1 },
	};
	struct table *t;
	json_t *c;
	size_t i;

	if (json_array_size(list) == 0) {
		output_text(out, STYLE_PLAIN, "No connections.\n");
		return;
	}
	t = table_new(columns, ARRAY_SIZE(columns));
	json_array_foreach(list, i, c)
		add_connection(t, c);
	table_print(t, out, 0, true);
	table_free(t);
}

static const struct sort_key *find_sort_key(struct ctl *ctl, const char *name)
{
	const char *names[ARRAY_SIZE(sort_keys)], *near;

	for (unsigned i = 0; i < ARRAY_SIZE(sort_keys); i++) {
		names[i] = sort_keys[i].name;
		if (!strcmp(name, names[i]))
			return &sort_keys[i];
	}
	near = ctl_suggest(name, names, ARRAY_SIZE(names));
	if (near)
		ctl_usage(ctl, "--sort: cannot sort by '%s'; did you mean '%s'?", name, near);
	else
		ctl_usage(ctl, "--sort: cannot sort by '%s'", name);
	return NULL;
}

static void print_connections(struct ctl *ctl, const json_t *reply)
{
	json_t *list = field_get(reply, "connections");
	uint64_t open = field_uint(reply, "open"), shown = json_array_size(list);

	if (ctl->out.json) {
		output_json(&ctl->out, reply, false);
		return;
	}
	render_connections(&ctl->out, list);
	if (open > shown)
		output_text(&ctl->out, STYLE_DIM, "%s of %s\n", human_count(shown).text,
			    human_count(open).text);
}

static int run_connections(struct ctl *ctl)
{
	const char *sort = ctl->values[VALUE_SORT], *most = ctl->values[VALUE_LIMIT];
	uint64_t limit = CONNECTIONS_SHOWN;
	const struct sort_key *key = NULL;
	json_t *reply, *parameters;
	int rc;

	if (sort && !(key = find_sort_key(ctl, sort)))
		return CTL_USAGE;
	if (most && (parse_uint(most, &limit) < 0 || limit < 1 || limit > CONNECTIONS_MAX))
		return ctl_usage(ctl, "--limit: expected a number from 1 to %d, got '%s'",
				 CONNECTIONS_MAX, most);
	/* The daemon cuts the list before it is sorted here. */
	parameters = json_pack("{s:s*, s:I}", "listener", ctl->values[VALUE_LISTENER], "limit",
			       key ? (json_int_t)CONNECTIONS_MAX : (json_int_t)limit);
	rc = ctl_call(ctl, "ListConnections", parameters, &reply);
	if (rc != CTL_DONE)
		return rc;
	sort_connections(field_get(reply, "connections"), key, limit);
	print_connections(ctl, reply);
	json_decref(reply);
	return CTL_DONE;
}

const struct command command_connections = {
	.name = "connections",
	.arguments = "",
	.summary = "who is connected: age, bytes, round-trip time, retransmits",
	.details = "held: bytes received and not yet answered and taken by the kernel.  unsent: bytes\n"
		   "that the kernel has and the peer has not taken.\n",
	.example = "nbctl connections --listener echo-uring --sort bytes --limit 10",
	.options = {
		[VALUE_LISTENER] = { "listener", OPTION_VALUE, "LISTENER", "of this one only" },
		[VALUE_SORT] = { "sort", OPTION_VALUE, "KEY",
				 "bytes, age, idle, held, rtt, retransmits, peer, listener" },
		[VALUE_LIMIT] = { "limit", OPTION_VALUE, "N", "at most that many (default: 100)" },
	},
	.run = run_connections,
};
