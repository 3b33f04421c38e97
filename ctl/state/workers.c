/* See workers.h. */
#include "workers.h"

#include <stdlib.h>

#include "field.h"

/* Shallow copies: the counters stay shared. */
static json_t *named(json_t *listener)
{
	json_t *copy, *name = json_object_get(listener, "name");

	if (!json_object_get(listener, "worker"))
		return json_incref(listener);
	copy = json_copy(listener);
	json_object_set(copy, "listener", name);
	json_object_set_new(copy, "name",
			    json_sprintf("%s/%llu", field_text(listener, "name"),
					 (unsigned long long)field_uint(listener, "worker")));
	return copy;
}

json_t *workers_named(const json_t *stats)
{
	json_t *copy = json_copy((json_t *)stats), *list = json_array(), *listener;
	size_t i;

	json_array_foreach(json_object_get(stats, "listeners"), i, listener)
		json_array_append_new(list, named(listener));
	json_object_set_new(copy, "listeners", list);
	return copy;
}
