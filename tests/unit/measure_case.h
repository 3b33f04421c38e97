/* What the tests of rows share: documents of listeners, their deltas, and the table of rows. */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compare_table.h"
#include "measure.h"

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

static inline char *rendered(const struct measures *m)
{
	struct output out = { .width = 200 };
	char *text;
	size_t bytes;

	out.file = open_memstream(&text, &bytes);
	compare_render(&out, m, COLUMNS_ALL);
	fclose(out.file);
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
	struct measures m = {};
	char *text;

	add_visits(&m, "a", visits, a);
	add_visits(&m, "b", visits, b);
	measures_merge(&m);
	text = rendered(&m);
	measures_free(&m);
	return text;
}
