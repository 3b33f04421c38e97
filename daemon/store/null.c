/* Store `null`: reads return zeros, writes are dropped.  Shows the cost of the network
 * path and the protocol alone. */
#include <string.h>

#include "store.h"

static int null_open(struct export *e, struct reason *reason)
{
	(void)reason;
	e->size = e->options->size;
	e->align = 1;
	e->read_only = e->options->read_only;
	return 0;
}

static void null_close(struct export *e)
{
	(void)e;
}

static void null_submit(struct io *io)
{
	if (io->kind == IO_read) {
		for (unsigned i = 0; i < io->iov_count; i++)
			memset(io->iov[i].iov_base, 0, io->iov[i].iov_len);
	} else if (io->kind == IO_block_status) {
		io->extents[0] = (struct io_extent){ .length = io->length };
		io->extent_count = 1;
	}
	io_finish(io, 0);
}

const struct store store_null = {
	.name = "null",
	.open = null_open,
	.close = null_close,
	.submit = null_submit,
};
