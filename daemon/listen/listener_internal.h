/* What the files of a listener share. */
#pragma once
#include "listener.h"

extern const struct worker_owner listener_owner;
