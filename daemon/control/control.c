/* The control socket: its methods, except those that answer later (control_stats.c,
 * control_connections.c, control_doctor.c).  Main thread: a method that takes long delays signals,
 * timers and the watchdog, so its time is charged to the client's user.  See control.h. */
#include "control.h"

#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control_internal.h"
#include "document.h"
#include "log.h"
#include "log_level.h"
#include "runtime.h"
#include "util.h"

/* Logs a change with the user that made it. */
static void log_change(const struct varlink_call *call, const char *what, const char *object)
{
	const struct unix_peer *peer = varlink_call_peer(call);

	log_info("control: %s %s, by uid %u, pid %d", what, object, (unsigned)peer->uid,
		 (int)peer->pid);
}

/* ---- Methods ---- */

static void get_status(struct varlink_call *call, json_t *parameters)
{
	(void)parameters;
	varlink_reply(call, document_status(control_server(call)));
}

/* Adds "text": the configuration as nbserved's option prints it. */
static void set_text(json_t *reply, const struct config *config)
{
	char *text = NULL;
	size_t bytes;
	FILE *to = open_memstream(&text, &bytes);

	if (to)
		config_dump(config, to);
	if (to && fclose(to) == 0)
		json_object_set_new(reply, "text", json_stringn(text, bytes));
	free(text);
}

/* Handlers own neither the call nor its parameters; varlink_reply() takes ownership of its JSON. */
static void get_config(struct varlink_call *call, json_t *parameters)
{
	const struct server *s = control_server(call);
	json_t *reply = config_to_json(s->config);

	if (json_is_true(json_object_get(parameters, "text")))
		set_text(reply, s->config);
	varlink_reply(call, reply);
}

/* The configuration in force has the new level as well, so that GetConfig shows it and a reload
 * with the same file sets it back. */
static void set_log_level(struct varlink_call *call, json_t *parameters)
{
	const char *name = json_string_value(json_object_get(parameters, "level"));
	int level = log_level_parse(name);

	if (level < 0) {
		varlink_invalid_parameter(call, "level");
		return;
	}
	config_set_log_level(control_server(call)->config, level);
	log_set_level(level);
	log_change(call, "log level", name);
	varlink_reply(call, json_object());
}

static void drain(struct varlink_call *call, json_t *parameters)
{
	struct server *s = control_server(call);
	const json_t *name = json_object_get(parameters, "listener");
	uint64_t deadline_ns = clock_ns() + s->config->server.drain_timeout_ns;
	json_t *draining;

	if (control_lacks_listener(call, name))
		return;
	log_change(call, "drain", json_is_string(name) ? json_string_value(name) : "everything");
	draining = json_array();
	for (unsigned i = 0; i < s->listeners.count; i++) {
		struct listener *l = s->listeners.list[i];

		if (json_is_string(name) && strcmp(json_string_value(name), l->config->name) != 0)
			continue;
		listener_drain(l, deadline_ns);
		if (l->state == LISTENER_DRAINING)
			json_array_append_new(draining, json_string(l->config->name));
	}
	server_notify_status(s);
	varlink_reply(call, json_pack("{s:o}", "draining", draining));
}

static void resume(struct varlink_call *call, json_t *parameters)
{
	struct server *s = control_server(call);
	const json_t *name = json_object_get(parameters, "listener");
	struct reload_answer answer;

	if (control_lacks_listener(call, name))
		return;
	log_change(call, "resume", json_is_string(name) ? json_string_value(name) : "everything");
	if (reload_resume(s, json_string_value(name), &answer) == RELOAD_DONE)
		varlink_reply(call, json_pack("{s:o}", "resumed", answer.lines));
	else
		varlink_error(
			call, INTERFACE ".ResumeRefused",
			json_pack("{s:s, s:o}", "message", answer.message, "errors", answer.lines));
}

/* reload_run() returns when the new configuration is in force or refused.  Listeners that it
 * replaced drain afterwards. */
static void reload(struct varlink_call *call, json_t *parameters)
{
	static const char *const errors[] = { [RELOAD_REFUSED] = INTERFACE ".ReloadRefused",
					      [RELOAD_RESTART] = INTERFACE ".RestartNeeded" };
	struct server *s = control_server(call);
	bool dry_run = json_is_true(json_object_get(parameters, "dry_run"));
	struct reload_answer answer;
	enum reload_outcome outcome;

	if (!dry_run)
		log_change(call, "reload", s->config->files[0]);
	outcome = reload_run(s, dry_run, &answer);
	if (outcome == RELOAD_DONE)
		varlink_reply(call, json_pack("{s:I, s:o}", "generation", (json_int_t)s->generation,
					      "changes", answer.lines));
	else
		varlink_error(
			call, errors[outcome],
			json_pack("{s:s, s:o}", "message", answer.message, "errors", answer.lines));
}

/* For methods that were removed, one release long: says what to use instead. */
static void removed(struct varlink_call *call, json_t *parameters)
{
	(void)parameters;
	varlink_error(call, INTERFACE ".ReloadRefused",
		      json_pack("{s:s, s:[]}", "message",
				"the method was removed: write a file in conf.d, look at it with "
				"Reload and dry_run, then Reload",
				"errors"));
}

/* ---- The interface ---- */

/* clang-format off */
#define PARAMETERS(...) (const struct varlink_parameter[]){ __VA_ARGS__, { 0 } }
#define REQUIRED(name, type, ...) { name, VARLINK_##type, .optional = false, __VA_ARGS__ }
#define OPTIONAL(name, type, ...) { name, VARLINK_##type, .optional = true, __VA_ARGS__ }
#define LISTENER      OPTIONAL("listener", STRING)
#define LIMIT(most)   OPTIONAL("limit", INT, .min = 1, .max = (most))

static const struct varlink_method control_methods[] = {
	{ "GetStatus", VARLINK_READ, false, NULL, get_status },
	{ "GetStats", VARLINK_READ, true,
	  PARAMETERS(OPTIONAL("listeners", STRINGS, .max = CONFIG_LISTENERS_MAX),
		     OPTIONAL("by_worker", BOOL),
		     OPTIONAL("interval_ms", INT, .min = STATS_INTERVAL_MIN_MS, .max = STATS_INTERVAL_MAX_MS)),
	  control_get_stats },
	{ "ListConnections", VARLINK_READ, false, PARAMETERS(LISTENER, LIMIT(CONNECTIONS_LIMIT_MAX)),
	  control_list_connections },
	{ "GetConfig", VARLINK_READ, false, PARAMETERS(OPTIONAL("text", BOOL)), get_config },
	{ "Doctor", VARLINK_READ, false, PARAMETERS(OPTIONAL("text", BOOL)), control_doctor },
	{ "SetLogLevel", VARLINK_CHANGE, false, PARAMETERS(REQUIRED("level", STRING)), set_log_level },
	{ "Drain", VARLINK_CHANGE, false, PARAMETERS(LISTENER), drain },
	{ "Resume", VARLINK_CHANGE, false, PARAMETERS(LISTENER), resume },
	{ "Reload", VARLINK_CHANGE, false, PARAMETERS(OPTIONAL("dry_run", BOOL)), reload },
	{ "Set", VARLINK_CHANGE, false, NULL, removed },
	{ "Add", VARLINK_CHANGE, false, NULL, removed },
	{ "Remove", VARLINK_CHANGE, false, NULL, removed },
	{ "ConfirmReload", VARLINK_CHANGE, false, NULL, removed },
	{ 0 },
};
/* clang-format on */

static const struct varlink_info control_info = {
	.vendor = "nbserved",
	.product = "nbserved",
	.version = NB_VERSION,
	.url = NB_URL,
};

/* The group's id; -1: no such group. */
static gid_t find_group(const char *name)
{
	const struct group *group = getgrnam(name);

	if (group)
		return group->gr_gid;
	log_info("control: there is no group '%s': only root and the daemon's user may read", name);
	return (gid_t)-1;
}

int control_start(struct control *c, struct server *s, struct reason *reason)
{
	const struct server_config *config = &s->config->server;
	struct reason why = { "no memory" };
	int rc = -ENOMEM;

	c->server = s;
	c->description = control_describe();
	c->interface = (struct varlink_interface){ INTERFACE, c->description, control_methods };
	if (c->description)
		rc = varlink_new(s->event, &control_info, &c->varlink);
	if (rc == 0) {
		varlink_add_interface(c->varlink, &c->interface, c);
		runtime_make_directory(config->control);
		rc = varlink_listen(c->varlink, config->control, find_group(config->control_group),
				    &why);
	}
	if (rc < 0) {
		control_stop(c);
		return reason_set(reason, rc, "control socket: %.*s", REASON_MAX - 32, why.text);
	}
	return 0;
}

/* Workers may still own requests of ListConnections: c itself must stay valid, see control.h. */
void control_stop(struct control *c)
{
	varlink_free(c->varlink);
	c->varlink = NULL;
	free(c->description);
	c->description = NULL;
	control_doctor_stop(c);
}
