/* Reload.  See reload.h. */
#include "reload.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>

#include "config_diff.h"
#include "json.h"
#include "listening.h"
#include "log.h"
#include "server.h"

enum { ACCEPT_END_WAIT_NS = NS_PER_S };

/* ---- Texts ---- */

static void add_line(json_t *lines, const char *text)
{
	json_array_append_new(lines, json_text(text));
}

static void add_changes(json_t *lines, const struct config_diff *diff, bool only_restart)
{
	for (unsigned i = 0; i < diff->count; i++)
		if (!only_restart || diff->list[i].class == CONFIG_RESTART)
			add_line(lines, diff->list[i].text);
}

static void log_lines(int level, const char *what, const json_t *lines)
{
	json_t *line;
	size_t i;

	json_array_foreach(lines, i, line)
		log_write(level, NULL, "%s: %s", what, json_string_value(line));
}

/* ---- Prepare ---- */

/* The new state, which becomes the server's when the reload commits. */
struct next {
	struct server *server;
	struct config *config;
	struct config_diff diff;
	struct listener **listeners; /* those that stay, and new ones */
	struct listener **going;     /* those that do not stay; NULL-terminated */
	struct exports exports;
	unsigned listener_count, going_count;
	/* NULL: a reload.  Otherwise this listener only is to serve again; "": all drained ones. */
	const char *resume;
};

static bool exports_changed(const struct next *n, const struct listener_config *lc)
{
	for (unsigned i = 0; i < lc->export_count; i++)
		if (config_diff_has(&n->diff, CONFIG_EXPORT, lc->exports[i].name, CONFIG_REOPEN))
			return true;
	return false;
}

/* l does not serve, because it was drained or this host could not, and is made anew. */
static bool is_begun_again(const struct next *n, const struct listener *l)
{
	if (l->state == LISTENER_SERVING)
		return false;
	if (!n->resume)
		return true;
	return *n->resume ? !strcmp(n->resume, l->name) : l->state != LISTENER_UNAVAILABLE;
}

/* The running listener that config's becomes without a new one. */
static struct listener *find_kept(const struct next *n, const struct listener_config *lc)
{
	struct listener *l = listeners_find(&n->server->listeners, lc->name);

	if (!l || is_begun_again(n, l) || exports_changed(n, lc) ||
	    config_diff_has(&n->diff, CONFIG_LISTENER, lc->name, CONFIG_REPLACE))
		return NULL;
	return l;
}

static const struct listener_config *find_config(const struct config *config, const char *name)
{
	for (unsigned i = 0; i < config->listener_count; i++)
		if (!strcmp(config->listeners[i].name, name))
			return &config->listeners[i];
	return NULL;
}

static void find_going(struct next *n)
{
	struct server *s = n->server;

	for (unsigned i = 0; i < s->listeners.count; i++) {
		struct listener *l = s->listeners.list[i];
		const struct listener_config *lc = find_config(n->config, l->name);

		for (unsigned j = 0; j < l->address_count; j++)
			l->addresses[j].heir = NULL;
		if (!lc || !find_kept(n, lc))
			n->going[n->going_count++] = l;
	}
}

/* Listeners look their exports up in the server. */
static void swap_exports(struct next *n)
{
	struct exports *now = &n->server->listeners.exports, before = *now;

	*now = n->exports;
	n->exports = before;
}

static bool prepare_exports(struct next *n, json_t *errors)
{
	struct exports *e = &n->server->listeners.exports;
	bool good = true;

	exports_hold(e, n->config);
	for (unsigned i = 0; i < e->count; i++) {
		const struct config_origin *at = &n->config->exports[i].section;
		const struct server_export *x = e->list[i];

		if (!x->error || export_need(x, n->config) != EXPORT_REQUIRED)
			continue;
		json_array_append_new(errors,
				      json_sprintf("%s:%u: [export %s]: %s", at->file, at->line,
						   x->config.name, x->reason.text));
		good = false;
	}
	return good;
}

static bool is_running(const struct server *s, const struct listener *l)
{
	return listeners_find(&s->listeners, l->name) == l;
}

static void add_listener_error(json_t *errors, const struct listener *l)
{
	const struct config_origin *at = &l->config->section;

	json_array_append_new(errors, json_sprintf("%s:%u: [listener %s]: %s", at->file, at->line,
						   l->name, l->reason.text));
}

/* Optional or not, it was asked for. */
static bool cannot_resume(const struct next *n, const struct listener *l)
{
	return n->resume && l->state == LISTENER_UNAVAILABLE && !is_running(n->server, l);
}

/* Tries all of them, so that every error is reported at once. */
static bool prepare_listeners(struct next *n, json_t *errors)
{
	bool good = true;

	n->server->listeners.bind_end_ns = clock_ns() + SOCKET_WAIT_NS;
	for (unsigned i = 0; i < n->config->listener_count; i++) {
		const struct listener_config *lc = &n->config->listeners[i];
		struct listener *l = find_kept(n, lc);
		struct reason reason = { "" };

		if (!l && listener_begin(&n->server->listeners, lc, n->going, &l, &reason) < 0) {
			add_line(errors, reason.text);
			return false;
		}
		n->listeners[n->listener_count++] = l;
	}
	listeners_await_start(n->listeners, n->listener_count, n->going);
	for (unsigned i = 0; i < n->listener_count; i++) {
		const struct listener *l = n->listeners[i];

		if (!l->error && !cannot_resume(n, l))
			continue;
		good = false;
		if (n->resume || exports_are_there(&n->server->listeners.exports, l->config))
			add_listener_error(errors, l);
	}
	return good;
}

/* With the server's own exports in n. */
static void undo(struct next *n)
{
	unsigned count = n->listeners ? n->listener_count : 0;
	uint64_t end_ns = clock_ns() + LISTENERS_END_NS;

	for (unsigned i = 0; i < count; i++)
		if (!is_running(n->server, n->listeners[i]))
			listener_request_stop(n->listeners[i]);
	for (unsigned i = 0; i < count; i++)
		if (!is_running(n->server, n->listeners[i]))
			listeners_end_one(n->listeners[i], end_ns);
	swap_exports(n);
	exports_retire(&n->exports, &n->server->listeners.exports);
	free(n->listeners);
	free(n->going);
}

/* False: nothing has changed, and errors say why. */
static bool prepare(struct next *n, json_t *errors)
{
	struct server *s = n->server;
	bool good = exports_renew(&s->listeners.exports, n->config, &n->diff, &n->exports) == 0;

	n->listeners = calloc(n->config->listener_count + 1, sizeof(*n->listeners));
	n->going = calloc(s->listeners.count + 1, sizeof(*n->going));
	swap_exports(n);
	if (!good || !n->listeners || !n->going) {
		good = false;
		add_line(errors, "no memory");
	} else {
		find_going(n);
		good = prepare_exports(n, errors);
		good &= prepare_listeners(n, errors);
		exports_release(&s->listeners.exports);
	}
	if (!good)
		undo(n);
	return good;
}

/* ---- Commit: nothing fails from here on ---- */

static void leave(struct server *s, struct listener *l, uint64_t deadline_ns, uint64_t end_ns)
{
	for (unsigned i = 0; i < l->address_count; i++) {
		struct bound *a = &l->addresses[i];

		if (!a->heir)
			continue;
		a->heir->file = a->file;
		a->file = (struct unix_socket){ 0 };
		a->heir = NULL;
		listening_give(l, i);
	}
	listener_drain(l, deadline_ns);
	if (l->state != LISTENER_DRAINING) {
		listeners_end_one(l, end_ns);
		return;
	}
	l->next = s->listeners.leaving;
	s->listeners.leaving = l;
}

static bool is_listed(struct listener *const *list, unsigned count, const struct listener *l)
{
	for (unsigned i = 0; i < count; i++)
		if (list[i] == l)
			return true;
	return false;
}

/* Old ones stop first, so that who comes when this is done gets what is new; the sockets stay open
 * throughout.  A worker that is stuck is not waited for: see listener_accept_waiting(). */
static void commit(struct next *n)
{
	struct server *s = n->server;
	struct listener **old = s->listeners.list;
	unsigned old_count = s->listeners.count;
	uint64_t end_ns = clock_ns() + LISTENERS_END_NS;

	for (unsigned i = 0; i < n->listener_count; i++) {
		struct listener *l = n->listeners[i];

		if (!is_running(s, l))
			listener_log(l);
		else if (l->state == LISTENER_SERVING) /* of a resume, others may stay */
			listener_change(l, &n->config->listeners[i]);
	}
	if (!n->resume)
		listeners_log_unavailable(n->listeners, n->listener_count);
	s->listeners.list = n->listeners;
	s->listeners.count = n->listener_count;
	exports_retire(&n->exports, &s->listeners.exports);
	s->config = n->config;
	s->generation += n->diff.count > 0;
	log_set_level(s->config->server.log_level);
	for (unsigned i = 0; i < n->going_count; i++)
		if (n->going[i]->state > LISTENER_DRAINING)
			listener_request_stop(n->going[i]);
	for (unsigned i = 0; i < n->going_count; i++)
		leave(s, n->going[i], clock_ns() + s->config->server.drain_timeout_ns, end_ns);
	end_ns = clock_ns() + ACCEPT_END_WAIT_NS;
	for (struct listener *l = s->listeners.leaving; l; l = l->next)
		if (l->state == LISTENER_DRAINING)
			listener_await_accept_ended(l, end_ns);
	for (unsigned i = 0; i < n->listener_count; i++)
		if (!is_listed(old, old_count, n->listeners[i]))
			listener_serve(n->listeners[i]);
	free(old);
	free(n->going);
}

/* Adds what did not serve and will, though nothing of it has changed. */
static void add_begun(json_t *lines, const struct next *n)
{
	for (unsigned i = 0; i < n->listener_count; i++) {
		const struct listener *l = n->listeners[i];
		const struct listener *old = listeners_find(&n->server->listeners, l->name);

		if (!old || l->state != LISTENER_SERVING || !is_begun_again(n, old))
			continue;
		if (n->resume)
			add_line(lines, l->name);
		else if (!config_diff_has(&n->diff, CONFIG_LISTENER, l->name, CONFIG_REPLACE))
			json_array_append_new(lines,
					      json_sprintf("%s:%u: [listener %s]: %s -> serving",
							   l->config->section.file,
							   l->config->section.line, l->name,
							   listener_state_names[old->state]));
	}
}

/* Makes what n has of server, config, diff and resume the server's, and adds what serves again to
 * lines; or adds all errors.  The caller frees the configuration that is not used. */
static bool apply(struct next *n, json_t *lines)
{
	if (!prepare(n, lines))
		return false;
	add_begun(lines, n);
	commit(n);
	return true;
}

/* ---- Around the transaction ---- */

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

static int reload_on_unconfirmed(sd_event_source *source, uint64_t due_us, void *context)
{
	struct server *s = context;
	struct reload *r = &s->reload;
	struct config *unconfirmed = s->config;
	struct next next = { .server = s, .config = r->previous };
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
	undone = apply(&next, lines);
	config_diff_free(&next.diff);
	if (undone) {
		r->previous = unconfirmed; /* to be freed */
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
	reload_remember(s, undone ? RELOAD_STATE_UNDONE : RELOAD_STATE_KEPT, errors);
	return 0;
}

/* Keeps `previous` until it is confirmed; 0 seconds: frees it. */
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

/* NULL with all errors. */
static struct config *load(const char *path, json_t *lines)
{
	struct config_errors errors = { 0 };
	struct config *config = NULL;

	config_load(path, &config, &errors);
	for (unsigned i = 0; i < errors.count && i < CONFIG_ERRORS_MAX; i++)
		add_line(lines, errors.text[i]);
	if (errors.count > CONFIG_ERRORS_MAX)
		json_array_append_new(
			lines, json_sprintf("and %u more error%s", errors.count - CONFIG_ERRORS_MAX,
					    plural(errors.count - CONFIG_ERRORS_MAX)));
	config_errors_free(&errors);
	return config;
}

/* With config read.  Frees what is not used. */
static enum reload_outcome change_to(struct server *s, struct config *config,
				     const struct reload_request *request,
				     struct reload_answer *answer)
{
	struct config *previous = s->config;
	struct next next = { .server = s, .config = config };
	enum reload_outcome outcome = RELOAD_DONE;
	bool changed;

	config_diff_make(&next.diff, previous, config);
	changed = next.diff.count > 0;
	if (config_diff_has(&next.diff, CONFIG_SERVER, NULL, CONFIG_RESTART)) {
		outcome = RELOAD_RESTART;
		answer->message = "nothing was changed: these need a restart of the daemon";
		add_changes(answer->lines, &next.diff, true);
	} else if (!request->dry_run && !apply(&next, answer->lines)) {
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
	else if (!s->path)
		answer->message = "there is no file: the listeners are those of --run";
	else if (s->reload.previous)
		answer->message = "the last reload is not confirmed yet: `nbctl confirm`, or wait";
	if (answer->message) {
		log_warning("reload: refused: %s", answer->message);
		return outcome;
	}
	if (!request->dry_run)
		notify_reloading(s);
	config = load(s->path, answer->lines);
	if (config)
		outcome = change_to(s, config, request, answer);
	else
		answer->message = "nothing was changed: the configuration is wrong";
	if (request->dry_run)
		return outcome;
	log_lines(outcome == RELOAD_DONE ? LOG_INFO : LOG_ERR, "reload", answer->lines);
	if (outcome == RELOAD_DONE) {
		log_info("reload: done, generation %llu", (unsigned long long)s->generation);
		reload_remember(s,
				s->reload.previous ? RELOAD_STATE_UNCONFIRMED : RELOAD_STATE_DONE,
				json_array());
	} else {
		log_error("reload: %s", answer->message);
		reload_remember(s, RELOAD_STATE_REFUSED, json_incref(answer->lines));
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
	struct next next = { .server = s, .config = s->config, .resume = name ? name : "" };

	*answer = (struct reload_answer){ .lines = json_array() };
	if (s->listeners.stopping)
		answer->message = "the server is stopping";
	else if (!apply(&next, answer->lines))
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
