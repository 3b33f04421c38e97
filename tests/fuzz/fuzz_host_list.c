/* Fuzzes ctl/compare/host_list.c and link_speeds.c: any text is a list of hosts, none of which ssh
 * would take for an option, or an error in words; and it is speeds of hosts, or an error. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "host_list.h"
#include "link_speeds.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	char *text = malloc(bytes + 1);
	struct reason reason = { "" };
	struct link_speeds speeds;
	struct host_list hosts;
	int rc;

	assert(text);
	if (bytes)
		memcpy(text, data, bytes);
	text[bytes] = '\0';
	rc = host_list_parse(text, &hosts, &reason);
	assert(rc == 0 ? hosts.count > 0 : *reason.text != '\0');
	for (unsigned i = 0; i < hosts.count; i++)
		assert(*hosts.names[i] && *hosts.names[i] != '-' &&
		       strlen(hosts.names[i]) < HOST_NAME_BYTES);
	host_list_free(&hosts);
	*reason.text = '\0';
	rc = link_speeds_parse(text, &speeds, &reason);
	assert(rc == 0 ? speeds.all_bps || speeds.count : *reason.text != '\0');
	link_speeds_free(&speeds);
	free(text);
	return 0;
}
