/* The output of a command: its first CHILD_OUTPUT_MAX bytes are kept. */
#pragma once
#include <stddef.h>

struct kept {       /* zeroed at the start */
	char *text; /* NUL-terminated; NULL: none */
	size_t bytes, room;
};

void kept_add(struct kept *k, const char *data, size_t bytes);
/* The text, which the caller then owns; never NULL. */
char *kept_take(struct kept *k);
