/* Fuzzes the names of kept sockets: what parses is written as it was read, but for ways to write an
 * address, and fits a socket of that address. */
#include "fuzz.h"
#include "socket_name.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	char *text = fuzz_text(data, bytes), again[SOCKET_NAME_TEXT_MAX];
	struct socket_name name, back;

	if (socket_name_parse(text, &name) == 0) {
		socket_name_format(&name, again);
		assert(strlen(again) <= 255);
		assert(strcspn(again, "=") == strcspn(text, "="));
		assert(socket_name_parse(again, &back) == 0);
		assert(!strcmp(back.listener, name.listener));
		assert(sockaddr_is_same(&back.wanted, &name.wanted));
		assert(socket_name_fits(&name, &back, &name.wanted));
	}
	free(text);
	return 0;
}
