/* Network interfaces: which one has an address, and facts from the kernel and its driver.  Sources:
 * /sys, /proc and SIOCETHTOOL on a socket of AF_INET.  No netlink, which the unit forbids, and no
 * privilege.  Any thread that may wait for a driver. */
#pragma once
#include <jansson.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

struct sockaddr_storage;

/* The source of facts about interfaces: this host, or a test's files. */
struct nic_host {
	const char *root; /* before /sys, /proc and /run */
	/* SIOCETHTOOL: command is a struct of linux/ethtool.h.  0 or -errno. */
	int (*tool)(const char *name, void *command);
	/* Has the interface this hardware address, "02:42:ac:11:00:02"?  /sys shows the
	 * interfaces of the network namespace in which it was mounted, which may have
	 * others of the same names. */
	bool (*has_address)(const char *name, const char *address);
};
extern const struct nic_host nic_host; /* this one */

enum { NIC_NAMES_MAX = 16 };
struct nic_names {
	unsigned count;
	char list[NIC_NAMES_MAX][IF_NAMESIZE];
};

/* Adds names of interfaces, each once, as far as there is room: of the interface that has the
 * address; for a wildcard, of all interfaces that are up and have an address, except loopback.  A
 * VLAN, a bond or a bridge is replaced by the cards below it. */
void nic_names_add(const struct nic_host *host, const struct sockaddr_storage *sa,
		   struct nic_names *to);

/* Adds the interface, or the cards below it. */
void nic_names_put(const struct nic_host *host, const char *name, struct nic_names *to);

/* A new reference: { "name": "eth1", "card": true, "driver": "mlx5_core", "speed_mbit": 25000, ...
 * }.  card: the interface belongs to a device; false for one made by software alone, like loopback
 * and veth.  Unknown facts are left out.  rps_cpus and xps_cpus are empty where no CPUs are set. */
json_t *nic_describe(const struct nic_host *host, const char *name);

/* Adds what the driver tells to nic_describe()'s object. */
void nic_tool_describe(const struct nic_host *host, const char *name, json_t *to);

/* A counter of /sys/class/net/NAME/statistics; 0: there is none. */
uint64_t nic_statistic(const struct nic_host *host, const char *name, const char *statistic);

/* Counts of an interface since it was made, from /proc/net/dev of this network namespace.  bytes:
 * without checksum, preamble and gap; a packet of an interface made by software may be many frames.
 * False: there is no such interface. */
struct nic_counters {
	uint64_t received_bytes, received_packets, sent_bytes, sent_packets;
};
bool nic_count(const struct nic_host *host, const char *name, struct nic_counters *ret);

/* The first line of a file below the host's root, without its end; false: it cannot be read. */
bool nic_read_line(const struct nic_host *host, const char *path, char *text, int bytes);
