/* Ends a worker's thread, however long that takes. */
#pragma once
#include "worker.h"

static inline void worker_stop(struct worker *w)
{
	worker_request_stop(w);
	worker_await_end(w, UINT64_MAX);
}
