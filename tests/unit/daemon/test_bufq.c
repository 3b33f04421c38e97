/* core/bufq.c: whatever is done to queues, no chunk and no view is lost, and the bytes are right.
 */
#include <stdbool.h>
#include <sys/resource.h>

#include "bufq.h"
#include "unit.h"
#include "util.h"

enum { CHUNKS = 64, CHUNK = 256, QUEUES = 3, MODEL_MAX = 64 * 1024 };

/* The queues under test, and the bytes that each should hold. */
struct buf_case {
	struct pool pool;
	struct bufq q[QUEUES];
	uint8_t model[QUEUES][MODEL_MAX];
	size_t bytes[QUEUES];
	uint8_t next; /* byte to be pushed */
	unsigned seed;
};

static unsigned random_below(struct buf_case *t, unsigned n)
{
	t->seed = t->seed * 1103515245U + 12345U;
	return (t->seed >> 8) % n;
}

static struct buf_case *buf_case_new(unsigned seed)
{
	struct buf_case *t = calloc(1, sizeof(*t));

	assert_non_null(t);
	t->seed = seed;
	assert_int_equal(pool_init(&t->pool, CHUNKS, CHUNK, 0), 0);
	return t;
}

static size_t views_free(const struct pool *p)
{
	size_t n = 0;

	for (const struct view *v = p->views; v; v = v->next)
		n++;
	return n;
}

/* Bytes, views, tail and contents of one queue; counts its references of each chunk. */
static void check_queue(struct buf_case *t, unsigned i, uint32_t refs[CHUNKS])
{
	const struct view *last = NULL;
	size_t bytes = 0, views = 0;

	for (const struct view *v = t->q[i].head; v; v = v->next) {
		assert_in_range(v->data - v->chunk->base, 0, CHUNK - 1);
		assert_in_range(v->data - v->chunk->base + v->len, 1, CHUNK);
		assert_memory_equal(v->data, t->model[i] + bytes, v->len);
		bytes += v->len;
		views++;
		refs[v->chunk->id]++;
		last = v;
	}
	assert_ptr_equal(t->q[i].tail, last);
	assert_int_equal(t->q[i].bytes, bytes);
	assert_int_equal(t->q[i].bytes, t->bytes[i]);
	assert_int_equal(t->q[i].views, views);
}

static void check_all(struct buf_case *t)
{
	uint32_t refs[CHUNKS] = { 0 }, used = 0, views = 0;

	for (unsigned i = 0; i < QUEUES; i++) {
		check_queue(t, i, refs);
		views += (uint32_t)t->q[i].views;
	}
	for (unsigned i = 0; i < CHUNKS; i++) {
		assert_int_equal(t->pool.chunks[i].refs, refs[i]);
		used += refs[i] > 0;
	}
	assert_int_equal(t->pool.free_count, CHUNKS - used);
	assert_int_equal((views_free(&t->pool) + views) % POOL_BLOCK_VIEWS, 0);
}

static void buf_case_free(struct buf_case *t)
{
	for (unsigned i = 0; i < QUEUES; i++) {
		bufq_drop(&t->pool, &t->q[i], t->q[i].bytes);
		t->bytes[i] = 0;
	}
	check_all(t);
	assert_int_equal(t->pool.free_count, CHUNKS);
	pool_fini(&t->pool);
	free(t);
}

CLEANUP_OF(struct buf_case *, buf_case_free)

/* A chunk of its own with 1..CHUNK bytes, or two views that share one. */
static bool push(struct buf_case *t, unsigned i)
{
	struct chunk *k = chunk_get(&t->pool);
	unsigned n, first;

	if (!k)
		return false;
	n = 1 + random_below(t, CHUNK);
	for (unsigned j = 0; j < n; j++)
		t->model[i][t->bytes[i]++] = k->base[j] = t->next++;
	first = n > 1 && random_below(t, 2) ? 1 + random_below(t, n - 1) : n;
	bufq_push(&t->q[i], view_new(&t->pool, k, k->base, first));
	if (first < n)
		bufq_push(&t->q[i], view_new(&t->pool, k, k->base + first, n - first));
	chunk_put(&t->pool, k);
	return true;
}

/* The model of moving the first `bytes` of `from` behind `to`. */
static void model_take(struct buf_case *t, unsigned to, unsigned from, size_t bytes)
{
	memcpy(t->model[to] + t->bytes[to], t->model[from], bytes);
	t->bytes[to] += bytes;
	t->bytes[from] -= bytes;
	memmove(t->model[from], t->model[from] + bytes, t->bytes[from]);
}

static void model_prepend(struct buf_case *t, unsigned to, unsigned from)
{
	memmove(t->model[to] + t->bytes[from], t->model[to], t->bytes[to]);
	memcpy(t->model[to], t->model[from], t->bytes[from]);
	t->bytes[to] += t->bytes[from];
	t->bytes[from] = 0;
}

static void drop(struct buf_case *t, unsigned i, size_t bytes)
{
	bufq_drop(&t->pool, &t->q[i], bytes);
	t->bytes[i] -= bytes;
	memmove(t->model[i], t->model[i] + bytes, t->bytes[i]);
}

static void read_out(struct buf_case *t, unsigned i, size_t bytes)
{
	uint8_t *out = malloc(bytes + 1);

	bufq_read(&t->pool, &t->q[i], out, bytes);
	assert_memory_equal(out, t->model[i], bytes);
	free(out);
	t->bytes[i] -= bytes;
	memmove(t->model[i], t->model[i] + bytes, t->bytes[i]);
}

static void random_step(struct buf_case *t)
{
	unsigned a = random_below(t, QUEUES), b = (a + 1 + random_below(t, QUEUES - 1)) % QUEUES;
	size_t part = random_below(t, (unsigned)t->q[a].bytes + 1);

	switch (random_below(t, 8)) {
	case 0:
		bufq_splice(&t->q[b], &t->q[a]);
		model_take(t, b, a, t->bytes[a]);
		break;
	case 1:
		bufq_prepend(&t->q[b], &t->q[a]);
		model_prepend(t, b, a);
		break;
	case 2:
		bufq_take(&t->pool, &t->q[b], &t->q[a], part);
		model_take(t, b, a, part);
		break;
	case 3:
		drop(t, a, part);
		break;
	case 4:
		read_out(t, a, part);
		break;
	default:
		if (!push(t, a))
			drop(t, a, part);
	}
}

TEST(random_operations_keep_bytes_views_and_references)
{
	for (unsigned seed = 1; seed <= 20; seed++) {
		CLEANUP(buf_case_free_p) struct buf_case *t = buf_case_new(seed);

		for (unsigned i = 0; i < 2000; i++) {
			random_step(t);
			check_all(t);
		}
	}
}

TEST(an_exhausted_pool_gives_null_and_recovers)
{
	CLEANUP(buf_case_free_p) struct buf_case *t = buf_case_new(1);
	struct chunk *chunks[CHUNKS];

	for (unsigned i = 0; i < CHUNKS; i++) {
		chunks[i] = chunk_get(&t->pool);
		assert_non_null(chunks[i]);
		assert_int_equal(chunks[i]->used, 0);
		/* AddressSanitizer reports a chunk that is not whole. */
		memset(chunks[i]->base, (int)i, CHUNK);
		chunks[i]->used = CHUNK;
	}
	assert_null(chunk_get(&t->pool));
	for (unsigned i = 0; i < CHUNKS; i++)
		chunk_put(&t->pool, chunks[i]);
	assert_int_equal(chunk_get(&t->pool)->used, 0);
	chunk_put(&t->pool, chunks[CHUNKS - 1]);
}

TEST(iov_names_the_first_views_in_order)
{
	CLEANUP(buf_case_free_p) struct buf_case *t = buf_case_new(7);
	struct iovec iov[4];
	size_t bytes = 1, sum = 0;

	assert_int_equal(bufq_iov(&t->q[0], iov, 4, &bytes), 0);
	assert_int_equal(bytes, 0);
	for (unsigned i = 0; i < 6; i++)
		push(t, 0);
	assert_int_equal(bufq_iov(&t->q[0], iov, 4, &bytes), 4);
	for (unsigned i = 0; i < 4; i++) {
		assert_memory_equal(iov[i].iov_base, t->model[0] + sum, iov[i].iov_len);
		sum += iov[i].iov_len;
	}
	assert_int_equal(bytes, sum);
	assert_int_equal(bufq_iov(&t->q[0], iov, 1, &bytes), 1);
	assert_int_equal(bytes, t->q[0].head->len);
}

TEST(more_views_than_a_block_are_made_when_needed)
{
	CLEANUP(buf_case_free_p) struct buf_case *t = buf_case_new(1);
	struct chunk *k = chunk_get(&t->pool);

	for (unsigned i = 0; i < 3 * POOL_BLOCK_VIEWS; i++) {
		k->base[i % CHUNK] = t->model[0][t->bytes[0]++] = (uint8_t)(i % CHUNK);
		bufq_push(&t->q[0], view_new(&t->pool, k, k->base + i % CHUNK, 1));
	}
	chunk_put(&t->pool, k);
	check_all(t);
}

/* Limits the address space of the process: spare views are used, and then no input may be received
 * until there is memory again. */
TEST(without_memory_there_are_spare_views)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	skip(); /* a sanitizer's own memory counts */
#else
	struct rlimit limit, none;
	struct pool p;
	struct chunk *k;
	struct bufq q = { 0 };

	assert_int_equal(pool_init(&p, 1, CHUNK, 0), 0);
	k = chunk_get(&p);
	assert_int_equal(getrlimit(RLIMIT_AS, &limit), 0);
	none = (struct rlimit){ 0, limit.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_AS, &none), 0);
	while (!pool_lacks_views(&p))
		bufq_push(&q, view_new(&p, k, k->base, 1));
	for (unsigned i = 0; i < 20 * 1000; i++)
		bufq_push(&q, view_new(&p, k, k->base, 1));
	assert_true(p.floor == UINT32_MAX);
	assert_false(pool_restore_views(&p));
	assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
	assert_true(pool_restore_views(&p));
	assert_false(pool_lacks_views(&p));
	bufq_clear(&p, &q);
	chunk_put(&p, k);
	pool_fini(&p);
#endif
}
