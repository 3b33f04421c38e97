/* The types of values in the configuration: how each reads and prints.  See config_keys.h. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "config_keys.h"
#include "log.h"
#include "log_level.h"
#include "registry.h"
#include "store.h"
#include "util.h"

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

const char *config_word(const struct config_key *key, unsigned index, uint64_t *ret_value)
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
