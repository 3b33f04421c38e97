/* Service `nbd` when there is no memory for an answer: with a store whose requests end when the
 * test says so. */
#include "service_case.h"

#include "nbd_proto.h"
#include "store.h"

enum { CHUNK = 4096, SIZE = 1 << 20, GO = 4 + 16 + 6, REQUEST = 28, REPLY = 16 };

extern const struct service service_nbd;

static struct io *submitted[4];
static unsigned submitted_count;

static void late_submit(struct io *io)
{
	assert_true(submitted_count < ARRAY_SIZE(submitted));
	submitted[submitted_count++] = io;
}

static const struct store store_late = { .name = "late", .submit = late_submit };

static const uint8_t go[GO] = "\0\0\0\3"
			      "IHAVEOPT\0\0\0\7\0\0\0\6"
			      "\0\0\0\0\0";

/* One whose cookie is `type`. */
static void ask(struct service_case *t, uint8_t type)
{
	const uint8_t request[REQUEST] = {
		0x25, 0x60, 0x95, 0x13, [7] = type, [15] = type, [26] = CHUNK >> 8
	};

	case_input(t, request, sizeof(request), sizeof(request));
}

static void an_answer_without_memory_holds_up_none_that_has_it(void **state)
{
	struct export_options options = { .size = SIZE, .queue_depth = 4 };
	struct export export = { .name = "late", .options = &options, .size = SIZE, .align = 1 };
	struct service_case *t = case_new(&service_nbd, 16, CHUNK);
	struct mount mount = { .export = &export, .store = &store_late, .worker = &t->worker };
	struct worker *w = &t->worker;
	struct chunk *taken[16];
	unsigned count = 0;
	size_t before;

	(void)state;
	w->mounts = &mount;
	w->mount_count = 1;
	case_input(t, go, sizeof(go), sizeof(go));
	ask(t, NBD_CMD_TRIM);
	ask(t, NBD_CMD_READ);
	assert_int_equal(submitted_count, 2);
	while (w->pool.free_count > 0)
		taken[count++] = chunk_get(&w->pool);
	if (w->scratch)
		w->scratch->used = CHUNK;
	before = t->out_bytes;
	io_finish(submitted[0], 0);
	io_finish(submitted[1], 0);
	case_turns(t);
	assert_int_equal(t->out_bytes - before, REPLY + CHUNK); /* what was read */
	assert_int_equal(t->out[before + REPLY - 1], NBD_CMD_READ);
	assert_true(w->starved == t->conn);
	assert_true(w->pool.free_count > 0);
	w->starved = NULL;
	t->conn->flags &= ~(uint32_t)CONN_STARVED;
	conn_ready(t->conn);
	case_turns(t);
	assert_int_equal(t->out_bytes - before, REPLY + CHUNK + REPLY);
	assert_int_equal(t->out[t->out_bytes - 1], NBD_CMD_TRIM);
	while (count > 0)
		chunk_put(&w->pool, taken[--count]);
	case_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_answer_without_memory_holds_up_none_that_has_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
