/* For the test of nbbench's bridge. */
#pragma once
#include <stddef.h>

/* The number of bytes up to the end of the last whole UTF-8 character: a character whose rest has
 * not come yet is left out.  Bytes that are not UTF-8 count as whole.  Pure. */
size_t bridge_whole_characters(const char *text, size_t bytes);
