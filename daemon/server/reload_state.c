/* The result of the last reload, and its reports.  See reload.h. */
#include "json.h"
#include "reload.h"
#include "server.h"
#include "util.h"

static const struct {
	const char *name;
	bool ok;
	const char *remark;
} reload_states[] = {
	[RELOAD_STATE_NONE] = { "none", true, "" },
	[RELOAD_STATE_DONE] = { "done", true, "" },
	[RELOAD_STATE_UNCONFIRMED] = { "unconfirmed", true, "; to be confirmed, see nbctl status" },
	[RELOAD_STATE_REFUSED] = { "refused", false,
				   "; the last reload was refused, see nbctl status" },
	[RELOAD_STATE_UNDONE] = { "undone", false,
				  "; the last reload was undone, see nbctl status" },
	[RELOAD_STATE_KEPT] = { "kept", false,
				"; the last reload could not be undone, see nbctl status" },
};

const char *reload_remark(const struct server *s)
{
	return reload_states[s->reload.state].remark;
}

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
	uint64_t now_ns = clock_ns();
	json_t *json;

	if (r->state == RELOAD_STATE_NONE)
		return json_pack("{s:I, s:b, s:s, s:s, s:[]}", "generation",
				 (json_int_t)s->generation, "ok", 1, "state",
				 reload_states[r->state].name, "time", "", "errors");
	json = json_pack("{s:I, s:b, s:s, s:O, s:O}", "generation", (json_int_t)r->generation, "ok",
			 reload_states[r->state].ok, "state", reload_states[r->state].name, "time",
			 r->time, "errors", r->errors);
	if (r->state == RELOAD_STATE_UNCONFIRMED)
		json_object_set_new(json, "confirm_within_s",
				    json_integer(r->confirm_end_ns < now_ns
							 ? 0
							 : (json_int_t)((r->confirm_end_ns -
									 now_ns + NS_PER_S - 1) /
									NS_PER_S)));
	return json;
}
