/* A generator's result in saved rows. */
#pragma once
#include <jansson.h>

#include "generator.h"

void generator_result_to_json(const struct generator_result *r, json_t *to);
/* *r is zeroed. */
void generator_result_from_json(struct generator_result *r, const json_t *from);
