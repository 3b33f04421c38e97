/* A result as JSON, schema 3: struct result field by field; nbbench(1) lists the fields. */
#pragma once
#include "result.h"

/* A new reference.  m has the rows without operations, too. */
json_t *result_to_json(const struct result *r, const struct measures *m);
