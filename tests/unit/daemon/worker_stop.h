/* Ends a worker's thread, and waits for it without a limit. */
#pragma once
#include "worker_owner.h"

static inline void worker_stop_and_wait(struct worker *w)
{
	worker_stop(w);
	worker_await_stopped(w, UINT64_MAX);
}
