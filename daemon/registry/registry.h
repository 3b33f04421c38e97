/* The tables of all services, engines and stores, one line each.  The core knows none of them by
 * name; only code that chooses by configuration, from config/ upwards, includes this. */
#pragma once

#include <stdbool.h>

#include "engine.h"
#include "service.h"
#include "store.h"
#include "worker_options.h"

/* NULL-terminated, in the order in which the documentation lists them. */
extern const struct service *const services[];
/* NULL-terminated.  `engine = auto` tries them from the last to the first. */
extern const struct engine *const engines[];
/* NULL-terminated.  `store = auto` takes the first one for files that this host can run. */
extern const struct store *const stores[];

/* NULL: none has this name. */
const struct service *registry_service(const char *name);
const struct engine *registry_engine(const char *name);
const struct store *registry_store(const char *name);

/* The variant of the engine that a worker with these options uses, or the engine itself. */
const struct engine *registry_variant(const struct engine *engine,
				      const struct worker_options *options);
/* Does the engine or one of its variants use that transport? */
bool registry_engine_carries(const struct engine *engine, const struct transport *transport);
