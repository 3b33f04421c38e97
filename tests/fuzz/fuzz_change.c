/* Fuzzes config/config_change.c and config_run.c, which read what `nbctl set` and `add` send: a
 * change is refused, or is a text whose settings are lines of one section each, which can be read.
 * `nbctl remove` takes each listener out of it again, and leaves the others. */
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

static void check_remove(const struct config *in_force, char *text)
{
	struct config_errors errors = { 0 };
	char *left[CONFIG_CHANGES_MAX];
	struct reason reason;
	struct config *config;
	int rc = config_load_again(in_force, &text, 1, &config, &errors);

	config_errors_free(&errors);
	if (rc < 0)
		return;
	assert(config->change_count == 1);
	for (unsigned i = in_force->listener_count; i < config->listener_count; i++) {
		const char *name = config->listeners[i].name;
		int count = config_change_remove(config, name, left, &reason);

		assert(count == (config->listener_count - in_force->listener_count > 1));
		if (count) {
			check_remove(in_force, left[0]);
			free(left[0]);
		}
	}
	config_free(config);
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
		check_remove(in_force, text);
		config_free(load(text));
		free(text);
	}
	free(input);
	return 0;
}
