/* Cutting output between characters.  See bridge.h. */
#include "bridge_host.h"

size_t bridge_whole_characters(const char *text, size_t bytes)
{
	/* Of a character of UTF-8 the first byte tells the length, all others begin with 10. */
	for (size_t back = 1; back <= 3 && back <= bytes; back++) {
		unsigned char byte = (unsigned char)text[bytes - back];
		size_t length = byte < 0xc0 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;

		if ((byte & 0xc0) != 0x80)
			return length > back ? bytes - back : bytes;
	}
	return bytes;
}
