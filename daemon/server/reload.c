/* Reload: reads the file, decides, carries it out, and remembers the result.  Main thread.  See
 * reload.h. */
#include "reload.h"

#include <stdlib.h>
#include <string.h>

#include "binding.h"
#include "config_diff.h"
#include "exports.h"
#include "json.h"
#include "log.h"
#include "server.h"

enum { ACCEPT_END_WAIT_NS = NS_PER_S };

/* ---- The transaction: prepare(), then commit() or undo().  Until commit() the server's lists are
 * not touched, and the old listeners serve undisturbed ---- */

/* The new state, which becomes the server's when the reload commits. */
struct next {
	struct server *server;
	struct config *config;
	struct config_diff diff;
	struct listener **listeners; /* listeners that stay, and new ones */
	/* going_count listeners that will end, then those that leave already; NULL-terminated */
	struct listener **going;
	struct exports exports;
	unsigned listener_count, going_count;
	/* NULL: a reload.  Else a resume of this listener alone; "": of all drained ones. */
	const char *resume;
};

static void add_line(json_t *lines, const char *text)
{
	json_array_append_new(lines, json_text(text));
}

/* ---- Prepare ---- */

/* The open export of that name which the new configuration opens again; NULL: there is none. */
static const struct server_export *find_reopened(const struct next *n, const char *name)
{
	const struct server_export *x = exports_find(&n->server->listeners.exports, name);

	return x && x->users > 0 && exports_find(&n->exports, name) != x ? x : NULL;
}

static bool exports_changed(const struct next *n, const struct listener_config *lc)
{
	for (unsigned i = 0; i < lc->export_count; i++)
		if (find_reopened(n, lc->exports[i].name))
			return true;
	return false;
}

/* True: l is to be started again: a reload does so with those that are unavailable, a resume with
 * the one that it names, or with all that were drained. */
static bool will_restart(const struct next *n, const struct listener *l)
{
	if (l->state == LISTENER_SERVING)
		return false;
	if (!n->resume)
		return l->state == LISTENER_UNAVAILABLE;
	return *n->resume ? !strcmp(n->resume, l->name) : l->state != LISTENER_UNAVAILABLE;
}

/* Does a listener that is to be started again serve x? */
static bool is_asked_for(const struct next *n, const struct server_export *x)
{
	const struct listeners *all = &n->server->listeners;

	for (unsigned i = 0; i < all->count; i++)
		for (unsigned j = 0; j < all->list[i]->config->export_count; j++)
			if (will_restart(n, all->list[i]) &&
			    !strcmp(all->list[i]->config->exports[j].name, x->config.name))
				return true;
	return false;
}

/* Finds the exports to open again.  A resume does so only for the listeners that it is about. */
static void find_outdated(struct next *n)
{
	struct exports *e = &n->server->listeners.exports;

	exports_check_files(e);
	for (unsigned i = 0; n->resume && i < e->count; i++)
		if (!is_asked_for(n, e->list[i]))
			e->list[i]->outdated.text[0] = '\0';
}

/* The running listener that stays for this section; NULL: a new one is needed. */
static struct listener *find_kept(const struct next *n, const struct listener_config *lc)
{
	struct listener *l = listeners_find(&n->server->listeners, lc->name);

	if (!l || will_restart(n, l) || exports_changed(n, lc) ||
	    config_diff_has(&n->diff, CONFIG_LISTENER, lc->name, CONFIG_REPLACE))
		return NULL;
	return l;
}

static unsigned count_leaving(const struct server *s)
{
	unsigned count = 0;

	for (const struct listener *l = s->listeners.leaving; l; l = l->next)
		count++;
	return count;
}

static void clear_heirs(struct listener *l)
{
	for (unsigned i = 0; i < l->address_count; i++)
		l->addresses[i].heir = NULL;
}

/* Lists the running listeners that the new configuration does not keep, and behind them those that
 * leave already.  New listeners may take their sockets over, which sets `heir` of an address;
 * values of an earlier reload are cleared here. */
static void find_removed(struct next *n)
{
	struct server *s = n->server;
	unsigned count;

	for (unsigned i = 0; i < s->listeners.count; i++) {
		struct listener *l = s->listeners.list[i];
		const struct listener_config *lc =
			(void *)config_section_find(n->config, CONFIG_LISTENER, l->name);

		clear_heirs(l);
		if (!lc || !find_kept(n, lc))
			n->going[n->going_count++] = l;
	}
	count = n->going_count;
	for (struct listener *l = s->listeners.leaving; l; l = l->next) {
		clear_heirs(l);
		n->going[count++] = l;
	}
}

static void add_error(json_t *errors, const struct config_origin *at, const char *kind,
		      const char *name, const char *text)
{
	json_array_append_new(
		errors, json_sprintf("%s:%u: [%s %s]: %s", at->file, at->line, kind, name, text));
}

/* Opens the exports.  An export that only optional listeners need is no error. */
static bool prepare_exports(struct next *n, json_t *errors)
{
	struct exports *e = &n->exports;
	bool good = true;

	exports_hold(e, n->config);
	for (unsigned i = 0; i < e->count; i++) {
		const struct server_export *x = e->list[i];

		if (!x->error || export_need(x, n->config) != EXPORT_REQUIRED)
			continue;
		add_error(errors, &n->config->exports[i].section, "export", x->config.name,
			  x->reason.text);
		good = false;
	}
	return good;
}

static bool is_running(const struct server *s, const struct listener *l)
{
	return listeners_find(&s->listeners, l->name) == l;
}

/* Are files and keys of l, which stays, read again?  Not those of a drained listener, which a
 * resume makes anew, nor those of others in a resume. */
static bool takes_keys(const struct next *n, const struct listener *l)
{
	return !n->resume && l->state == LISTENER_SERVING;
}

/* Reads the certificate of a running listener again: its files may have changed. */
static bool prepare_certificate(struct listener *l, const struct listener_config *lc,
				json_t *errors)
{
	struct reason reason;

	if (listener_prepare(l, lc, &reason) == 0)
		return true;
	add_error(errors, &lc->section, "listener", lc->name, reason.text);
	return false;
}

/* Makes the listener of a section: one that serves, or one that does not if the listener of that
 * name was drained: that is for a resume to end. */
static int prepare_new(struct next *n, const struct listener_config *lc,
		       struct listener **ret_listener, struct reason *reason)
{
	const struct listener *old = listeners_find(&n->server->listeners, lc->name);

	if (old && old->state != LISTENER_SERVING && !will_restart(n, old))
		return listener_make_drained(&n->server->listeners, lc, ret_listener, reason);
	return listener_start(&n->server->listeners, &n->exports, lc, n->going, ret_listener,
			      reason);
}

/* Adds the errors of listeners that cannot start; false: there are some. */
static bool report_listeners(const struct next *n, json_t *errors)
{
	bool good = true;

	for (unsigned i = 0; i < n->listener_count; i++) {
		const struct listener *l = n->listeners[i];

		/* In a resume even an optional listener that is unavailable is an error. */
		if (!l->error &&
		    !(n->resume && l->state == LISTENER_UNAVAILABLE && !is_running(n->server, l)))
			continue;
		good = false;
		if (n->resume || exports_are_there(&n->exports, l->config))
			add_error(errors, &l->config->section, "listener", l->name, l->reason.text);
	}
	return good;
}

/* Prepares all listeners even after an error, so that every error is reported at once. */
static bool prepare_listeners(struct next *n, json_t *errors)
{
	bool good = true;

	listeners_begin(&n->server->listeners, n->config);
	for (unsigned i = 0; i < n->config->listener_count; i++) {
		const struct listener_config *lc = &n->config->listeners[i];
		struct listener *l = find_kept(n, lc);
		struct reason reason = { "" };

		if (l && takes_keys(n, l))
			good &= prepare_certificate(l, lc, errors);
		else if (!l && prepare_new(n, lc, &l, &reason) < 0) {
			add_line(errors, reason.text);
			return false;
		}
		n->listeners[n->listener_count++] = l;
	}
	listeners_await_started(n->listeners, n->listener_count, n->going);
	return report_listeners(n, errors) && good;
}

/* Undoes prepare(): ends the new listeners, which never accepted, and closes their exports.
 * Nothing of the old listeners has changed. */
static void undo(struct next *n)
{
	unsigned count = n->listeners ? n->listener_count : 0;
	uint64_t end_ns = clock_ns() + LISTENERS_END_NS;

	for (unsigned i = 0; i < count; i++)
		if (!is_running(n->server, n->listeners[i]))
			listener_stop(n->listeners[i]);
		else
			listener_undo(n->listeners[i]);
	for (unsigned i = 0; i < count; i++)
		if (!is_running(n->server, n->listeners[i]))
			listeners_stop_one(n->listeners[i], end_ns);
	exports_retire(&n->exports, &n->server->listeners.exports);
	free(n->listeners);
	free(n->going);
}

/* Makes everything new: exports are opened, sockets bound, workers started, certificates read.
 * Nothing of the server's own lists is touched, so undo() only has to end what is new.  False:
 * nothing has changed, and errors say why. */
static bool prepare(struct next *n, json_t *errors)
{
	struct server *s = n->server;
	bool good;

	find_outdated(n);
	good = exports_renew(&s->listeners.exports, n->config, &n->diff, &n->exports) == 0;
	n->listeners = calloc(n->config->listener_count + 1, sizeof(*n->listeners));
	n->going = calloc(s->listeners.count + count_leaving(s) + 1, sizeof(*n->going));
	if (!good || !n->listeners || !n->going) {
		good = false;
		add_line(errors, "no memory");
	} else {
		find_removed(n);
		good = prepare_exports(n, errors);
		good &= prepare_listeners(n, errors);
		if (good) {
			listeners_listen(n->listeners, n->listener_count, n->going);
			good = report_listeners(n, errors);
		}
		exports_release(&n->exports);
	}
	if (!good)
		undo(n);
	return good;
}

/* ---- Commit: nothing fails from here on ---- */

/* The file of a Unix socket now belongs to the heir, so that the drain of l does not remove it.  A
 * listener of datagrams that drains already is asked to read no more what it has handed over. */
static void hand_over(struct listener *l, uint64_t end_ns)
{
	bool given = false;

	for (unsigned i = 0; i < l->address_count; i++) {
		struct bound *a = &l->addresses[i];

		if (!a->heir)
			continue;
		a->heir->file = a->file;
		a->file = (struct unix_socket){ 0 };
		a->heir = NULL;
		binding_given(l, i);
		given = true;
	}
	if (given && l->state == LISTENER_DRAINING && l->config->transport->datagrams)
		listener_leave_given(l, end_ns);
}

/* Ends a listener that was replaced or removed, and has handed over what others take. */
static void retire_listener(struct server *s, struct listener *l, uint64_t deadline_ns,
			    uint64_t end_ns)
{
	listener_drain(l, deadline_ns);
	if (l->state != LISTENER_DRAINING) {
		listeners_stop_one(l, end_ns);
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

/* Makes the prepared state the server's.  The order keeps clients from seeing a gap:
 *
 * Running listeners take their changed keys.  Then the lists are exchanged, and listeners
 * that were replaced or removed stop accepting; their sockets stay open, as the new
 * workers have duplicates of them.  Only when the old workers have stopped do the new ones
 * accept, so that after the reload every new client gets a new listener; clients that
 * connect in between wait in the sockets' queues.  Workers that are stuck are waited for
 * only for ACCEPT_END_WAIT_NS, together: see listener_accept_waiting(). */
static void commit(struct next *n)
{
	struct server *s = n->server;
	struct listener **old = s->listeners.list;
	struct exports before;
	unsigned old_count = s->listeners.count;
	uint64_t end_ns = clock_ns() + LISTENERS_END_NS;
	uint64_t left_ns = clock_ns() + ACCEPT_END_WAIT_NS;

	for (unsigned i = 0; i < n->listener_count; i++) {
		struct listener *l = n->listeners[i];

		if (!is_running(s, l))
			listener_log(l);
		else if (takes_keys(n, l))
			listener_change(l, &n->config->listeners[i]);
	}
	if (!n->resume)
		listeners_log_unavailable(n->listeners, n->listener_count);
	s->listeners.list = n->listeners;
	s->listeners.count = n->listener_count;
	before = s->listeners.exports;
	s->listeners.exports = n->exports;
	/* Listeners that drain still use old exports, which end with their last user. */
	exports_keep(&s->listeners.exports);
	exports_retire(&before, &s->listeners.exports);
	s->config = n->config;
	s->generation += n->diff.count > 0;
	log_set_level(s->config->server.log_level);
	for (struct listener *l = s->listeners.leaving; l; l = l->next)
		hand_over(l, left_ns);
	for (unsigned i = 0; i < n->going_count; i++) {
		hand_over(n->going[i], left_ns);
		if (n->going[i]->state > LISTENER_DRAINING)
			listener_stop(n->going[i]);
	}
	for (unsigned i = 0; i < n->going_count; i++)
		retire_listener(s, n->going[i], clock_ns() + s->config->server.drain_timeout_ns,
				end_ns);
	for (struct listener *l = s->listeners.leaving; l; l = l->next)
		if (l->state == LISTENER_DRAINING)
			listener_await_accept_ended(l, left_ns);
	for (unsigned i = 0; i < n->listener_count; i++)
		if (!is_listed(old, old_count, n->listeners[i]))
			listener_serve(n->listeners[i]);
	listeners_settle(&s->listeners);
	free(old);
	free(n->going);
}

/* Adds the listeners that serve again although their configuration has not changed. */
static void add_begun(json_t *lines, const struct next *n)
{
	for (unsigned i = 0; i < n->listener_count; i++) {
		const struct listener *l = n->listeners[i];
		const struct listener *old = listeners_find(&n->server->listeners, l->name);

		if (!old || l->state != LISTENER_SERVING || !will_restart(n, old))
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

/* Adds the exports that are opened again although their configuration has not changed.  A resume
 * answers with the names of listeners alone. */
static void add_reopened(json_t *lines, const struct next *n)
{
	for (unsigned i = 0; i < n->exports.count; i++) {
		const struct export_config *config = &n->exports.list[i]->config;
		const struct server_export *old = find_reopened(n, config->name);

		if (!old || !old->outdated.text[0])
			continue;
		if (n->resume)
			log_info("export '%s': opened again: %s", config->name, old->outdated.text);
		else
			json_array_append_new(
				lines, json_sprintf("%s:%u: [export %s]: opened again: %s",
						    config->section.file, config->section.line,
						    config->name, old->outdated.text));
	}
}

/* Carries out n, of which server, config, diff and resume are set.  True: done, and the listeners
 * that serve again are added to lines; false: nothing has changed, and all errors are added.  The
 * caller frees the configuration that is not in use then. */
static bool apply(struct next *n, json_t *lines)
{
	if (!prepare(n, lines))
		return false;
	add_reopened(lines, n);
	add_begun(lines, n);
	commit(n);
	return true;
}

/* ---- The result ---- */

/* Takes ownership of time and errors. */
static json_t *reload_result(const struct server *s, const char *state, json_t *time,
			     json_t *errors)
{
	return json_pack("{s:o, s:b, s:s, s:o, s:o}", "generation", json_count(s->generation), "ok",
			 !s->reload.refused, "state", state, "time", time, "errors", errors);
}

json_t *reload_document(const struct server *s)
{
	return s->reload.result ? json_incref(s->reload.result)
				: reload_result(s, "none", json_string(""), json_array());
}

/* ---- Texts ---- */

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
		log_write(level, "%s: %s", what, json_string_value(line));
}

/* ---- Around the transaction ---- */

/* Takes ownership of errors. */
static void record_result(struct server *s, bool refused, json_t *errors)
{
	json_decref(s->reload.result);
	s->reload.refused = refused;
	s->reload.result = reload_result(s, refused ? "refused" : "done", json_time(), errors);
	server_notify_ready(s);
}

/* config_load_again(); NULL with all errors in lines. */
static struct config *load(const struct config *of, json_t *lines)
{
	struct config_errors errors = { 0 };
	struct config *config = NULL;

	config_load_again(of, &config, &errors);
	for (unsigned i = 0; i < errors.count && i < CONFIG_ERRORS_MAX; i++)
		add_line(lines, errors.text[i]);
	if (errors.count > CONFIG_ERRORS_MAX)
		json_array_append_new(
			lines, json_sprintf("and %u more error%s", errors.count - CONFIG_ERRORS_MAX,
					    plural(errors.count - CONFIG_ERRORS_MAX)));
	config_errors_free(&errors);
	return config;
}

/* Changes to config, or only reports the changes of a dry run.  Takes ownership of config, and
 * frees the configuration that is not used. */
static enum reload_outcome replace_config(struct server *s, struct config *config, bool dry_run,
					  struct reload_answer *answer)
{
	struct config *unused = config, *previous = s->config;
	struct next next = { .server = s, .config = config };
	enum reload_outcome outcome = RELOAD_DONE;

	config_diff_make(&next.diff, previous, config);
	if (config_diff_has(&next.diff, CONFIG_SERVER, NULL, CONFIG_RESTART)) {
		outcome = RELOAD_RESTART;
		answer->message = "nothing was changed: these need a restart of the daemon";
		add_changes(answer->lines, &next.diff, true);
	} else if (dry_run) {
		add_changes(answer->lines, &next.diff, false);
	} else if (apply(&next, answer->lines)) {
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
	/* systemd (Type=notify-reload) requires MONOTONIC_USEC, to distinguish this reload from an
	 * earlier one, and waits for the READY=1 of record_result(). */
	if (!dry_run)
		notify(&s->notify, "RELOADING=1\nMONOTONIC_USEC=%llu",
		       (unsigned long long)(clock_ns() / NS_PER_US));
	config = load(s->config, answer->lines);
	if (config)
		outcome = replace_config(s, config, dry_run, answer);
	else
		answer->message = "nothing was changed: the configuration is wrong";
	if (dry_run)
		return outcome;
	log_lines(outcome == RELOAD_DONE ? LOG_INFO : LOG_ERR, "reload", answer->lines);
	if (outcome == RELOAD_DONE) {
		log_info("reload: done, generation %llu", (unsigned long long)s->generation);
		record_result(s, false, json_array());
	} else {
		log_error("reload: %s", answer->message);
		record_result(s, true, json_incref(answer->lines));
	}
	return outcome;
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
