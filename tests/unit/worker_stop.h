/* Ends a worker's thread, and waits for it without a limit. */
#pragma once
#include "owner.h"

static inline void worker_stop(struct worker *w)
{
	worker_request_stop(w);
	worker_await_end(w, UINT64_MAX);
}
