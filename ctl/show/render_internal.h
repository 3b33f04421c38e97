/* Shared by output.c and render.c. */
#pragma once
#include <stdarg.h>

#include "render.h"

/* The width to which paragraphs are wrapped, also for files, whose width is 0. */
unsigned output_width(const struct output *out);

void output_styled(struct output *out, enum style style, const char *text);

/* render_must() returns `memory`; both functions end the program when there is no memory. */
void *render_must(void *memory);
char *render_format(const char *format, va_list arguments);
