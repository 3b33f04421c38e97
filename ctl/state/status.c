/* `nbctl status`: health.  `nbctl connections`: open connections. */
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "exports.h"
#include "field.h"
#include "human.h"
#include "reasons.h"
#include "util.h"

/* ---- status ---- */

static enum style state_style(const char *state)
{
	if (!strcmp(state, "serving") || !strcmp(state, "ok"))
		return STYLE_GOOD;
	return strcmp(state, "unavailable") ? STYLE_WARN : STYLE_BAD;
}

/* `rxe0/1 RoCE`; NULL: empty. */
static struct human connections_device(const json_t *device)
{
	struct human out = { "" };

	if (device)
		snprintf(out.text, sizeof(out.text), "%.15s/%u %.11s", field_text(device, "name"),
			 (unsigned)field_uint(device, "port"), field_text(device, "transport"));
	return out;
}

/* `rxe0/1 RoCE, siw0/1 iWARP`, cut when it does not fit. */
static void show_devices(const json_t *listener, char *text, size_t size)
{
	json_t *device;
	size_t i, used = 0;

	text[0] = '\0';
	json_array_foreach(field_get(listener, "devices"), i, device) {
		struct human name = connections_device(device);

		if (used + strlen(name.text) + 3 > size)
			return;
		used += (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "",
					 name.text);
	}
}

static void render_listeners(struct output *out, const json_t *reply)
{
	static const struct column columns[] = {
		{ .title = "listener", .left = true },
		{ .title = "state", .left = true },
		{ .title = "service", .left = true },
		{ .title = "engine", .left = true },
		{ .title = "device", .left = true, .optional = true, .rank = 1 },
		{ .title = "workers", .optional = true, .rank = 2 },
		{ .title = "open" },
		{ .title = "addresses", .left = true, .rank = 3 },
	};
	struct table *t = table_new(columns, ARRAY_SIZE(columns));
	json_t *listener;
	size_t i;

	json_array_foreach(field_get(reply, "listeners"), i, listener) {
		const char *state = field_text(listener, "state");
		uint64_t workers = field_uint(listener, "workers");
		char *addresses = field_show(field_get(listener, "addresses"));
		char devices[128], engine[256];

		field_engine(field_text(listener, "engine"), field_get(listener, "engine_features"),
			     engine, sizeof(engine));
		table_cell(t, STYLE_BOLD, "%s", field_text(listener, "name"));
		table_cell(t, state_style(state), "%s", state);
		table_cell(t, STYLE_PLAIN, "%s%s", field_text(listener, "service"),
			   strcmp(field_text(listener, "transport"), "udp") ? "" : " (udp)");
		table_text(t, engine);
		show_devices(listener, devices, sizeof(devices));
		table_text(t, devices);
		table_text(t, workers ? human_count(workers).text : "");
		table_text(t, human_count(field_uint(listener, "connections_open")).text);
		table_text(t, addresses);
		free(addresses);
	}
	table_print(t, out, 0, true);
	table_free(t);
}

/* Prints the commands by which a host attaches the disks, as they contain names too long to type.
 */
static void render_examples(struct output *out, const json_t *reply)
{
	json_t *listener;
	size_t i;

	json_array_foreach(field_get(reply, "listeners"), i, listener)
		if (!strcmp(field_text(listener, "service"), "nvme") &&
		    *field_text(listener, "example"))
			output_text(out, STYLE_PLAIN, "%s: %s\n", field_text(listener, "name"),
				    field_text(listener, "example"));
}

static void render_certificates(struct output *out, const json_t *reply)
{
	json_t *listener;
	size_t i;

	json_array_foreach(field_get(reply, "listeners"), i, listener) {
		const json_t *tls = field_get(listener, "tls");
		long long shared = json_integer_value(field_get(tls, "shared_keys"));

		if (!json_is_object(tls))
			continue;
		output_text(out, STYLE_PLAIN, "%s: tls %s, %s, %s; ", field_text(listener, "name"),
			    field_text(tls, "mode"), field_text(tls, "library"),
			    field_text(tls, "cipher"));
		if (shared)
			output_text(out, STYLE_PLAIN, "%lld key%s shared with clients\n", shared,
				    plural((unsigned long long)shared));
		else
			output_text(out, STYLE_PLAIN, "certificate of %s by %s, %lld days left\n",
				    field_text(tls, "subject"), field_text(tls, "issuer"),
				    (long long)json_integer_value(field_get(tls, "days_left")));
	}
}

static void render_leaving(struct output *out, const json_t *reply)
{
	json_t *listener;
	size_t i;

	json_array_foreach(field_get(reply, "leaving"), i, listener)
		output_text(out, STYLE_WARN, "%s: replaced or removed by a reload, %s open\n",
			    field_text(listener, "name"),
			    human_count(field_uint(listener, "connections_open")).text);
}

static void render_reload(struct output *out, const json_t *reply)
{
	json_t *reload = field_get(reply, "reload"), *error;
	size_t i;

	if (!*field_text(reload, "time"))
		return;
	output_text(out, field_bool(reload, "ok") ? STYLE_DIM : STYLE_BAD,
		    "last reload: %s, %s%s\n", field_text(reload, "time"),
		    field_text(reload, "state"), field_bool(reload, "ok") ? "" : ":");
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
	output_text(out, STYLE_PLAIN, ", log level %s", field_text(reply, "log_level"));
	output_text(out, STYLE_WARN, "%s\n\n", field_bool(reply, "stopping") ? ", stopping" : "");
	render_listeners(out, reply);
	if (reasons_render(out, field_get(reply, "listeners")))
		output_text(out, STYLE_PLAIN, "  nbctl reload tries again what is unavailable\n");
	render_examples(out, reply);
	render_certificates(out, reply);
	render_leaving(out, reply);
	if (json_array_size(field_get(reply, "exports"))) {
		putc('\n', out->file);
		exports_render(out, field_get(reply, "exports"));
	}
	render_reload(out, reply);
}

static int run_status(struct ctl *ctl)
{
	return ctl_show(ctl, "GetStatus", NULL, render_status);
}

const struct command command_status = {
	.name = "status",
	.arguments = "",
	.summary = "health: listeners, the engine really in use, state and reason",
	.example = "nbctl status",
	.run = run_status,
};

/* ---- connections ---- */

enum { CONNECTIONS_MAX = 10000 }; /* that the daemon lists */

enum { VALUE_LISTENER };

static void add_connection(struct table *t, const json_t *c)
{
	uint64_t rtt_us = field_uint(c, "rtt_us");
	uint64_t retransmits = field_uint(c, "retransmits");
	const char *state = field_text(c, "state");

	table_cell(t, STYLE_BOLD, "%s", field_text(c, "listener"));
	table_text(t, field_text(c, "peer"));
	table_cell(t, strcmp(state, "open") ? STYLE_WARN : STYLE_PLAIN, "%s", state);
	table_text(t, human_time(field_uint(c, "age_ns")).text);
	table_text(t, human_time(field_uint(c, "idle_ns")).text);
	table_text(t, human_bytes(field_uint(c, "bytes_in")).text);
	table_text(t, human_bytes(field_uint(c, "bytes_out")).text);
	table_text(t, human_bytes(field_uint(c, "held_bytes")).text);
	table_text(t, human_bytes(field_uint(c, "unsent_bytes")).text);
	table_text(t, human_time(rtt_us * NS_PER_US).text);
	table_cell(t, retransmits ? STYLE_WARN : STYLE_PLAIN, "%s", human_count(retransmits).text);
	table_text(t, connections_device(field_get(c, "device")).text);
	table_text(t, field_text(c, "about"));
}

static void connections_render(struct output *out, const json_t *list)
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
		{ .title = "device", .left = true, .optional = true, .rank = 1 },
		{ .title = "about", .left = true, .optional = true, .rank = 5 },
	};
	struct table *t = table_new(columns, ARRAY_SIZE(columns));
	json_t *c;
	size_t i;

	json_array_foreach(list, i, c)
		add_connection(t, c);
	if (!table_finish(t, out, 0))
		output_text(out, STYLE_PLAIN, "No connections.\n");
}

static void render_connections(struct output *out, const json_t *reply)
{
	uint64_t open = field_uint(reply, "open");
	size_t shown = json_array_size(field_get(reply, "connections"));

	connections_render(out, field_get(reply, "connections"));
	if (open > shown)
		output_text(out, STYLE_DIM, "%s of %s\n", human_count(shown).text,
			    human_count(open).text);
}

static int run_connections(struct ctl *ctl)
{
	return ctl_show(ctl, "ListConnections",
			json_pack("{s:s*, s:i}", "listener", ctl->values[VALUE_LISTENER], "limit",
				  CONNECTIONS_MAX),
			render_connections);
}

const struct command command_connections = {
	.name = "connections",
	.arguments = "",
	.summary = "open connections: age, bytes, round-trip time, retransmits",
	.details = "held: bytes received and not yet answered and taken by the kernel.  unsent: bytes\n"
		   "that the kernel has and the peer has not taken.  device: of RDMA, its port and\n"
		   "transport.\n",
	.example = "nbctl connections --listener echo-uring",
	.options = {
		[VALUE_LISTENER] = { "listener", OPTION_VALUE, "LISTENER", "of this one only" },
	},
	.run = run_connections,
};
