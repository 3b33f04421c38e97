/* Fuzzes server/config*.c: bytes are either refused with reasons or read, and what was read prints
 * as a file that reads back to the same. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>

#include "config.h"
#include "fuzz.h"
#include "util.h"

/* NULL: refused. */
static struct config *load(const char *name, const char *text, size_t bytes)
{
	struct config_errors errors = { 0 };
	struct config *config = NULL;
	int err = config_load_text(name, text, bytes, &config, &errors);

	assert(err == 0 || err == -EINVAL);
	assert((err == 0) == (config != NULL) && (err == 0) == (errors.count == 0));
	for (unsigned i = 0; i < MIN(errors.count, (unsigned)CONFIG_ERRORS_MAX); i++) {
		assert(!strncmp(errors.text[i], "fuzz:", 5));
		for (const char *s = errors.text[i]; *s; s++)
			assert(*s >= ' ' && *s <= '~');
	}
	config_errors_free(&errors);
	return config;
}

static char *dump(const struct config *config, size_t *ret_bytes)
{
	char *text;
	FILE *to = open_memstream(&text, ret_bytes);

	config_dump(config, to);
	fclose(to);
	return text;
}

/* The same values give the same JSON once origins are out. */
static char *values(const struct config *config)
{
	json_t *json = config_to_json(config), *sections = json_array(), *section, *key;
	char *text;
	size_t i;
	const char *name;

	assert(json);
	json_array_append(sections, json_object_get(json, "server"));
	json_array_foreach(json_object_get(json, "listeners"), i, section)
		json_array_append(sections, json_object_get(section, "keys"));
	json_array_foreach(json_object_get(json, "exports"), i, section)
		json_array_append(sections, json_object_get(section, "keys"));
	json_array_foreach(sections, i, section)
		json_object_foreach(section, name, key)
			json_object_del(key, "origin");
	text = json_dumps(json, JSON_SORT_KEYS);
	assert(text);
	json_decref(sections);
	json_decref(json);
	return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct config *config = load("fuzz", (const char *)data, bytes), *again;
	char *text, *before, *after, *text_again;
	size_t length;

	if (!config)
		return 0;
	text = dump(config, &length);
	again = load("fuzz", text, length);
	assert(again);
	before = values(config);
	after = values(again);
	assert(!strcmp(before, after));
	free(before);
	free(after);
	config_free(config);

	/* A dump's dump differs in nothing but the origins, and then no more. */
	text_again = dump(again, &length);
	config_free(again);
	again = load("fuzz", text_again, length);
	assert(again);
	free(text);
	text = dump(again, &length);
	assert(!strcmp(text, text_again));
	config_free(again);
	free(text);
	free(text_again);
	return 0;
}
