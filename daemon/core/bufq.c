/* Rare operations on queues of views; frequent ones are inline in bufq.h. */
#include "bufq.h"

#include <string.h>

static struct view *bufq_pop(struct bufq *q)
{
	struct view *v = q->head;

	q->head = v->next;
	if (!q->head)
		q->tail = NULL;
	q->bytes -= v->len;
	q->views--;
	v->next = NULL;
	return v;
}

static void bufq_advance(struct bufq *q, size_t bytes)
{
	q->head->data += bytes;
	q->head->len -= (uint32_t)bytes;
	q->bytes -= bytes;
}

void bufq_take(struct pool *p, struct bufq *to, struct bufq *from, size_t bytes)
{
	assert(bytes <= from->bytes);
	while (bytes > 0 && from->head->len <= bytes) {
		bytes -= from->head->len;
		bufq_push(to, bufq_pop(from));
	}
	if (bytes > 0) { /* the boundary falls inside this view: share its chunk */
		struct view *v = from->head;

		bufq_push(to, view_new(p, v->chunk, v->data, (uint32_t)bytes));
		bufq_advance(from, bytes);
	}
}

void bufq_drop_slow(struct pool *p, struct bufq *q, size_t bytes)
{
	assert(bytes <= q->bytes);
	while (bytes > 0 && q->head->len <= bytes) {
		bytes -= q->head->len;
		view_free(p, bufq_pop(q));
	}
	if (bytes > 0)
		bufq_advance(q, bytes);
}

void bufq_drop_views_slow(struct pool *p, struct bufq *q, size_t views)
{
	assert(views <= q->views);
	while (views-- > 0)
		view_free(p, bufq_pop(q));
}

void bufq_move_view(struct bufq *to, struct bufq *from)
{
	bufq_push(to, bufq_pop(from));
}

void bufq_read(struct pool *p, struct bufq *q, void *to, size_t bytes)
{
	uint8_t *out = to;

	assert(bytes <= q->bytes);
	while (bytes > 0) {
		size_t n = q->head->len < bytes ? q->head->len : bytes;

		memcpy(out, q->head->data, n);
		out += n;
		bytes -= n;
		bufq_drop(p, q, n);
	}
}

unsigned bufq_iov(const struct bufq *q, struct iovec *iov, unsigned iov_max, size_t *ret_bytes)
{
	unsigned n = 0;
	size_t bytes = 0;

	for (const struct view *v = q->head; v && n < iov_max; v = v->next) {
		iov[n++] = (struct iovec){ v->data, v->len };
		bytes += v->len;
	}
	*ret_bytes = bytes;
	return n;
}
