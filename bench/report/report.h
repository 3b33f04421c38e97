/* `nbbench show`: rows as one page of HTML with pictures, or as one picture.  No script, nothing
 * from the network, and well-formed as XML, too.  The rows are merged. */
#pragma once
#include <stdio.h>

#include "result.h"

/* m has the rows of the result, and their conditions. */
void report_html(FILE *to, const struct result *result, const struct measures *m);

/* The overview, or of a single load its costs, or then and now: a file of its own. */
void report_svg(FILE *to, const struct result *result);
