/* The table of stores: one line each, the best first. */
#include "registry.h"

#include <string.h>

extern const struct store store_file_uring, store_file_threads, store_file_blocking, store_memory,
	store_null;

/* clang-format off */
const struct store *const stores[] = {
	&store_file_uring,
	&store_file_threads,
	&store_file_blocking,
	&store_memory,
	&store_null,
	NULL,
};
/* clang-format on */

const struct store *store_find(const char *name)
{
	for (unsigned i = 0; stores[i]; i++)
		if (!strcmp(stores[i]->name, name))
			return stores[i];
	return NULL;
}
