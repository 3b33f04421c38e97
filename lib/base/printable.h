/* Which characters of UTF-8 text may go to a terminal or a log: names and errors come from clients,
 * from a daemon or from files of other users.  Pure. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

/* The number of bytes of the first character of a text that is not empty, 1 if it is not valid
 * UTF-8 (RFC 3629).  *ret_printable: false for what is not valid, and for the general
 * categories of Unicode that have no glyph or change how others are shown: Cc (controls, C1
 * among them), Cf (bidirectional overrides, zero-width and tag characters), Zl, Zp, Cs
 * (surrogates), Co and noncharacters. */
size_t printable_next(const char *text, bool *ret_printable);

/* Replaces each character that is not printable by one '?', in place. */
void printable_clean(char *text);
