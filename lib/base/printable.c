/* Decoding of UTF-8 and a table of Unicode's ranges.  Pure.  See printable.h. */
#include "printable.h"

#include <stdint.h>
#include <string.h>

#include "util.h"

/* Unicode 16.0, DerivedGeneralCategory.txt: Cc, Cf, Zl, Zp, Cs, Co; and noncharacters of the first
 * plane.  Those of other planes are the last two code points of each. */
static const struct range {
	uint32_t first, last;
} unprintable[] = {
	{ 0x0, 0x1f },         { 0x7f, 0x9f },       { 0xad, 0xad },       { 0x600, 0x605 },
	{ 0x61c, 0x61c },      { 0x6dd, 0x6dd },     { 0x70f, 0x70f },     { 0x890, 0x891 },
	{ 0x8e2, 0x8e2 },      { 0x180e, 0x180e },   { 0x200b, 0x200f },   { 0x2028, 0x202e },
	{ 0x2060, 0x206f },    { 0xd800, 0xf8ff },   { 0xfdd0, 0xfdef },   { 0xfeff, 0xfeff },
	{ 0xfff9, 0xfffb },    { 0x110bd, 0x110bd }, { 0x110cd, 0x110cd }, { 0x13430, 0x1343f },
	{ 0x1bca0, 0x1bca3 },  { 0x1d173, 0x1d17a }, { 0xe0001, 0xe0001 }, { 0xe0020, 0xe007f },
	{ 0xf0000, 0x10ffff },
};

static bool is_printable(uint32_t code)
{
	for (size_t i = 0; i < ARRAY_SIZE(unprintable) && code >= unprintable[i].first; i++)
		if (code <= unprintable[i].last)
			return false;
	return (code & 0xfffe) != 0xfffe;
}

size_t printable_next(const char *text, bool *ret_printable)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 }; /* less is overlong */
	const uint8_t *at = (const uint8_t *)text;
	size_t bytes = *at < 0x80 ? 1 : *at < 0xc2 ? 0 : *at < 0xe0 ? 2 : *at < 0xf0 ? 3 : 4;
	uint32_t code = bytes == 1 ? *at : *at & (0x7fU >> bytes);

	*ret_printable = false;
	if (bytes == 0 || *at > 0xf4)
		return 1;
	for (size_t i = 1; i < bytes; i++) {
		if ((at[i] & 0xc0) != 0x80)
			return 1;
		code = code << 6 | (at[i] & 0x3f);
	}
	if (code < least[bytes] || code > 0x10ffff)
		return 1;
	*ret_printable = is_printable(code);
	return bytes;
}

void printable_clean(char *text)
{
	char *to = text;
	bool printable;

	while (*text) {
		size_t bytes = printable_next(text, &printable);

		if (printable)
			memmove(to, text, bytes);
		else
			*to = '?';
		to += printable ? bytes : 1;
		text += bytes;
	}
	*to = '\0';
}
