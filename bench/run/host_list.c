/* See host_list.h. */
#include "host_list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

static bool has(const struct host_list *hosts, const char *name)
{
	for (unsigned i = 0; i < hosts->count; i++)
		if (!strcmp(hosts->names[i], name))
			return true;
	return false;
}

/* Adds a name, and takes ownership of it. */
static int add(struct host_list *hosts, char *name, struct reason *reason)
{
	const char *bad = NULL;

	if (!*name || *name == '-' || strlen(name) >= HOST_NAME_BYTES)
		bad = "expected [USER@]HOST,...";
	for (const char *c = name; *c && !bad; c++)
		if ((unsigned char)*c <= ' ' || *c == 0x7f)
			bad = "a name has no space";
	if (!bad && has(hosts, name))
		bad = "it is there twice";
	if (!bad && hosts->count == HOST_LIST_MAX)
		bad = "there are too many hosts";
	if (!bad) {
		hosts->names[hosts->count++] = name;
		return 0;
	}
	reason_set(reason, -EINVAL, "%s, got '%.64s'", bad, name);
	free(name);
	return -EINVAL;
}

int host_list_parse(const char *text, struct host_list *ret, struct reason *reason)
{
	int rc = 0;

	*ret = (struct host_list){ .count = 0 };
	for (const char *end; rc == 0 && text; text = *end ? end + 1 : NULL) {
		end = strchrnul(text, ',');
		rc = add(ret, text_new("%.*s", (int)(end - text), text), reason);
	}
	return rc;
}

void host_list_free(struct host_list *hosts)
{
	while (hosts->count)
		free(hosts->names[--hosts->count]);
}
