/* The server's status line: for nbctl, and for the service manager; the result of the last reload,
 * and its reports.  See server.h, reload.h.  Main thread. */
#include <stdio.h>

#include "json.h"
#include "server.h"
#include "util.h"

static const struct {
	const char *name;
	bool ok;
	const char *remark;
} reload_states[] = {
	[RELOAD_STATE_NONE] = { "none", true, "" },
	[RELOAD_STATE_DONE] = { "done", true, "" },
	[RELOAD_STATE_REFUSED] = { "refused", false,
				   "; the last reload was refused, see nbctl status" },
};

void reload_remember(struct server *s, enum reload_state state, json_t *errors)
{
	struct reload *r = &s->reload;

	json_decref(r->time);
	json_decref(r->errors);
	r->state = state;
	r->generation = s->generation;
	r->time = json_time();
	r->errors = errors;
}

json_t *reload_document(const struct server *s)
{
	const struct reload *r = &s->reload;

	return json_pack("{s:o, s:b, s:s, s:o, s:o}", "generation",
			 json_count(r->time ? r->generation : s->generation), "ok",
			 reload_states[r->state].ok, "state", reload_states[r->state].name, "time",
			 r->time ? json_incref(r->time) : json_string(""), "errors",
			 r->errors ? json_incref(r->errors) : json_array());
}

struct server_words server_words(const struct server *s)
{
	static const enum listener_state others[] = { LISTENER_DRAINING, LISTENER_DRAINED,
						      LISTENER_UNAVAILABLE };
	unsigned counts[LISTENER_STATES] = { 0 };
	struct server_words words;
	int used;

	for (unsigned i = 0; i < s->listeners.count; i++)
		counts[s->listeners.list[i]->state]++;
	used = snprintf(words.text, sizeof(words.text), "%u listener%s", counts[LISTENER_SERVING],
			plural(counts[LISTENER_SERVING]));
	for (unsigned i = 0; i < ARRAY_SIZE(others); i++)
		if (counts[others[i]] > 0)
			used += snprintf(words.text + used, sizeof(words.text) - (size_t)used,
					 ", %u %s", counts[others[i]],
					 listener_state_names[others[i]]);
	return words;
}

static void notify_status(struct server *s, const char *before)
{
	notify(&s->notify, "%sSTATUS=Serving %s, generation %llu%s", before, server_words(s).text,
	       (unsigned long long)s->generation, reload_states[s->reload.state].remark);
}

void server_notify_ready(struct server *s)
{
	notify_status(s, "READY=1\n");
}

void server_notify_status(struct server *s)
{
	if (!s->listeners.stopping)
		notify_status(s, "");
}
