/* See interface.h. */
#include "interface.h"

#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "util.h"

/* ---- What drivers tell.  ioctl() is of this network namespace, /sys may be of another ---- */

static bool ask(const char *name, unsigned long what, struct ifreq *request)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool done;

	snprintf(request->ifr_name, sizeof(request->ifr_name), "%s", name);
	done = fd >= 0 && ioctl(fd, what, request) == 0;
	if (fd >= 0)
		close(fd);
	return done;
}

static bool ask_driver(const char *name, void *command)
{
	struct ifreq request = { .ifr_data = command };

	return ask(name, SIOCETHTOOL, &request);
}

/* Does the interface stand for a device, with a speed of its own? */
static bool is_card(const struct ethtool_drvinfo *driver)
{
	return *driver->bus_info || !strcmp(driver->driver, "bonding") ||
	       !strncmp(driver->driver, "802.1Q", 6);
}

static json_t *describe(const char *name)
{
	struct ethtool_drvinfo driver = { .cmd = ETHTOOL_GDRVINFO };
	struct ethtool_cmd settings = { .cmd = ETHTOOL_GSET };
	json_t *made = json_pack("{s:s}", "name", name);
	struct ifreq mtu = { 0 };
	uint32_t speed_mbit;

	if (ask(name, SIOCGIFMTU, &mtu))
		json_object_set_new(made, "mtu", json_integer(mtu.ifr_mtu));
	if (!ask_driver(name, &driver))
		return made;
	driver.driver[sizeof(driver.driver) - 1] = '\0';
	driver.fw_version[sizeof(driver.fw_version) - 1] = '\0';
	json_object_set_new(made, "driver", json_string(driver.driver));
	if (*driver.fw_version && strcmp(driver.fw_version, "N/A") != 0)
		json_object_set_new(made, "firmware", json_string(driver.fw_version));
	if (!is_card(&driver) || !ask_driver(name, &settings))
		return made;
	/* Not by the kernel's function, which shifts an int. */
	speed_mbit = (uint32_t)settings.speed_hi << 16 | settings.speed;
	if (speed_mbit && speed_mbit != (uint32_t)SPEED_UNKNOWN)
		json_object_set_new(made, "speed_mbit", json_integer(speed_mbit));
	return made;
}

json_t *interface_describe(void)
{
	json_t *made = json_object();
	struct ifaddrs *list = NULL;

	if (getifaddrs(&list) < 0)
		return made;
	for (const struct ifaddrs *at = list; at; at = at->ifa_next) {
		sa_family_t family = at->ifa_addr ? at->ifa_addr->sa_family : AF_UNSPEC;

		if ((family == AF_INET || family == AF_INET6) && !(at->ifa_flags & IFF_LOOPBACK) &&
		    !json_object_get(made, at->ifa_name))
			json_object_set_new(made, at->ifa_name, describe(at->ifa_name));
	}
	freeifaddrs(list);
	return made;
}

/* ---- Counters ---- */

/* proc_net_dev(5): "eth0: bytes packets errs drop fifo frame compressed multicast bytes packets" */
static json_t *read_interfaces(const json_t *interfaces)
{
	FILE *from = fopen("/proc/net/dev", "re");
	json_t *made = json_object();
	char line[512], name[IFNAMSIZ];
	unsigned long long in[2], out[2];

	while (from && fgets(line, sizeof(line), from))
		if (sscanf(line, " %15[^:]: %llu %llu %*u %*u %*u %*u %*u %*u %llu %llu", name,
			   &in[0], &in[1], &out[0], &out[1]) == 5 &&
		    json_object_get(interfaces, name))
			json_object_set_new(made, name,
					    json_pack("{s:I, s:I, s:I, s:I}", "received_bytes",
						      (json_int_t)in[0], "received_packets",
						      (json_int_t)in[1], "sent_bytes",
						      (json_int_t)out[0], "sent_packets",
						      (json_int_t)out[1]));
	if (from)
		fclose(from);
	return made;
}

/* The line of numbers of TCP in /proc/net/snmp, of which OutSegs and RetransSegs are used. */
static void read_tcp(json_t *to)
{
	FILE *from = fopen("/proc/net/snmp", "re");
	unsigned long long sent, again;
	char line[512];

	while (from && fgets(line, sizeof(line), from))
		if (sscanf(line, "Tcp: %*d %*d %*d %*d %*d %*d %*d %*d %*d %*d %llu %llu", &sent,
			   &again) == 2) {
			json_object_set_new(to, "segments_sent", json_integer((json_int_t)sent));
			json_object_set_new(to, "segments_retransmitted",
					    json_integer((json_int_t)again));
		}
	if (from)
		fclose(from);
}

json_t *interface_read(const json_t *interfaces)
{
	json_t *made = json_pack("{s:I, s:o}", "time_ns", (json_int_t)clock_ns(), "interfaces",
				 read_interfaces(interfaces));

	read_tcp(made);
	return made;
}
