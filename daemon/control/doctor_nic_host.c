/* The interfaces of listeners' addresses, and what the host should be like if one of them is a
 * card. See doctor_nic.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "cpus.h"
#include "doctor_nic.h"
#include "doctor_report.h"
#include "listener.h"
#include "nic.h"
#include "util.h"

enum { HOST_TEXT_BYTES = 256, SQUEEZES_RARE = 1000 };

/* ---- The host ---- */

/* Is irqbalance running?  Depending on the distribution it leaves its socket
 * or its PID file in /run. */
static void check_irqbalance(json_t *checks, const struct nic_host *host)
{
	static const char *const traces[] = { "/run/irqbalance", "/run/irqbalance.pid" };
	bool runs = false;

	for (unsigned i = 0; i < ARRAY_SIZE(traces); i++) {
		char path[HOST_TEXT_BYTES];

		snprintf(path, sizeof(path), "%s%s", host->root, traces[i]);
		runs |= access(path, F_OK) == 0;
	}
	doctor_add(
		checks, "irqbalance", !runs, runs ? "runs" : "does not run",
		"it moves interrupts while something is measured",
		"systemctl disable --now irqbalance, or ban the card's interrupts (irqbalance(1))");
}

/* A line for each CPU: packets, dropped, squeezes, ..., hexadecimal. */
static void check_backlog(json_t *checks, const struct nic_host *host)
{
	unsigned long long packets = 0, dropped = 0, squeezes = 0;
	char line[HOST_TEXT_BYTES], value[64];
	FILE *from;

	snprintf(line, sizeof(line), "%s/proc/self/net/softnet_stat", host->root);
	from = fopen(line, "re");
	if (!from)
		return;
	while (fgets(line, sizeof(line), from)) {
		unsigned all, lost, stopped;

		if (sscanf(line, "%x %x %x", &all, &lost, &stopped) != 3)
			continue;
		packets += all;
		dropped += lost;
		squeezes += stopped;
	}
	fclose(from);
	snprintf(value, sizeof(value), "%llu packets dropped since the start", dropped);
	doctor_add(checks, "softnet backlog", dropped == 0, value,
		   "a CPU had more packets to take from cards than net.core.netdev_max_backlog",
		   "sysctl net.core.netdev_max_backlog=10000, or more queues and CPUs for them");
	snprintf(value, sizeof(value), "%llu times cut short since the start", squeezes);
	doctor_add(checks, "softnet budget", squeezes <= packets / SQUEEZES_RARE, value,
		   "softirqs had to stop before the cards' queues were empty",
		   "sysctl net.core.netdev_budget=600 net.core.netdev_budget_usecs=8000");
}

/* Of the CPUs that listeners use: the first one that has another governor than `performance`. */
static void check_governor(json_t *checks, const struct nic_host *host, const cpu_set_t *cpus)
{
	char governor[HOST_TEXT_BYTES] = "", list[HOST_TEXT_BYTES];
	bool known = false;
	cpu_set_t online;

	if (CPU_COUNT(cpus) == 0 &&
	    nic_read_line(host, "/sys/devices/system/cpu/online", list, sizeof(list))) {
		cpus_parse(list, &online);
		cpus = &online;
	}
	for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		char path[96];

		snprintf(path, sizeof(path),
			 "/sys/devices/system/cpu/cpu%zu/cpufreq/scaling_governor", cpu);
		if (!CPU_ISSET(cpu, cpus) || !nic_read_line(host, path, governor, sizeof(governor)))
			continue;
		known = true;
		if (strcmp(governor, "performance") != 0)
			break;
	}
	if (known)
		doctor_add(checks, "governor", !strcmp(governor, "performance"), governor,
			   "a CPU that is less busy runs slower, and its requests cost more time",
			   "cpupower frequency-set -g performance");
}

/* Two of `cpus` that are hardware threads of one core. */
static void check_cores(json_t *checks, const cpu_set_t *cpus)
{
	cpu_set_t one, others;
	char value[64];

	if (CPU_COUNT(cpus) < 2)
		return;
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET((size_t)cpu, cpus))
			continue;
		CPU_ZERO(&one);
		CPU_SET((size_t)cpu, &one);
		cpus_siblings(&one, cpus, &others);
		if (CPU_COUNT(&others) == 0)
			continue;
		snprintf(value, sizeof(value), "CPU %d shares its core", cpu);
		doctor_add(
			checks, "cores of `cpus`", false, value,
			"two of `cpus` are hardware threads of one core, and slow each other down",
			"other `cpus`: `lscpu -e` lists the cores");
		return;
	}
	doctor_add(checks, "cores of `cpus`", true, "one for each CPU", "", "");
}

static void check_somaxconn(json_t *checks, const struct nic_host *host)
{
	enum { ENOUGH = 4096 };
	char line[32];

	if (nic_read_line(host, "/proc/sys/net/core/somaxconn", line, sizeof(line)))
		doctor_add(checks, "net.core.somaxconn", atoi(line) >= ENOUGH, line,
			   "many clients that connect at once wait a second to try again",
			   "sysctl net.core.somaxconn=4096, and a reload of the listener");
}

void doctor_nic_host(json_t *checks, const struct nic_host *host, const cpu_set_t *cpus)
{
	check_irqbalance(checks, host);
	check_backlog(checks, host);
	check_governor(checks, host, cpus);
	check_cores(checks, cpus);
	check_somaxconn(checks, host);
}

/* ---- Interfaces ---- */

static bool has(const struct nic_names *names, const char *name)
{
	for (unsigned i = 0; i < names->count; i++)
		if (!strcmp(names->list[i], name))
			return true;
	return false;
}

static void names_of(const struct listener_config *l, struct nic_names *to)
{
	for (unsigned i = 0; i < l->address_count; i++)
		nic_names_add(&nic_host, &l->addresses[i].sa, to);
}

/* What the listeners there need. */
static struct nic_use use_of(const struct config *config, const char *name)
{
	struct nic_use use = { 0 };

	for (unsigned i = 0; i < config->listener_count; i++) {
		const struct listener_config *l = &config->listeners[i];
		struct nic_names names = { 0 };

		names_of(l, &names);
		if (!has(&names, name))
			continue;
		use.workers = MAX(use.workers, listener_workers(l));
		CPU_OR(&use.cpus, &use.cpus, &l->options.cpus);
		use.busy_poll |= options_kernel_polls_ns(&l->options) > 0;
	}
	return use;
}

void doctor_nic(json_t *checks, const struct config *config)
{
	struct nic_names names = { 0 };
	bool any = false;
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	for (unsigned i = 0; i < config->listener_count; i++)
		names_of(&config->listeners[i], &names);
	for (unsigned i = 0; i < names.count; i++) {
		json_t *nic = nic_describe(&nic_host, names.list[i]);
		struct nic_use use = use_of(config, names.list[i]);

		doctor_nic_judge(checks, &nic_host, nic, &use);
		if (json_is_true(json_object_get(nic, "card"))) {
			any = true;
			CPU_OR(&cpus, &cpus, &use.cpus);
		}
		json_decref(nic);
	}
	if (any)
		doctor_nic_host(checks, &nic_host, &cpus);
}
