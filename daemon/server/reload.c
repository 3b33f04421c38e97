/* Reload: reads the file, decides, and remembers the result; reload_apply.c carries it out.  Main
 * thread.  See reload.h. */
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

/* config_load_again(); NULL with all errors in lines. */
static struct config *load(const struct config *of, json_t *lines)
{
	struct config_errors errors = { 0 };
	struct config *config = NULL;

	config_load_again(of, &config, &errors);
	for (unsigned i = 0; i < errors.count && i < CONFIG_ERRORS_MAX; i++)
		reload_add_line(lines, errors.text[i]);
	if (errors.count > CONFIG_ERRORS_MAX)
		json_array_append_new(
			lines, json_sprintf("and %u more error%s", errors.count - CONFIG_ERRORS_MAX,
					    plural(errors.count - CONFIG_ERRORS_MAX)));
	config_errors_free(&errors);
	return config;
}

/* Changes to config, or only reports the changes of a dry run.  Takes ownership of config, and
 * frees the configuration that is not used. */
static enum reload_outcome change_to(struct server *s, struct config *config, bool dry_run,
				     struct reload_answer *answer)
{
	struct config *unused = config, *previous = s->config;
	struct reload_next next = { .server = s, .config = config };
	enum reload_outcome outcome = RELOAD_DONE;

	config_diff_make(&next.diff, previous, config);
	if (config_diff_has(&next.diff, CONFIG_SERVER, NULL, CONFIG_RESTART)) {
		outcome = RELOAD_RESTART;
		answer->message = "nothing was changed: these need a restart of the daemon";
		add_changes(answer->lines, &next.diff, true);
	} else if (dry_run) {
		add_changes(answer->lines, &next.diff, false);
	} else if (reload_apply(&next, answer->lines)) {
		unused = previous;
		add_changes(answer->lines, &next.diff, false);
	} else {
		outcome = RELOAD_REFUSED;
		answer->message = "nothing was changed: this host cannot serve the configuration";
	}
	config_diff_free(&next.diff);
	config_free(unused);
	return outcome;
}

enum reload_outcome reload_run(struct server *s, bool dry_run, struct reload_answer *answer)
{
	enum reload_outcome outcome = RELOAD_REFUSED;
	struct config *config;

	*answer = (struct reload_answer){ .lines = json_array() };
	if (s->listeners.stopping) {
		answer->message = "the server is stopping";
		log_warning("reload: refused: %s", answer->message);
		return outcome;
	}
	if (!dry_run)
		notify_reloading(s);
	config = load(s->config, answer->lines);
	if (config)
		outcome = change_to(s, config, dry_run, answer);
	else
		answer->message = "nothing was changed: the configuration is wrong";
	if (dry_run)
		return outcome;
	log_lines(outcome == RELOAD_DONE ? LOG_INFO : LOG_ERR, "reload", answer->lines);
	if (outcome == RELOAD_DONE) {
		log_info("reload: done, generation %llu", (unsigned long long)s->generation);
		remember(s, RELOAD_STATE_DONE, json_array());
	} else {
		log_error("reload: %s", answer->message);
		remember(s, RELOAD_STATE_REFUSED, json_incref(answer->lines));
	}
	return outcome;
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

	json_decref(r->time);
	json_decref(r->errors);
	*r = (struct reload){ 0 };
}
