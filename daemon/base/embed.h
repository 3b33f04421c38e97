/* Texts of the program that are files of the tree. */
#pragma once

/* Makes `symbol`, which the user declares as an array of char, the text of a file, with a NUL
 * behind it.  The file is named from the top of the tree; the object depends on it by a line in the
 * Makefile. */
#define EMBED_TEXT(symbol, file)                                                                   \
	__asm__(".pushsection .rodata\n.globl " #symbol "\n" #symbol ":\n.incbin \"" file          \
		"\"\n.byte 0\n.popsection")
