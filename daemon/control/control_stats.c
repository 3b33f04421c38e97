/* GetStats: one document, or a stream of them.  A client that does not read, or whose user has used
 * its share of CPU time, misses documents.  It misses no counts, which are sums since the start. */
#include <stdlib.h>

#include "control_internal.h"
#include "document.h"

enum { US_PER_MS = 1000 };

struct stream {
	struct server *server;
	struct varlink_call *call;
	const json_t *parameters; /* owned by the call */
	sd_event_source *timer;
	uint64_t interval_us, next_us; /* CLOCK_MONOTONIC */
};

/* The document that a call with these parameters asks for. */
static json_t *make_document(struct server *s, const json_t *parameters)
{
	return document_stats(s, json_object_get(parameters, "listeners"),
			      json_is_true(json_object_get(parameters, "by_worker")));
}

static void stream_free(struct stream *stream)
{
	sd_event_source_disable_unref(stream->timer);
	free(stream);
}

static void stream_cancel(struct varlink_call *call, void *state)
{
	(void)call;
	stream_free(state);
}

/* Sends a document if the client can take one, and sets the next time.  Times that have passed
 * meanwhile are skipped, not made up for. */
static int stream_on_timer(sd_event_source *source, uint64_t due_us, void *userdata)
{
	struct stream *stream = userdata;
	uint64_t now_us = due_us, begin_ns = clock_thread_ns();

	/* A reload may have removed one of the listeners. */
	if (control_lacks_listener(stream->call,
				   json_object_get(stream->parameters, "listeners"))) {
		stream_free(stream);
		return 0;
	}
	if (varlink_can_notify(stream->call)) {
		json_t *document = make_document(stream->server, stream->parameters);

		varlink_charge(stream->call, begin_ns);
		varlink_notify(stream->call, document);
	}
	sd_event_now(stream->server->event, CLOCK_MONOTONIC, &now_us);
	stream->next_us += stream->interval_us;
	if (stream->next_us < now_us)
		stream->next_us = now_us + stream->interval_us;
	sd_event_source_set_time(source, stream->next_us);
	return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

static void stream_start(struct varlink_call *call, const json_t *parameters)
{
	const json_t *interval_ms = json_object_get(parameters, "interval_ms");
	json_int_t ms =
		json_is_integer(interval_ms) ? json_integer_value(interval_ms) : STATS_INTERVAL_MS;
	struct stream *stream = calloc(1, sizeof(*stream));
	int rc;

	if (!stream) {
		varlink_reply(call, NULL);
		return;
	}
	stream->server = control_server(call);
	stream->call = call;
	stream->parameters = parameters;
	stream->interval_us = (uint64_t)ms * US_PER_MS;
	sd_event_now(stream->server->event, CLOCK_MONOTONIC, &stream->next_us);
	/* The timer is due at once, for the first document. */
	rc = sd_event_add_time(stream->server->event, &stream->timer, CLOCK_MONOTONIC,
			       stream->next_us, US_PER_MS, stream_on_timer, stream);
	if (rc < 0) {
		stream_free(stream);
		varlink_reply(call, NULL);
		return;
	}
	varlink_defer(call, stream_cancel, stream);
}

void control_get_stats(struct varlink_call *call, json_t *parameters)
{
	if (control_lacks_listener(call, json_object_get(parameters, "listeners")))
		return;
	if (varlink_call_more(call))
		stream_start(call, parameters);
	else
		varlink_reply(call, make_document(control_server(call), parameters));
}
