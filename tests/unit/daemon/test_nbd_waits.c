/* Service `nbd` when an answer has to wait, for memory or for others, and when a client makes it
 * wait: with a store whose requests end when the test says so, or at once. */
#include "service_case.h"

#include "bytes.h"
#include "nbd/nbd.h"
#include "pressure.h"
#include "store.h"

enum { CHUNK = 4096, SIZE = 1 << 20, GO = 4 + 16 + 6, REQUEST = 28, REPLY = 16 };

extern const struct service service_nbd;

static struct io *submitted[32];
static unsigned submitted_count;

static void prompt_submit(struct io *io)
{
	io_finish(io, 0);
}

static const struct store store_prompt = { .name = "prompt", .submit = prompt_submit };

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
static void ask_for(struct service_case *t, uint8_t type, uint32_t bytes)
{
	const uint8_t request[REQUEST] = { 0x25,
					   0x60,
					   0x95,
					   0x13,
					   [7] = type,
					   [15] = type,
					   [25] = (uint8_t)(bytes >> 16),
					   [26] = (uint8_t)(bytes >> 8) };

	case_input(t, request, sizeof(request), sizeof(request));
}

static void ask(struct service_case *t, uint8_t type)
{
	ask_for(t, type, CHUNK);
}

struct late {
	struct export_options options;
	struct export export;
	struct mount mount;
	struct service_case *t;
};

static void late_connect(struct late *l, uint32_t chunks, uint32_t chunk_size, uint32_t align)
{
	l->options = (struct export_options){ .size = SIZE, .queue_depth = 32 };
	l->export = (struct export){
		.name = "late", .options = &l->options, .size = SIZE, .align = align
	};
	l->t = case_new(&service_nbd, chunks, chunk_size);
	l->mount = (struct mount){ .export = &l->export,
				   .store = &store_late,
				   .worker = &l->t->worker };
	l->t->worker.mounts = &l->mount;
	l->t->worker.mount_count = 1;
	submitted_count = 0;
}

/* The handshake is over. */
static void late_start_with(struct late *l, uint32_t chunks, uint32_t chunk_size, uint32_t align)
{
	late_connect(l, chunks, chunk_size, align);
	case_input(l->t, go, sizeof(go), sizeof(go));
}

static void late_start(struct late *l)
{
	late_start_with(l, 16, CHUNK, 1);
}

static void late_finish(struct late *l, unsigned i)
{
	io_finish(submitted[i], 0);
	case_turns(l->t);
}

TEST(an_answer_without_memory_does_not_delay_those_with_memory)
{
	struct late l;
	struct worker *w;
	struct chunk *taken[16];
	unsigned count = 0;
	size_t before;

	late_start(&l);
	w = &l.t->worker;
	ask(l.t, NBD_CMD_TRIM);
	ask(l.t, NBD_CMD_READ);
	assert_int_equal(submitted_count, 2);
	while (w->pool.free_count > 0)
		taken[count++] = chunk_get(&w->pool);
	if (w->scratch)
		w->scratch->used = CHUNK;
	before = l.t->out_bytes;
	io_finish(submitted[0], 0);
	late_finish(&l, 1);
	assert_int_equal(l.t->out_bytes - before, REPLY + CHUNK); /* what was read */
	assert_int_equal(l.t->out[before + REPLY - 1], NBD_CMD_READ);
	assert_int_equal(w->pressure.waiting, 1);
	assert_true(w->pool.free_count > 0);
	pressure_end_wait(l.t->conn);
	conn_ready(l.t->conn);
	case_turns(l.t);
	assert_int_equal(l.t->out_bytes - before, REPLY + CHUNK + REPLY);
	assert_int_equal(l.t->out[l.t->out_bytes - 1], NBD_CMD_TRIM);
	while (count > 0)
		chunk_put(&w->pool, taken[--count]);
	case_free(l.t);
}

TEST(the_deadline_for_input_does_not_run_while_input_is_paused)
{
	static const uint8_t half[CHUNK]; /* of the payload: a whole block, which is written */
	struct late l;

	late_start(&l);
	l.t->worker.limits.held_max = CHUNK + sizeof(half);
	l.t->room = 0;
	ask(l.t, NBD_CMD_READ);
	late_finish(&l, 0);
	ask_for(l.t, NBD_CMD_WRITE, 2 * CHUNK);
	case_input(l.t, half, sizeof(half), sizeof(half));
	late_finish(&l, 1);
	assert_true(l.t->recv_off); /* until it reads */
	for (unsigned i = 0; i < 3; i++)
		case_pass(l.t, 31 * (uint64_t)NS_PER_S);
	assert_non_null(l.t->conn);
	case_take(l.t, SIZE_MAX);
	assert_false(l.t->recv_off);
	case_pass(l.t, 31 * (uint64_t)NS_PER_S);
	assert_null(l.t->conn);
	assert_int_equal(l.t->ends[CONN_END_PROTOCOL], 1);
	case_free(l.t);
}

/* Every connection that waits for memory runs again. */
static void feed(struct late *l)
{
	pressure_end_wait(l->t->conn);
	conn_ready(l->t->conn);
	case_turns(l->t);
}

/* The header has no room before data that fills chunks whole, and data is taken by blocks. */
TEST(aligned_reads_hold_what_they_need_and_no_chunk_more)
{
	for (uint32_t align = CHUNK; align <= 2 * CHUNK; align *= 2) {
		struct chunk *taken[12];
		struct late l;
		struct pool *p;
		unsigned count = 0;
		size_t before;

		late_start_with(&l, ARRAY_SIZE(taken), CHUNK, align);
		p = &l.t->worker.pool;
		chunk_put(p, l.t->worker.scratch);
		l.t->worker.scratch = NULL;
		do
			taken[count++] = chunk_get(p);
		while (p->free_count > 0);
		chunk_put(p, taken[0]); /* for the request */
		ask_for(l.t, NBD_CMD_READ, align);
		for (unsigned i = 0; i < 3; i++)
			feed(&l);
		assert_int_equal(submitted_count, 0);
		assert_int_equal(p->free_count + (l.t->worker.scratch != NULL), 1);
		while (count > 1)
			chunk_put(p, taken[--count]);
		feed(&l);
		assert_int_equal(submitted_count, 1);
		assert_int_equal(submitted[0]->iov_count, align / CHUNK);
		assert_int_equal(submitted[0]->length, align);
		for (unsigned i = 0; i < submitted[0]->iov_count; i++) {
			assert_int_equal(submitted[0]->iov[i].iov_len, CHUNK);
			assert_int_equal((uintptr_t)submitted[0]->iov[i].iov_base % CHUNK, 0);
			memset(submitted[0]->iov[i].iov_base, 'd', CHUNK);
		}
		before = l.t->out_bytes;
		late_finish(&l, 0);
		assert_int_equal(l.t->out_bytes - before, REPLY + align);
		assert_int_equal(l.t->out[before + REPLY - 1], NBD_CMD_READ);
		for (size_t at = before + REPLY; at < l.t->out_bytes; at++)
			assert_int_equal(l.t->out[at], 'd');
		assert_true(p->free_count >= p->chunk_count - 1); /* and what is written into */
		case_free(l.t);
	}
}

/* Large reads, of which CONN_RUN_BYTES are FEW. */
enum { LARGE = 128 * 1024, FEW = 4, LARGE_REPLY = REPLY + LARGE };

static void large_start(struct late *l)
{
	late_start_with(l, 1024, LARGE / 8, 1);
	l->t->worker.limits.held_max = l->t->worker.limits.views_max = SIZE_MAX;
}

static void ask_for_large(struct late *l, unsigned count)
{
	while (count-- > 0)
		ask_for(l->t, NBD_CMD_READ, LARGE);
}

/* They arrive in one piece. */
static struct conn *ask_at_once(struct late *l, unsigned count)
{
	struct conn *c = l->t->conn;

	c->flags |= CONN_READY; /* no turn, while they arrive */
	ask_for_large(l, count);
	c->flags &= ~(uint32_t)CONN_READY;
	return c;
}

TEST(a_run_begins_few_large_reads)
{
	struct late l;
	struct conn *c;

	large_start(&l);
	c = ask_at_once(&l, 2 * FEW + 1);
	for (unsigned begun = FEW; begun <= 2 * FEW; begun += FEW) {
		conn_run(c);
		assert_int_equal(submitted_count, begun);
	}
	case_turns(l.t); /* none has ended: a slow device is given all */
	assert_int_equal(submitted_count, 2 * FEW + 1);
	for (unsigned i = 0; i < submitted_count; i++)
		late_finish(&l, i);
	case_free(l.t);
}

TEST(few_reads_from_memory_are_in_flight)
{
	struct late l;

	large_start(&l);
	l.export.in_memory = true;
	ask_for_large(&l, 2 * FEW);
	for (unsigned ended = 0; ended < 2 * FEW; ended++) {
		assert_int_equal(submitted_count, MIN(FEW + ended, 2 * FEW));
		late_finish(&l, ended);
	}
	case_free(l.t);
}

TEST(much_output_is_sent_before_the_next_request)
{
	struct late l;
	struct conn *c;
	size_t before;

	large_start(&l);
	l.mount.store = &store_prompt;
	before = l.t->out_bytes;
	c = ask_at_once(&l, 2 * FEW + 1);
	for (unsigned answered = FEW; answered <= 2 * FEW; answered += FEW) {
		conn_run(c);
		assert_int_equal(l.t->out_bytes - before, answered * LARGE_REPLY);
		assert_int_equal(c->due.ns, 0); /* the next request is there */
	}
	case_turns(l.t);
	assert_int_equal(l.t->out_bytes - before, (2 * FEW + 1) * LARGE_REPLY);
	l.t->room = 0; /* the peer takes nothing: others are answered nevertheless */
	ask_for_large(&l, 2 * FEW);
	assert_int_equal(c->tx.bytes, 2 * FEW * LARGE_REPLY);
	case_free(l.t);
}

/* The parts of a reply with one header follow each other: no other command is in flight meanwhile.
 */
TEST(a_reply_in_parts_is_never_interrupted)
{
	enum { LONG = SIZE }; /* two parts */
	struct late l;
	size_t before;

	large_start(&l);
	before = l.t->out_bytes;
	ask(l.t, NBD_CMD_TRIM);
	ask_for(l.t, NBD_CMD_READ, LONG);
	ask(l.t, NBD_CMD_FLUSH);
	for (unsigned i = 0; i < 4; i++) {
		const struct io *io = submitted[i];

		assert_int_equal(submitted_count, i + 1);
		for (unsigned k = 0; io->kind == IO_read && k < io->iov_count; k++)
			memset(io->iov[k].iov_base, 'd', io->iov[k].iov_len);
		late_finish(&l, i);
	}
	assert_int_equal(l.t->out_bytes - before, REPLY + REPLY + LONG + REPLY);
	assert_int_equal(l.t->out[before + REPLY - 1], NBD_CMD_TRIM);
	before += REPLY;
	assert_int_equal(l.t->out[before + REPLY - 1], NBD_CMD_READ);
	for (size_t at = before + REPLY; at < before + REPLY + LONG; at++)
		assert_int_equal(l.t->out[at], 'd');
	assert_int_equal(l.t->out[before + REPLY + LONG + REPLY - 1], NBD_CMD_FLUSH);
	case_free(l.t);
}

/* Parts that end at once are read as a run's limit allows, like requests. */
TEST(a_run_reads_few_parts_of_a_long_read)
{
	enum { LONG = SIZE };
	struct late l;
	struct conn *c;
	size_t before;

	large_start(&l);
	l.mount.store = &store_prompt;
	before = l.t->out_bytes;
	c = l.t->conn;
	c->flags |= CONN_READY; /* no turn, while it arrives */
	ask_for(l.t, NBD_CMD_READ, LONG);
	c->flags &= ~(uint32_t)CONN_READY;
	conn_run(c);
	assert_in_range(l.t->out_bytes - before, 1, REPLY + CONN_RUN_BYTES);
	case_turns(l.t);
	assert_int_equal(l.t->out_bytes - before, REPLY + LONG);
	case_free(l.t);
}

/* ---- The time that a client has for a message ---- */

struct message {
	uint8_t data[2 * SIZE];
	size_t bytes;
};

static struct message message;

static struct message *hello(void)
{
	memcpy(message.data, go, sizeof(go));
	message.bytes = sizeof(go);
	return &message;
}

/* A write of zeros, at byte 0 or behind the export's end. */
static void put_write(struct message *m, bool refused, uint32_t length)
{
	static const uint8_t request[8] = { 0x25, 0x60, 0x95, 0x13, [7] = NBD_CMD_WRITE };
	uint8_t *at = m->data + m->bytes;

	memset(at, 0, REQUEST + (size_t)length);
	memcpy(at, request, sizeof(request));
	put_be64(at + 16, refused ? SIZE : 0);
	put_be32(at + 24, length);
	m->bytes += REQUEST + (size_t)length;
}

static void prompt_connect(struct late *l)
{
	late_connect(l, 64, 16384, 1);
	l->mount.store = &store_prompt;
}

TEST(a_client_silent_within_a_message_is_closed_and_an_idle_one_is_not)
{
	struct message *m = hello();

	put_write(m, false, 1000);
	for (size_t bytes = 0; bytes <= GO + REQUEST; bytes++) {
		bool rests = bytes == GO; /* the handshake is over, nothing has begun */
		struct late l;

		prompt_connect(&l);
		if (bytes)
			case_input(l.t, m->data, bytes, bytes);
		case_pass(l.t, 9 * (uint64_t)NS_PER_S);
		assert_non_null(l.t->conn);
		case_pass(l.t, 22 * (uint64_t)NS_PER_S);
		assert_int_equal(l.t->conn != NULL, rests);
		assert_int_equal(l.t->ends[CONN_END_PROTOCOL], !rests);
		case_free(l.t);
	}
}

/* The client sends `first` bytes of m at once, and then `rate` bytes a second.  Returns the seconds
 * after which it was closed, 0: it was not. */
static unsigned drip(const struct message *m, size_t first, size_t rate)
{
	unsigned seconds = 0;
	struct late l;
	bool ended;

	prompt_connect(&l);
	if (first)
		case_input(l.t, m->data, first, first);
	for (size_t at = first; at < m->bytes && l.t->conn; at += rate, seconds++) {
		case_input(l.t, m->data + at, MIN(rate, m->bytes - at), rate);
		case_pass(l.t, NS_PER_S);
	}
	ended = !l.t->conn;
	assert_int_equal(l.t->ends[CONN_END_PROTOCOL], ended);
	case_free(l.t);
	return ended ? seconds : 0;
}

TEST(a_dripping_client_is_closed_like_a_silent_one)
{
	struct message *m = hello();

	put_write(m, false, 1000);
	assert_in_range(drip(m, 0, 1), 10, 15); /* its flags, and then an option */
	assert_in_range(drip(m, 4, 1), 10, 11);
	assert_in_range(drip(m, GO, 1), 30, 31);
	assert_in_range(drip(m, GO + REQUEST, 1), 30, 31);
	assert_int_equal(drip(m, GO, 40), 0);
}

TEST(each_request_has_its_time)
{
	struct message *m = hello();

	for (unsigned i = 0; i < 50; i++)
		put_write(m, i == 0, 100);
	assert_int_equal(drip(m, GO, 77), 0); /* always within one */
}

TEST(a_long_payload_has_the_time_that_it_needs_and_no_more)
{
	for (unsigned refused = 0; refused < 2; refused++) {
		struct message *m = hello();

		put_write(m, refused, SIZE);
		assert_int_equal(drip(m, GO, BLOCK_PART_MAX / 25), 0);
		assert_in_range(drip(m, GO, BLOCK_PART_MAX / 40), 30, 31);
	}
}
