/* Reload: reads the file, decides, and remembers the result; reload_apply.c carries it out.  Owns
 * the previous configuration while the reload is not confirmed.  Main thread.  See reload.h. */
#include "reload.h"

#include "config_diff.h"
#include "json.h"
#include "log.h"
#include "reload_apply.h"
#include "server.h"

/* ---- Texts ---- */

static void add_changes(json_t *lines, const struct config_diff *diff, bool only_restart)
{
	for (unsigned i = 0; i < diff->count; i++)
		if (!only_restart || diff->list[i].class == CONFIG_RESTART)
			reload_add_line(lines, diff->list[i].text);
}

static void log_lines(int level, const char *what, const json_t *lines)
{
	json_t *line;
	size_t i;

	json_array_foreach(lines, i, line)
		log_write(level, NULL, "%s: %s", what, json_string_value(line));
}

/* ---- Around the transaction ---- */

static void remember(struct server *s, enum reload_state state, json_t *errors)
{
	reload_remember(s, state, errors);
	server_notify_ready(s);
}

/* systemd (Type=notify-reload) requires MONOTONIC_USEC, to tell this reload from an earlier one,
 * and waits for the READY=1 of remember(). */
static void notify_reloading(struct server *s)
{
	notify(&s->notify, "RELOADING=1\nMONOTONIC_USEC=%llu",
	       (unsigned long long)(clock_ns() / NS_PER_US));
}

static void forget_previous(struct reload *r)
{
	r->timer = sd_event_source_disable_unref(r->timer);
	config_free(r->previous);
	r->previous = NULL;
}

/* The time for a confirmation has passed: changes back to the previous configuration, by the same
 * transaction as any reload.  If that fails the unconfirmed one stays in force. */
static int reload_on_unconfirmed(sd_event_source *source, uint64_t due_us, void *context)
{
	struct server *s = context;
	struct reload *r = &s->reload;
	struct config *unconfirmed = s->config;
	struct reload_next next = { .server = s, .config = r->previous };
	json_t *errors = json_array(), *lines = json_array();
	bool undone;

	(void)source, (void)due_us;
	if (s->listeners.stopping) {
		json_decref(errors);
		json_decref(lines);
		return 0;
	}
	notify_reloading(s);
	config_diff_make(&next.diff, unconfirmed, r->previous);
	undone = reload_apply(&next, lines);
	config_diff_free(&next.diff);
	if (undone) {
		/* The configuration that was undone, which is freed below. */
		r->previous = unconfirmed;
		json_array_append_new(
			errors, json_sprintf("not confirmed within %u s: undone", r->confirm_s));
	} else {
		json_array_append_new(errors, json_sprintf("not confirmed within %u s, but the "
							   "configuration before cannot come back",
							   r->confirm_s));
		json_array_extend(errors, lines);
	}
	json_decref(lines);
	forget_previous(r);
	log_lines(LOG_ERR, "reload", errors);
	remember(s, undone ? RELOAD_STATE_UNDONE : RELOAD_STATE_KEPT, errors);
	return 0;
}

/* Keeps `previous` until the reload is confirmed; seconds 0: frees it. */
static void await_confirmation(struct server *s, struct config *previous, unsigned seconds)
{
	struct reload *r = &s->reload;

	r->previous = previous;
	r->confirm_s = seconds;
	r->confirm_end_ns = clock_ns() + seconds * (uint64_t)NS_PER_S;
	if (seconds == 0 || sd_event_add_time_relative(s->event, &r->timer, CLOCK_MONOTONIC,
						       seconds * (uint64_t)1000000, 1000,
						       reload_on_unconfirmed, s) < 0)
		forget_previous(r);
	else
		log_info("reload: to be confirmed within %u s", seconds);
}

/* config_load_again(); NULL with all errors in lines. */
static struct config *load(const struct config *of, char *const *changes, unsigned count,
			   json_t *lines)
{
	struct config_errors errors = { 0 };
	struct config *config = NULL;

	config_load_again(of, changes, count, &config, &errors);
	for (unsigned i = 0; i < errors.count && i < CONFIG_ERRORS_MAX; i++)
		reload_add_line(lines, errors.text[i]);
	if (errors.count > CONFIG_ERRORS_MAX)
		json_array_append_new(
			lines, json_sprintf("and %u more error%s", errors.count - CONFIG_ERRORS_MAX,
					    plural(errors.count - CONFIG_ERRORS_MAX)));
	config_errors_free(&errors);
	return config;
}

/* The files of the configuration in force with other changes; NULL with the reason.  They are read
 * again for that, and must be as they were: the user has asked for these changes alone. */
static struct config *load_changes(struct server *s, const struct reload_request *request,
				   struct reload_answer *answer)
{
	const struct config *now = s->config;
	struct config *config = load(now, now->changes, now->change_count, answer->lines);
	struct config_diff diff = { 0 };

	answer->message = "nothing was changed: the files are wrong by now";
	if (!config)
		return NULL;
	if (config->server.log_level != now->server.log_level)
		config_set_log_level(config, now->server.log_level);
	config_diff_make(&diff, now, config);
	add_changes(answer->lines, &diff, false);
	config_diff_free(&diff);
	config_free(config);
	answer->message = "nothing was changed: the files have changed since they were read: "
			  "`nbctl reload` first";
	if (json_array_size(answer->lines))
		return NULL;
	config = load(now, request->changes, request->change_count, answer->lines);
	answer->message = config ? NULL : "nothing was changed: the change is wrong";
	if (config && config->server.log_level != now->server.log_level)
		config_set_log_level(config, now->server.log_level);
	return config;
}

/* Changes to config, or only reports the changes of a dry run.  Takes ownership of config, and
 * frees the configuration that is not used.  The previous one is kept until it is confirmed. */
static enum reload_outcome change_to(struct server *s, struct config *config,
				     const struct reload_request *request,
				     struct reload_answer *answer)
{
	struct config *previous = s->config;
	struct reload_next next = { .server = s, .config = config };
	enum reload_outcome outcome = RELOAD_DONE;
	bool changed;

	config_diff_make(&next.diff, previous, config);
	changed = next.diff.count > 0;
	if (config_diff_has(&next.diff, CONFIG_SERVER, NULL, CONFIG_RESTART)) {
		outcome = RELOAD_RESTART;
		answer->message = "nothing was changed: these need a restart of the daemon";
		add_changes(answer->lines, &next.diff, true);
	} else if (!request->dry_run && !reload_apply(&next, answer->lines)) {
		outcome = RELOAD_REFUSED;
		answer->message = "nothing was changed: this host cannot serve the configuration";
	} else {
		add_changes(answer->lines, &next.diff, false);
	}
	config_diff_free(&next.diff);
	if (outcome == RELOAD_DONE && !request->dry_run)
		await_confirmation(s, previous, changed ? request->confirm_s : 0);
	else
		config_free(config);
	return outcome;
}

enum reload_outcome reload_run(struct server *s, const struct reload_request *request,
			       struct reload_answer *answer)
{
	enum reload_outcome outcome = RELOAD_REFUSED;
	struct config *config = NULL;

	*answer = (struct reload_answer){ .lines = json_array() };
	if (s->listeners.stopping)
		answer->message = "the server is stopping";
	else if (s->reload.previous)
		answer->message = "the last reload is not confirmed yet: `nbctl confirm`, or wait";
	if (answer->message) {
		log_warning("reload: refused: %s", answer->message);
		return outcome;
	}
	if (!request->dry_run)
		notify_reloading(s);
	if (request->changes)
		config = load_changes(s, request, answer);
	else
		config = load(s->config, NULL, 0, answer->lines);
	if (config)
		outcome = change_to(s, config, request, answer);
	else if (!request->changes)
		answer->message = "nothing was changed: the configuration is wrong";
	if (request->dry_run)
		return outcome;
	log_lines(outcome == RELOAD_DONE ? LOG_INFO : LOG_ERR, "reload", answer->lines);
	if (outcome == RELOAD_DONE) {
		log_info("reload: done, generation %llu", (unsigned long long)s->generation);
		remember(s, s->reload.previous ? RELOAD_STATE_UNCONFIRMED : RELOAD_STATE_DONE,
			 json_array());
	} else {
		log_error("reload: %s", answer->message);
		remember(s, RELOAD_STATE_REFUSED, json_incref(answer->lines));
	}
	return outcome;
}

bool reload_confirm(struct server *s)
{
	if (!s->reload.previous)
		return false;
	forget_previous(&s->reload);
	s->reload.state = RELOAD_STATE_DONE;
	server_notify_status(s);
	log_info("reload: generation %llu is confirmed", (unsigned long long)s->generation);
	return true;
}

enum reload_outcome reload_resume(struct server *s, const char *name, struct reload_answer *answer)
{
	struct reload_next next = { .server = s, .config = s->config, .resume = name ? name : "" };

	*answer = (struct reload_answer){ .lines = json_array() };
	if (s->listeners.stopping)
		answer->message = "the server is stopping";
	else if (!reload_apply(&next, answer->lines))
		answer->message = "nothing was changed: this host cannot serve it now";
	if (answer->message) {
		log_lines(LOG_ERR, "resume", answer->lines);
		log_error("resume: %s", answer->message);
		return RELOAD_REFUSED;
	}
	server_notify_status(s);
	return RELOAD_DONE;
}

void reload_fini(struct server *s)
{
	struct reload *r = &s->reload;

	forget_previous(r);
	json_decref(r->time);
	json_decref(r->errors);
	*r = (struct reload){ 0 };
}
