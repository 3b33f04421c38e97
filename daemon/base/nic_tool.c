/* Facts about an interface from its driver, by SIOCETHTOOL; any process may use the commands that
 * are used here.  See nic.h. */
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "nic.h"
#include "util.h"

static int ask(const char *name, unsigned long what, struct ifreq *request)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), rc;

	if (fd < 0)
		return -errno;
	snprintf(request->ifr_name, sizeof(request->ifr_name), "%s", name);
	rc = ioctl(fd, what, request) < 0 ? -errno : 0;
	close(fd);
	return rc;
}

static int ask_driver(const char *name, void *command)
{
	struct ifreq request = { .ifr_data = command };

	return ask(name, SIOCETHTOOL, &request);
}

static bool has_address(const char *name, const char *address)
{
	struct ifreq request = { 0 };
	const uint8_t *mac = (const uint8_t *)request.ifr_hwaddr.sa_data;
	char text[18];

	if (ask(name, SIOCGIFHWADDR, &request) < 0)
		return false;
	snprintf(text, sizeof(text), "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2],
		 mac[3], mac[4], mac[5]);
	return !strncmp(text, address, sizeof(text) - 1);
}

const struct nic_host nic_host = { "", ask_driver, has_address };

static void set_number(json_t *to, const char *fact, uint32_t number)
{
	json_object_set_new(to, fact, json_integer(number));
}

static void describe_driver(const struct nic_host *host, const char *name, json_t *to)
{
	struct ethtool_drvinfo info = { .cmd = ETHTOOL_GDRVINFO };

	if (host->tool(name, &info) < 0)
		return;
	info.driver[sizeof(info.driver) - 1] = info.fw_version[sizeof(info.fw_version) - 1] = '\0';
	json_object_set_new(to, "driver", json_string(info.driver));
	if (*info.fw_version && strcmp(info.fw_version, "N/A") != 0)
		json_object_set_new(to, "firmware", json_string(info.fw_version));
}

static void describe_rings(const struct nic_host *host, const char *name, json_t *to)
{
	struct ethtool_channels channels = { .cmd = ETHTOOL_GCHANNELS };
	struct ethtool_ringparam rings = { .cmd = ETHTOOL_GRINGPARAM };

	if (host->tool(name, &channels) == 0)
		set_number(to, "queues_max", channels.max_combined + channels.max_rx);
	if (host->tool(name, &rings) < 0)
		return;
	set_number(to, "rx_ring", rings.rx_pending);
	set_number(to, "rx_ring_max", rings.rx_max_pending);
	set_number(to, "tx_ring", rings.tx_pending);
	set_number(to, "tx_ring_max", rings.tx_max_pending);
}

static void describe_coalescing(const struct nic_host *host, const char *name, json_t *to)
{
	struct ethtool_coalesce c = { .cmd = ETHTOOL_GCOALESCE };

	if (host->tool(name, &c) < 0)
		return;
	set_number(to, "rx_usecs", c.rx_coalesce_usecs);
	set_number(to, "rx_frames", c.rx_max_coalesced_frames);
	set_number(to, "tx_usecs", c.tx_coalesce_usecs);
	set_number(to, "tx_frames", c.tx_max_coalesced_frames);
	json_object_set_new(to, "adaptive_rx", json_boolean(c.use_adaptive_rx_coalesce));
	json_object_set_new(to, "adaptive_tx", json_boolean(c.use_adaptive_tx_coalesce));
}

/* The number of queues that the table of receive-side scaling names. */
static void describe_rss(const struct nic_host *host, const char *name, json_t *to)
{
	enum { RSS_MAX = 4096 };
	struct ethtool_rxfh_indir size = { .cmd = ETHTOOL_GRXFHINDIR }, *table;
	uint32_t distinct = 0;

	if (host->tool(name, &size) < 0 || size.size == 0 || size.size > RSS_MAX)
		return;
	table = calloc(1, sizeof(*table) + size.size * sizeof(table->ring_index[0]));
	if (!table)
		abort();
	table->cmd = ETHTOOL_GRXFHINDIR;
	table->size = size.size;
	if (host->tool(name, table) == 0) {
		for (uint32_t i = 0; i < size.size; i++) {
			uint32_t first = 0;

			while (table->ring_index[first] != table->ring_index[i])
				first++;
			distinct += first == i;
		}
		set_number(to, "rss_queues", distinct);
	}
	free(table);
}

/* ---- Offloads ---- */

/* Offloads that are reported, by the kernel's names, which `ethtool -K` takes.  wanted: nearly any
 * load suffers from its absence. */
static const struct offload {
	const char *name;
	bool wanted;
} offloads[] = {
	{ "rx-checksum", true },
	{ "tx-checksum-ipv4", true },
	{ "tx-checksum-ipv6", true },
	{ "tx-checksum-ip-generic", true },
	{ "tx-scatter-gather", true },
	{ "tx-generic-segmentation", true },
	{ "tx-tcp-segmentation", true },
	{ "tx-tcp6-segmentation", true },
	{ "tx-udp-segmentation", false },
	{ "rx-gro", true },
	{ "rx-gro-hw", false },
	{ "rx-gro-list", false },
	{ "rx-lro", false },
	{ "rx-hashing", false },
	{ "rx-ntuple-filter", false },
	{ "hw-tc-offload", false },
	{ "tls-hw-tx-offload", false },
	{ "tls-hw-rx-offload", false },
};

enum { FEATURES_MAX = 512, FEATURE_BITS = 32 };

/* Of the kernel's features: names, and a bit for each. */
struct features {
	uint32_t count;
	struct ethtool_gstrings *names;
	struct ethtool_gfeatures *bits;
};

/* 0: the driver does not say. */
static uint32_t count_features(const struct nic_host *host, const char *name)
{
	uint64_t room[(sizeof(struct ethtool_sset_info) + sizeof(uint32_t)) / sizeof(uint64_t) +
		      1] = { 0 };
	struct ethtool_sset_info *info = (void *)room;

	info->cmd = ETHTOOL_GSSET_INFO;
	info->sset_mask = 1ULL << ETH_SS_FEATURES;
	if (host->tool(name, info) < 0 || !info->sset_mask || info->data[0] > FEATURES_MAX)
		return 0;
	return info->data[0];
}

static bool read_features(const struct nic_host *host, const char *name, struct features *f)
{
	uint32_t blocks = (f->count + FEATURE_BITS - 1) / FEATURE_BITS;

	f->names = calloc(1, sizeof(*f->names) + f->count * (size_t)ETH_GSTRING_LEN);
	f->bits = calloc(1, sizeof(*f->bits) + blocks * sizeof(f->bits->features[0]));
	if (!f->names || !f->bits)
		abort();
	f->names->cmd = ETHTOOL_GSTRINGS;
	f->names->string_set = ETH_SS_FEATURES;
	f->names->len = f->count;
	f->bits->cmd = ETHTOOL_GFEATURES;
	f->bits->size = blocks;
	return host->tool(name, f->names) == 0 && host->tool(name, f->bits) == 0;
}

static void add_word(json_t *to, const char *fact, const char *word)
{
	const char *before = json_string_value(json_object_get(to, fact));

	json_object_set_new(to, fact,
			    json_sprintf("%s%s%s", before ? before : "", before ? ", " : "", word));
}

static void describe_offload(const struct features *f, const struct offload *o, json_t *to)
{
	for (uint32_t i = 0; i < f->count; i++) {
		const char *name = (const char *)f->names->data + (size_t)i * ETH_GSTRING_LEN;
		const struct ethtool_get_features_block *block =
			&f->bits->features[i / FEATURE_BITS];
		uint32_t bit = 1U << i % FEATURE_BITS;

		if (strncmp(name, o->name, ETH_GSTRING_LEN) != 0)
			continue;
		if (block->active & bit)
			add_word(to, "offloads", o->name);
		else if (o->wanted && block->available & bit & ~block->never_changed)
			add_word(to, "offloads_off", o->name);
	}
}

static void describe_offloads(const struct nic_host *host, const char *name, json_t *to)
{
	struct features f = { .count = count_features(host, name) };

	if (f.count && read_features(host, name, &f))
		for (unsigned i = 0; i < ARRAY_SIZE(offloads); i++)
			describe_offload(&f, &offloads[i], to);
	free(f.names);
	free(f.bits);
}

void nic_tool_describe(const struct nic_host *host, const char *name, json_t *to)
{
	describe_driver(host, name, to);
	describe_rings(host, name, to);
	describe_coalescing(host, name, to);
	describe_rss(host, name, to);
	describe_offloads(host, name, to);
}
