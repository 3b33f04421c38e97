/* One asynchronous operation.
 *
 * Embedded in its owner, which must live until done() has run for the last time.  done() runs on
 * the worker's thread, inside engine->wait(). */
#pragma once
#include <stdint.h>

struct op {
	/* res: the operation's result, or -errno.  flags: the completion's flags (io_uring: CQE
	 * flags, epoll: the ready events). */
	void (*done)(struct op *op, int res, uint32_t flags);
};
