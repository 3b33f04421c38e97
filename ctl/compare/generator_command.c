/* See generator_command.h. */
#include "generator_command.h"

#include <stdio.h>
#include <stdlib.h>

#include "generator_host.h"
#include "must.h"
#include "placeholders.h"
#include "targets.h"

void generator_command_free(char ***commands)
{
	for (char ***command = commands; command && *command; command++) {
		for (char **word = *command; *word; word++)
			free(*word);
		free(*command);
	}
	free(commands);
}

static char **fill(char *const *argv, const char *const *values, const char **ret_missing)
{
	unsigned count = 0;
	char **words;

	while (argv[count])
		count++;
	words = must(calloc(count + 1, sizeof(*words)));
	for (unsigned i = 0; i < count; i++)
		words[i] = placeholders_fill(argv[i], values, ret_missing);
	return words;
}

char ***generator_command_fill(const struct ctl *ctl, char *const *argv,
			       const struct target *target)
{
	unsigned hosts = generator_host_count(ctl);
	char ***commands = must(calloc(hosts + 1, sizeof(*commands)));
	const char *missing = NULL;

	for (unsigned i = 0; i < hosts && !missing; i++) {
		const struct target_address *at = target ? &target->addresses[i] : NULL;
		char client[HOST_NAME_BYTES], index[16];
		const char *const values[PLACEHOLDER_COUNT] = {
			[PLACEHOLDER_HOST] = at ? at->host : NULL,
			[PLACEHOLDER_PORT] = at ? at->port : NULL,
			[PLACEHOLDER_URI] = at ? at->uri : NULL,
			[PLACEHOLDER_LISTENER] = target ? target->listener : NULL,
			[PLACEHOLDER_CLIENT] = client,
			[PLACEHOLDER_INDEX] = index,
		};

		generator_host_name(ctl, i, client);
		snprintf(index, sizeof(index), "%u", i);
		commands[i] = fill(argv, values, &missing);
		if (missing && at)
			ctl_warn("listener '%s' has no {%s}: %s", target->listener, missing,
				 at->lacks);
	}
	if (!missing)
		return commands;
	generator_command_free(commands);
	return NULL;
}
