/* Facts about an interface from /sys and /proc.  See nic.h; nic_tool.c asks the driver. */
#include "nic.h"

#include <glob.h>
#include <inttypes.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cpus.h"
#include "json.h"
#include "parse.h"
#include "text.h"
#include "util.h"

enum { NIC_PATH_BYTES = 256, NIC_CPUS_BYTES = 256 };

/* ---- Files ---- */

/* The path of a file of the interface. */
static void path_of(const struct nic_host *host, const char *name, const char *file,
		    char text[NIC_PATH_BYTES])
{
	snprintf(text, NIC_PATH_BYTES, "%s/sys/class/net/%s/%s", host->root, name, file);
}

bool nic_read_line(const struct nic_host *host, const char *path, char *text, int bytes)
{
	char whole[NIC_PATH_BYTES];

	snprintf(whole, sizeof(whole), "%s%s", host->root, path);
	return file_line(whole, text, bytes);
}

static bool read_file(const struct nic_host *host, const char *name, const char *file, char *text,
		      int bytes)
{
	char path[NIC_PATH_BYTES];

	path_of(host, name, file, path);
	return file_line(path, text, bytes);
}

/* Paths of the interface's files that match; globfree() in any case. */
static size_t find_files(const struct nic_host *host, const char *name, const char *pattern,
			 glob_t *ret_found)
{
	char path[NIC_PATH_BYTES];

	*ret_found = (glob_t){ 0 };
	path_of(host, name, pattern, path);
	return glob(path, 0, NULL, ret_found) == 0 ? ret_found->gl_pathc : 0;
}

uint64_t nic_statistic(const struct nic_host *host, const char *name, const char *statistic)
{
	char file[64], text[32];

	snprintf(file, sizeof(file), "statistics/%s", statistic);
	return read_file(host, name, file, text, sizeof(text)) ? strtoull(text, NULL, 10) : 0;
}

/* "  eth1: BYTES PACKETS ..., 8 of what was received, then BYTES PACKETS of what was sent". */
bool nic_count(const struct nic_host *host, const char *name, struct nic_counters *ret)
{
	char path[NIC_PATH_BYTES], line[512];
	size_t length = strlen(name);
	bool found = false;
	FILE *from;

	snprintf(path, sizeof(path), "%s/proc/self/net/dev", host->root);
	from = fopen(path, "re");
	while (from && !found && fgets(line, sizeof(line), from)) {
		const char *at = line + strspn(line, " ");

		found = !strncmp(at, name, length) && at[length] == ':' &&
			sscanf(at + length + 1,
			       "%" SCNu64 " %" SCNu64 " %*u %*u %*u %*u %*u %*u %" SCNu64
			       " %" SCNu64,
			       &ret->received_bytes, &ret->received_packets, &ret->sent_bytes,
			       &ret->sent_packets) == 4;
	}
	if (from)
		fclose(from);
	return found;
}

/* ---- Facts ---- */

/* Are the interface's files those of this network namespace? */
static bool is_shown(const struct nic_host *host, const char *name)
{
	char address[64];

	return read_file(host, name, "address", address, sizeof(address)) &&
	       host->has_address(name, address);
}

static bool is_card(const struct nic_host *host, const char *name)
{
	char path[NIC_PATH_BYTES];

	path_of(host, name, "device", path);
	return access(path, F_OK) == 0 && is_shown(host, name);
}

static void describe_numbers(const struct nic_host *host, const char *name, json_t *to)
{
	static const struct {
		const char *fact, *file;
		long long least; /* less means that it is not known */
	} files[] = {
		{ "mtu", "mtu", 1 },
		{ "numa_node", "device/numa_node", 0 },
		{ "napi_defer_hard_irqs", "napi_defer_hard_irqs", 0 },
		{ "gro_flush_timeout_ns", "gro_flush_timeout", 0 },
	};
	char text[32];

	for (unsigned i = 0; i < ARRAY_SIZE(files); i++)
		if (read_file(host, name, files[i].file, text, sizeof(text)) &&
		    strtoll(text, NULL, 10) >= files[i].least)
			json_object_set_new(to, files[i].fact,
					    json_integer(strtoll(text, NULL, 10)));
	/* Of a veth it is always 10000; of a virtual card, or without a cable, -1. */
	if (is_card(host, name) && read_file(host, name, "speed", text, sizeof(text)) &&
	    strtoll(text, NULL, 10) > 0 && strtoll(text, NULL, 10) < INT_MAX)
		json_object_set_new(to, "speed_mbit", json_integer(strtoll(text, NULL, 10)));
}

/* "16.0 GT/s x8", of which the kernel has the parts "16.0 GT/s PCIe" and "8". */
static void describe_pcie(const struct nic_host *host, const char *name, json_t *to)
{
	static const struct {
		const char *fact, *speed, *width;
	} links[] = {
		{ "pcie", "device/current_link_speed", "device/current_link_width" },
		{ "pcie_max", "device/max_link_speed", "device/max_link_width" },
	};
	char speed[32], width[8];

	for (unsigned i = 0; i < ARRAY_SIZE(links); i++) {
		if (!read_file(host, name, links[i].speed, speed, sizeof(speed)) ||
		    !read_file(host, name, links[i].width, width, sizeof(width)) ||
		    atof(speed) <= 0 || atoi(width) <= 0)
			continue;
		if (strstr(speed, " PCIe"))
			*strstr(speed, " PCIe") = '\0';
		json_object_set_new(to, links[i].fact, json_sprintf("%s x%s", speed, width));
	}
}

/* The CPUs of a mask such as "00000000,0000000f": hexadecimal digits, the lowest CPUs last. */
static void add_mask(const char *mask, cpu_set_t *cpus)
{
	unsigned cpu = 0;

	for (size_t i = strlen(mask); i-- > 0;) {
		const char digit[] = { mask[i], '\0' };
		unsigned long bits = strtoul(digit, NULL, 16);

		if (mask[i] == ',')
			continue;
		for (unsigned bit = 0; bit < 4; bit++, cpu++)
			if (bits >> bit & 1 && cpu < CPU_SETSIZE)
				CPU_SET(cpu, cpus);
	}
}

static void set_cpus(json_t *to, const char *fact, const cpu_set_t *cpus)
{
	char text[NIC_CPUS_BYTES];

	json_object_set_new(to, fact, json_string(format_cpus(cpus, text, sizeof(text))));
}

/* How many queues there are, and the CPUs that their files name. */
static void describe_queues(const struct nic_host *host, const char *name, json_t *to)
{
	static const struct {
		const char *fact, *queues, *cpus_fact, *masks;
	} kinds[] = {
		{ "rx_queues", "queues/rx-*", "rps_cpus", "queues/rx-*/rps_cpus" },
		{ "tx_queues", "queues/tx-*", "xps_cpus", "queues/tx-*/xps_cpus" },
	};
	size_t before = strlen(host->root);

	for (unsigned i = 0; i < ARRAY_SIZE(kinds); i++) {
		char mask[2 * CPU_SETSIZE];
		bool known = false;
		cpu_set_t cpus;
		glob_t found;

		json_object_set_new(to, kinds[i].fact,
				    json_count(find_files(host, name, kinds[i].queues, &found)));
		globfree(&found);
		CPU_ZERO(&cpus);
		find_files(host, name, kinds[i].masks, &found);
		for (size_t j = 0; j < found.gl_pathc; j++)
			if (nic_read_line(host, found.gl_pathv[j] + before, mask, sizeof(mask))) {
				add_mask(mask, &cpus);
				known = true;
			}
		globfree(&found);
		if (known)
			set_cpus(to, kinds[i].cpus_fact, &cpus);
	}
}

/* The interrupts of the device, of a virtual card of the device above it: how many, and on which
 * CPUs they arrive. */
static void describe_interrupts(const struct nic_host *host, const char *name, json_t *to)
{
	static const char *const affinities[] = { "effective_affinity_list", "smp_affinity_list" };
	cpu_set_t all, cpus;
	glob_t found;

	CPU_ZERO(&all);
	if (find_files(host, name, "device/msi_irqs/*", &found) == 0) {
		globfree(&found);
		find_files(host, name, "device/../msi_irqs/*", &found);
	}
	for (size_t i = 0; i < found.gl_pathc; i++)
		for (unsigned j = 0; j < ARRAY_SIZE(affinities); j++) {
			char path[NIC_PATH_BYTES], list[NIC_CPUS_BYTES];

			snprintf(path, sizeof(path), "/proc/irq/%.16s/%s",
				 strrchr(found.gl_pathv[i], '/') + 1, affinities[j]);
			if (!nic_read_line(host, path, list, sizeof(list)) || !*list)
				continue;
			cpus_parse(list, &cpus);
			CPU_OR(&all, &all, &cpus);
			break;
		}
	if (CPU_COUNT(&all) > 0) {
		json_object_set_new(to, "irqs", json_count(found.gl_pathc));
		set_cpus(to, "irq_cpus", &all);
	}
	globfree(&found);
}

json_t *nic_describe(const struct nic_host *host, const char *name)
{
	json_t *made = json_pack("{s:s, s:b}", "name", name, "card", is_card(host, name));

	nic_tool_describe(host, name, made);
	if (!is_shown(host, name))
		return made;
	describe_numbers(host, name, made);
	describe_pcie(host, name, made);
	describe_queues(host, name, made);
	describe_interrupts(host, name, made);
	return made;
}

/* ---- Cards below ---- */

static void add_name(struct nic_names *to, const char *name)
{
	for (unsigned i = 0; i < to->count; i++)
		if (!strcmp(to->list[i], name))
			return;
	if (to->count < NIC_NAMES_MAX)
		snprintf(to->list[to->count++], IF_NAMESIZE, "%s", name);
}

/* False: there is no card.  Linux allows eight levels. */
static bool add_cards(const struct nic_host *host, const char *name, unsigned levels,
		      struct nic_names *to)
{
	bool any = false;
	glob_t found;

	if (is_card(host, name)) {
		add_name(to, name);
		return true;
	}
	if (levels == 0)
		return false;
	find_files(host, name, "lower_*", &found);
	for (size_t i = 0; i < found.gl_pathc; i++)
		any |= add_cards(host, strrchr(found.gl_pathv[i], '/') + sizeof("lower_"),
				 levels - 1, to);
	globfree(&found);
	return any;
}

void nic_names_put(const struct nic_host *host, const char *name, struct nic_names *to)
{
	enum { LEVELS = 8 };

	if (!add_cards(host, name, LEVELS, to))
		add_name(to, name);
}
