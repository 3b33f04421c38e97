/* Queues of views into chunks.  Worker's thread only. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "pool.h"

struct bufq {
	struct view *head, *tail;
	size_t bytes;
	size_t views;
};

static inline void bufq_push(struct bufq *q, struct view *v)
{
	if (q->tail)
		q->tail->next = v;
	else
		q->head = v;
	q->tail = v;
	q->bytes += v->len;
	q->views++;
}

/* Moves all of from behind to; O(1); from becomes empty. */
static inline void bufq_splice(struct bufq *to, struct bufq *from)
{
	if (!from->head)
		return;
	if (to->tail) {
		to->tail->next = from->head;
		to->tail = from->tail;
		to->bytes += from->bytes;
		to->views += from->views;
	} else {
		*to = *from;
	}
	*from = (struct bufq){ 0 };
}

/* Moves all of from before to. */
static inline void bufq_prepend(struct bufq *to, struct bufq *from)
{
	bufq_splice(from, to);
	*to = *from;
	*from = (struct bufq){ 0 };
}

/* Moves the first bytes of from behind to; a view on the boundary is split and its chunk shared.
 * bytes <= from->bytes. */
void bufq_take(struct pool *p, struct bufq *to, struct bufq *from, size_t bytes);

/* Frees the first bytes of q; bytes <= q->bytes. */
void bufq_drop_slow(struct pool *p, struct bufq *q, size_t bytes);

static inline void bufq_drop(struct pool *p, struct bufq *q, size_t bytes)
{
	struct view *v = q->head;

	/* The usual case: a send took all of the only view. */
	if (v && !v->next && v->len == bytes) {
		*q = (struct bufq){ 0 };
		view_free(p, v);
	} else {
		bufq_drop_slow(p, q, bytes);
	}
}

/* Frees the first `views` views of q; views <= q->views. */
void bufq_drop_views_slow(struct pool *p, struct bufq *q, size_t views);

static inline void bufq_drop_views(struct pool *p, struct bufq *q, size_t views)
{
	struct view *v = q->head;

	if (v && !v->next && views == 1) {
		*q = (struct bufq){ 0 };
		view_free(p, v);
	} else {
		bufq_drop_views_slow(p, q, views);
	}
}

static inline void bufq_clear(struct pool *p, struct bufq *q)
{
	bufq_drop_views(p, q, q->views);
}

/* Moves the first view of from behind to. */
void bufq_move_view(struct bufq *to, struct bufq *from);

/* Copies the first bytes of q to `to` and frees them: for headers only, as it
 * copies; bytes <= q->bytes. */
void bufq_read(struct pool *p, struct bufq *q, void *to, size_t bytes);

/* Fills iov with q's first views; returns how many, and in *ret_bytes their bytes. */
unsigned bufq_iov(const struct bufq *q, struct iovec *iov, unsigned iov_max, size_t *ret_bytes);
