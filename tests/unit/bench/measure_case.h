/* What the tests of rows share: documents of listeners, their deltas, and the table of rows. */
#pragma once
#include "measure_file.h"
#include "measure_visits.h"
#include "print.h"
#include "report.h"
#include "unit.h"

CLEANUP_OF(struct result *, result_free)
CLEANUP_OF(json_t *, json_decref)

/* A document of one listener; latency buckets as JSON text. */
static inline json_t *document(const char *listener, const char *service, int count, int bytes,
			       int cpu, const char *buckets)
{
	json_t *pairs = json_loads(buckets, 0, NULL);
	json_t *operation = json_pack("{s:i, s:i, s:{s:i, s:i, s:o}}", "count", count, "errors", 0,
				      "latency_ns", "count", 0, "sum", 0, "buckets", pairs);
	bool batch = !strcmp(service, "discard");
	json_t *row = json_pack("{s:s, s:s, s:s, s:[s*], s:[s], s:i, s:i, s:{s:o}, s:{s:i, s:i, "
				"s:i, s:{s:i, s:i}}}",
				"name", listener, "engine", "epoll", "service", service, "batches",
				batch ? service : NULL, "engine_features", "sqpoll", "bytes_in",
				bytes, "bytes_out", batch ? 0 : bytes, "operations", service,
				operation, "cost", "cpu_user_ns", cpu, "cpu_system_ns", cpu,
				"turns", count / 4, "syscalls", "recv", count, "send", count);

	assert_non_null(row);
	return json_pack("{s:i, s:[o]}", "uptime_ns", count + 1, "listeners", row);
}

/* Appends the delta of two documents, which are dropped. */
static inline void add_delta(struct measures *m, json_t *before, json_t *after, const char *label)
{
	measures_delta(m, before, after, 1000000000, label);
	json_decref(before);
	json_decref(after);
}

static inline struct result *judged(const struct measures *m)
{
	const struct result_options options = { .within = m->within };

	return result_new(m, &options);
}

/* The warning of that kind; NULL: there is none. */
static inline const char *warned(const struct result *r, const char *kind)
{
	for (unsigned i = 0; i < r->warning_count; i++)
		if (!strcmp(r->warnings[i].kind, kind))
			return r->warnings[i].text;
	return NULL;
}

static inline char *rendered(const struct measures *m)
{
	struct result *r = judged(m);
	struct output out = { .width = 200 };
	char *text =
		WRITTEN(to, out.file = to; print_result(&out, r, m, true); print_answer(&out, r));

	result_free(r);
	return text;
}

/* The page of the rows, with no number that is none. */
static inline char *page_of(const struct measures *m)
{
	CLEANUP(result_free_p) struct result *r = judged(m);
	char *text = WRITTEN(to, report_html(to, r, m));

	assert_has_not(text, "nan");
	return text;
}

/* Visits of two listeners of 1000 operations each, with these CPU times per operation in ns. */
static inline void add_visits(struct measures *m, const char *listener, unsigned count,
			      const int *cost)
{
	for (unsigned i = 0; i < count; i++) {
		add_delta(m, NULL, document(listener, "echo", 1000, 1000, cost[i] * 500, "[]"), "");
		measures_set_conditions(m, m->rows[m->count - 1], json_object(),
					json_pack("{s:s, s:i, s:s}", "run", "r", "round",
						  (int)i + 1, "setup", "s"));
	}
}

/* The text of a table of a and b, whose visits cost so much. */
static inline char *two_listeners(const int *a, const int *b, unsigned visits)
{
	CLEANUP(measures_free) struct measures m = {};

	add_visits(&m, "a", visits, a);
	add_visits(&m, "b", visits, b);
	measures_merge(&m);
	return rendered(&m);
}
