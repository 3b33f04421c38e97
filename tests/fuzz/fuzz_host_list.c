/* Fuzzes bench/run/host_list.c: any text is a list of hosts, none of which ssh would take for an
 * option, or an error in words. */
#include "fuzz.h"
#include "host_list.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	char *text = fuzz_text(data, bytes);
	struct reason reason = { "" };
	struct host_list hosts;
	int rc;

	rc = host_list_parse(text, &hosts, &reason);
	assert(rc == 0 ? hosts.count > 0 : *reason.text != '\0');
	for (unsigned i = 0; i < hosts.count; i++)
		assert(*hosts.names[i] && *hosts.names[i] != '-' &&
		       strlen(hosts.names[i]) < HOST_NAME_BYTES);
	host_list_free(&hosts);
	free(text);
	return 0;
}
