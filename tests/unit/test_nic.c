/* base/nic*.c on trees of files and a driver of ours, and what the doctor makes of a card. */
#include <arpa/inet.h>
#include <errno.h>
#include <ftw.h>
#include <linux/ethtool.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "doctor_nic.h"
#include "nic.h"
#include "parse.h"
#include "util.h"

/* ---- A host of files ---- */

static char root[] = "/tmp/nbserved-nic-XXXXXX";

/* Makes the file below the root, with its folders. */
static void put(const char *path, const char *text)
{
	char whole[256];
	FILE *to;

	snprintf(whole, sizeof(whole), "%s%s", root, path);
	for (char *slash = strchr(whole + strlen(root) + 1, '/'); slash;
	     slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(whole, 0700);
		*slash = '/';
	}
	to = fopen(whole, "we");
	assert_non_null(to);
	fputs(text, to);
	fclose(to);
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *at)
{
	(void)status, (void)kind, (void)at;
	return remove(path);
}

static int make_root(void **state)
{
	(void)state;
	return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
	(void)state;
	nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	strcpy(root + strlen(root) - 6, "XXXXXX");
	return 0;
}

/* ---- A driver ---- */

static const char *const feature_names[] = { "rx-gro", "tx-tcp-segmentation", "rx-checksum",
					     "highdma", "tx-checksum-ipv4" };

static void answer_features(uint32_t command, void *data)
{
	if (command == ETHTOOL_GSSET_INFO) {
		struct ethtool_sset_info *info = data;

		assert_int_equal(info->sset_mask, 1ULL << ETH_SS_FEATURES);
		info->data[0] = ARRAY_SIZE(feature_names);
	} else if (command == ETHTOOL_GSTRINGS) {
		struct ethtool_gstrings *names = data;

		assert_int_equal(names->len, ARRAY_SIZE(feature_names));
		for (unsigned i = 0; i < names->len; i++)
			strcpy((char *)names->data + (size_t)i * ETH_GSTRING_LEN, feature_names[i]);
	} else {
		struct ethtool_gfeatures *bits = data;

		/* TCP segmentation is off and may be on; checksums cannot be told to be. */
		assert_int_equal(bits->size, 1);
		bits->features[0] = (struct ethtool_get_features_block){ .available = 0x17,
									 .active = 0x0d,
									 .never_changed = 0x10 };
	}
}

static int answer(const char *name, void *data)
{
	uint32_t command = *(uint32_t *)data;
	struct ethtool_drvinfo *driver = data;
	struct ethtool_channels *channels = data;
	struct ethtool_ringparam *rings = data;
	struct ethtool_coalesce *coalesce = data;
	struct ethtool_rxfh_indir *rss = data;

	assert_string_equal(name, "eth1");
	switch (command) {
	case ETHTOOL_GDRVINFO:
		strcpy(driver->driver, "mlx5_core");
		strcpy(driver->fw_version, "22.31.1014");
		return 0;
	case ETHTOOL_GCHANNELS:
		channels->max_combined = 16;
		return 0;
	case ETHTOOL_GRINGPARAM:
		rings->rx_pending = 1024;
		rings->rx_max_pending = 8192;
		return 0;
	case ETHTOOL_GCOALESCE:
		coalesce->rx_coalesce_usecs = 8;
		return 0;
	case ETHTOOL_GRXFHINDIR:
		for (uint32_t i = 0; i < rss->size; i++)
			rss->ring_index[i] = i % 3;
		rss->size = 8;
		return 0;
	case ETHTOOL_GSSET_INFO:
	case ETHTOOL_GSTRINGS:
	case ETHTOOL_GFEATURES:
		answer_features(command, data);
		return 0;
	default:
		return -EOPNOTSUPP;
	}
}

static int answer_nothing(const char *name, void *data)
{
	(void)name, (void)data;
	return -EOPNOTSUPP;
}

/* All interfaces have the same. */
static bool has_address(const char *name, const char *address)
{
	(void)name;
	return !strcmp(address, "02:00:00:00:00:01");
}

static const struct nic_host fake = { root, answer, has_address };
static const struct nic_host silent = { root, answer_nothing, has_address };

/* An interface with a device. */
static void put_device(const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "/sys/class/net/%s/address", name);
	put(path, "02:00:00:00:00:01\n");
	snprintf(path, sizeof(path), "/sys/class/net/%s/device/numa_node", name);
	put(path, "0\n");
}

/* ---- Facts ---- */

#define ETH1 "/sys/class/net/eth1/"

static void put_card(void)
{
	put_device("eth1");
	put(ETH1 "mtu", "9000\n");
	put(ETH1 "speed", "25000\n");
	put(ETH1 "napi_defer_hard_irqs", "0\n");
	put(ETH1 "gro_flush_timeout", "0\n");
	put(ETH1 "device/current_link_speed", "8.0 GT/s PCIe\n");
	put(ETH1 "device/current_link_width", "8\n");
	put(ETH1 "device/max_link_speed", "8.0 GT/s PCIe\n");
	put(ETH1 "device/max_link_width", "16\n");
	put(ETH1 "queues/rx-0/rps_cpus", "00000000,00000000\n");
	put(ETH1 "queues/rx-1/rps_cpus", "00000000,00000000\n");
	put(ETH1 "queues/rx-2/rps_cpus", "00000000,00000000\n");
	put(ETH1 "queues/tx-0/xps_cpus", "00000001,00000005\n");
	put(ETH1 "queues/tx-1/xps_cpus", "00000000,00000002\n");
	put(ETH1 "device/msi_irqs/45", "msix\n");
	put(ETH1 "device/msi_irqs/46", "msix\n");
	put("/proc/irq/45/effective_affinity_list", "2\n");
	put("/proc/irq/46/effective_affinity_list", "\n");
	put("/proc/irq/46/smp_affinity_list", "4-5\n");
}

static void assert_fact(const json_t *nic, const char *fact, const char *expected)
{
	json_t *value = json_object_get(nic, fact);
	char *text = value ? json_dumps(value, JSON_ENCODE_ANY) : strdup("-");

	if (strcmp(text, expected) != 0)
		fail_msg("%s is %s, expected %s", fact, text, expected);
	free(text);
}

static void all_that_a_host_tells_is_found(void **state)
{
	static const char *const facts[][2] = {
		{ "name", "\"eth1\"" },
		{ "card", "true" },
		{ "driver", "\"mlx5_core\"" },
		{ "firmware", "\"22.31.1014\"" },
		{ "speed_mbit", "25000" },
		{ "mtu", "9000" },
		{ "numa_node", "0" },
		{ "pcie", "\"8.0 GT/s x8\"" },
		{ "pcie_max", "\"8.0 GT/s x16\"" },
		{ "rx_queues", "3" },
		{ "tx_queues", "2" },
		{ "queues_max", "16" },
		{ "rss_queues", "3" },
		{ "rx_ring", "1024" },
		{ "rx_ring_max", "8192" },
		{ "rx_usecs", "8" },
		{ "adaptive_rx", "false" },
		{ "offloads", "\"rx-checksum, rx-gro\"" },
		{ "offloads_off", "\"tx-tcp-segmentation\"" },
		{ "irqs", "2" },
		{ "irq_cpus", "\"2,4-5\"" },
		{ "rps_cpus", "\"\"" },
		{ "xps_cpus", "\"0-2,32\"" },
		{ "napi_defer_hard_irqs", "0" },
	};
	json_t *nic;

	(void)state;
	put_card();
	nic = nic_describe(&fake, "eth1");
	for (unsigned i = 0; i < ARRAY_SIZE(facts); i++)
		assert_fact(nic, facts[i][0], facts[i][1]);
	json_decref(nic);
}

static void what_is_not_told_is_left_out(void **state)
{
	static const char *const unknown[] = { "driver",     "speed_mbit", "numa_node", "pcie",
					       "queues_max", "rx_usecs",   "offloads",  "irqs",
					       "irq_cpus",   "rps_cpus",   "mtu" };
	json_t *nic;

	(void)state;
	put_device("eth2");
	put("/sys/class/net/eth2/speed", "-1\n");
	put("/sys/class/net/eth2/device/numa_node", "-1\n");
	put("/sys/class/net/eth2/device/current_link_speed", "Unknown\n");
	put("/sys/class/net/eth2/device/current_link_width", "0\n");
	put("/sys/class/net/veth0/address", "02:00:00:00:00:01\n");
	put("/sys/class/net/veth0/speed", "10000\n");
	nic = nic_describe(&silent, "eth2");
	for (unsigned i = 0; i < ARRAY_SIZE(unknown); i++)
		assert_fact(nic, unknown[i], "-");
	assert_fact(nic, "card", "true");
	json_decref(nic);
	nic = nic_describe(&silent, "veth0");
	assert_fact(nic, "card", "false");
	assert_fact(nic, "speed_mbit", "-");
	json_decref(nic);
	put("/sys/class/net/eth2/address", "02:00:00:00:00:02\n"); /* of another namespace */
	nic = nic_describe(&silent, "eth2");
	assert_fact(nic, "card", "false");
	json_decref(nic);
}

/* ---- Interfaces ---- */

static void the_cards_below_an_interface_are_meant(void **state)
{
	struct nic_names names = { 0 };

	(void)state;
	put_device("eth1");
	put_device("eth2");
	put("/sys/class/net/bond0/lower_eth1/mtu", "1500\n");
	put("/sys/class/net/bond0/lower_eth2/mtu", "1500\n");
	put("/sys/class/net/vlan5/lower_bond0/mtu", "1500\n");
	put("/sys/class/net/docker0/lower_veth1/mtu", "1500\n");
	put("/sys/class/net/veth1/mtu", "1500\n");
	nic_names_put(&silent, "vlan5", &names);
	nic_names_put(&silent, "docker0", &names);
	nic_names_put(&silent, "eth2", &names);
	assert_int_equal(names.count, 3);
	assert_string_equal(names.list[0], "eth1");
	assert_string_equal(names.list[1], "eth2");
	assert_string_equal(names.list[2], "docker0");
}

static struct nic_names names_of(const struct nic_host *host, const char *address)
{
	struct nic_names names = { 0 };
	struct address parsed;

	assert_int_equal(parse_address(address, &parsed), 0);
	nic_names_add(host, &parsed.sa, &names);
	return names;
}

static void an_address_leads_to_its_interface(void **state)
{
	struct nic_names names;

	(void)state;
	assert_string_equal(names_of(&nic_host, "127.0.0.1:7").list[0], "lo");
	assert_string_equal(names_of(&nic_host, "127.7.7.7:7").list[0], "lo");
	assert_int_equal(names_of(&nic_host, "192.0.2.77:7").count, 0);
	assert_int_equal(names_of(&nic_host, "unix:/tmp/x").count, 0);
	names = names_of(&nic_host, "0.0.0.0:7");
	for (unsigned i = 0; i < names.count; i++)
		assert_string_not_equal(names.list[i], "lo");
	put("/proc/self/net/if_inet6", "00000000000000000000000000000001 01 80 10 80       lo\n"
				       "20010db8000000000000000000000005 02 40 00 80     eth1\n"
				       "bad\n");
	assert_string_equal(names_of(&silent, "[2001:db8::5]:7").list[0], "eth1");
	assert_string_equal(names_of(&silent, "[::1]:7").list[0], "lo");
	assert_int_equal(names_of(&silent, "[2001:db8::6]:7").count, 0);
}

/* ---- The doctor ---- */

static const char good[] =
	"{'name': 'eth1', 'card': true, 'driver': 'mlx5_core', 'speed_mbit': 25000, 'numa_node': 0,"
	" 'pcie': '8.0 GT/s x8', 'pcie_max': '8.0 GT/s x8', 'rx_queues': 4, 'tx_queues': 4,"
	" 'queues_max': 8, 'rss_queues': 4, 'rx_ring': 1024, 'rx_ring_max': 8192, 'rx_usecs': 8,"
	" 'adaptive_rx': false, 'offloads': 'rx-gro', 'irqs': 4, 'irq_cpus': '0-3', 'rps_cpus': '',"
	" 'xps_cpus': '0-3', 'napi_defer_hard_irqs': 2, 'gro_flush_timeout_ns': 200000}";

/* The facts with one of them changed (NULL: none); in `with` quotes are single. */
static json_t *facts(const char *with)
{
	char text[1024], more[128];
	json_t *made, *change;

	snprintf(text, sizeof(text), "%s", good);
	snprintf(more, sizeof(more), "{%s}", with ? with : "");
	for (char *at = text; (at = strchr(at, '\''));)
		*at = '"';
	for (char *at = more; (at = strchr(at, '\''));)
		*at = '"';
	made = json_loads(text, 0, NULL);
	change = json_loads(more, 0, NULL);
	assert_non_null(made);
	assert_non_null(change);
	json_object_update(made, change);
	json_decref(change);
	return made;
}

static json_t *judged(const char *with)
{
	struct nic_use use = { .workers = 4, .busy_poll = true };
	json_t *nic = facts(with), *checks = json_array();

	assert_int_equal(parse_cpus("0-1", &use.cpus), 0);
	doctor_nic_judge(checks, &silent, nic, &use);
	json_decref(nic);
	return checks;
}

static void a_good_card_lacks_nothing(void **state)
{
	json_t *checks, *check;
	size_t i;

	(void)state;
	put("/sys/devices/system/node/node0/cpulist", "0-3\n");
	checks = judged(NULL);
	assert_int_equal(json_array_size(checks), 11);
	json_array_foreach(checks, i, check)
		if (!json_is_true(json_object_get(check, "ok")))
			fail_msg("%s", json_string_value(json_object_get(check, "name")));
	json_decref(checks);
}

static void each_fault_has_its_command(void **state)
{
	static const struct {
		const char *with, *name, *fix;
	} cases[] = {
		{ "'pcie': '8.0 GT/s x4'", "eth1 PCIe", "another slot" },
		{ "'rx_queues': 2", "eth1 queues", "ethtool -L eth1 combined 4 " },
		{ "'rx_queues': 1, 'queues_max': 1", "eth1 queues",
		  "for i in /sys/class/net/eth1/queues/rx-*/rps_cpus; do echo 3 >$i; done" },
		{ "'rss_queues': 3", "eth1 RSS", "ethtool -X eth1 equal 4" },
		{ "'irq_cpus': '3-4'", "eth1 interrupts", "echo 0-3 >/proc/irq/" },
		{ "'irq_cpus': '2'", "eth1 interrupts", "echo 0-1 >/proc/irq/" },
		{ "'offloads_off': 'rx-gro, tx-tcp-segmentation'", "eth1 offloads",
		  "ethtool -K eth1 rx-gro on tx-tcp-segmentation on" },
		{ "'adaptive_rx': true", "eth1 coalescing",
		  "ethtool -C eth1 adaptive-rx off rx-usecs 8" },
		{ "'driver': 'igb', 'rx_usecs': 3", "eth1 coalescing",
		  "ethtool -C eth1 rx-usecs 20 " },
		{ "'napi_defer_hard_irqs': 0", "eth1 busy poll", "gro_flush_timeout" },
		{ "'xps_cpus': ''", "eth1 XPS", "queues/tx-N/xps_cpus" },
	};

	(void)state;
	put("/sys/devices/system/node/node0/cpulist", "0-3\n");
	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		json_t *checks = judged(cases[i].with), *check;
		unsigned faults = 0;
		size_t j;

		json_array_foreach(checks, j, check) {
			if (json_is_true(json_object_get(check, "ok")))
				continue;
			faults++;
			assert_string_equal(json_string_value(json_object_get(check, "name")),
					    cases[i].name);
			assert_true(*json_string_value(json_object_get(check, "reason")));
			if (!strstr(json_string_value(json_object_get(check, "fix")), cases[i].fix))
				fail_msg("%s: %s", cases[i].name,
					 json_string_value(json_object_get(check, "fix")));
		}
		assert_int_equal(faults, 1);
		json_decref(checks);
	}
}

static void packets_that_were_missed_are_told(void **state)
{
	json_t *checks, *check;
	size_t i;
	bool found = false;

	(void)state;
	put(ETH1 "statistics/rx_missed_errors", "70\n");
	put(ETH1 "statistics/rx_packets", "1000000\n");
	checks = judged(NULL);
	json_array_foreach(checks, i, check)
		if (!json_is_true(json_object_get(check, "ok"))) {
			found = true;
			assert_string_equal(json_string_value(json_object_get(check, "fix")),
					    "ethtool -G eth1 rx 8192");
		}
	assert_true(found);
	json_decref(checks);
}

static void an_interface_of_software_is_called_virtual(void **state)
{
	json_t *checks = judged("'card': false, 'driver': 'veth'"), *check;

	(void)state;
	assert_int_equal(json_array_size(checks), 1);
	check = json_array_get(checks, 0);
	assert_true(json_is_true(json_object_get(check, "ok")));
	assert_string_equal(json_string_value(json_object_get(check, "value")),
			    "veth, virtual: there is no card to look at");
	json_decref(checks);
}

/* What is not ok of the host's checks for listeners without `cpus`. */
static unsigned host_faults(void)
{
	json_t *checks = json_array(), *check;
	unsigned faults = 0;
	cpu_set_t any;
	size_t i;

	CPU_ZERO(&any);
	doctor_nic_host(checks, &silent, &any);
	json_array_foreach(checks, i, check) {
		faults += !json_is_true(json_object_get(check, "ok"));
		assert_true(*json_string_value(json_object_get(check, "fix")));
	}
	json_decref(checks);
	return faults;
}

static void the_host_is_looked_at(void **state)
{
	(void)state;
	put("/run/irqbalance.pid", "7\n");
	put("/proc/self/net/softnet_stat",
	    "000003e8 00000002 00000007 0 0\n000003e8 00000000 00000000 0 0\n");
	put("/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave\n");
	put("/proc/sys/net/core/somaxconn", "128\n");
	put("/sys/devices/system/cpu/online", "0-1\n");
	assert_int_equal(host_faults(), 5);
	put("/sys/devices/system/cpu/online", "0,2-3\n"); /* without the slow one */
	assert_int_equal(host_faults(), 4);
}

int main(void)
{
#define NIC_TEST(test) cmocka_unit_test_setup_teardown(test, make_root, remove_root)
	static const struct CMUnitTest tests[] = {
		NIC_TEST(all_that_a_host_tells_is_found),
		NIC_TEST(what_is_not_told_is_left_out),
		NIC_TEST(the_cards_below_an_interface_are_meant),
		NIC_TEST(an_address_leads_to_its_interface),
		NIC_TEST(a_good_card_lacks_nothing),
		NIC_TEST(each_fault_has_its_command),
		NIC_TEST(packets_that_were_missed_are_told),
		NIC_TEST(an_interface_of_software_is_called_virtual),
		NIC_TEST(the_host_is_looked_at),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
