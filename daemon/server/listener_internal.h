/* Private to the files of a listener. */
#pragma once
#include "listener.h"

extern const struct worker_owner listener_owner;

/* Maximum of clients of each worker of l over an engine that forgets them; 0: no limit. */
uint64_t listener_peers_max(const struct listener *l, const struct listener_config *config);
