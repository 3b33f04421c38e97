/* A generator on several hosts: a table with a row for each host. */
#pragma once
#include "render.h"
#include "result.h"

/* Nothing, if no row's generator ran on several hosts. */
void hosts_render(struct output *out, const struct result *r);
