/* core/sink.c: when a sink's mark is taken back, and what the worker does for that. */
#include "service_case.h"
#include "sink.h"

static struct service_case *busy(const uint8_t *piece)
{
	struct service_case *t = case_new(service_find("discard"), 4, 2 * SINK_PIECE);

	for (size_t bytes = 0; bytes <= SINK_ALONE + 2 * SINK_PIECE; bytes += 2 * SINK_PIECE)
		case_input(t, piece, 2 * SINK_PIECE, 2 * SINK_PIECE);
	assert_true(t->conn->flags & CONN_COARSE);
	return t;
}

/* The worker may have thousands of silent connections: it does not look at them for the sink. */
static void only_the_sink_is_looked_at(void **state)
{
	static uint8_t piece[2 * SINK_PIECE];
	struct service_case *t = busy(piece);
	struct worker *w = &t->worker;

	(void)state;
	assert_int_equal(w->scan_ns, 0);
	assert_int_equal(w->deadline_ns, w->now_ns + SINK_MS * NS_PER_MS);
	w->now_ns += SINK_MS * NS_PER_MS / 2;
	case_input(t, piece, 1, 1);
	w->now_ns = w->deadline_ns;
	sink_look(w);
	assert_true(t->conn->flags & CONN_COARSE);
	w->now_ns = w->deadline_ns;
	sink_look(w);
	assert_false(t->conn->flags & CONN_COARSE);
	assert_int_equal(w->deadline_ns, 0);
	case_free(t);
}

static void nothing_is_looked_at_after_the_end(void **state)
{
	static uint8_t piece[2 * SINK_PIECE];
	struct service_case *t = busy(piece);

	(void)state;
	conn_close(t->conn, CONN_END_RESET);
	case_turns(t);
	assert_null(t->conn);
	assert_null(t->worker.sink);
	assert_int_equal(t->worker.deadline_ns, 0);
	case_free(t);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_the_sink_is_looked_at),
		cmocka_unit_test(nothing_is_looked_at_after_the_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
