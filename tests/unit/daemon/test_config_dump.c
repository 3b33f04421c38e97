/* config/config_dump.c: the dump is complete, and parses back to the same configuration. */
#include "config_case.h"
#include "config_keys.h"
#include "nvme/subsystem.h"
#include "registry.h"
#include "ring_keys.h"

#include <jansson.h>

static char *dump(const struct config *config)
{
	char *text;
	size_t bytes;
	FILE *to = open_memstream(&text, &bytes);

	config_dump(config, to);
	fclose(to);
	return text;
}

/* Removes comments, spaces and empty lines, since a second dump has other origins. */
static char *without_comments(char *text)
{
	char *from = text, *to = text;

	for (bool comment = false; *from; from++) {
		if (*from == '\n')
			comment = false;
		else if (*from == ';')
			comment = true;
		if (!comment && *from != ' ' && (*from != '\n' || (to > text && to[-1] != '\n')))
			*to++ = *from;
	}
	*to = '\0';
	return text;
}

TEST(a_dump_parses_back_even_with_long_origins)
{
	struct config_errors errors = { 0 };
	CLEANUP(config_free_p) struct config *c, *again;
	char name[400], *first, *second;

	memset(name, 'n', sizeof(name));
	memcpy(name, "a\n[b]", 5);
	name[sizeof(name) - 1] = '\0';
	assert_int_equal(config_load_text(name, GOOD, strlen(GOOD), &c, &errors), 0);
	first = dump(c);
	again = load(first);
	second = dump(again);
	assert_string_equal(without_comments(first), without_comments(second));
	assert_int_equal(again->listener_count, 1);
	free(first);
	free(second);
}

TEST(no_two_keys_of_a_section_have_the_same_name)
{
	const struct config_key *key;

	for (unsigned i = 0; (key = config_key_at(i)); i++)
		assert_ptr_equal(config_key_find(key->section, key->name), key);
}

/* The order of the keys in the file, `service` after the service's own, does not matter. */
TEST(each_listener_has_the_values_of_its_own_service)
{
	struct config *c =
		load("[listener a]\naddress = [::1]:1\nblock-size = 512\nexports = e\n"
		     "nqn = nqn.unit\nservice = nvme\n[export e]\nstore = null\nsize = 1M\n"
		     "[listener b]\naddress = [::1]:2\nservice = nvme\nexports = e\n");
	const struct nvme_options *a = options_of(&c->listeners[0].options, &nvme_key_table);
	const struct nvme_options *b = options_of(&c->listeners[1].options, &nvme_key_table);

	assert_string_equal(a->nqn, "nqn.unit");
	assert_int_equal(a->block_size, 512);
	assert_string_equal(b->nqn, "");
	assert_int_equal(b->block_size, 0);
	config_free(c);
}

/* A ring of a store has the options of rings, whichever engine the worker has. */
TEST(a_listener_has_the_keys_of_all_engines)
{
	CLEANUP(config_free_p) struct config *c = load(GOOD "engine = epoll\n");
	const struct worker_options *options = &c->listeners[0].options;

	assert_int_equal(ring_options(options)->sqpoll, KEY_CPU_NONE);
	assert_ptr_equal(registry_variant(registry_engine("io_uring"), options),
			 registry_engine("io_uring"));
}

static unsigned count_keys(enum config_section section)
{
	const struct config_key *key;
	unsigned count = 0;

	for (unsigned i = 0; (key = config_key_at(i)); i++)
		count += key->section == section;
	return count;
}

TEST(json_has_value_origin_and_class_of_each_key)
{
	CLEANUP(config_free_p) struct config *c = load(GOOD "allow = ::1, ::2\n");
	json_t *json = config_to_json(c), *listener, *key;
	const char *value, *origin, *class;

	assert_int_equal(json_unpack(json, "{s:{s:{s:s, s:s, s:s !}}}", "server", "log-level",
				     "value", &value, "origin", &origin, "class", &class),
			 0);
	assert_string_equal(value, "info");
	assert_string_equal(origin, "default");
	assert_string_equal(class, "live");
	listener = json_array_get(json_object_get(json, "listeners"), 0);
	assert_string_equal(json_string_value(json_object_get(listener, "name")), "a");
	key = json_object_get(json_object_get(listener, "keys"), "allow");
	assert_int_equal(json_array_size(json_object_get(key, "value")), 2);
	assert_string_equal(json_string_value(json_object_get(key, "origin")), "f:4");
	assert_int_equal(json_object_size(json_object_get(listener, "keys")),
			 count_keys(CONFIG_LISTENER));
	json_decref(json);
}
