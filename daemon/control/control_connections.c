/* ListConnections: asks the workers, one after the other, until the limit is reached.
 *
 * A worker owns the request until it has answered.  So the request outlives a client that
 * disconnects and is freed only when the answer has arrived, however late. */
#include <stdlib.h>
#include <string.h>

#include "control_internal.h"
#include "document.h"
#include "owner.h"
#include "util.h"

enum {
	ANSWER_TIMEOUT_US = 5 * 1000 * 1000,
	ACCURACY_US = 100 * 1000,
	LISTINGS_MAX = 64, /* limits the memory that hanging workers cost */
};

struct listing {
	struct worker_list list; /* owned by the worker until `answer` is posted */
	struct call answer;
	struct control *control;
	struct varlink_call *call; /* NULL: the client has disconnected or has its answer */
	const char *name;          /* name of the listener, owned by the call; NULL: all */
	sd_event_source *timer;
	json_t *connections;
	uint64_t generation, open;
	unsigned listener, worker; /* indices of the worker being asked */
	char asked[CONFIG_NAME_MAX];
	unsigned limit;
};

static void listing_free(struct listing *g)
{
	g->control->listing_count--;
	sd_event_source_disable_unref(g->timer);
	json_decref(g->connections);
	free(g->list.infos);
	free(g);
}

/* The call has ended; the worker may still own the request. */
static void listing_detach(struct listing *g)
{
	g->call = NULL;
	g->timer = sd_event_source_disable_unref(g->timer);
}

static void listing_cancel(struct varlink_call *call, void *state)
{
	(void)call;
	listing_detach(state);
}

static int listing_on_timeout(sd_event_source *source, uint64_t due_us, void *userdata)
{
	struct listing *g = userdata;

	(void)source, (void)due_us;
	control_error(g->call, "NoAnswer", g->asked,
		      "worker %u of listener '%s' has not answered in %d s", g->worker, g->asked,
		      ANSWER_TIMEOUT_US / (1000 * 1000));
	listing_detach(g);
	return 0;
}

/* Runs on the worker's thread.  The request is the main thread's again once `answer` is posted. */
static void listing_done(struct worker_list *list)
{
	struct listing *g = container_of(list, struct listing, list);

	mailbox_post(&g->control->server->listeners.mailbox, &g->answer);
}

static void listing_ask(struct listing *g, const struct listener *l)
{
	strcpy(g->asked, l->config->name);
	g->list.max = g->limit - (unsigned)json_array_size(g->connections);
	sd_event_source_set_time_relative(g->timer, ANSWER_TIMEOUT_US);
	sd_event_source_set_enabled(g->timer, SD_EVENT_ONESHOT);
	worker_list_connections(&l->workers[g->worker], &g->list);
}

/* Asks the next worker; false: no worker is left, or the limit is reached.  Beyond the limit it
 * only counts the open connections. */
static bool listing_ask_next(struct listing *g)
{
	const struct server *s = g->control->server;

	for (; g->listener < s->listeners.count; g->listener++, g->worker = 0) {
		const struct listener *l = s->listeners.list[g->listener];

		if (g->name && strcmp(g->name, l->config->name) != 0)
			continue;
		for (; g->worker < l->worker_count; g->worker++) {
			g->open += stat_load(l->workers[g->worker].stats.open);
			if (json_array_size(g->connections) < g->limit) {
				listing_ask(g, l);
				return true;
			}
		}
	}
	return false;
}

/* Ends the call or asks on.  After a reload the indices of listeners mean others, so the client has
 * to ask again. */
static void listing_continue(struct listing *g)
{
	if (g->generation != g->control->server->generation) {
		control_error(g->call, "NoAnswer", "",
			      "the configuration was reloaded meanwhile: ask again");
	} else if (listing_ask_next(g)) {
		return;
	} else {
		json_incref(g->connections);
		varlink_reply(g->call, json_pack("{s:o, s:I}", "connections", g->connections,
						 "open", (json_int_t)g->open));
	}
	listing_free(g);
}

/* Runs from the main thread's mailbox.  The call may have ended meanwhile, by its client or by the
 * time limit: then the request only has to be freed. */
static void listing_on_answer(struct call *call)
{
	struct listing *g = container_of(call, struct listing, answer);
	uint64_t begin_ns = clock_thread_ns();

	if (!g->call) {
		listing_free(g);
		return;
	}
	for (unsigned i = 0; i < g->list.count; i++)
		json_array_append_new(g->connections,
				      document_connection(g->asked, g->worker, &g->list.infos[i]));
	varlink_charge(g->call, begin_ns);
	g->worker++;
	listing_continue(g);
}

static struct listing *listing_new(struct varlink_call *call, const char *name, unsigned limit)
{
	struct listing *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	g->control = varlink_call_userdata(call);
	g->control->listing_count++;
	g->call = call;
	g->name = name;
	g->limit = limit;
	g->generation = g->control->server->generation;
	g->connections = json_array();
	g->answer.fn = listing_on_answer;
	g->list.done = listing_done;
	g->list.infos = malloc(limit * sizeof(struct conn_info));
	if (g->connections && g->list.infos &&
	    sd_event_add_time_relative(g->control->server->event, &g->timer, CLOCK_MONOTONIC,
				       ANSWER_TIMEOUT_US, ACCURACY_US, listing_on_timeout, g) >= 0)
		return g;
	listing_free(g);
	return NULL;
}

void control_list_connections(struct varlink_call *call, json_t *parameters)
{
	const struct control *c = varlink_call_userdata(call);
	const json_t *name = json_object_get(parameters, "listener");
	const json_t *limit = json_object_get(parameters, "limit");
	struct listing *g;

	if (control_lacks_listener(call, name))
		return;
	if (c->listing_count >= LISTINGS_MAX) {
		control_error(call, "NoAnswer", "", "too many such calls wait for workers");
		return;
	}
	g = listing_new(call, json_string_value(name),
			json_is_integer(limit) ? (unsigned)json_integer_value(limit)
					       : CONNECTIONS_LIMIT);
	if (!g) {
		varlink_reply(call, NULL);
		return;
	}
	varlink_defer(call, listing_cancel, g);
	listing_continue(g);
}
