/* The table of engines: one line each. */
#include "engine.h"

#include <string.h>

extern const struct engine engine_epoll, engine_uring_poll, engine_uring;

const struct engine *const engines[] = {
	&engine_epoll,
	&engine_uring_poll,
	&engine_uring,
	NULL,
};

const struct engine *engine_find(const char *name)
{
	for (unsigned i = 0; engines[i]; i++)
		if (!strcmp(engines[i]->name, name))
			return engines[i];
	return NULL;
}
