/* Parts of reads and writes: their memory, and where one of a write may end.  See block_part.h. */
#include "block_part.h"

size_t block_bytes_without_copy(const struct conn *c, const struct export *e,
				const struct block_rest *rest, size_t bytes)
{
	const struct view *v = c->rx.head;
	size_t have = 0;

	if (e->align > 1)
		return 0;
	for (unsigned i = 0; v && i < IO_IOV_MAX && have < bytes; i++, v = v->next)
		have += v->len;
	return block_part_bytes(rest, MIN(have, bytes));
}

void block_add_chunks(struct worker *w, struct bufq *data, size_t bytes, size_t skip)
{
	struct pool *p = &w->pool;

	while (data->bytes < bytes && data->views < IO_IOV_MAX) {
		struct chunk *k = chunk_get(p);
		size_t n = MIN(p->chunk_size - skip, bytes - data->bytes);

		if (!k)
			break;
		bufq_push(data, view_new(p, k, k->base + skip, (uint32_t)n));
		chunk_put(p, k); /* the view keeps it */
		skip = 0;
	}
}

void block_free_end(struct worker *w, struct bufq *data, size_t bytes)
{
	struct bufq all = *data;

	if (likely(bytes == data->bytes))
		return;
	*data = (struct bufq){ 0 };
	bufq_take(&w->pool, data, &all, bytes);
	bufq_drop(&w->pool, &all, all.bytes);
}
