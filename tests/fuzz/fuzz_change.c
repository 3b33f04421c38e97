/* Fuzzes config/config_change.c and config_run.c, which read what `nbctl set` and `add` send: a
 * change is refused, or is a text whose settings are lines of one section each, which can be read.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "config_change.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static struct config *load(const char *text)
{
	struct config_errors errors = { 0 };
	struct config *config = NULL;

	config_load_text("fuzz", text, strlen(text), &config, &errors);
	config_errors_free(&errors);
	return config;
}

static unsigned lines(const char *text)
{
	unsigned count = 0;

	for (; *text; text++)
		count += *text == '\n';
	return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static struct config *in_force;
	char *input = strndup((const char *)data, bytes), *text;
	struct reason reason;

	assert(input);
	if (!in_force)
		in_force = load("[listener echo]\nservice = echo\naddress = 127.0.0.1:1\n");
	if (config_change_set("echo", (const char *const *)&input, 1, &text, &reason) == 0) {
		assert(lines(text) == 2);
		config_free(load(text));
		free(text);
	}
	if (config_change_add(in_force, input, &text, &reason) == 0) {
		config_free(load(text));
		free(text);
	}
	free(input);
	return 0;
}
