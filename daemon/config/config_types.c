/* The types of values in the configuration: how each reads and prints.  See config_keys.h. */
#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "config_keys.h"
#include "log.h"
#include "log_level.h"
#include "registry.h"
#include "store.h"
#include "util.h"
#include "worker.h"

/* Parameters of config_type's functions that most of them do not need. */
#define UNUSED __attribute__((unused))

/* ---- Fields of 1, 4 or 8 bytes: numbers, pointers ---- */

static void store(const struct config_key *key, void *section, uint64_t value)
{
	if (key->size == sizeof(bool))
		*(bool *)config_field(key, section) = value;
	else if (key->size == sizeof(uint32_t))
		*(uint32_t *)config_field(key, section) = (uint32_t)value;
	else
		*(uint64_t *)config_field(key, section) = value;
}

static uint64_t load(const struct config_key *key, const void *section)
{
	if (key->size == sizeof(bool))
		return *(const bool *)config_field(key, section);
	if (key->size == sizeof(uint32_t))
		return *(const uint32_t *)config_field(key, section);
	return *(const uint64_t *)config_field(key, section);
}

/* ---- Words that stand for values ---- */

/* The `word` of types whose keys have one at most: key->word. */
static const char *config_word(const struct config_key *key, unsigned index, uint64_t *ret_value)
{
	*ret_value = key->word_value;
	return index == 0 ? key->word : NULL;
}

static const char *word_bool(UNUSED const struct config_key *key, unsigned index,
			     uint64_t *ret_value)
{
	*ret_value = index == 0;
	return (const char *const[]){ "yes", "no", NULL }[index];
}

static const char *word_choice(const struct config_key *key, unsigned index, uint64_t *ret_value)
{
	*ret_value = index;
	return key->words[index];
}

static const char *word_log_level(UNUSED const struct config_key *key, unsigned index,
				  uint64_t *ret_value)
{
	for (int level = LOG_EMERG; level <= LOG_DEBUG; level++)
		if (log_level_name(level) && index-- == 0) {
			*ret_value = (uint64_t)level;
			return log_level_name(level);
		}
	return NULL;
}

/* The name of an entry of a table that ends with NULL; the value is its address. */
#define WORD_OF(entry, ret_value)                                                                  \
	(*(ret_value) = (uintptr_t)(entry), (entry) ? (entry)->name : NULL)

static const char *word_transport(UNUSED const struct config_key *key, unsigned index,
				  uint64_t *ret_value)
{
	return WORD_OF(transports[index], ret_value);
}

static const char *word_service(UNUSED const struct config_key *key, unsigned index,
				uint64_t *ret_value)
{
	return WORD_OF(services[index], ret_value);
}

static const char *word_engine(const struct config_key *key, unsigned index, uint64_t *ret_value)
{
	*ret_value = 0;
	return index == 0 ? key->preset : WORD_OF(engines[index - 1], ret_value);
}

/* An export may use any store; the key `store` of a listener only those for files. */
static const char *word_store(const struct config_key *key, unsigned index, uint64_t *ret_value)
{
	*ret_value = 0;
	if (index == 0)
		return key->preset;
	for (unsigned i = 0; stores[i]; i++)
		if ((stores[i]->file || key->section == CONFIG_EXPORT) && --index == 0)
			return WORD_OF(stores[i], ret_value);
	return NULL;
}

static int parse_word(const struct config_key *key, const char *text,
		      UNUSED struct config_origin at, void *section)
{
	const char *word;
	uint64_t value;

	for (unsigned i = 0; (word = key->type->word(key, i, &value)) != NULL; i++)
		if (!strcmp(word, text)) {
			store(key, section, value);
			return 0;
		}
	return -EINVAL;
}

/* Writes the word for the field's value; false: there is none. */
static bool find_word(const struct config_key *key, const void *section,
		      char text[static CONFIG_TEXT_MAX])
{
	const char *word;
	uint64_t value;

	for (unsigned i = 0; (word = key->type->word(key, i, &value)) != NULL; i++)
		if (value == load(key, section)) {
			snprintf(text, CONFIG_TEXT_MAX, "%s", word);
			return true;
		}
	return false;
}

static void format_word(const struct config_key *key, const void *section, UNUSED unsigned index,
			char text[static CONFIG_TEXT_MAX])
{
	if (!find_word(key, section, text))
		text[0] = '\0';
}

/* Also takes true and false, on and off. */
static int parse_bool_key(const struct config_key *key, const char *text,
			  UNUSED struct config_origin at, void *section)
{
	return parse_bool(text, config_field(key, section));
}

const struct config_type config_bool = {
	.parse = parse_bool_key,
	.format = format_word,
	.word = word_bool,
};
#define CHOICE(name)                                                                               \
	const struct config_type config_##name = { .parse = parse_word,                            \
						   .format = format_word,                          \
						   .word = word_##name }
CHOICE(choice);
CHOICE(log_level);
CHOICE(transport);
CHOICE(engine);
CHOICE(service);
CHOICE(store);

/* ---- Numbers ---- */

static char *format_uint(uint64_t value, char text[static NUMBER_TEXT_MAX])
{
	snprintf(text, NUMBER_TEXT_MAX, "%" PRIu64, value);
	return text;
}

static int parse_number(const struct config_key *key, const char *text, struct config_origin at,
			void *section)
{
	uint64_t value;
	int err;

	if (parse_word(key, text, at, section) == 0)
		return 0;
	err = key->type->read(text, &value);
	if (err)
		return err;
	if (value < key->min || value > key->max)
		return -ERANGE;
	if (key->power_of_two && (value & (value - 1)) != 0)
		return -EINVAL;
	store(key, section, value);
	return 0;
}

static void format_number(const struct config_key *key, const void *section, UNUSED unsigned index,
			  char text[static CONFIG_TEXT_MAX])
{
	if (!find_word(key, section, text))
		key->type->write(load(key, section), text);
}

static void expect_number(const struct config_key *key, char text[static CONFIG_TEXT_MAX])
{
	const struct config_type *type = key->type;
	char min[NUMBER_TEXT_MAX], max[NUMBER_TEXT_MAX];

	snprintf(text, CONFIG_TEXT_MAX, "%s%s from %s to %s",
		 key->power_of_two ? "a power of two" : type->noun, type->units,
		 type->write(key->min, min), type->write(key->max, max));
}

#define NUMBER(name, noun_, units_)                                                                \
	const struct config_type config_##name = { .parse = parse_number,                          \
						   .format = format_number,                        \
						   .expect = expect_number,                        \
						   .word = config_word,                            \
						   .read = parse_##name,                           \
						   .write = format_##name,                         \
						   .noun = (noun_),                                \
						   .units = (units_) }
NUMBER(uint, "a number", "");
NUMBER(size, "a size", " (K, M, G, T)");
NUMBER(duration, "a duration", " (us, ms, s, min, h)");

unsigned config_host_cpus(void)
{
	long count = sysconf(_SC_NPROCESSORS_CONF);

	return count < 1 ? 1 : (unsigned)MIN(count, CPU_SETSIZE);
}

/* Also takes what parse_bool_key() does. */
static int parse_cpu(const struct config_key *key, const char *text, UNUSED struct config_origin at,
		     void *section)
{
	uint64_t value;
	bool on;
	int rc;

	if (parse_bool(text, &on) == 0) {
		store(key, section, on ? KEY_CPU_ANY : KEY_CPU_NONE);
		return 0;
	}
	rc = parse_uint(text, &value);
	if (rc < 0)
		return rc;
	if (value >= config_host_cpus())
		return -ERANGE;
	store(key, section, KEY_CPU_FIRST + value);
	return 0;
}

static void format_cpu(const struct config_key *key, const void *section, UNUSED unsigned index,
		       char text[static CONFIG_TEXT_MAX])
{
	if (!find_word(key, section, text))
		format_uint(load(key, section) - KEY_CPU_FIRST, text);
}

/* Whether a thread is there, and the CPU that it is bound to.  Words as those of a bool. */
const struct config_type config_cpu = {
	.parse = parse_cpu,
	.format = format_cpu,
	.expects = "the number of a CPU of this host",
	.word = word_bool,
	.of_cpus = true,
};

/* ---- Text ---- */

static int copy_text(const struct config_key *key, const char *text, void *section)
{
	if (strlen(text) >= key->size)
		return -ERANGE;
	strcpy(config_field(key, section), text);
	return 0;
}

static void format_text(const struct config_key *key, const void *section, UNUSED unsigned index,
			char text[static CONFIG_TEXT_MAX])
{
	snprintf(text, CONFIG_TEXT_MAX, "%s", (const char *)config_field(key, section));
}

/* ASCII without white space? */
static bool is_graphic(const char *text)
{
	for (const char *s = text; *s; s++)
		if (!isascii((unsigned char)*s) || !isgraph((unsigned char)*s))
			return false;
	return true;
}

static int parse_path(const struct config_key *key, const char *text,
		      UNUSED struct config_origin at, void *section)
{
	if (key->word && !strcmp(key->word, text))
		return copy_text(key, "", section);
	if (text[0] != '/' || !is_graphic(text))
		return -EINVAL;
	return copy_text(key, text, section);
}

static void format_path(const struct config_key *key, const void *section, unsigned index,
			char text[static CONFIG_TEXT_MAX])
{
	if (*(const char *)config_field(key, section))
		format_text(key, section, index, text);
	else
		snprintf(text, CONFIG_TEXT_MAX, "%s", key->word);
}

static void expect_path(const struct config_key *key, char text[static CONFIG_TEXT_MAX])
{
	snprintf(text, CONFIG_TEXT_MAX,
		 "an absolute path in ASCII, no white space, up to %zu bytes",
		 MIN(key->size - 1, (size_t)CONFIG_VALUE_MAX));
}

static int parse_text(const struct config_key *key, const char *text,
		      UNUSED struct config_origin at, void *section)
{
	if (key->word && !strcmp(key->word, text))
		return copy_text(key, "", section);
	if (!is_graphic(text) || !key->of->valid(text))
		return -EINVAL;
	return copy_text(key, text, section);
}

static void expect_text(const struct config_key *key, char text[static CONFIG_TEXT_MAX])
{
	snprintf(text, CONFIG_TEXT_MAX, "%s in ASCII, up to %zu bytes,", key->of->form,
		 MIN(key->size - 1, (size_t)CONFIG_VALUE_MAX));
}

bool config_name_valid(const char *text)
{
	size_t length = strlen(text);

	return length > 0 && length < CONFIG_NAME_MAX &&
	       strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-") ==
		       length;
}

static int parse_name(const struct config_key *key, const char *text,
		      UNUSED struct config_origin at, void *section)
{
	return config_name_valid(text) ? copy_text(key, text, section) : -EINVAL;
}

static void expect_name(const struct config_key *key, char text[static CONFIG_TEXT_MAX])
{
	snprintf(text, CONFIG_TEXT_MAX, "a name of A-Z, a-z, 0-9, '_', '.', '-', up to %zu bytes",
		 key->size - 1);
}

const struct config_type config_path = {
	.parse = parse_path,
	.format = format_path,
	.expect = expect_path,
	.word = config_word,
};
const struct config_type config_text = {
	.parse = parse_text,
	.format = format_path,
	.expect = expect_text,
	.word = config_word,
};
const struct config_type config_name = {
	.parse = parse_name,
	.format = format_text,
	.expect = expect_name,
};

/* ---- CPUs ---- */

static int parse_cpus_key(const struct config_key *key, const char *text,
			  UNUSED struct config_origin at, void *section)
{
	cpu_set_t cpus;
	int err;

	CPU_ZERO(&cpus);
	err = !strcmp(text, key->word) ? 0 : parse_cpus(text, &cpus);
	for (unsigned cpu = config_host_cpus(); !err && cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &cpus))
			err = -ERANGE;
	if (!err)
		*(cpu_set_t *)config_field(key, section) = cpus;
	return err;
}

static void format_cpus_key(const struct config_key *key, const void *section,
			    UNUSED unsigned index, char text[static CONFIG_TEXT_MAX])
{
	const cpu_set_t *field = config_field(key, section);

	if (CPU_COUNT(field) == 0)
		strcpy(text, key->word);
	else
		format_cpus(field, text, CONFIG_TEXT_MAX);
}

const struct config_type config_cpus = {
	.parse = parse_cpus_key,
	.format = format_cpus_key,
	.expects = "CPUs of this host such as 0-3,6",
	.word = config_word,
	.of_cpus = true,
};

/* ---- Lists ---- */

static bool is_zero(const char *entry, size_t bytes)
{
	while (bytes > 0 && !entry[bytes - 1])
		bytes--;
	return bytes == 0;
}

/* The word of a list, its default, is stored as an entry of zeros while the file is read, so that
 * it counts as one; config_check() removes it. */
static int parse_entry(const struct config_key *key, const char *text, struct config_origin at,
		       void *section)
{
	const struct config_list *list = key->type->list;
	unsigned *count = config_key_count(key, section);
	char *first = (char *)section + list->offset, *entry = first + *count * list->bytes;
	char *origin = (char *)section + list->origins + *count * list->origin_bytes;
	int err = 0;

	if (*count == list->max)
		return -E2BIG;
	memset(entry, 0, list->bytes);
	if (!list->others || strcmp(text, key->preset) != 0)
		err = list->read(text, entry);
	if (err)
		return err;
	if (list->others && *count > 0 &&
	    (is_zero(entry, list->bytes) || is_zero(first, list->bytes)))
		return -EEXIST;
	if (list->origins)
		memcpy(origin, &at, sizeof(at));
	++*count;
	return 0;
}

static void format_entry(const struct config_key *key, const void *section, unsigned index,
			 char text[static CONFIG_TEXT_MAX])
{
	const struct config_list *list = key->type->list;
	const char *entry = (const char *)section + list->offset + index * list->bytes;

	if (list->others &&
	    (*config_key_count(key, (void *)section) == 0 || is_zero(entry, list->bytes)))
		strcpy(text, key->preset);
	else
		list->write(entry, text);
}

/* How an entry is read and written: parse.h, network.h. */
#define ENTRY(name, parse, format)                                                                 \
	static int read_##name(const char *text, void *entry)                                      \
	{                                                                                          \
		return parse(text, entry);                                                         \
	}                                                                                          \
	static void write_##name(const void *entry, char text[static CONFIG_TEXT_MAX])             \
	{                                                                                          \
		format(entry, text);                                                               \
	}
ENTRY(address, parse_address, format_address)
ENTRY(network, network_parse, network_format)

static int read_export(const char *text, void *entry)
{
	if (!config_name_valid(text))
		return -EINVAL;
	strcpy(((struct export_name *)entry)->name, text);
	return 0;
}

static void write_export(const void *entry, char text[static CONFIG_TEXT_MAX])
{
	strcpy(text, ((const struct export_name *)entry)->name);
}

#define AT(field)   offsetof(struct listener_config, field)
#define SIZE(field) sizeof(((struct listener_config *)0)->field)

static void hint_address(const char *value, char text[static CONFIG_TEXT_MAX])
{
	const char *colon = strchr(value, ':');

	if (isalpha((unsigned char)value[0]) && colon && isdigit((unsigned char)colon[1]))
		strcpy(text, " (names are not looked up; localhost:PORT is 127.0.0.1:PORT)");
	else if (!strncasecmp(value, "[fe80:", strlen("[fe80:")))
		strcpy(text,
		       " (a link-local address with an interface of this host: [fe80::1%eth0]:PORT)");
	else if (value[0] == '/')
		snprintf(text, CONFIG_TEXT_MAX, " (did you mean 'unix:%s'?)", value);
	else if (!strncmp(value, "unix:/", strlen("unix:/")) && !strpbrk(value, " \t") &&
		 strlen(value) < strlen("unix:") + CONFIG_PATH_MAX)
		strcpy(text, " (a path without '//', '.', '..' or '/' at its end)");
}

static_assert(CONFIG_PATH_MAX == 107 + 1, "the text names another length");
const struct config_type config_addresses = {
	.parse = parse_entry,
	.format = format_entry,
	.expects =
		"IP:PORT such as 127.0.0.1:7008, [::1]:7008, [fe80::1%eth0]:7008 or 0.0.0.0:7008-7011, or unix:/PATH "
		"or unix:@NAME in ASCII, no white space, up to 107 bytes behind the colon",
	.hint = hint_address,
	.list = &(const struct config_list){ read_address, write_address, NULL, AT(address_count),
					     AT(addresses), SIZE(addresses[0]),
					     CONFIG_ADDRESSES_MAX, AT(address_origins),
					     SIZE(address_origins[0]) },
};

static const char *word_networks(UNUSED const struct config_key *key, unsigned index,
				 uint64_t *ret_value)
{
	*ret_value = 0;
	return (const char *const[]){ "local", "any", NULL }[index];
}

const struct config_type config_networks = {
	.parse = parse_entry,
	.format = format_entry,
	.expects = "a network such as 127.0.0.0/8 or ::1 (no bits behind the prefix)",
	.word = word_networks,
	.list = &(const struct config_list){ read_network, write_network, "networks",
					     AT(allow_count), AT(allow), SIZE(allow[0]),
					     CONFIG_NETWORKS_MAX, 0, 0 },
};

const struct config_type config_exports = {
	.parse = parse_entry,
	.format = format_entry,
	.expects = "the NAME of an [export NAME]",
	.list = &(const struct config_list){ read_export, write_export, NULL, AT(export_count),
					     AT(exports), SIZE(exports[0]), CONFIG_EXPORTS_MAX,
					     AT(exports[0].origin), SIZE(exports[0]) },
};

/* ---- Features ---- */

/* NOLINTNEXTLINE(bugprone-macro-parentheses): a term of a sum */
#define X(name, optional, ...) +((optional) ? strlen("-" #name ", ") : 0)
static_assert(strlen("all, or ") ENGINE_FEATURES(X) < CONFIG_TEXT_MAX, "their description is cut");
#undef X

/* Words: `all`, then `-NAME` in the order of enum engine_feature. */
static const char *word_features(const struct config_key *key, unsigned index, uint64_t *ret_value)
{
	static char words[FEATURE_COUNT][32];

	*ret_value = 0;
	if (index == 0)
		return key->preset;
	for (unsigned f = 0; f < FEATURE_COUNT; f++)
		if ((engine_features_optional & FEATURE_MASK(f)) && --index == 0) {
			snprintf(words[f], sizeof(words[f]), "-%s", engine_feature_names[f]);
			*ret_value = FEATURE_MASK(f);
			return words[f];
		}
	return NULL;
}

/* The bit of `-NAME`, or 0. */
static uint64_t feature_off(const char *name, size_t length)
{
	for (unsigned f = 0; f < FEATURE_COUNT; f++)
		if ((engine_features_optional & FEATURE_MASK(f)) && length > 1 && name[0] == '-' &&
		    strlen(engine_feature_names[f]) == length - 1 &&
		    !strncmp(engine_feature_names[f], name + 1, length - 1))
			return FEATURE_MASK(f);
	return 0;
}

/* The first part of text that is no valid feature, or NULL; *ret_mask: the features before it. */
static const char *features_refused(const char *text, uint64_t *ret_mask)
{
	*ret_mask = 0;
	for (;;) {
		size_t length = strcspn(text, ", \t");
		uint64_t bit = feature_off(text, length);

		if (!bit)
			return text;
		*ret_mask |= bit;
		text += length;
		text += strspn(text, " \t");
		if (!*text)
			return NULL;
		text += *text == ',';
		text += strspn(text, " \t");
	}
}

static int parse_features(const struct config_key *key, const char *text,
			  UNUSED struct config_origin at, void *section)
{
	uint64_t mask = 0;

	if (strcmp(text, key->preset) != 0 && features_refused(text, &mask))
		return -EINVAL;
	*(uint64_t *)config_field(key, section) = mask;
	return 0;
}

static void format_features(const struct config_key *key, const void *section,
			    UNUSED unsigned index, char text[static CONFIG_TEXT_MAX])
{
	uint64_t mask = *(const uint64_t *)config_field(key, section);
	size_t used = 0;

	if (!mask)
		strcpy(text, key->preset);
	for (unsigned f = 0; f < FEATURE_COUNT; f++)
		if (mask & FEATURE_MASK(f))
			used += (size_t)snprintf(text + used, CONFIG_TEXT_MAX - used, "%s-%s",
						 used ? ", " : "", engine_feature_names[f]);
}

/* For several values names the invalid one. */
static void hint_features(const char *value, char text[static CONFIG_TEXT_MAX])
{
	uint64_t mask;
	const char *refused = features_refused(value, &mask);

	if (refused && strchr(value, ','))
		snprintf(text, CONFIG_TEXT_MAX, " ('%.*s')", (int)strcspn(refused, ", \t"),
			 refused);
}

const struct config_type config_features = {
	.parse = parse_features,
	.format = format_features,
	.hint = hint_features,
	.word = word_features,
};
