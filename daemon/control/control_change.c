/* Reload and ConfirmReload; Set, Add and Remove, changes of the configuration in force that are in
 * no file, by the same transaction.  Main thread. */
#include <stdlib.h>
#include <string.h>

#include "config_change.h"
#include "control_internal.h"
#include "log.h"

void control_log_change(const struct varlink_call *call, const char *what, const char *object)
{
	const struct unix_peer *peer = varlink_call_peer(call);

	log_info("control: %s %s, by uid %u, pid %d", what, object, (unsigned)peer->uid,
		 (int)peer->pid);
}

/* Has `changes`, `count` of them, in force in place of the present ones; NULL: a reload, without
 * any. reload_run() returns when the new configuration is in force or refused.  Listeners that it
 * replaced drain afterwards. */
static void change_to(struct varlink_call *call, json_t *parameters, const char *object,
		      char *const *changes, unsigned count)
{
	static const char *const errors[] = { [RELOAD_REFUSED] = INTERFACE ".ReloadRefused",
					      [RELOAD_RESTART] = INTERFACE ".RestartNeeded" };
	struct server *s = control_server(call);
	json_t *seconds = json_object_get(parameters, "confirm_timeout_s");
	struct reload_request request = {
		.dry_run = json_is_true(json_object_get(parameters, "dry_run")),
		.confirm_s = (unsigned)json_integer_value(seconds),
		.changes = changes,
		.change_count = count,
	};
	struct reload_answer answer;
	enum reload_outcome outcome;

	if (!request.dry_run)
		control_log_change(call, changes ? "change" : "reload", object);
	outcome = reload_run(s, &request, &answer);
	if (outcome == RELOAD_DONE)
		varlink_reply(call, json_pack("{s:I, s:o}", "generation", (json_int_t)s->generation,
					      "changes", answer.lines));
	else
		varlink_error(
			call, errors[outcome],
			json_pack("{s:s, s:o}", "message", answer.message, "errors", answer.lines));
}

void control_reload(struct varlink_call *call, json_t *parameters)
{
	change_to(call, parameters, control_server(call)->config->files[0], NULL, 0);
}

void control_confirm_reload(struct varlink_call *call, json_t *parameters)
{
	struct server *s = control_server(call);

	(void)parameters;
	if (!reload_confirm(s)) {
		varlink_error(call, INTERFACE ".NothingToConfirm",
			      json_pack("{s:s}", "message", "no reload waits to be confirmed"));
		return;
	}
	control_log_change(call, "confirm", "the reload");
	varlink_reply(call, json_pack("{s:I}", "generation", (json_int_t)s->generation));
}

/* Adds a change, which is freed, to those in force. */
static void change_more(struct varlink_call *call, json_t *parameters, const char *object,
			char *change)
{
	const struct config *now = control_server(call)->config;
	char *changes[CONFIG_CHANGES_MAX + 1]; /* one too many is refused as such */

	memcpy(changes, now->changes, now->change_count * sizeof(*changes));
	changes[now->change_count] = change;
	change_to(call, parameters, object, changes, now->change_count + 1);
	free(change);
}

static void refuse(struct varlink_call *call, const char *why)
{
	varlink_error(call, INTERFACE ".ReloadRefused",
		      json_pack("{s:s, s:[s]}", "message", "nothing was changed", "errors", why));
}

void control_set(struct varlink_call *call, json_t *parameters)
{
	const json_t *listener = json_object_get(parameters, "listener");
	const json_t *list = json_object_get(parameters, "settings");
	const char *name = json_string_value(listener), *settings[CHANGE_SETTINGS_MAX];
	unsigned count = (unsigned)json_array_size(list);
	struct reason reason;
	char *text;

	if (control_lacks_listener(call, listener))
		return;
	for (unsigned i = 0; i < count; i++)
		settings[i] = json_string_value(json_array_get(list, i));
	if (config_change_set(name, settings, count, &text, &reason) < 0) {
		refuse(call, reason.text);
		return;
	}
	change_more(call, parameters, name, text);
}

void control_add(struct varlink_call *call, json_t *parameters)
{
	static const char run[] = "--run "; /* begins the reasons of config_run_text() */
	const char *given = json_string_value(json_object_get(parameters, "spec"));
	char *spec = strdup(given), *text;
	struct reason reason;

	if (!spec) {
		refuse(call, "no memory");
		return;
	}
	if (config_change_add(control_server(call)->config, spec, &text, &reason) < 0) {
		bool begins = !strncmp(reason.text, run, strlen(run));

		refuse(call, reason.text + (begins ? strlen(run) : 0));
	} else {
		change_more(call, parameters, spec, text);
	}
	free(spec);
}

void control_remove(struct varlink_call *call, json_t *parameters)
{
	struct server *s = control_server(call);
	const json_t *listener = json_object_get(parameters, "listener");
	const char *name = json_string_value(listener);
	char *changes[CONFIG_CHANGES_MAX];
	struct reason reason;
	int count;

	if (control_lacks_listener(call, listener))
		return;
	count = config_change_remove(s->config, name, changes, &reason);
	if (count < 0) {
		refuse(call, reason.text);
		return;
	}
	change_to(call, parameters, name, changes, (unsigned)count);
	for (int i = 0; i < count; i++)
		free(changes[i]);
}
