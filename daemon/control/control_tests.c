/* ListTests: the records that services keep of their clients' tests, copied under each log's mutex,
 * which a worker holds only while it copies one. */
#include <stdlib.h>
#include <string.h>

#include "control_internal.h"
#include "json.h"
#include "listeners.h"
#include "test_log.h"

static json_t *document_figures(const struct test_figures *f)
{
	if (!f->known)
		return json_null();
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:f}", "sent_bytes",
			 json_count(f->sent_bytes), "received_bytes", json_count(f->received_bytes),
			 "transactions", json_count(f->transactions), "packets",
			 json_count(f->packets), "lost", json_count(f->lost), "retransmits",
			 json_count(f->retransmits), "jitter_ns", json_count(f->jitter_ns),
			 "duration_ns", json_count(f->duration_ns), "cpu_percent", f->cpu_percent);
}

static json_t *document_test(const struct listener *l, const struct test_record *r)
{
	return json_pack("{s:s, s:s, s:o, s:b, s:s, s:o, s:o, s:o}", "listener", l->name, "service",
			 l->config->service->name, "ended", json_time_at(r->ended_ns), "complete",
			 r->complete, "peer", r->peer, "options", json_text(r->options), "client",
			 document_figures(&r->client), "server", document_figures(&r->server));
}

/* Appends the latest tests of l, as many as there is room for; false: no memory. */
static bool append_tests(json_t *tests, const struct listener *l, unsigned limit)
{
	unsigned room = limit - (unsigned)json_array_size(tests), count;
	struct test_record *records = calloc(TEST_LOG_MAX, sizeof(*records));

	if (!records)
		return false;
	count = test_log_copy(l->config->service->tests(l->shared), records, room);
	for (unsigned i = 0; i < count; i++)
		json_array_append_new(tests, document_test(l, &records[i]));
	free(records);
	return true;
}

void control_list_tests(struct varlink_call *call, json_t *parameters)
{
	struct server *s = control_server(call);
	const json_t *listener = json_object_get(parameters, "listener");
	const char *name = json_string_value(listener);
	json_t *tests, *most = json_object_get(parameters, "limit");
	unsigned limit = json_is_integer(most) ? (unsigned)json_integer_value(most) : TESTS_LIMIT;
	bool good = true;

	if (control_lacks_listener(call, listener))
		return;
	tests = json_array();
	for (unsigned i = 0; i < s->listeners.count && good; i++) {
		const struct listener *l = s->listeners.list[i];

		if (l->shared && l->config->service->tests && (!name || !strcmp(name, l->name)))
			good = append_tests(tests, l, limit);
	}
	if (!good) {
		json_decref(tests);
		tests = NULL;
	}
	varlink_reply(call, tests ? json_pack("{s:o}", "tests", tests) : NULL);
}
