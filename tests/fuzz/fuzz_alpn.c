/* Fuzzes the search in a client's list of protocols: what it finds is a whole name of the list, and
 * a list that has the name in its place is never missed. */
#include "alpn.h"
#include "fuzz.h"

/* The first byte says how many of the others are the name. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	size_t length = bytes ? data[0] % 16 : 0, list_bytes;
	const uint8_t *found;
	uint8_t *list;
	char name[16] = "";

	if (bytes < 1 + length)
		return 0;
	memcpy(name, data + 1, length);
	list_bytes = bytes - 1 - length;
	list = malloc(list_bytes + 1); /* its own memory, for the sanitizer */
	assert(list);
	memcpy(list, data + 1 + length, list_bytes);
	found = alpn_find(list, list_bytes, name);
	if (found) {
		assert(found > list && found[-1] == strlen(name));
		assert(found + strlen(name) <= list + list_bytes);
		assert(!memcmp(found, name, strlen(name)));
	} else if (list_bytes > 0 && list[0] == strlen(name) && list[0] < list_bytes) {
		assert(memcmp(list + 1, name, list[0]));
	}
	free(list);
	return 0;
}
