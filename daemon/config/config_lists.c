/* The types of values that are lists or sets: addresses, networks, groups,
 * exports, CPUs.  See config_keys.h. */
#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "config_keys.h"
#include "util.h"

#define UNUSED __attribute__((unused))

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

/* How an entry is read and written: parse.h, multicast.h. */
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
ENTRY(network, parse_network, format_network)
ENTRY(group, multicast_parse, multicast_format)

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

const struct config_type config_groups = {
	.parse = parse_entry,
	.format = format_entry,
	.expects = "a multicast group and its interface such as 239.1.2.3%eth0 or ff05::1%eth0",
	.word = config_word,
	.list = &(const struct config_list){ read_group, write_group, "groups", AT(group_count),
					     AT(groups), SIZE(groups[0]), CONFIG_GROUPS_MAX,
					     AT(group_origins), SIZE(group_origins[0]) },
};

const struct config_type config_exports = {
	.parse = parse_entry,
	.format = format_entry,
	.expects = "the NAME of an [export NAME]",
	.list = &(const struct config_list){ read_export, write_export, NULL, AT(export_count),
					     AT(exports), SIZE(exports[0]), CONFIG_EXPORTS_MAX,
					     AT(exports[0].origin), SIZE(exports[0]) },
};
