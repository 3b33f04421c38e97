/* Shared by the tests of `nbctl top`: documents as the daemon's, and the screen as text. */
#pragma once
#include "top_view.h"
#include "unit.h"

enum { SECOND = 1000000000 };

/* A listener that has done `count` operations of `service`, each in about `latency_ns`. */
static inline json_t *listener(const char *name, const char *engine, int count, int latency_ns)
{
	json_t *l = json_pack(
		"{s:s, s:s, s:s, s:s, s:i, s:[s], s:{s:i}, s:i, s:i, s:{s:i, s:i, s:i, s:{s:i}}}",
		"name", name, "engine", engine, "service", "echo", "state", "serving", "workers", 1,
		"addresses", "127.0.0.1:7", "connections", "open", count / 100, "bytes_in",
		count * 10, "bytes_out", count * 10, "cost", "cpu_user_ns", count * 1000,
		"cpu_system_ns", count * 1000, "turns", count / 2, "syscalls", "recv", count * 3);
	json_t *latency = json_pack("{s:[[i, i]]}", "buckets", latency_ns, count);

	assert_non_null(l);
	json_object_set_new(l, "operations",
			    json_pack("{s:{s:i, s:i, s:o}}", "echo", "count", count, "errors", 0,
				      "latency_ns", latency));
	return l;
}

/* The document of second `at`: `a` does 1000 ops/s in 2 us, `b` 3000 in 50 us, `c` nothing. */
static inline json_t *document(int at)
{
	return json_pack("{s:s, s:i, s:I, s:[o, o, o]}", "version", "1.2.3", "generation", 7,
			 "uptime_ns", (json_int_t)at * SECOND, "listeners",
			 listener("a", "epoll", at * 1000, 2000),
			 listener("b", "io_uring", at * 3000, 50000), listener("c", "epoll", 0, 1));
}

static inline void feed(struct top *top, json_t *stats)
{
	top_add(top, stats);
	json_decref(stats);
}

static inline void feed_seconds(struct top *top, int from, int to)
{
	for (int at = from; at <= to; at++)
		feed(top, document(at));
}

/* The whole screen as one text. */
static inline char *screen_of(struct top *top, unsigned width, unsigned height, bool utf8)
{
	struct top_screen screen = { .width = width, .height = height, .utf8 = utf8 };
	static char *text; /* or gcc 12 takes it for what is returned */
	static size_t bytes;
	FILE *to = open_memstream(&text, &bytes);

	top_screen_init(&screen, top);
	for (unsigned i = 0; i < height; i++) {
		const char *line = screen.lines[i].text ? screen.lines[i].text : "";

		assert_true(text_width(line) <= width);
		assert_null(strpbrk(line, "\n\033"));
		fprintf(to, "%s\n", line);
	}
	top_screen_fini(&screen);
	fclose(to);
	return kept(text);
}

/* The screen's text. */
static inline char *shown(struct top *top)
{
	return screen_of(top, 80, 24, true);
}

/* As by keys. */
static inline void sort_by(struct top *top, unsigned column)
{
	top->sort = column ? column - 1 : TOP_COLUMNS - 1;
	top_key(top, '>');
}

static inline const char *name_at(const struct top *top, unsigned i)
{
	return top->rows.rows[i]->listener;
}

static inline int setup(void **state)
{
	struct top *top = calloc(1, sizeof(*top));

	top_init(top, 1000);
	*state = top;
	return 0;
}

static inline int teardown(void **state)
{
	top_fini(*state);
	free(*state);
	return 0;
}
