/* Shared by output.c and render.c. */
#pragma once
#include "render.h"

/* The width to which paragraphs are wrapped, also for files, whose width is 0. */
unsigned output_width(const struct output *out);

void output_styled(struct output *out, enum style style, const char *text);
