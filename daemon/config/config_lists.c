/* The types of values that are lists or sets: addresses, networks, groups, exports, CPUs.  See
 * config_keys.h. */
#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "config_keys.h"
#include "util.h"

#define UNUSED __attribute__((unused))

/* ---- CPUs ---- */

unsigned config_host_cpus(void)
{
	long count = sysconf(_SC_NPROCESSORS_CONF);

	return count < 1 ? 1 : (unsigned)MIN(count, CPU_SETSIZE);
}

static int parse_cpu(const struct config_key *key, const char *text, struct config_origin at,
		     void *section)
{
	struct config_key here = *key;

	here.max = config_host_cpus() - 1;
	return config_uint.parse(&here, text, at, section);
}

static void format_cpu(const struct config_key *key, const void *section, unsigned index,
		       char text[static CONFIG_TEXT_MAX])
{
	config_uint.format(key, section, index, text);
}

static void expect_cpu(UNUSED const struct config_key *key, char text[static CONFIG_TEXT_MAX])
{
	strcpy(text, "the number of a CPU of this host");
}

static const char *word_any(const struct config_key *key, unsigned index, uint64_t *ret_value)
{
	*ret_value = key->word_value;
	return index == 0 ? "any" : NULL;
}

static int parse_cpus_key(const struct config_key *key, const char *text,
			  UNUSED struct config_origin at, void *section)
{
	cpu_set_t *field = (cpu_set_t *)((char *)section + key->offset);
	cpu_set_t cpus;
	int err;

	CPU_ZERO(&cpus);
	err = !strcmp(text, "any") ? 0 : parse_cpus(text, &cpus);
	for (unsigned cpu = config_host_cpus(); !err && cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &cpus))
			err = -ERANGE;
	if (!err)
		*field = cpus;
	return err;
}

static void format_cpus_key(const struct config_key *key, const void *section,
			    UNUSED unsigned index, char text[static CONFIG_TEXT_MAX])
{
	const cpu_set_t *field = (const cpu_set_t *)((const char *)section + key->offset);

	if (CPU_COUNT(field) == 0)
		strcpy(text, "any");
	else
		format_cpus(field, text, CONFIG_TEXT_MAX);
}

static void expect_cpus(UNUSED const struct config_key *key, char text[static CONFIG_TEXT_MAX])
{
	strcpy(text, "CPUs of this host such as 0-3,6");
}

const struct config_type config_cpu = {
	.parse = parse_cpu,
	.format = format_cpu,
	.expect = expect_cpu,
	.word = word_any,
	.of_cpus = true,
};
const struct config_type config_cpus = {
	.parse = parse_cpus_key,
	.format = format_cpus_key,
	.expect = expect_cpus,
	.word = word_any,
	.of_cpus = true,
};

/* ---- Addresses ---- */

static int parse_addresses(UNUSED const struct config_key *key, const char *text,
			   struct config_origin at, void *section)
{
	struct listener_config *l = section;
	struct address address;
	int err = parse_address(text, &address);

	if (err)
		return err;
	if (l->address_count == CONFIG_ADDRESSES_MAX)
		return -E2BIG;
	l->address_origins[l->address_count] = at;
	l->addresses[l->address_count++] = address;
	return 0;
}

static void format_addresses(UNUSED const struct config_key *key, const void *section,
			     unsigned index, char text[static CONFIG_TEXT_MAX])
{
	const struct listener_config *l = section;

	format_address(&l->addresses[index], text);
}

static void expect_addresses(UNUSED const struct config_key *key, char text[static CONFIG_TEXT_MAX])
{
	snprintf(text, CONFIG_TEXT_MAX,
		 "IP:PORT such as 127.0.0.1:7008, [::1]:7008 or 0.0.0.0:7008-7011, or unix:/PATH "
		 "or unix:@NAME in ASCII, no white space, up to %d bytes behind the colon",
		 CONFIG_PATH_MAX - 1);
}

static void hint_address(const char *value, char text[static CONFIG_TEXT_MAX])
{
	const char *colon = strchr(value, ':');

	if (isalpha((unsigned char)value[0]) && colon && isdigit((unsigned char)colon[1]))
		strcpy(text, " (names are not looked up; localhost:PORT is 127.0.0.1:PORT)");
	else if (value[0] == '/')
		snprintf(text, CONFIG_TEXT_MAX, " (did you mean 'unix:%s'?)", value);
	else if (!strncmp(value, "unix:/", strlen("unix:/")) && !strpbrk(value, " \t") &&
		 strlen(value) < strlen("unix:") + CONFIG_PATH_MAX)
		strcpy(text, " (a path without '//', '.', '..' or '/' at its end)");
}

static unsigned *count_addresses(void *section)
{
	return &((struct listener_config *)section)->address_count;
}

static struct config_origin origin_of_address(const void *section, unsigned index)
{
	return ((const struct listener_config *)section)->address_origins[index];
}

const struct config_type config_addresses = {
	.parse = parse_addresses,
	.format = format_addresses,
	.expect = expect_addresses,
	.hint = hint_address,
	.count = count_addresses,
	.origin = origin_of_address,
};

/* ---- Networks ---- */

static const char *word_networks(UNUSED const struct config_key *key, unsigned index,
				 uint64_t *ret_value)
{
	*ret_value = 0;
	return (const char *const[]){ "local", "any", NULL }[index];
}

static bool is_any(const struct network *network)
{
	return network->bits == 0 && !network->local;
}

/* `any` is stored as the network ::/0, so that it counts as an entry while the file is read;
 * config_check() replaces it by the empty list. */
static int parse_networks(UNUSED const struct config_key *key, const char *text,
			  UNUSED struct config_origin at, void *section)
{
	struct listener_config *l = section;
	struct network network = { 0 };
	int err = !strcmp(text, "any") ? 0 : parse_network(text, &network);

	if (err)
		return err;
	if (l->allow_count > 0 && (is_any(&network) || is_any(&l->allow[0])))
		return -EEXIST;
	if (l->allow_count == CONFIG_NETWORKS_MAX)
		return -E2BIG;
	l->allow[l->allow_count++] = network;
	return 0;
}

static void format_networks(UNUSED const struct config_key *key, const void *section,
			    unsigned index, char text[static CONFIG_TEXT_MAX])
{
	const struct listener_config *l = section;

	if (l->allow_count == 0)
		strcpy(text, "any");
	else
		format_network(&l->allow[index], text);
}

static void expect_networks(UNUSED const struct config_key *key, char text[static CONFIG_TEXT_MAX])
{
	strcpy(text, "a network such as 127.0.0.0/8 or ::1 (no bits behind the prefix)");
}

static unsigned *count_networks(void *section)
{
	return &((struct listener_config *)section)->allow_count;
}

const struct config_type config_networks = {
	.parse = parse_networks,
	.format = format_networks,
	.expect = expect_networks,
	.word = word_networks,
	.count = count_networks,
	.entries = "networks",
};

/* ---- Groups ---- */

static const char *word_groups(const struct config_key *key, unsigned index, uint64_t *ret_value)
{
	*ret_value = 0;
	return index == 0 ? key->preset : NULL;
}

static bool is_none(const struct multicast_group *group)
{
	return group->sa.ss_family == AF_UNSPEC;
}

/* `none` is stored as an entry while the file is read, as `any` of `allow` is;
 * config_check_groups() removes it. */
static int parse_groups(const struct config_key *key, const char *text, struct config_origin at,
			void *section)
{
	struct listener_config *l = section;
	struct multicast_group group = { 0 };
	int err = !strcmp(text, key->preset) ? 0 : parse_group(text, &group);

	if (err)
		return err;
	if (l->group_count > 0 && (is_none(&group) || is_none(&l->groups[0])))
		return -EEXIST;
	if (l->group_count == CONFIG_GROUPS_MAX)
		return -E2BIG;
	l->group_origins[l->group_count] = at;
	l->groups[l->group_count++] = group;
	return 0;
}

static void format_groups(const struct config_key *key, const void *section, unsigned index,
			  char text[static CONFIG_TEXT_MAX])
{
	const struct listener_config *l = section;

	if (l->group_count == 0 || is_none(&l->groups[index]))
		strcpy(text, key->preset);
	else
		format_group(&l->groups[index], text);
}

static void expect_groups(UNUSED const struct config_key *key, char text[static CONFIG_TEXT_MAX])
{
	strcpy(text, "a multicast group and its interface such as 239.1.2.3%eth0 or ff05::1%eth0");
}

static unsigned *count_groups(void *section)
{
	return &((struct listener_config *)section)->group_count;
}

static struct config_origin origin_of_group(const void *section, unsigned index)
{
	return ((const struct listener_config *)section)->group_origins[index];
}

const struct config_type config_groups = {
	.parse = parse_groups,
	.format = format_groups,
	.expect = expect_groups,
	.word = word_groups,
	.count = count_groups,
	.origin = origin_of_group,
	.entries = "groups",
};

/* ---- Exports ---- */

static int parse_exports(UNUSED const struct config_key *key, const char *text,
			 struct config_origin at, void *section)
{
	struct listener_config *l = section;
	struct export_name *e = &l->exports[l->export_count];

	if (!config_name_valid(text))
		return -EINVAL;
	if (l->export_count == CONFIG_EXPORTS_MAX)
		return -E2BIG;
	strcpy(e->name, text);
	e->origin = at;
	l->export_count++;
	return 0;
}

static void format_exports(UNUSED const struct config_key *key, const void *section, unsigned index,
			   char text[static CONFIG_TEXT_MAX])
{
	const struct listener_config *l = section;

	strcpy(text, l->exports[index].name);
}

static void expect_exports(UNUSED const struct config_key *key, char text[static CONFIG_TEXT_MAX])
{
	strcpy(text, "the NAME of an [export NAME]");
}

static unsigned *count_exports(void *section)
{
	return &((struct listener_config *)section)->export_count;
}

static struct config_origin origin_of_export(const void *section, unsigned index)
{
	return ((const struct listener_config *)section)->exports[index].origin;
}

const struct config_type config_exports = {
	.parse = parse_exports,
	.format = format_exports,
	.expect = expect_exports,
	.count = count_exports,
	.origin = origin_of_export,
};
