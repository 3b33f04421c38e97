/* What a network card, its driver and its interrupts should be like for the listeners behind it.
 * See doctor_nic.h; doctor_nic_host.c finds the interfaces. */
#include "doctor_nic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpus.h"
#include "doctor_report.h"
#include "nic.h"
#include "parse.h"
#include "text.h"
#include "util.h"

enum { CPUS_BYTES = 256, RARE = 1000 * 1000 /* one missed packet in this many is not reported */ };

struct nic_case {
	json_t *checks;
	const struct nic_host *host;
	const json_t *nic;
	const char *name; /* of the interface */
	const struct nic_use *use;
};

/* ---- Facts ---- */

/* -1: the kernel or the driver does not say. */
static long long number(const struct nic_case *c, const char *fact)
{
	const json_t *value = json_object_get(c->nic, fact);

	return json_is_integer(value) ? json_integer_value(value) : -1;
}

/* NULL: the kernel or the driver does not say. */
static const char *text(const struct nic_case *c, const char *fact)
{
	return json_string_value(json_object_get(c->nic, fact));
}

static bool is_true(const struct nic_case *c, const char *fact)
{
	return json_is_true(json_object_get(c->nic, fact));
}

/* Adds a check with a name like "eth1 queues".  Takes ownership of value and fix. */
static void add(const struct nic_case *c, const char *what, bool ok, char *value,
		const char *reason, char *fix)
{
	char *name = text_new("%s%s%s", c->name, *what ? " " : "", what);

	doctor_add(c->checks, name, ok, value, reason, fix);
	free(name);
	free(value);
	free(fix);
}

/* A mask as files of /sys take it: "f", "1,00000000". */
static char *mask_text(const cpu_set_t *cpus)
{
	enum { WORD = 32 };
	bool begun = false;
	char *made;
	FILE *to = text_open(&made);

	for (int word = CPU_SETSIZE / WORD - 1; word >= 0; word--) {
		unsigned bits = 0;

		for (unsigned bit = 0; bit < WORD; bit++)
			bits |= (unsigned)!!CPU_ISSET((size_t)word * WORD + bit, cpus) << bit;
		if (begun || bits || word == 0)
			fprintf(to, begun ? ",%08x" : "%x", bits);
		begun |= bits != 0;
	}
	fclose(to);
	return made;
}

/* The CPUs that should do the network's work: `cpus` of the listeners, or else all
 * that this process may use. */
static void work_cpus(const struct nic_case *c, cpu_set_t *ret)
{
	*ret = c->use->cpus;
	if (CPU_COUNT(ret) == 0 && sched_getaffinity(0, sizeof(*ret), ret) < 0)
		CPU_SET(0, ret);
}

/* The CPUs of the card's NUMA node; false: there is one node, or it is not known. */
static bool node_cpus(const struct nic_case *c, cpu_set_t *ret, char list[CPUS_BYTES])
{
	char path[80];

	snprintf(path, sizeof(path), "/sys/devices/system/node/node%lld/cpulist",
		 number(c, "numa_node"));
	if (number(c, "numa_node") < 0 || !nic_read_line(c->host, path, list, CPUS_BYTES))
		return false;
	cpus_parse(list, ret);
	return CPU_COUNT(ret) > 0;
}

static bool is_within(const cpu_set_t *part, const cpu_set_t *whole)
{
	cpu_set_t both;

	CPU_AND(&both, part, whole);
	return CPU_EQUAL(&both, part);
}

/* ---- The card ---- */

static void check_card(const struct nic_case *c)
{
	const char *driver = text(c, "driver"), *firmware = text(c, "firmware");
	long long mbit = number(c, "speed_mbit");
	char speed[32] = "";

	if (mbit > 0)
		snprintf(speed, sizeof(speed), ", %g Gbit/s", (double)mbit / 1e3);
	add(c, "", true,
	    text_new("%s%s%s%s", driver ? driver : "driver not told", speed,
		     firmware ? ", firmware " : "", firmware ? firmware : ""),
	    "", NULL);
}

static void check_pcie(const struct nic_case *c)
{
	const char *link = text(c, "pcie"), *most = text(c, "pcie_max");

	if (link && most)
		add(c, "PCIe", !strcmp(link, most), text_new("%s of %s", link, most),
		    "the card's link is narrower or slower than the card can use",
		    text_new("another slot of the machine; `lspci -vv` shows LnkSta and LnkCap"));
}

/* ---- Queues ---- */

static char *queues_fix(const struct nic_case *c)
{
	long long most = number(c, "queues_max");
	cpu_set_t cpus;
	char *mask, *fix;

	if (most > number(c, "rx_queues"))
		return text_new("ethtool -L %s combined %lld (or rx, if it has no combined ones)",
				c->name, MIN(most, (long long)c->use->workers));
	work_cpus(c, &cpus);
	mask = mask_text(&cpus);
	fix = text_new("for i in /sys/class/net/%s/queues/rx-*/rps_cpus; do echo %s >$i; done",
		       c->name, mask);
	free(mask);
	return fix;
}

static void check_queues(const struct nic_case *c)
{
	long long queues = number(c, "rx_queues");
	const char *rps = text(c, "rps_cpus");
	bool has_rps = rps && *rps;

	if (queues < 0)
		return;
	add(c, "queues", queues >= c->use->workers || has_rps,
	    text_new("%lld of rx%s%s for %u worker%s", queues, has_rps ? ", RPS to CPUs " : "",
		     has_rps ? rps : "", c->use->workers, plural(c->use->workers)),
	    "more workers than queues: packets of several workers wait for the same CPU",
	    queues_fix(c));
}

static void check_rss(const struct nic_case *c)
{
	long long used = number(c, "rss_queues"), queues = number(c, "rx_queues");

	if (used >= 0 && queues > 1)
		add(c, "RSS", used >= queues, text_new("to %lld of %lld queues", used, queues),
		    "the table of receive-side scaling leaves queues out",
		    text_new("ethtool -X %s equal %lld", c->name, queues));
}

static void check_xps(const struct nic_case *c)
{
	const char *xps = text(c, "xps_cpus");

	if (xps && number(c, "tx_queues") > 1)
		add(c, "XPS", *xps != '\0', text_new("%s%s", *xps ? "CPUs " : "off", xps),
		    "a worker's packets may leave through a queue of another CPU",
		    text_new(
			    "for each N: echo MASK >/sys/class/net/%s/queues/tx-N/xps_cpus, MASK a "
			    "CPU of its own, as 4 for CPU 2",
			    c->name));
}

/* ---- Interrupts ---- */

/* Describes where the interrupts arrive in relation to the listeners' CPUs. */
static const char *place_of(const struct nic_case *c, const cpu_set_t *irqs)
{
	cpu_set_t both, siblings;

	if (CPU_COUNT(&c->use->cpus) == 0)
		return "";
	CPU_AND(&both, irqs, &c->use->cpus);
	cpus_siblings(&c->use->cpus, irqs, &siblings);
	if (CPU_COUNT(&both) > 0)
		return ", on `cpus`";
	return CPU_COUNT(&siblings) > 0 ? ", on hardware threads beside `cpus`" : ", beside `cpus`";
}

static char *interrupts_fix(const struct nic_case *c, const char *cpus)
{
	return text_new(
		"for i in /sys/class/net/%s/device/{,../}msi_irqs/*; do echo %s "
		">/proc/irq/${i##*/}/smp_affinity_list; done (one CPU for each queue is better)",
		c->name, cpus);
}

static void check_interrupts(const struct nic_case *c)
{
	const char *list = text(c, "irq_cpus"), *reason = "";
	cpu_set_t irqs, node, work;
	char cpus[CPUS_BYTES], usable[CPUS_BYTES];
	bool one, far;

	if (!list)
		return;
	cpus_parse(list, &irqs);
	far = node_cpus(c, &node, cpus) && !is_within(&irqs, &node);
	work_cpus(c, &work);
	format_cpus(&work, usable, sizeof(usable));
	one = number(c, "rx_queues") > 1 && CPU_COUNT(&irqs) == 1 && CPU_COUNT(&work) > 1;
	if (far)
		reason = "some arrive on another NUMA node than the card's";
	else if (one)
		reason = "all arrive on one CPU";
	add(c, "interrupts", !far && !one,
	    text_new("%lld on CPUs %s%s", number(c, "irqs"), list, place_of(c, &irqs)), reason,
	    interrupts_fix(c, far ? cpus : usable));
}

static void check_node(const struct nic_case *c)
{
	cpu_set_t node;
	char cpus[CPUS_BYTES];

	if (CPU_COUNT(&c->use->cpus) == 0 || !node_cpus(c, &node, cpus))
		return;
	add(c, "node", is_within(&c->use->cpus, &node),
	    text_new("%lld, CPUs %s", number(c, "numa_node"), cpus),
	    "`cpus` has some of another NUMA node than the card's: each packet crosses between them",
	    text_new("`cpus = %s`, or some of these, in the listeners of that card", cpus));
}

/* ---- The driver ---- */

/* "a, b" as options of `ethtool -K`: "a on b on". */
static char *offloads_fix(const struct nic_case *c)
{
	char *fix;
	size_t length;
	FILE *to = text_open(&fix);

	fprintf(to, "ethtool -K %s", c->name);
	for (const char *at = text(c, "offloads_off"); at && *at;
	     at += length + strspn(at + length, ", ")) {
		length = strcspn(at, ", ");
		fprintf(to, " %.*s on", (int)length, at);
	}
	fclose(to);
	return fix;
}

static void check_offloads(const struct nic_case *c)
{
	const char *off = text(c, "offloads_off");

	if (off || text(c, "offloads"))
		add(c, "offloads", !off, text_new("%s%s", off ? "off: " : "on", off ? off : ""),
		    "the CPU does what the card or one pass over many packets would do",
		    offloads_fix(c));
}

/* Is the number of rx-usecs no time, but a mode of the driver? */
static bool is_mode(const struct nic_case *c, long long us)
{
	static const struct {
		const char *driver;
		long long most; /* from 1 on */
	} modes[] = { { "e1000", 4 }, { "e1000e", 4 }, { "igb", 3 },    { "igbvf", 3 },
		      { "igc", 3 },   { "ixgbe", 1 },  { "ixgbevf", 1 } };
	const char *driver = text(c, "driver");

	for (unsigned i = 0; driver && i < ARRAY_SIZE(modes); i++)
		if (!strcmp(driver, modes[i].driver))
			return us > 0 && us <= modes[i].most;
	return false;
}

static void check_coalescing(const struct nic_case *c)
{
	static const char reason[] =
		"the driver changes it with the load, so that rounds of a comparison differ by it";
	long long us = number(c, "rx_usecs");
	bool adaptive = is_true(c, "adaptive_rx");

	if (us < 0)
		return;
	if (is_mode(c, us))
		add(c, "coalescing", false,
		    text_new("rx-usecs %lld, which tells %s to adapt it", us, text(c, "driver")),
		    reason, text_new("ethtool -C %s rx-usecs 20 (or 0, from 10 on)", c->name));
	else
		add(c, "coalescing", !adaptive,
		    text_new("rx-usecs %lld%s: adds up to %lld us to a round trip", us,
			     adaptive ? ", adaptive" : "", us),
		    reason, text_new("ethtool -C %s adaptive-rx off rx-usecs %lld", c->name, us));
}

static void check_busy_poll(const struct nic_case *c)
{
	long long deferred = number(c, "napi_defer_hard_irqs");

	if (c->use->busy_poll && deferred >= 0)
		add(c, "busy poll", deferred > 0,
		    text_new("napi_defer_hard_irqs %lld, gro_flush_timeout %lld ns", deferred,
			     number(c, "gro_flush_timeout_ns")),
		    "`busy-poll` is set, and the card still interrupts the CPU that polls it",
		    text_new("echo 2 >/sys/class/net/%s/napi_defer_hard_irqs && echo 200000 "
			     ">/sys/class/net/%s/gro_flush_timeout",
			     c->name, c->name));
}

static void check_missed(const struct nic_case *c)
{
	uint64_t missed = nic_statistic(c->host, c->name, "rx_missed_errors");
	uint64_t packets = nic_statistic(c->host, c->name, "rx_packets");
	long long most = number(c, "rx_ring_max");
	bool ok = missed == 0 || missed < packets / RARE;

	add(c, "missed", ok,
	    ok ? text_new("none")
	       : text_new("%llu packets since the start, ring of %lld", (unsigned long long)missed,
			  number(c, "rx_ring")),
	    "the card had no room for them: a generator sees retransmits or losses",
	    most > number(c, "rx_ring")
		    ? text_new("ethtool -G %s rx %lld", c->name, most)
		    : text_new("more queues, or faster CPUs for its interrupts"));
}

void doctor_nic_judge(json_t *checks, const struct nic_host *host, const json_t *nic,
		      const struct nic_use *use)
{
	static void (*const all[])(const struct nic_case *c) = {
		check_card,       check_pcie,      check_queues,   check_rss,
		check_interrupts, check_node,      check_offloads, check_missed,
		check_coalescing, check_busy_poll, check_xps,
	};
	struct nic_case c = { checks, host, nic, json_string_value(json_object_get(nic, "name")),
			      use };

	if (!is_true(&c, "card")) {
		add(&c, "", true,
		    text_new("%s, virtual: there is no card to look at",
			     text(&c, "driver") ? text(&c, "driver") : "loopback"),
		    "", NULL);
		return;
	}
	for (unsigned i = 0; i < ARRAY_SIZE(all); i++)
		all[i](&c);
}
