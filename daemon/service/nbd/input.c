/* Service `nbd`: input of a connection, during the handshake as well as later.  See nbd.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nbd.h"

bool nbd_drop(struct conn *c)
{
	struct nbd_conn *n = nbd_of(c);
	size_t bytes = (size_t)MIN(n->drop_bytes, c->rx.bytes);

	bufq_drop(&c->worker->pool, &c->rx, bytes);
	n->drop_bytes -= bytes;
	return n->drop_bytes == 0;
}

int nbd_begin(struct conn *c, size_t whole)
{
	struct nbd_conn *n = nbd_of(c);
	size_t bytes = MIN(whole - n->begun_bytes, c->rx.bytes);

	if (bytes == 0)
		return 0;
	if (!n->begun)
		n->begun = malloc(whole);
	if (!n->begun)
		return -ENOMEM;
	bufq_read(&c->worker->pool, &c->rx, n->begun + n->begun_bytes, bytes);
	n->begun_bytes += bytes;
	return 0;
}

void nbd_begun_read(struct conn *c, void *to, size_t bytes)
{
	struct nbd_conn *n = nbd_of(c);
	size_t begun = MIN(n->begun_bytes, bytes);

	if (begun) {
		memcpy(to, n->begun, begun);
		n->begun_bytes -= begun;
		memmove(n->begun, n->begun + begun, n->begun_bytes);
	}
	if (n->begun_bytes == 0) {
		free(n->begun);
		n->begun = NULL;
	}
	bufq_read(&c->worker->pool, &c->rx, (uint8_t *)to + begun, bytes - begun);
}

void nbd_expect_input(struct conn *c, uint64_t timeout_ns)
{
	if (!conn_await_input(c, timeout_ns, BLOCK_PART_MAX))
		conn_close(c, CONN_END_PROTOCOL);
}

void nbd_end(struct conn *c, enum conn_end end)
{
	nbd_of(c)->phase = NBD_PHASE_ENDING;
	nbd_of(c)->end = end;
}
