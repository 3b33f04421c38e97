/* A cell of a table with a figure of a row. */
#pragma once
#include "figure.h"
#include "render.h"

/* The median of the visits, or `-` if it is unknown; of several hosts the bounds, see hosts.h. */
void figure_cell(struct table *t, const struct measure *row, enum figure figure);
